//! What one command leaves behind: its events in their order, and what the store must be told.

use super::trade::{Fill, Fills, Taker};
use crate::book::RestingOrder;
use crate::event::{CloseReason, Closed, CommandResult, Deal, Event, Payload, Standing};
use crate::ids::{CommandId, PairId, Timestamp};
use crate::staging::{Cursor, Write};
use crate::units::{Decimal, Price, Quantity};
use std::sync::Arc;

/// Writes down what a command does. Counts the events, and spells none.
pub(super) struct Scribe<'a> {
    pub(super) cursor: &'a mut Cursor,
    pub(super) writes: &'a mut Vec<Write>,
    pub(super) command: &'a CommandId,
    pub(super) pair: PairId,
    pub(super) timestamp: Timestamp,
    pub(super) first_sequence: u64,
    pub(super) traded: bool,
}

impl Scribe<'_> {
    pub(super) fn write(&mut self, write: Write) {
        self.writes.push(write);
    }

    pub(super) fn event(&mut self, payload: Payload) {
        self.cursor.sequence += 1;
        let index = self.cursor.sequence - self.first_sequence;
        self.writes.push(Write::Event(Arc::new(Event {
            command: self.command.clone(),
            index: u32::try_from(index).expect("one command gives fewer than 2^32 events"),
            pair: Some(self.pair),
            sequence: self.cursor.sequence,
            timestamp: Some(self.timestamp),
            payload,
        })));
    }

    /// The first and last sequence of the command's events, where it has any.
    pub(super) fn sequences(&self) -> Option<(u64, u64)> {
        let (first, last) = (self.first_sequence, self.cursor.sequence);
        (last >= first).then_some((first, last))
    }

    pub(super) fn result(&mut self, result: CommandResult) -> Arc<CommandResult> {
        self.cursor.command = Some(self.command.clone());
        let result = Arc::new(result);
        self.writes.push(Write::Result(Arc::clone(&result)));
        result
    }

    fn close_maker(&mut self, maker: &RestingOrder, taker: &Taker) {
        self.write(Write::Remove {
            order: maker.id.clone(),
            pair: self.pair,
            side: maker.side,
            priority: maker.priority,
        });
        self.event(Payload::Closed(Closed {
            order: maker.id.clone(),
            user: maker.user.clone(),
            side: maker.side,
            reason: CloseReason::Filled,
            remaining: Decimal::of_quantity(Quantity::ZERO, taker.decimals),
        }));
    }
}

impl Fills for Scribe<'_> {
    fn fill(&mut self, maker: &RestingOrder, taker: &Taker, fill: &Fill) {
        self.traded = true;
        self.event(Payload::Deal(deal(maker, taker, fill)));
        if fill.maker_remaining.is_zero() {
            self.close_maker(maker, taker);
        } else {
            self.write(Write::Reduce {
                order: maker.id.clone(),
                remaining: fill.maker_remaining,
                quote_volume: fill.maker_quote_volume,
                decimals: taker.decimals,
            });
        }
    }
}

impl Taker {
    pub(super) fn left(&self) -> Decimal {
        Decimal::of_quantity(self.remaining, self.decimals)
    }

    pub(super) fn closed(&self, reason: CloseReason) -> Payload {
        Payload::Closed(Closed {
            order: self.id.clone(),
            user: self.user.clone(),
            side: self.side,
            reason,
            remaining: self.left(),
        })
    }

    pub(super) fn standing(&self, price: Price) -> Standing {
        Standing {
            order: self.id.clone(),
            user: self.user.clone(),
            side: self.side,
            price: Decimal::of_price(price, self.decimals),
            remaining: self.left(),
            priority: self.priority,
        }
    }
}

fn deal(maker: &RestingOrder, taker: &Taker, fill: &Fill) -> Deal {
    let decimals = taker.decimals;
    Deal {
        maker: maker.id.clone(),
        taker: taker.id.clone(),
        maker_user: maker.user.clone(),
        taker_user: taker.user.clone(),
        taker_side: taker.side,
        price: Decimal::of_price(maker.price, decimals),
        volume: Decimal::of_quantity(fill.volume, decimals),
        quote_volume: Decimal::of_quote(fill.quote, decimals),
        maker_remaining: Decimal::of_quantity(fill.maker_remaining, decimals),
        taker_remaining: taker.left(),
    }
}
