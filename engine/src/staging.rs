//! What a group changes, as data.
//!
//! A [`Write`] says what must be true in the store after the transaction, in the words of the
//! domain; which server command says it is for the store's side to choose. A group's writes are
//! applied in order, all or none, with the cursor last.

use crate::book::RestingOrder;
use crate::command::Side;
use crate::event::{CommandResult, Event};
use crate::ids::{CommandId, OrderId, PairId};
use crate::units::{PairDecimals, Quantity, QuoteAmount};
use std::sync::Arc;

/// One change to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A pair's decimals are fixed, and the pair joins the set of pairs.
    Pair {
        /// The pair.
        pair: PairId,
        /// Its decimals.
        decimals: PairDecimals,
    },
    /// The order's id is used up by this command.
    Accepted {
        /// The order.
        order: OrderId,
        /// The command that let it in.
        command: CommandId,
    },
    /// The order comes to rest: its whole record, and its member in the price index.
    Rest {
        /// The order as it rests.
        order: Arc<RestingOrder>,
        /// Its pair's decimals.
        decimals: PairDecimals,
    },
    /// A resting order traded and keeps its place: its record changes, its member does not.
    Reduce {
        /// The order.
        order: OrderId,
        /// What it has left.
        remaining: Quantity,
        /// Its quote volume so far.
        quote_volume: QuoteAmount,
        /// Its pair's decimals.
        decimals: PairDecimals,
    },
    /// A resting order was amended to less volume and keeps its place.
    Shrink {
        /// The order.
        order: OrderId,
        /// Its new volume, all of which it has left.
        remaining: Quantity,
        /// Its pair's decimals.
        decimals: PairDecimals,
    },
    /// A resting order leaves the book: record and member go together.
    Remove {
        /// The order.
        order: OrderId,
        /// Its pair.
        pair: PairId,
        /// Its side.
        side: Side,
        /// Its place in time, from which its member is spelled.
        priority: u64,
    },
    /// An event joins the stream.
    Event(Arc<Event>),
    /// The command's result, which answers every repeat of it.
    Result(Arc<CommandResult>),
    /// A member from before our encoding is replaced by ours, and its record gains a priority.
    Rewrite {
        /// The member as it was found.
        member: String,
        /// The order as it rests.
        order: Arc<RestingOrder>,
        /// Its pair's decimals.
        decimals: PairDecimals,
    },
    /// Where the partition stands; last in every group.
    Cursor(Cursor),
}

/// Where a partition stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The last event's sequence; zero before the first.
    pub sequence: u64,
    /// The last priority given; zero before the first.
    pub priority: u64,
    /// The last command that was committed.
    pub command: Option<CommandId>,
}
