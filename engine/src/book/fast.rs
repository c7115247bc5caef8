//! The book that the conductor runs.
//!
//! Orders live in a slab whose free slots are reused last-in first-out, each linked to its
//! neighbours in time by 32-bit numbers. A side is a vector of price levels with the best at its
//! end, so that trading pops and a new best pushes. One hash table from order id to slot finds any
//! order without a scan. Once the vectors have grown to the market's size, matching allocates
//! nothing.
//!
//! Removed slots and levels keep their links until the command is kept. Taking changes back in
//! reverse order then restores every link exactly. It must never reuse a slot before that.

use super::journal::Change;
use super::{Book, Maker, PriceLevel, RestingOrder};
use crate::command::Side;
use crate::ids::{OrderId, PairId};
use crate::units::{PairDecimals, Price, Quantity, QuoteAmount};
use crate::violation::Violation;
use hashbrown::{HashMap, HashTable};
use std::hash::BuildHasher;

const NONE: u32 = u32::MAX;

type Hasher = foldhash::fast::FixedState;

#[derive(Clone, Debug)]
struct Slot {
    order: Option<RestingOrder>,
    previous: u32,
    next: u32,
    level: u32,
    pair: u32,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    price: Price,
    oldest: u32,
    newest: u32,
    orders: u32,
    lots: u128,
}

#[derive(Clone, Debug, Default)]
struct PairSides {
    decimals: Option<PairDecimals>,
    asks: Vec<(Price, u32)>,
    bids: Vec<(Price, u32)>,
}

impl PairSides {
    fn side(&self, side: Side) -> &Vec<(Price, u32)> {
        match side {
            Side::Ask => &self.asks,
            Side::Bid => &self.bids,
        }
    }

    fn side_mut(&mut self, side: Side) -> &mut Vec<(Price, u32)> {
        match side {
            Side::Ask => &mut self.asks,
            Side::Bid => &mut self.bids,
        }
    }
}

/// The fast book. See the module's page for its shape.
#[derive(Clone, Debug)]
pub struct FastBook {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    levels: Vec<Level>,
    free_levels: Vec<u32>,
    pairs: Vec<(PairId, PairSides)>,
    pair_places: HashMap<PairId, u32, Hasher>,
    index: HashTable<u32>,
    hasher: Hasher,
    changes: Vec<Change>,
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
        let hasher = Hasher::with_seed(seed);
        Self {
            slots: Vec::new(),
            free_slots: Vec::new(),
            levels: Vec::new(),
            free_levels: Vec::new(),
            pairs: Vec::new(),
            pair_places: HashMap::with_hasher(hasher.clone()),
            index: HashTable::new(),
            hasher,
            changes: Vec::new(),
            retired_slots: Vec::new(),
            retired_levels: Vec::new(),
        }
    }

    fn slot_of(&self, id: &OrderId) -> Option<u32> {
        let hash = self.hasher.hash_one(id);
        self.index
            .find(hash, |&slot| self.id_at(slot) == Some(id))
            .copied()
    }

    fn id_at(&self, slot: u32) -> Option<&OrderId> {
        self.slots[slot as usize]
            .order
            .as_ref()
            .map(|order| &order.id)
    }

    fn sides(&self, pair: PairId) -> Option<&PairSides> {
        let place = *self.pair_places.get(&pair)?;
        Some(&self.pairs[place as usize].1)
    }

    fn place_of(&mut self, pair: PairId) -> u32 {
        if let Some(place) = self.pair_places.get(&pair) {
            return *place;
        }
        let place = number(self.pairs.len());
        self.pairs.push((pair, PairSides::default()));
        self.pair_places.insert(pair, place);
        place
    }

    fn best_slot(&self, pair: PairId, side: Side) -> Option<u32> {
        let (_, level) = self.sides(pair)?.side(side).last()?;
        Some(self.levels[*level as usize].oldest)
    }

    /// Where a price stands, or would stand, in a side's vector.
    fn level_place(side: Side, levels: &[(Price, u32)], price: Price) -> Result<usize, usize> {
        match side {
            Side::Ask => levels.binary_search_by(|(other, _)| price.cmp(other)),
            Side::Bid => levels.binary_search_by(|(other, _)| other.cmp(&price)),
        }
    }

    fn level_for(&mut self, pair: u32, side: Side, price: Price) -> u32 {
        let levels = self.pairs[pair as usize].1.side_mut(side);
        match Self::level_place(side, levels, price) {
            Ok(place) => levels[place].1,
            Err(place) => {
                let fresh = Level {
                    price,
                    oldest: NONE,
                    newest: NONE,
                    orders: 0,
                    lots: 0,
                };
                let level = match self.free_levels.pop() {
                    Some(level) => {
                        self.levels[level as usize] = fresh;
                        level
                    }
                    None => {
                        self.levels.push(fresh);
                        number(self.levels.len() - 1)
                    }
                };
                levels.insert(place, (price, level));
                level
            }
        }
    }

    fn take_slot(&mut self, slot: Slot) -> u32 {
        match self.free_slots.pop() {
            Some(free) => {
                self.slots[free as usize] = slot;
                free
            }
            None => {
                self.slots.push(slot);
                number(self.slots.len() - 1)
            }
        }
    }

    /// The newest order of a level that is older than `priority`; nearly always its newest.
    fn predecessor(&self, level: u32, priority: u64) -> u32 {
        let mut slot = self.levels[level as usize].newest;
        while slot != NONE && self.priority_at(slot) > priority {
            slot = self.slots[slot as usize].previous;
        }
        slot
    }

    fn priority_at(&self, slot: u32) -> u64 {
        self.slots[slot as usize]
            .order
            .as_ref()
            .map_or(0, |order| order.priority)
    }

    fn lots_at(&self, slot: u32) -> u128 {
        let order = self.slots[slot as usize].order.as_ref();
        order.map_or(0, |order| u128::from(order.remaining.lots()))
    }

    /// Links a slot between the neighbours that it names itself, and joins the index.
    fn link(&mut self, slot: u32) {
        let Slot {
            previous,
            next,
            level,
            ..
        } = self.slots[slot as usize];
        let lots = self.lots_at(slot);
        let entry = &mut self.levels[level as usize];
        entry.orders += 1;
        entry.lots += lots;
        match previous {
            NONE => entry.oldest = slot,
            _ => self.slots[previous as usize].next = slot,
        }
        match next {
            NONE => self.levels[level as usize].newest = slot,
            _ => self.slots[next as usize].previous = slot,
        }
        let Some(id) = self.id_at(slot) else { return };
        let hash = self.hasher.hash_one(id);
        let (slots, hasher) = (&self.slots, &self.hasher);
        let rehash = |&other: &u32| {
            slots[other as usize]
                .order
                .as_ref()
                .map_or(0, |order| hasher.hash_one(&order.id))
        };
        self.index.insert_unique(hash, slot, rehash);
    }

    /// Takes a slot out of its level and the index. Its own links stay as they are. Returns
    /// whether the level is empty now and left its side.
    fn unlink(&mut self, slot: u32) -> bool {
        let Slot {
            previous,
            next,
            level,
            pair,
            ..
        } = self.slots[slot as usize];
        let lots = self.lots_at(slot);
        match previous {
            NONE => self.levels[level as usize].oldest = next,
            _ => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => self.levels[level as usize].newest = previous,
            _ => self.slots[next as usize].previous = previous,
        }
        let entry = &mut self.levels[level as usize];
        entry.orders -= 1;
        entry.lots -= lots;
        let (price, empty) = (entry.price, entry.orders == 0);
        let Some(order) = self.slots[slot as usize].order.as_ref() else {
            return false;
        };
        let (hash, side) = (self.hasher.hash_one(&order.id), order.side);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == slot) {
            found.remove();
        }
        if empty {
            let levels = self.pairs[pair as usize].1.side_mut(side);
            if let Ok(place) = Self::level_place(side, levels, price) {
                levels.remove(place);
            }
        }
        empty
    }

    fn retire(&mut self, slot: u32) {
        if self.unlink(slot) {
            self.retired_levels.push(self.slots[slot as usize].level);
        }
        self.retired_slots.push(slot);
        self.changes.push(Change::Removed(slot));
    }

    fn alter(&mut self, slot: u32, change: impl FnOnce(&mut RestingOrder)) {
        let level = self.slots[slot as usize].level;
        let before = self.lots_at(slot);
        let Some(order) = self.slots[slot as usize].order.as_mut() else {
            return;
        };
        self.changes.push(Change::Altered {
            slot,
            volume: order.volume,
            remaining: order.remaining,
            quote_volume: order.quote_volume,
        });
        change(order);
        let after = u128::from(order.remaining.lots());
        let entry = &mut self.levels[level as usize];
        entry.lots = entry.lots - before + after;
    }

    fn reverse(&mut self, change: Change) {
        match change {
            Change::Inserted(slot) => {
                if self.unlink(slot) {
                    self.free_levels.push(self.slots[slot as usize].level);
                }
                self.slots[slot as usize].order = None;
                self.free_slots.push(slot);
            }
            Change::Removed(slot) => {
                self.retired_slots.pop();
                self.revive_level(slot);
                self.link(slot);
            }
            Change::Altered {
                slot,
                volume,
                remaining,
                quote_volume,
            } => {
                self.alter(slot, |order| {
                    order.volume = volume;
                    order.remaining = remaining;
                    order.quote_volume = quote_volume;
                });
                self.changes.pop();
            }
            Change::FixedDecimals(place) => self.pairs[place as usize].1.decimals = None,
        }
    }

    /// Puts a slot's level back into its side when removing the slot had emptied it.
    fn revive_level(&mut self, slot: u32) {
        let Slot {
            level,
            pair,
            ref order,
            ..
        } = self.slots[slot as usize];
        let Level { price, orders, .. } = self.levels[level as usize];
        let Some(side) = order.as_ref().map(|order| order.side) else {
            return;
        };
        if orders == 0 {
            let levels = self.pairs[pair as usize].1.side_mut(side);
            if let Err(place) = Self::level_place(side, levels, price) {
                levels.insert(place, (price, level));
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

/// Slots, levels and pairs are counted in 32 bits.
fn number(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 orders, levels and pairs fit one partition")
}

impl Book for FastBook {
    fn begin(&mut self) {
        self.changes.clear();
    }

    fn keep(&mut self) {
        self.changes.clear();
        for slot in self.retired_slots.drain(..) {
            self.slots[slot as usize].order = None;
            self.free_slots.push(slot);
        }
        self.free_levels.append(&mut self.retired_levels);
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

    fn order(&self, id: &OrderId) -> Option<&RestingOrder> {
        self.slots[self.slot_of(id)? as usize].order.as_ref()
    }

    fn best(&self, pair: PairId, side: Side) -> Option<Maker> {
        let slot = self.best_slot(pair, side)?;
        self.slots[slot as usize].order.as_ref().map(Maker::of)
    }

    fn best_price(&self, pair: PairId, side: Side) -> Option<Price> {
        self.sides(pair)?.side(side).last().map(|(price, _)| *price)
    }

    fn insert(&mut self, order: RestingOrder) -> Result<(), Violation> {
        if self.slot_of(&order.id).is_some() {
            return Err(Violation::BrokenStructure {
                detail: "an order id rests twice",
            });
        }
        let pair = self.place_of(order.pair);
        let level = self.level_for(pair, order.side, order.price);
        let previous = self.predecessor(level, order.priority);
        let next = match previous {
            NONE => self.levels[level as usize].oldest,
            _ => self.slots[previous as usize].next,
        };
        let slot = self.take_slot(Slot {
            order: Some(order),
            previous,
            next,
            level,
            pair,
        });
        self.link(slot);
        self.changes.push(Change::Inserted(slot));
        Ok(())
    }

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

    fn remove_best(&mut self, pair: PairId, side: Side) -> Result<(), Violation> {
        let slot = self.best_slot(pair, side).ok_or_else(Self::missing)?;
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

    fn remove(&mut self, id: &OrderId) -> Option<RestingOrder> {
        let slot = self.slot_of(id)?;
        let order = self.slots[slot as usize].order.clone();
        self.retire(slot);
        order
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
        for (_, level) in sides.side(side).iter().rev() {
            let mut slot = self.levels[*level as usize].oldest;
            while slot != NONE {
                found.extend(self.slots[slot as usize].order.clone());
                slot = self.slots[slot as usize].next;
            }
        }
        found
    }

    fn levels(&self, pair: PairId, side: Side, levels_max: usize) -> Vec<PriceLevel> {
        let Some(sides) = self.sides(pair) else {
            return Vec::new();
        };
        let best_first = sides.side(side).iter().rev().take(levels_max);
        best_first
            .map(|(price, level)| {
                let Level { lots, orders, .. } = self.levels[*level as usize];
                PriceLevel {
                    price: *price,
                    lots,
                    orders: orders as usize,
                }
            })
            .collect()
    }

    fn len(&self) -> usize {
        self.index.len()
    }
}
