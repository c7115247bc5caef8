//! The third kind of no: our own bug, or a store that cannot be true.
//!
//! A [`Violation`] halts its partition on every instance until a person lifts the halt. It is never
//! answered to a producer and never tried again.

use crate::ids::{OrderId, PairId};

/// What cannot be, and was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The best bid is at or above the best ask.
    #[error("the book of pair {pair} is crossed: bid {bid} at or above ask {ask}")]
    CrossedBook {
        /// The pair.
        pair: PairId,
        /// Best bid, in ticks.
        bid: u64,
        /// Best ask, in ticks.
        ask: u64,
    },
    /// A fill is larger than what one of its legs has left.
    #[error("a fill of order {order} is larger than what it has left")]
    NegativeRemainder {
        /// The order.
        order: OrderId,
    },
    /// An order rests with nothing left, or with more left than it ever had.
    #[error("order {order} rests with {remaining} of {volume} lots left")]
    ImpossibleRemainder {
        /// The order.
        order: OrderId,
        /// What it has left, in lots.
        remaining: u64,
        /// Its volume, in lots.
        volume: u64,
    },
    /// The legs of a deal moved by different volumes.
    #[error("the legs of a deal between {maker} and {taker} differ")]
    UnequalLegs {
        /// The resting order.
        maker: OrderId,
        /// The arriving order.
        taker: OrderId,
    },
    /// A record cannot be read as an order.
    #[error("the record of order {order} cannot be read: {detail}")]
    UnreadableRecord {
        /// The order.
        order: String,
        /// What is wrong with it.
        detail: String,
    },
    /// A record's decimals differ from its pair's.
    #[error("order {order} has other decimals than its pair {pair}")]
    DecimalsDiffer {
        /// The order.
        order: OrderId,
        /// The pair.
        pair: PairId,
    },
    /// Two resting orders, or an order and the cursor, claim an impossible priority.
    #[error("order {order} has priority {priority}, which is {problem}")]
    ImpossiblePriority {
        /// The order.
        order: OrderId,
        /// The priority.
        priority: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A pair lies in the store of a partition that does not own it.
    #[error("pair {pair} lies in the store of another partition")]
    ForeignPair {
        /// The pair.
        pair: PairId,
    },
    /// The fast book lost track of itself.
    #[error("the book's structure broke: {detail}")]
    BrokenStructure {
        /// What was found.
        detail: &'static str,
    },
    /// One write of a transaction failed after others were applied.
    #[error("a transaction was half applied: {detail}")]
    HalfApplied {
        /// The server's words.
        detail: String,
    },
    /// The store no longer has what it confirmed earlier.
    #[error("the store has gone back: {detail}; acknowledged work is missing")]
    StoreWentBack {
        /// What is missing.
        detail: String,
    },
    /// The store holds a meta record that cannot be read.
    #[error("the store's {what} cannot be read: {detail}")]
    UnreadableStore {
        /// Which key.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
}
