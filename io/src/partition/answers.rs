//! Answers to the admin pages, from the partition's own core and at the end of a turn.

use super::measure::Measures;
use super::session::Verification;
use crate::messages::{DepthView, Issue, OrderView, PartitionReport, Question, Suspect};
use conductor_engine::book::{Book, RestingOrder};
use conductor_engine::partition::{Partition, Status};
use conductor_engine::{Decimal, FastBook, OrderId, PairDecimals, PairId, PartitionId, Side};
use std::collections::HashMap;
use tokio::sync::oneshot;

pub(super) fn report(
    partition: PartitionId,
    status: Status,
    machine: &Partition,
    measures: &Measures,
    mailbox_depth: usize,
) -> PartitionReport {
    PartitionReport {
        partition,
        status,
        counters: machine.counters().clone(),
        steps: measures.steps.clone(),
        group_commands: measures.group_commands.clone(),
        age_at_delivery: measures.age_at_delivery.clone(),
        last_command_ns: u64::try_from(measures.last_command.as_nanos()).unwrap_or(u64::MAX),
        mailbox_depth,
        replies_dropped: measures.replies_dropped,
    }
}

pub(super) fn depth(book: Option<&FastBook>, pair: PairId, levels_max: usize) -> Option<DepthView> {
    let book = book?;
    Some(DepthView {
        decimals: book.decimals(pair),
        bids: book.levels(pair, Side::Bid, levels_max),
        asks: book.levels(pair, Side::Ask, levels_max),
    })
}

pub(super) fn orders(
    book: Option<&FastBook>,
    pair: PairId,
    orders_max: usize,
) -> Option<Vec<OrderView>> {
    let book = book?;
    let Some(decimals) = book.decimals(pair) else {
        return Some(Vec::new());
    };
    let sides = [Side::Bid, Side::Ask].into_iter();
    let orders = sides.flat_map(|side| book.orders(pair, side).into_iter().take(orders_max));
    Some(orders.map(|order| view(&order, decimals)).collect())
}

/// What memory knows of the suspects, taken at the moment of the comparison.
pub(super) fn verification(
    book: Option<&FastBook>,
    pair: PairId,
    suspects: Vec<Suspect>,
    answer: oneshot::Sender<Option<Vec<Issue>>>,
) -> Verification {
    let mut memory = HashMap::new();
    if let Some((book, decimals)) = book.and_then(|book| Some((book, book.decimals(pair)?))) {
        for suspect in &suspects {
            let id = OrderId::new(&suspect.order).ok();
            let resting = id
                .and_then(|id| book.order(&id))
                .filter(|order| order.pair == pair);
            if let Some(order) = resting {
                memory.insert(suspect.order.clone(), view(order, decimals));
            }
        }
    }
    Verification {
        pair,
        suspects,
        memory,
        answer,
    }
}

/// Nobody can be told: this process does not own the partition.
pub(super) fn refuse(question: Question) {
    if let Question::Verify { answer, .. } = question {
        let _ = answer.send(None);
    }
}

fn view(order: &RestingOrder, decimals: PairDecimals) -> OrderView {
    OrderView {
        id: order.id.clone(),
        side: order.side,
        price: Decimal::of_price(order.price, decimals).to_string(),
        remaining: Decimal::of_quantity(order.remaining, decimals).to_string(),
        priority: order.priority,
    }
}
