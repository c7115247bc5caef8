//! One side of one pair: its prices in order, the best at the end, so that trading pops and a new
//! best pushes.
//!
//! Prices are kept as keys that grow towards the best on either side, apart from the levels that
//! they lead to: a search reads eight bytes a price and has no branch on the side.

use crate::command::Side;
use crate::units::Price;

/// The prices of one side.
#[derive(Clone, Debug, Default)]
pub(super) struct Ladder {
    keys: Vec<u64>,
    levels: Vec<u32>,
}

impl Ladder {
    /// The level of the best price.
    #[inline]
    pub(super) fn best(&self) -> Option<u32> {
        self.levels.last().copied()
    }

    /// The level of this price, or the place where it belongs.
    #[inline]
    pub(super) fn find(&self, side: Side, price: Price) -> Result<u32, usize> {
        let key = key(side, price);
        match self.keys.binary_search(&key) {
            Ok(place) => Ok(self.levels[place]),
            Err(place) => Err(place),
        }
    }

    /// Puts a level at the place that [`Ladder::find`] gave.
    pub(super) fn insert(&mut self, place: usize, side: Side, price: Price, level: u32) {
        self.keys.insert(place, key(side, price));
        self.levels.insert(place, level);
    }

    /// Takes a price out; nothing when it is not there.
    #[inline]
    pub(super) fn remove(&mut self, side: Side, price: Price) {
        if let Ok(place) = self.keys.binary_search(&key(side, price)) {
            self.keys.remove(place);
            self.levels.remove(place);
        }
    }

    /// Every level, best first.
    pub(super) fn best_first(&self) -> impl Iterator<Item = u32> {
        self.levels.iter().rev().copied()
    }
}

#[inline]
const fn key(side: Side, price: Price) -> u64 {
    match side {
        Side::Bid => price.ticks(),
        Side::Ask => !price.ticks(),
    }
}
