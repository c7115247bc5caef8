//! Sequences of commands in which everything meets everything.
//!
//! A [`Move`] is plain data that shrinks well. Only the [`Driver`] turns it into a message, because
//! which order it means depends on what rests by then.

use conductor_engine::command::RefusedCommand;
use conductor_engine::limits::BATCH_ENTRIES_MAX;
use conductor_engine::matching::Cell;
use conductor_engine::{
    Body, Book, Command, CommandId, Decimal, FastBook, Incoming, NewOrder, OrderId, OrderKind,
    PairDecimals, PairId, PartitionId, Refusal, Side, TimeInForce, Timestamp, UserId,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Pairs of partition 1 of 3; the last one's decimals are configured.
const PAIRS: [u32; 3] = [1, 4, 7];
const USUAL: PairDecimals = decimals(2, 1, 2);
const CONFIGURED: PairDecimals = decimals(3, 2, 1);

const PRICES: [&str; 7] = ["99.8", "99.99", "100", "100.00", "100.01", "100.1", "101"];
const BAD_PRICES: [&str; 4] = [
    "100.0001",
    "99.9900",
    "10000000000000",
    "1000000000000000000000000000000000000000000",
];
const VOLUMES: [&str; 7] = ["0.1", "0.3", "1", "2.5", "2.7", "4.0", "9"];
const BAD_VOLUMES: [&str; 4] = [
    "0.001",
    "1.000",
    "100000000000000000",
    "1000000000000000000000000000000000000000000.5",
];

const fn decimals(price: u8, amount: u8, quote: u8) -> PairDecimals {
    PairDecimals {
        price,
        amount,
        quote,
    }
}

/// The cell that all sequences are for.
pub(crate) fn cell() -> Cell {
    Cell {
        partition: PartitionId(1),
        partition_count: 3,
        pairs: BTreeMap::from([(PairId(PAIRS[2]), CONFIGURED)]),
    }
}

/// Which order a command means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Resting(usize),
    Known(usize),
    Never,
}

/// An order to come. `reuse` takes the id of an earlier one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    reuse: Option<usize>,
    user: Option<u8>,
    side: Side,
    price: &'static str,
    volume: &'static str,
    market: bool,
    immediate: bool,
    other_decimals: bool,
    lag: u64,
}

/// A command to come.
#[derive(Clone, Debug)]
pub(crate) enum Move {
    Place(usize, Order),
    Cancel(Target, bool),
    Amend(Target, bool, Option<&'static str>, Option<&'static str>),
    Replace(usize, Vec<Target>, Vec<Order>),
    TooManyCancels,
    Stray(Order),
    Misdeclared(Order),
    Malformed,
}

fn sides() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Ask), Just(Side::Bid)]
}

fn prices() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        24 => prop::sample::select(&PRICES[..]),
        1 => prop::sample::select(&BAD_PRICES[..])
    ]
}

fn volumes() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        24 => prop::sample::select(&VOLUMES[..]),
        1 => prop::sample::select(&BAD_VOLUMES[..])
    ]
}

fn targets() -> impl Strategy<Value = Target> {
    prop_oneof![
        8 => (0..1_000_usize).prop_map(Target::Resting),
        2 => (0..1_000_usize).prop_map(Target::Known),
        1 => Just(Target::Never)
    ]
}

fn orders() -> impl Strategy<Value = Order> {
    let reuse = prop::option::weighted(0.05, 0..1_000_usize);
    let user = prop::option::weighted(0.8, 0_u8..3);
    let kind = (
        prop::bool::weighted(0.08),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.03),
    );
    let numbers = (reuse, user, sides(), prices(), volumes(), kind, 0..4_u64);
    numbers.prop_map(|(reuse, user, side, price, volume, kind, lag)| Order {
        reuse,
        user,
        side,
        price,
        volume,
        market: kind.0,
        immediate: kind.1,
        other_decimals: kind.2,
        lag,
    })
}

/// One move of a sequence.
pub(crate) fn moves() -> impl Strategy<Value = Move> {
    let pair = || prop::sample::select(&[0_usize, 0, 0, 1, 2][..]);
    let elsewhere = || prop::bool::weighted(0.1);
    prop_oneof![
        60 => (pair(), orders()).prop_map(|(pair, order)| Move::Place(pair, order)),
        12 => (targets(), elsewhere()).prop_map(|(which, away)| Move::Cancel(which, away)),
        14 => (targets(), elsewhere(), prop::option::of(prices()), prop::option::of(volumes()))
            .prop_map(|(which, away, price, volume)| Move::Amend(which, away, price, volume)),
        10 => (
            pair(),
            prop::collection::vec(targets(), 0..4),
            prop::collection::vec(orders(), 0..5),
        )
            .prop_map(|(pair, cancel, place)| Move::Replace(pair, cancel, place)),
        1 => Just(Move::TooManyCancels),
        1 => orders().prop_map(Move::Stray),
        1 => orders().prop_map(Move::Misdeclared),
        1 => Just(Move::Malformed)
    ]
}

/// Turns moves into messages.
#[derive(Default)]
pub(crate) struct Driver {
    commands: u64,
    known: Vec<OrderId>,
}

impl Driver {
    /// The message that a move means, now that the book is as it is.
    pub(crate) fn message(&mut self, step: &Move, book: &FastBook) -> Incoming {
        self.commands += 1;
        let pair = |place: usize| PairId(PAIRS[place]);
        let (pair, partition, body) = match step {
            Move::Place(place, order) => {
                let pair = pair(*place);
                (pair, None, Body::Place(self.order(pair, order)))
            }
            Move::Cancel(which, away) => {
                let (order, pair) = self.target(*which, *away, book);
                (pair, Some(PartitionId(1)), Body::Cancel { order })
            }
            Move::Amend(which, away, price, volume) => {
                let (order, pair) = self.target(*which, *away, book);
                let (price, volume) = (price.map(decimal), volume.map(decimal));
                let body = Body::Amend {
                    order,
                    price,
                    volume,
                };
                (pair, None, body)
            }
            Move::Replace(place, cancel, orders) => {
                let pair = pair(*place);
                let cancel = cancel
                    .iter()
                    .map(|which| self.target(*which, false, book).0);
                let cancel = cancel.collect();
                let place = orders.iter().map(|order| self.order(pair, order)).collect();
                (pair, None, Body::Replace { cancel, place })
            }
            Move::TooManyCancels => {
                let (order, pair) = self.target(Target::Resting(0), false, book);
                let cancel = vec![order; BATCH_ENTRIES_MAX + 1];
                let place = Vec::new();
                (pair, None, Body::Replace { cancel, place })
            }
            Move::Stray(order) => {
                let pair = PairId(5);
                (pair, None, Body::Place(self.order(pair, order)))
            }
            Move::Misdeclared(order) => {
                let (pair, declared) = (pair(0), PartitionId(2));
                (pair, Some(declared), Body::Place(self.order(pair, order)))
            }
            Move::Malformed => return self.malformed(),
        };
        Incoming::Command(Command {
            id: self.command_id(),
            pair,
            partition,
            timestamp: self.time(self.commands % 3),
            body,
        })
    }

    fn command_id(&self) -> CommandId {
        CommandId::new(&format!("c-{}", self.commands)).expect("an id")
    }

    /// Two commands share a millisecond, and a lag of more than one reaches back before the last.
    fn time(&self, lag: u64) -> Timestamp {
        Timestamp::new(1_767_225_600_000 + self.commands / 2 - lag).expect("before 2100")
    }

    fn malformed(&self) -> Incoming {
        Incoming::Refused(RefusedCommand {
            id: self.command_id(),
            pair: None,
            timestamp: None,
            refusal: Refusal::Malformed,
            detail: "the field timestamp is missing".to_owned(),
        })
    }

    fn order(&mut self, pair: PairId, order: &Order) -> NewOrder {
        let fresh = OrderId::new(&format!("o-{}", self.known.len())).expect("an id");
        let reused = order.reuse.and_then(|which| pick(&self.known, which));
        let id = reused.unwrap_or(fresh);
        self.known.push(id.clone());
        let kind = match (order.market, order.immediate) {
            (true, _) => OrderKind::Market,
            (false, immediate) => OrderKind::Limit {
                price: decimal(order.price),
                time_in_force: match immediate {
                    true => TimeInForce::ImmediateOrCancel,
                    false => TimeInForce::GoodTillCancelled,
                },
            },
        };
        let usual = if pair == PairId(PAIRS[2]) {
            CONFIGURED
        } else {
            USUAL
        };
        let other = decimals(usual.price, usual.amount, usual.quote + 1);
        NewOrder {
            id,
            user: order
                .user
                .map(|user| UserId::new(&format!("u-{user}")).expect("an id")),
            side: order.side,
            kind,
            volume: decimal(order.volume),
            decimals: if order.other_decimals { other } else { usual },
            timestamp: self.time(order.lag),
        }
    }

    /// An order and its pair, or with `away` another pair.
    fn target(&self, which: Target, away: bool, book: &FastBook) -> (OrderId, PairId) {
        let never = OrderId::new("o-never").expect("an id");
        let id = match which {
            Target::Resting(which) => pick(&resting(book), which),
            Target::Known(which) => pick(&self.known, which),
            Target::Never => None,
        };
        let id = id.unwrap_or(never);
        let pair = book.order(&id).map_or(PairId(PAIRS[0]), |order| order.pair);
        let other = PAIRS.into_iter().map(PairId).find(|other| *other != pair);
        (id, other.filter(|_| away).unwrap_or(pair))
    }
}

fn resting(book: &FastBook) -> Vec<OrderId> {
    let pairs = book.pairs().into_iter();
    let sides = pairs.flat_map(|pair| [Side::Ask, Side::Bid].map(|side| book.orders(pair, side)));
    sides.flatten().map(|order| order.id).collect()
}

fn pick(ids: &[OrderId], which: usize) -> Option<OrderId> {
    let place = which.checked_rem(ids.len())?;
    Some(ids[place].clone())
}

fn decimal(text: &str) -> Decimal {
    Decimal::parse(text).expect("a decimal above zero")
}
