//! The book: all pairs of a partition, best price first and oldest first within a price.
//!
//! [`Book`] is what matching needs of a book. [`FastBook`] is the one that the conductor runs;
//! [`crate::NaiveBook`] is its obvious twin, and the same tests hold both.
//!
//! A command is applied between [`Book::begin`] and either [`Book::keep`] or [`Book::undo`], so
//! that one that is refused half-way leaves nothing.

mod fast;
mod journal;

pub use fast::FastBook;

use crate::command::Side;
use crate::ids::{OrderId, PairId, Timestamp, UserId};
use crate::units::{PairDecimals, Price, Quantity, QuoteAmount};
use crate::violation::Violation;

/// An order at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestingOrder {
    /// The producer's name for it.
    pub id: OrderId,
    /// Whose it is; `None` for the house.
    pub user: Option<UserId>,
    /// Its pair.
    pub pair: PairId,
    /// Its side.
    pub side: Side,
    /// Its price.
    pub price: Price,
    /// What it was placed with, or last amended to.
    pub volume: Quantity,
    /// What it has left, above zero.
    pub remaining: Quantity,
    /// Quote volume that it has traded.
    pub quote_volume: QuoteAmount,
    /// Its place in time, unique within the partition.
    pub priority: u64,
    /// The producer's time.
    pub timestamp: Timestamp,
}

/// One price of one side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceLevel {
    /// The price.
    pub price: Price,
    /// What all its orders have left, in lots; may exceed one order's range.
    pub lots: u128,
    /// How many orders it holds.
    pub orders: usize,
}

/// What matching needs of a book.
pub trait Book {
    /// Starts a command: what follows can be undone.
    fn begin(&mut self);
    /// Ends a command and keeps what it did.
    fn keep(&mut self);
    /// Ends a command and leaves everything as it was at [`Book::begin`].
    fn undo(&mut self);

    /// A pair's decimals, once fixed.
    fn decimals(&self, pair: PairId) -> Option<PairDecimals>;
    /// Fixes a pair's decimals.
    fn fix_decimals(&mut self, pair: PairId, decimals: PairDecimals);

    /// The resting order of this id, whatever its pair.
    fn order(&self, id: &OrderId) -> Option<&RestingOrder>;
    /// The oldest order at the best price of a side.
    fn best(&self, pair: PairId, side: Side) -> Option<&RestingOrder>;
    /// Price of the best order of a side.
    fn best_price(&self, pair: PairId, side: Side) -> Option<Price>;

    /// Adds an order behind all of its price that have a lower priority.
    ///
    /// # Errors
    /// [`Violation`] when its id rests already.
    fn insert(&mut self, order: RestingOrder) -> Result<(), Violation>;
    /// Gives the oldest order at the best price a new remainder, in its place.
    ///
    /// # Errors
    /// [`Violation`] when the side is empty.
    fn reduce_best(
        &mut self,
        pair: PairId,
        side: Side,
        remaining: Quantity,
        quote_volume: QuoteAmount,
    ) -> Result<(), Violation>;
    /// Takes the oldest order at the best price out.
    ///
    /// # Errors
    /// [`Violation`] when the side is empty.
    fn remove_best(&mut self, pair: PairId, side: Side) -> Result<(), Violation>;
    /// Amends an order to less volume, in its place.
    ///
    /// # Errors
    /// [`Violation`] when it does not rest.
    fn shrink(&mut self, id: &OrderId, remaining: Quantity) -> Result<(), Violation>;
    /// Takes an order of a pair out, without a scan. What it held can be read until the command
    /// ends.
    fn remove(&mut self, pair: PairId, id: &OrderId) -> Option<&RestingOrder>;

    /// Every pair that the book has decimals for, in order of its number.
    fn pairs(&self) -> Vec<PairId>;
    /// Every order of a side, best price first, oldest first.
    fn orders(&self, pair: PairId, side: Side) -> Vec<RestingOrder>;
    /// The best levels of a side.
    fn levels(&self, pair: PairId, side: Side, levels_max: usize) -> Vec<PriceLevel>;
    /// How many orders rest, in all pairs.
    fn len(&self) -> usize;
    /// Whether nothing rests.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
