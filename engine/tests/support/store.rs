//! A model of the store: records, and one sorted set of members a side of a pair.
//!
//! It knows nothing of books. It does what the writes say, in the words of a key-value server: a
//! member is a text, a score is a double, and equal scores fall to the bytes of the member. When
//! the members, read as the rules say, tell the same story as the book, a book that is loaded from
//! such a store is the book that was lost.

use super::SIDES;
use conductor_engine::book::RestingOrder;
use conductor_engine::event::CommandResult;
use conductor_engine::ids::{CommandId, OrderId, PairId};
use conductor_engine::staging::Write;
use conductor_engine::units::{PairDecimals, Quantity, QuoteAmount};
use conductor_engine::{Book, Decimal, Price, Side};
use std::collections::BTreeMap;

/// The record of an order, decimals as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    pair: PairId,
    side: Side,
    user: Option<String>,
    price: String,
    volume: String,
    remaining: String,
    quote_volume: String,
    priority: u64,
    timestamp: u64,
}

/// A sorted set: every member once, with its score.
type SortedSet = BTreeMap<String, f64>;

/// What a partition has written so far.
#[derive(Default)]
pub(crate) struct Store {
    records: BTreeMap<OrderId, Record>,
    index: BTreeMap<(PairId, Side), SortedSet>,
    pairs: BTreeMap<PairId, PairDecimals>,
    accepted: BTreeMap<OrderId, CommandId>,
    results: BTreeMap<CommandId, CommandResult>,
    events: u64,
}

impl Store {
    /// Applies the writes of one command.
    pub(crate) fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            self.apply_one(write);
        }
    }

    fn apply_one(&mut self, write: &Write) {
        match write {
            Write::Pair { pair, decimals } => {
                let before = self.pairs.insert(*pair, *decimals);
                assert_eq!(before, None, "the decimals of pair {pair} are fixed twice");
            }
            Write::Accepted { order, command } => {
                let before = self.accepted.insert(order.clone(), command.clone());
                assert_eq!(before, None, "order {order} is let in twice");
            }
            Write::Rest { order, decimals } => self.rest(order, *decimals),
            Write::Reduce {
                order,
                remaining,
                quote_volume,
                decimals,
            } => {
                let record = self.record(order);
                record.remaining = Decimal::of_quantity(*remaining, *decimals).to_string();
                record.quote_volume = Decimal::of_quote(*quote_volume, *decimals).to_string();
            }
            Write::Shrink {
                order,
                remaining,
                decimals,
            } => {
                let remaining = Decimal::of_quantity(*remaining, *decimals).to_string();
                let record = self.record(order);
                record.volume.clone_from(&remaining);
                record.remaining = remaining;
            }
            Write::Remove {
                order,
                pair,
                side,
                priority,
            } => self.remove(order, *pair, *side, *priority),
            Write::Event(event) => {
                self.events += 1;
                assert_eq!(event.sequence, self.events, "the stream has a gap");
            }
            Write::Result(result) => {
                let command = result.command.clone();
                let before = self.results.insert(command, CommandResult::clone(result));
                assert_eq!(before, None, "a command has two results");
            }
            Write::Rewrite { .. } | Write::Cursor(_) => {
                panic!("matching writes what only loading and a group may write: {write:?}")
            }
        }
    }

    fn rest(&mut self, order: &RestingOrder, decimals: PairDecimals) {
        let (id, record) = record_of(order, decimals);
        let score: f64 = record.price.parse().expect("a price reads as a double");
        let member = member(order.side, order.priority, &order.id);
        let set = self.index.entry((order.pair, order.side)).or_default();
        assert_eq!(set.insert(member, score), None, "a member is added twice");
        let before = self.records.insert(id, record);
        assert_eq!(before, None, "order {} rests twice", order.id);
    }

    fn record(&mut self, order: &OrderId) -> &mut Record {
        let record = self.records.get_mut(order);
        record.unwrap_or_else(|| panic!("order {order} is changed and has no record"))
    }

    fn remove(&mut self, order: &OrderId, pair: PairId, side: Side, priority: u64) {
        let record = self.records.remove(order);
        let record = record.unwrap_or_else(|| panic!("order {order} is removed, has no record"));
        assert_eq!((record.pair, record.side), (pair, side));
        let set = self.index.entry((pair, side)).or_default();
        let found = set.remove(&member(side, priority, order));
        assert!(found.is_some(), "order {order} is removed, has no member");
    }

    /// Whether members and records, read as the rules say, are this book and nothing besides.
    pub(crate) fn check_against<B: Book>(&self, book: &B) {
        let fixed: Vec<PairId> = self.pairs.keys().copied().collect();
        assert_eq!(book.pairs(), fixed, "the store knows other pairs");
        let members: usize = self.index.values().map(SortedSet::len).sum();
        assert_eq!(members, self.records.len(), "members and records differ");
        assert_eq!(
            members,
            book.len(),
            "the store holds another number of orders"
        );
        for (pair, decimals) in &self.pairs {
            assert_eq!(book.decimals(*pair), Some(*decimals));
            for side in SIDES {
                let held = book.orders(*pair, side);
                let held = held.iter().map(|order| record_of(order, *decimals));
                let read = self.read(*pair, side);
                assert_eq!(
                    read,
                    held.collect::<Vec<_>>(),
                    "pair {pair}, {}",
                    side.name()
                );
            }
        }
    }

    /// One side as a loader reads it: asks ascending, bids descending, each with its record.
    fn read(&self, pair: PairId, side: Side) -> Vec<(OrderId, Record)> {
        let Some(set) = self.index.get(&(pair, side)) else {
            return Vec::new();
        };
        let mut members: Vec<(&String, &f64)> = set.iter().collect();
        members.sort_by(|left, right| left.1.total_cmp(right.1).then(left.0.cmp(right.0)));
        if side == Side::Bid {
            members.reverse();
        }
        let read = members.into_iter().map(|(member, _)| {
            let id = OrderId::new(&member[17..]).expect("an order id follows the digits");
            let record = self.records.get(&id);
            let record = record.unwrap_or_else(|| panic!("member {member} has no record"));
            assert_eq!(
                (record.pair, record.side),
                (pair, side),
                "{member} is misplaced"
            );
            (id, record.clone())
        });
        read.collect()
    }
}

/// The member of an order: sixteen digits, inverted for bids, and its id.
fn member(side: Side, priority: u64, id: &OrderId) -> String {
    let digits = match side {
        Side::Ask => priority,
        Side::Bid => 9_007_199_254_740_991 - priority,
    };
    let member = format!("{digits:016}:{id}");
    assert_eq!(member.find(':'), Some(16), "a priority has sixteen digits");
    member
}

fn record_of(order: &RestingOrder, decimals: PairDecimals) -> (OrderId, Record) {
    let record = Record {
        pair: order.pair,
        side: order.side,
        user: order.user.as_ref().map(|user| user.as_str().to_owned()),
        price: price_text(order.price, decimals),
        volume: volume_text(order.volume, decimals),
        remaining: volume_text(order.remaining, decimals),
        quote_volume: quote_text(order.quote_volume, decimals),
        priority: order.priority,
        timestamp: order.timestamp.milliseconds(),
    };
    (order.id.clone(), record)
}

fn price_text(price: Price, decimals: PairDecimals) -> String {
    Decimal::of_price(price, decimals).to_string()
}

fn volume_text(volume: Quantity, decimals: PairDecimals) -> String {
    Decimal::of_quantity(volume, decimals).to_string()
}

fn quote_text(amount: QuoteAmount, decimals: PairDecimals) -> String {
    Decimal::of_quote(amount, decimals).to_string()
}
