//! What must hold of every book, asserted in release builds: after each command, and of what was
//! loaded before it is trusted.

use super::Cell;
use crate::book::{Book, RestingOrder};
use crate::command::Side;
use crate::ids::PairId;
use crate::staging::Cursor;
use crate::violation::Violation;
use hashbrown::HashSet;

/// The best bid is below the best ask.
pub(super) fn not_crossed<B: Book>(book: &B, pair: PairId) -> Result<(), Violation> {
    let (bid, ask) = (
        book.best_price(pair, Side::Bid),
        book.best_price(pair, Side::Ask),
    );
    match (bid, ask) {
        (Some(bid), Some(ask)) if bid >= ask => Err(Violation::CrossedBook {
            pair,
            bid: bid.ticks(),
            ask: ask.ticks(),
        }),
        _ => Ok(()),
    }
}

/// Everything that must hold of a whole book at rest.
///
/// # Errors
/// The first [`Violation`] found, in order of pair, side, price and time.
pub fn audit<B: Book>(book: &B, cell: &Cell, cursor: &Cursor) -> Result<(), Violation> {
    let mut priorities = HashSet::new();
    for pair in book.pairs() {
        if pair.partition(cell.partition_count) != cell.partition {
            return Err(Violation::ForeignPair { pair });
        }
        not_crossed(book, pair)?;
        for side in [Side::Ask, Side::Bid] {
            for order in book.orders(pair, side) {
                remainder(&order)?;
                priority(&order, cursor, &mut priorities)?;
            }
        }
    }
    Ok(())
}

fn remainder(order: &RestingOrder) -> Result<(), Violation> {
    if order.remaining.is_zero() || order.remaining > order.volume {
        return Err(Violation::ImpossibleRemainder {
            order: order.id.clone(),
            remaining: order.remaining.lots(),
            volume: order.volume.lots(),
        });
    }
    Ok(())
}

fn priority(
    order: &RestingOrder,
    cursor: &Cursor,
    seen: &mut HashSet<u64>,
) -> Result<(), Violation> {
    let problem = if order.priority > cursor.priority {
        "above the last one that was given"
    } else if !seen.insert(order.priority) {
        "given twice"
    } else {
        return Ok(());
    };
    let (order, priority) = (order.id.clone(), order.priority);
    Err(Violation::ImpossiblePriority {
        order,
        priority,
        problem,
    })
}
