//! The book that the conductor runs.
//!
//! Orders live in a slab, each linked to its neighbours in time ([`slab`]). A side is a sorted
//! vector of prices with the best at its end ([`ladder`]). One hash table from order id to slot
//! finds any order without a scan ([`index`]). Once they have grown to the market's size, matching
//! allocates nothing.
//!
//! Removed slots and levels keep their links until the command is kept. Taking changes back in
//! reverse order then restores every link exactly. It must never reuse a slot before that.

mod index;
mod ladder;
mod slab;

use super::journal::{Altered, Change};
use super::{Book, PriceLevel, RestingOrder};
use crate::command::Side;
use crate::ids::{OrderId, PairId};
use crate::units::{PairDecimals, Price, Quantity, QuoteAmount};
use crate::violation::Violation;
use hashbrown::HashMap;
use index::{IdIndex, Seeded};
use ladder::Ladder;
use slab::{NONE, Slab, Slot, number};
use std::cell::Cell;

#[derive(Clone, Debug, Default)]
struct PairSides {
    decimals: Option<PairDecimals>,
    asks: Ladder,
    bids: Ladder,
}

impl PairSides {
    #[inline]
    const fn side(&self, side: Side) -> &Ladder {
        match side {
            Side::Ask => &self.asks,
            Side::Bid => &self.bids,
        }
    }

    #[inline]
    const fn side_mut(&mut self, side: Side) -> &mut Ladder {
        match side {
            Side::Ask => &mut self.asks,
            Side::Bid => &mut self.bids,
        }
    }
}

/// The fast book. See the module's page for its shape.
#[derive(Clone, Debug)]
pub struct FastBook {
    slab: Slab,
    pairs: Vec<(PairId, PairSides)>,
    pair_places: HashMap<PairId, u32, Seeded>,
    /// The pair that was looked up last, and its place: a command asks for one again and again.
    recent: Cell<Option<(PairId, u32)>>,
    index: IdIndex,
    changes: Vec<Change>,
    altered: Vec<Altered>,
    retired_slots: Vec<u32>,
    retired_levels: Vec<u32>,
}

impl Default for FastBook {
    fn default() -> Self {
        Self::with_seed(0)
    }
}

impl FastBook {
    /// An empty book. The seed goes into the hash of order ids, so that a producer cannot choose
    /// ids that collide; it changes nothing that can be observed otherwise.
    pub fn with_seed(seed: u64) -> Self {
        let hasher = Seeded::with_seed(seed);
        Self {
            slab: Slab::default(),
            pairs: Vec::new(),
            pair_places: HashMap::with_hasher(hasher.clone()),
            recent: Cell::new(None),
            index: IdIndex::new(hasher),
            changes: Vec::new(),
            altered: Vec::new(),
            retired_slots: Vec::new(),
            retired_levels: Vec::new(),
        }
    }

    #[inline]
    fn slot_of(&self, id: &OrderId) -> Option<u32> {
        let hash = self.index.hash(id);
        self.index
            .find(hash, |slot| self.slab.order(slot).id == *id)
    }

    #[inline]
    fn known_place(&self, pair: PairId) -> Option<u32> {
        match self.recent.get() {
            Some((recent, place)) if recent == pair => Some(place),
            _ => {
                let place = *self.pair_places.get(&pair)?;
                self.recent.set(Some((pair, place)));
                Some(place)
            }
        }
    }

    #[inline]
    fn sides(&self, pair: PairId) -> Option<&PairSides> {
        let place = self.known_place(pair)?;
        Some(&self.pairs[place as usize].1)
    }

    fn place_of(&mut self, pair: PairId) -> u32 {
        if let Some(place) = self.known_place(pair) {
            return place;
        }
        let place = number(self.pairs.len());
        self.pairs.push((pair, PairSides::default()));
        self.pair_places.insert(pair, place);
        place
    }

    #[inline]
    fn best_slot(&self, pair: PairId, side: Side) -> Option<u32> {
        let level = self.sides(pair)?.side(side).best()?;
        Some(self.slab.level(level).oldest)
    }

    fn level_for(&mut self, pair: u32, side: Side, price: Price) -> u32 {
        let ladder = self.pairs[pair as usize].1.side_mut(side);
        match ladder.find(side, price) {
            Ok(level) => level,
            Err(place) => {
                let level = self.slab.take_level(price, pair);
                ladder.insert(place, side, price, level);
                level
            }
        }
    }

    /// Takes a slot out of its level and, when that is empty then, the level out of its side.
    /// Whether it was.
    #[inline]
    fn unlink(&mut self, slot: u32) -> bool {
        let empty = self.slab.unlink(slot);
        if empty {
            let Slot { level, order, .. } = self.slab.slot(slot);
            let pair = self.slab.level(*level).pair;
            let sides = &mut self.pairs[pair as usize].1;
            sides.side_mut(order.side).remove(order.side, order.price);
        }
        empty
    }

    /// Takes a slot that has left the index out of its level, until the command is kept.
    #[inline]
    fn retire(&mut self, slot: u32) {
        if self.unlink(slot) {
            self.retired_levels.push(self.slab.slot(slot).level);
        }
        self.retired_slots.push(slot);
        self.changes.push(Change::Removed(slot));
    }

    fn leave_index(&mut self, slot: u32) {
        let hash = self.slab.slot(slot).hash;
        self.index.remove(hash, |other| other == slot);
    }

    fn alter(&mut self, slot: u32, change: impl FnOnce(&mut RestingOrder)) {
        let order = self.slab.order(slot);
        self.altered.push(Altered {
            volume: order.volume,
            remaining: order.remaining,
            quote_volume: order.quote_volume,
        });
        self.changes.push(Change::Altered(slot));
        self.slab.alter(slot, change);
    }

    fn reverse(&mut self, change: Change) {
        match change {
            Change::Inserted(slot) => {
                self.leave_index(slot);
                if self.unlink(slot) {
                    self.slab.free_level(self.slab.slot(slot).level);
                }
                self.slab.free(slot);
            }
            Change::Removed(slot) => {
                self.retired_slots.pop();
                self.revive_level(slot);
                self.slab.link(slot);
                let hash = self.slab.slot(slot).hash;
                self.index.insert(hash, slot, |_| false);
            }
            Change::Altered(slot) => {
                let Some(before) = self.altered.pop() else {
                    return;
                };
                self.slab.alter(slot, |order| {
                    order.volume = before.volume;
                    order.remaining = before.remaining;
                    order.quote_volume = before.quote_volume;
                });
            }
            Change::FixedDecimals(place) => self.pairs[place as usize].1.decimals = None,
        }
    }

    /// Puts a slot's level back into its side when removing the slot had emptied it.
    fn revive_level(&mut self, slot: u32) {
        let (side, level) = (self.slab.order(slot).side, self.slab.slot(slot).level);
        let entry = self.slab.level(level);
        if entry.orders == 0 {
            let ladder = self.pairs[entry.pair as usize].1.side_mut(side);
            if let Err(place) = ladder.find(side, entry.price) {
                ladder.insert(place, side, entry.price, level);
            }
            self.retired_levels.pop();
        }
    }

    fn missing() -> Violation {
        Violation::BrokenStructure {
            detail: "an order that must rest does not",
        }
    }
}

impl Book for FastBook {
    #[inline]
    fn begin(&mut self) {
        self.changes.clear();
        self.altered.clear();
    }

    #[inline]
    fn keep(&mut self) {
        self.changes.clear();
        self.altered.clear();
        for slot in self.retired_slots.drain(..) {
            self.slab.free(slot);
        }
        for level in self.retired_levels.drain(..) {
            self.slab.free_level(level);
        }
    }

    fn undo(&mut self) {
        while let Some(change) = self.changes.pop() {
            self.reverse(change);
        }
    }

    fn decimals(&self, pair: PairId) -> Option<PairDecimals> {
        self.sides(pair)?.decimals
    }

    fn fix_decimals(&mut self, pair: PairId, decimals: PairDecimals) {
        let place = self.place_of(pair);
        self.pairs[place as usize].1.decimals = Some(decimals);
        self.changes.push(Change::FixedDecimals(place));
    }

    #[inline]
    fn order(&self, id: &OrderId) -> Option<&RestingOrder> {
        self.slot_of(id).map(|slot| self.slab.order(slot))
    }

    #[inline]
    fn best(&self, pair: PairId, side: Side) -> Option<&RestingOrder> {
        let slot = self.best_slot(pair, side)?;
        Some(self.slab.order(slot))
    }

    #[inline]
    fn best_price(&self, pair: PairId, side: Side) -> Option<Price> {
        let level = self.sides(pair)?.side(side).best()?;
        Some(self.slab.level(level).price)
    }

    #[inline]
    fn insert(&mut self, order: RestingOrder) -> Result<(), Violation> {
        let (slot, hash) = (self.slab.next_free(), self.index.hash(&order.id));
        let same = |other| self.slab.order(other).id == order.id;
        if !self.index.insert(hash, slot, same) {
            return Err(Violation::BrokenStructure {
                detail: "an order id rests twice",
            });
        }
        let pair = self.place_of(order.pair);
        let level = self.level_for(pair, order.side, order.price);
        let previous = self.slab.predecessor(level, order.priority);
        let next = match previous {
            NONE => self.slab.level(level).oldest,
            _ => self.slab.slot(previous).next,
        };
        self.slab.put(Slot {
            order,
            previous,
            next,
            level,
            hash,
        });
        self.slab.link(slot);
        self.changes.push(Change::Inserted(slot));
        Ok(())
    }

    #[inline]
    fn reduce_best(
        &mut self,
        pair: PairId,
        side: Side,
        remaining: Quantity,
        quote_volume: QuoteAmount,
    ) -> Result<(), Violation> {
        let slot = self.best_slot(pair, side).ok_or_else(Self::missing)?;
        self.alter(slot, |order| {
            order.remaining = remaining;
            order.quote_volume = quote_volume;
        });
        Ok(())
    }

    #[inline]
    fn remove_best(&mut self, pair: PairId, side: Side) -> Result<(), Violation> {
        let slot = self.best_slot(pair, side).ok_or_else(Self::missing)?;
        self.leave_index(slot);
        self.retire(slot);
        Ok(())
    }

    fn shrink(&mut self, id: &OrderId, remaining: Quantity) -> Result<(), Violation> {
        let slot = self.slot_of(id).ok_or_else(Self::missing)?;
        self.alter(slot, |order| {
            order.volume = remaining;
            order.remaining = remaining;
        });
        Ok(())
    }

    #[inline]
    fn remove(&mut self, pair: PairId, id: &OrderId) -> Option<&RestingOrder> {
        let slab = &self.slab;
        let same = |slot| {
            let order = slab.order(slot);
            order.id == *id && order.pair == pair
        };
        let slot = self.index.remove(self.index.hash(id), same)?;
        self.retire(slot);
        Some(self.slab.order(slot))
    }

    fn pairs(&self) -> Vec<PairId> {
        let known = self
            .pairs
            .iter()
            .filter(|(_, sides)| sides.decimals.is_some());
        let mut pairs: Vec<PairId> = known.map(|(pair, _)| *pair).collect();
        pairs.sort_unstable();
        pairs
    }

    fn orders(&self, pair: PairId, side: Side) -> Vec<RestingOrder> {
        let mut found = Vec::new();
        let Some(sides) = self.sides(pair) else {
            return found;
        };
        for level in sides.side(side).best_first() {
            let mut slot = self.slab.level(level).oldest;
            while slot != NONE {
                found.push(self.slab.order(slot).clone());
                slot = self.slab.slot(slot).next;
            }
        }
        found
    }

    fn levels(&self, pair: PairId, side: Side, levels_max: usize) -> Vec<PriceLevel> {
        let Some(sides) = self.sides(pair) else {
            return Vec::new();
        };
        let best_first = sides.side(side).best_first().take(levels_max);
        best_first
            .map(|level| {
                let level = self.slab.level(level);
                PriceLevel {
                    price: level.price,
                    lots: level.lots,
                    orders: level.orders as usize,
                }
            })
            .collect()
    }

    fn len(&self) -> usize {
        self.index.len()
    }
}
