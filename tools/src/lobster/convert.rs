//! From a recording to commands.
//!
//! * A new order is an `order.place`, a deletion an `order.cancel`, and a reduction an
//!   `order.amend` to less volume, which keeps its place in the queue.
//! * A visible execution says what the resting order lost. It becomes an order of the other side,
//!   of that size, with the resting order's price as its limit, immediate or cancel: should the
//!   book not hold what the file says it does, the rest must not stay and falsify what follows.
//! * A hidden execution, an auction and a halt change nothing that is visible; they are counted
//!   and left out.
//! * What was there before the file begins is placed first: each order that the messages touch,
//!   under its own id, and at every level of the first row one order without a history for the
//!   rest of the level's size. Orders that trade come first at their price, in the order in which
//!   they trade; then the others by their number, which grows with time; then the rest.
//!
//! Order ids of the file stay as they are. All makers belong to one user and all takers to
//! another.

use super::read::{BookRow, Kind, Message, Recording};
use super::untold::{Untold, opening, untold};
use conductor_engine::{
    Body, Command, CommandId, Decimal, NewOrder, OrderId, OrderKind, PairDecimals, PairId, Price,
    Side, TimeInForce, Timestamp, UserId,
};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// LOBSTER's prices are in ten-thousandths, and its sizes whole.
const DECIMALS: PairDecimals = PairDecimals {
    price: 4,
    amount: 0,
    quote: 4,
};

/// What the files themselves do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The pair that the commands are for.
    pub pair: PairId,
    /// Midnight of the day, in milliseconds since 1970. The exchange's clock is taken as it is.
    pub midnight: u64,
}

/// Why a command is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its order was in the book before the file begins.
    Before,
    /// Its order came beyond the levels that the file shows, before the message of this place.
    Unseen(usize),
    /// It is what the message of this place says; places count from zero.
    Message(usize),
}

/// A command and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedCommand {
    /// Why it is there.
    pub origin: Origin,
    /// The command.
    pub command: Command,
}

/// Messages that have no command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Omitted {
    /// Executions of hidden orders.
    pub hidden_executions: u64,
    /// Trades of an auction.
    pub crosses: u64,
    /// Trading halts and resumptions.
    pub halts: u64,
    /// Reductions and deletions of an order that has nothing left.
    pub without_effect: u64,
}

/// A trace, and what became of every message.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// The commands, in order.
    pub commands: Vec<ImportedCommand>,
    /// What has no command.
    pub omitted: Omitted,
}

/// A name or a time that no command can carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The day is too late.
    #[error("the day is not before the year 2100; give the day of the recording")]
    Day,
}

/// Makes a trace of a recording.
///
/// # Errors
/// [`ConvertError::Day`] when the day is no timestamp of ours.
pub fn convert(recording: &Recording, options: Options) -> Result<Imported, ConvertError> {
    let opening = opening(recording);
    let untold = untold(recording, &opening);
    let mut writer = Writer {
        options,
        left: HashMap::new(),
        imported: Imported::default(),
    };
    let begin = writer.time(&recording.messages[0])?;
    for order in before(&opening, &untold) {
        writer.rest(Origin::Before, begin, order);
    }
    let mut unseen: Vec<&Untold> = untold
        .iter()
        .filter(|order| order.comes_before.is_some())
        .collect();
    unseen.sort_by_key(|order| (order.comes_before, queue_key(order)));
    let mut unseen = unseen.into_iter().peekable();
    for (at, message) in recording.messages.iter().enumerate() {
        let time = writer.time(message)?;
        while let Some(order) = unseen.next_if(|order| order.comes_before == Some(at)) {
            writer.rest(Origin::Unseen(at), time, Resting::of(order));
        }
        writer.message(at, time, message);
    }
    Ok(writer.imported)
}

/// An order to be placed that comes to rest.
#[derive(Clone, Debug)]
struct Resting {
    id: OrderId,
    side: Side,
    price: Price,
    size: u64,
}

impl Resting {
    fn of(order: &Untold) -> Self {
        Self {
            id: order.id.clone(),
            side: order.side,
            price: order.price,
            size: order.size,
        }
    }
}

/// Orders of one price queue in this order: those that trade by when they trade, then by number.
fn queue_key(order: &Untold) -> (usize, u64, OrderId) {
    let number = order.id.as_str().parse().unwrap_or(u64::MAX);
    let executed_at = order.executed_at.unwrap_or(usize::MAX);
    (executed_at, number, order.id.clone())
}

/// What was in the book before the file begins: asks, then bids, each from the best price on.
fn before(opening: &BookRow, untold: &[Untold]) -> Vec<Resting> {
    let mut orders = Vec::new();
    for side in [Side::Ask, Side::Bid] {
        let mut levels: BTreeMap<Price, Vec<&Untold>> = BTreeMap::new();
        let of_side = |order: &&Untold| order.side == side && order.comes_before.is_none();
        for order in untold.iter().filter(of_side) {
            levels.entry(order.price).or_default().push(order);
        }
        for price in opening.side(side).keys() {
            levels.entry(*price).or_default();
        }
        let mut levels: Vec<_> = levels.into_iter().collect();
        if side == Side::Bid {
            levels.sort_by_key(|(price, _)| Reverse(*price));
        }
        for (price, mut known) in levels {
            known.sort_by_key(|order| queue_key(order));
            let named: u64 = known.iter().map(|order| order.size).sum();
            orders.extend(known.into_iter().map(Resting::of));
            let size = opening.side(side).get(&price).copied().unwrap_or(0);
            let rest = size.saturating_sub(named);
            if rest > 0 {
                let id = format!("before-{}-{}", side.name(), price.ticks());
                orders.push(Resting {
                    id: order_id(&id),
                    side,
                    price,
                    size: rest,
                });
            }
        }
    }
    orders
}

struct Writer {
    options: Options,
    /// What each order of the file has left, if the book holds what the file says.
    left: HashMap<OrderId, u64>,
    imported: Imported,
}

impl Writer {
    fn time(&self, message: &Message) -> Result<Timestamp, ConvertError> {
        let milliseconds = self.options.midnight.checked_add(message.milliseconds);
        milliseconds
            .and_then(Timestamp::new)
            .ok_or(ConvertError::Day)
    }

    fn message(&mut self, at: usize, time: Timestamp, message: &Message) {
        let Some(price) = message.price else {
            return self.omit(message.kind);
        };
        let order = message.order.clone();
        match message.kind {
            Kind::Place => self.rest(
                Origin::Message(at),
                time,
                Resting {
                    id: order,
                    side: message.side,
                    price,
                    size: message.size,
                },
            ),
            Kind::Reduce | Kind::Delete => self.withdraw(at, time, message),
            Kind::Execute => {
                self.lose(&order, message.size);
                let taker = Resting {
                    id: order_id(&format!("taker-{}", at + 1)),
                    side: message.side.opposite(),
                    price,
                    size: message.size,
                };
                let taker = new_order(taker, time, TimeInForce::ImmediateOrCancel, "taker");
                self.push(Origin::Message(at), time, Body::Place(taker));
            }
            kind => self.omit(kind),
        }
    }

    fn omit(&mut self, kind: Kind) {
        let omitted = &mut self.imported.omitted;
        *match kind {
            Kind::ExecuteHidden => &mut omitted.hidden_executions,
            Kind::Cross => &mut omitted.crosses,
            Kind::Halt => &mut omitted.halts,
            Kind::Place | Kind::Reduce | Kind::Delete | Kind::Execute => {
                &mut omitted.without_effect
            }
        } += 1;
    }

    fn withdraw(&mut self, at: usize, time: Timestamp, message: &Message) {
        let order = message.order.clone();
        let left = match message.kind {
            Kind::Reduce => self.lose(&order, message.size),
            _ => self.lose(&order, u64::MAX),
        };
        let body = match left {
            None => return self.omit(message.kind),
            Some(0) => Body::Cancel { order },
            Some(left) => Body::Amend {
                order,
                price: None,
                volume: Some(Decimal::exact(u128::from(left), 0)),
            },
        };
        self.push(Origin::Message(at), time, body);
    }

    /// Takes this much from an order and says what it has left; `None` if it had nothing.
    fn lose(&mut self, order: &OrderId, size: u64) -> Option<u64> {
        let left = self.left.get_mut(order)?;
        if *left <= size {
            self.left.remove(order);
            return Some(0);
        }
        *left -= size;
        Some(*left)
    }

    fn rest(&mut self, origin: Origin, time: Timestamp, order: Resting) {
        self.left.insert(order.id.clone(), order.size);
        let order = new_order(order, time, TimeInForce::GoodTillCancelled, "maker");
        self.push(origin, time, Body::Place(order));
    }

    fn push(&mut self, origin: Origin, timestamp: Timestamp, body: Body) {
        let number = self.imported.commands.len() + 1;
        let id = CommandId::new(&format!("lobster-{number}")).expect("letters and digits");
        self.imported.commands.push(ImportedCommand {
            origin,
            command: Command {
                id,
                pair: self.options.pair,
                partition: None,
                timestamp,
                body,
            },
        });
    }
}

fn new_order(
    order: Resting,
    timestamp: Timestamp,
    time_in_force: TimeInForce,
    user: &str,
) -> NewOrder {
    let price = Decimal::of_price(order.price, DECIMALS).to_string();
    NewOrder {
        id: order.id,
        user: Some(UserId::new(user).expect("a word of letters")),
        side: order.side,
        kind: OrderKind::Limit {
            price: Decimal::parse(&price).expect("a price is a decimal above zero"),
            time_in_force,
        },
        volume: Decimal::exact(u128::from(order.size), 0),
        decimals: DECIMALS,
        timestamp,
    }
}

/// An id of our own; the file's are numbers and cannot equal it.
fn order_id(text: &str) -> OrderId {
    OrderId::new(text).expect("letters, digits and a dash")
}
