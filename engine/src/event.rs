//! Events and results: what a command did, as values.
//!
//! Their one canonical spelling belongs to the wire, outside this package. Here is the order of
//! their fields, which is the order in which they are spelled.

use crate::command::{Refusal, Side};
use crate::ids::{CommandId, OrderId, PairId, Timestamp, UserId};
use crate::units::Decimal;

/// One event. Its id is `<command>.<index>`, so that a command that is executed again after a lost
/// commit gives the same ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The command that caused it.
    pub command: CommandId,
    /// Its place among the command's events, from zero.
    pub index: u32,
    /// The pair; `None` where a refused command's pair could not be read.
    pub pair: Option<PairId>,
    /// Its gapless number within the partition, from one.
    pub sequence: u64,
    /// The command's time; `None` where it could not be read.
    pub timestamp: Option<Timestamp>,
    /// What happened.
    pub payload: Payload,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// `deal.executed.v1`
    Deal(Deal),
    /// `order.rested.v1`
    Rested(Standing),
    /// `order.amended.v1`: how the order stands before it trades.
    Amended(Standing),
    /// `order.closed.v1`
    Closed(Closed),
    /// `order.rejected.v1`
    OrderRejected(OrderRejected),
    /// `command.rejected.v1`
    CommandRejected {
        /// Why, as a code.
        refusal: Refusal,
        /// Why, as a sentence.
        detail: Option<String>,
    },
}

impl Payload {
    /// The event's type, which is also its routing key.
    pub const fn kind(&self) -> &'static str {
        match self {
            Payload::Deal(_) => "deal.executed.v1",
            Payload::Rested(_) => "order.rested.v1",
            Payload::Amended(_) => "order.amended.v1",
            Payload::Closed(_) => "order.closed.v1",
            Payload::OrderRejected(_) => "order.rejected.v1",
            Payload::CommandRejected { .. } => "command.rejected.v1",
        }
    }
}

/// One trade between one maker and one taker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deal {
    /// The resting order.
    pub maker: OrderId,
    /// The arriving order.
    pub taker: OrderId,
    /// Whose the resting order is.
    pub maker_user: Option<UserId>,
    /// Whose the arriving order is.
    pub taker_user: Option<UserId>,
    /// The arriving order's side.
    pub taker_side: Side,
    /// The maker's price.
    pub price: Decimal,
    /// The smaller remainder of the two.
    pub volume: Decimal,
    /// Volume times price, rounded in the maker's favour.
    pub quote_volume: Decimal,
    /// What the maker has left after it.
    pub maker_remaining: Decimal,
    /// What the taker has left after it.
    pub taker_remaining: Decimal,
}

/// How an order stands in the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The order.
    pub order: OrderId,
    /// Whose it is.
    pub user: Option<UserId>,
    /// Its side.
    pub side: Side,
    /// Its price.
    pub price: Decimal,
    /// What it has left.
    pub remaining: Decimal,
    /// Its place in time, sixteen digits, not inverted.
    pub priority: u64,
}

/// An order that left the market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The order.
    pub order: OrderId,
    /// Whose it is.
    pub user: Option<UserId>,
    /// Its side.
    pub side: Side,
    /// Why.
    pub reason: CloseReason,
    /// What it had left.
    pub remaining: Decimal,
}

/// Why an order left the market.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// It traded whole.
    Filled,
    /// Somebody cancelled it.
    Cancelled,
    /// It was immediate-or-cancel and found no more.
    IocRemainder,
}

impl CloseReason {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            CloseReason::Filled => "filled",
            CloseReason::Cancelled => "cancelled",
            CloseReason::IocRemainder => "ioc-remainder",
        }
    }
}

/// An order that was not let in, or found no liquidity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRejected {
    /// The order.
    pub order: OrderId,
    /// Whose it is.
    pub user: Option<UserId>,
    /// Its side.
    pub side: Side,
    /// Why.
    pub reason: RejectReason,
    /// What it had left.
    pub remaining: Decimal,
}

/// Why an order was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectReason {
    /// A market order found nothing more to trade with.
    InsufficientLiquidity,
    /// Its decimals differ from its pair's.
    DecimalsMismatch,
    /// Its price has more decimals than it declares.
    PricePrecision,
    /// Its volume has more decimals than it declares.
    VolumePrecision,
    /// Its price is 10^15 ticks or more.
    PriceOutOfRange,
    /// Its volume is 10^18 lots or more.
    VolumeOutOfRange,
}

impl RejectReason {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            RejectReason::InsufficientLiquidity => "insufficient-liquidity",
            RejectReason::DecimalsMismatch => "decimals-mismatch",
            RejectReason::PricePrecision => "price-precision",
            RejectReason::VolumePrecision => "volume-precision",
            RejectReason::PriceOutOfRange => "price-out-of-range",
            RejectReason::VolumeOutOfRange => "volume-out-of-range",
        }
    }
}

/// What a command came to: the reply, and the record that answers a repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    /// The command.
    pub command: CommandId,
    /// Whether it changed anything.
    pub status: Status,
    /// Why it was rejected.
    pub reason: Option<Reason>,
    /// What became of each order it named, in its order.
    pub outcomes: Vec<Outcome>,
    /// The first and last sequence of its events; `None` where it has none.
    pub sequences: Option<(u64, u64)>,
}

/// Whether a command changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Something of it happened.
    Accepted,
    /// Nothing happened and nothing was wrong: a repeat, or a cancel of what is closed.
    Unchanged,
    /// It was refused, or every order of it was.
    Rejected,
}

impl Status {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Status::Accepted => "accepted",
            Status::Unchanged => "unchanged",
            Status::Rejected => "rejected",
        }
    }
}

/// Why a command, or an order of it, was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The whole command was refused.
    Command(Refusal),
    /// The order was rejected.
    Order(RejectReason),
}

impl Reason {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Reason::Command(refusal) => refusal.code(),
            Reason::Order(reason) => reason.code(),
        }
    }
}

/// What became of one order that a command named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The order.
    pub order: OrderId,
    /// What became of it.
    pub kind: OutcomeKind,
    /// What it has left, where the book knows.
    pub remaining: Option<Decimal>,
    /// Why it was rejected.
    pub reason: Option<RejectReason>,
}

/// What became of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// It traded whole.
    Filled,
    /// It rests, or what is left of it does.
    Rested,
    /// It was cancelled.
    Cancelled,
    /// It was amended and kept its place.
    Amended,
    /// What an immediate-or-cancel order did not trade was closed.
    IocRemainder,
    /// It was rejected.
    Rejected,
    /// Its id was used before; it was skipped.
    DuplicateOrder,
    /// It had left the market before.
    AlreadyClosed,
    /// It was never seen, or rests under another pair.
    UnknownOrder,
}

impl OutcomeKind {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            OutcomeKind::Filled => "filled",
            OutcomeKind::Rested => "rested",
            OutcomeKind::Cancelled => "cancelled",
            OutcomeKind::Amended => "amended",
            OutcomeKind::IocRemainder => "ioc-remainder",
            OutcomeKind::Rejected => "rejected",
            OutcomeKind::DuplicateOrder => "duplicate-order",
            OutcomeKind::AlreadyClosed => "already-closed",
            OutcomeKind::UnknownOrder => "unknown-order",
        }
    }
}
