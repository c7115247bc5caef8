//! Commands, valid by construction.
//!
//! What arrives is one of three things ([`Incoming`]): a command, something with a usable command
//! id that is refused for the record, or no command at all. The bytes are judged elsewhere; here is
//! only what can come of that.

use crate::ids::{CommandId, OrderId, PairId, PartitionId, Timestamp, UserId};
use crate::units::{Decimal, PairDecimals};

/// Which side of the book an order is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Sells.
    Ask,
    /// Buys.
    Bid,
}

impl Side {
    /// The side that this one trades against.
    pub const fn opposite(self) -> Side {
        match self {
            Side::Ask => Side::Bid,
            Side::Bid => Side::Ask,
        }
    }

    /// The word on the wire and in keys.
    pub const fn name(self) -> &'static str {
        match self {
            Side::Ask => "ask",
            Side::Bid => "bid",
        }
    }
}

/// What happens to what is left of a limit order that does not trade at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeInForce {
    /// It rests until it is cancelled.
    GoodTillCancelled,
    /// It is closed.
    ImmediateOrCancel,
}

impl TimeInForce {
    /// The word on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            TimeInForce::GoodTillCancelled => "gtc",
            TimeInForce::ImmediateOrCancel => "ioc",
        }
    }
}

/// Limit or market.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderKind {
    /// Trades at its price or better.
    Limit {
        /// The worst price it takes.
        price: Decimal,
        /// What becomes of the rest.
        time_in_force: TimeInForce,
    },
    /// Trades at any price and never rests.
    Market,
}

/// An order that asks to be let in. Its decimals are in range; whether its price and volume fit
/// them is for the book to judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// The producer's name for it.
    pub id: OrderId,
    /// Whose it is; `None` for the house.
    pub user: Option<UserId>,
    /// Which side.
    pub side: Side,
    /// Limit or market.
    pub kind: OrderKind,
    /// How much, above zero.
    pub volume: Decimal,
    /// The decimals it was written for.
    pub decimals: PairDecimals,
    /// The producer's time; gives the order's priority unless a later one was given already.
    pub timestamp: Timestamp,
}

/// What a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// `order.place`
    Place(NewOrder),
    /// `order.cancel`
    Cancel {
        /// Which order.
        order: OrderId,
    },
    /// `order.amend`
    Amend {
        /// Which order.
        order: OrderId,
        /// Its new price, if that changes.
        price: Option<Decimal>,
        /// Its new remaining volume, if that changes.
        volume: Option<Decimal>,
    },
    /// `orders.replace-batch`: the cancels, then the places.
    Replace {
        /// Orders to cancel, in this order.
        cancel: Vec<OrderId>,
        /// Orders to place, in this order.
        place: Vec<NewOrder>,
    },
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The producer's name for it.
    pub id: CommandId,
    /// The pair it is for.
    pub pair: PairId,
    /// The partition its producer computed, where it said so.
    pub partition: Option<PartitionId>,
    /// The producer's time; every event of the command carries it.
    pub timestamp: Timestamp,
    /// What it asks for.
    pub body: Body,
}

/// Why a whole command is refused, as the event and the result name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It breaks a rule of the wire.
    Malformed,
    /// It belongs to another partition.
    WrongPartition,
    /// Two orders without a user would meet.
    BotAgainstBot,
    /// Its batch has too many entries.
    BatchTooLarge,
}

impl Refusal {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Refusal::Malformed => "malformed",
            Refusal::WrongPartition => "wrong-partition",
            Refusal::BotAgainstBot => "bot-against-bot",
            Refusal::BatchTooLarge => "batch-too-large",
        }
    }
}

/// A message with a usable command id that is refused before it reaches the book.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCommand {
    /// The producer's name for it.
    pub id: CommandId,
    /// The pair, where it could be read.
    pub pair: Option<PairId>,
    /// The producer's time, where it could be read.
    pub timestamp: Option<Timestamp>,
    /// Why, as a code.
    pub refusal: Refusal,
    /// Why, as a sentence.
    pub detail: String,
}

/// What a message turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A command.
    Command(Command),
    /// Refused for the record: an event and a stored result.
    Refused(RefusedCommand),
    /// No command: goes to the parking queue with this reason.
    Unusable(String),
}
