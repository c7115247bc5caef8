//! Orders and price levels in slabs whose free places are reused last-in first-out, so that what is
//! in use stays together, and the links between them, which are 32-bit numbers.
//!
//! A slot that is free keeps the order that it held last until the next one moves in. A slot that
//! was unlinked keeps its links until then too: see the book's page for why.

use crate::book::RestingOrder;
use crate::units::Price;

/// No slot.
pub(super) const NONE: u32 = u32::MAX;
/// Slots that are made at once at least.
const SLOTS_MIN: usize = 64;

/// An order in its place: two cache lines.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) order: RestingOrder,
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) level: u32,
    pub(super) hash: u32,
}

const _: () = assert!(size_of::<Slot>() == 128);

/// One price of one side of one pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) price: Price,
    pub(super) oldest: u32,
    pub(super) newest: u32,
    pub(super) orders: u32,
    /// The pair's place among the book's pairs.
    pub(super) pair: u32,
    pub(super) lots: u128,
}

/// The orders and their levels.
#[derive(Clone, Debug, Default)]
pub(super) struct Slab {
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    levels: Vec<Level>,
    free_levels: Vec<u32>,
}

impl Slab {
    #[inline]
    pub(super) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    #[inline]
    pub(super) fn order(&self, slot: u32) -> &RestingOrder {
        &self.slots[slot as usize].order
    }

    #[inline]
    pub(super) fn level(&self, level: u32) -> &Level {
        &self.levels[level as usize]
    }

    /// The slot that [`Slab::put`] will use next.
    #[inline]
    pub(super) fn next_free(&self) -> u32 {
        match self.free_slots.last() {
            Some(free) => *free,
            None => number(self.slots.len()),
        }
    }

    /// Moves an order into the slot that [`Slab::next_free`] named.
    #[inline]
    pub(super) fn put(&mut self, slot: Slot) {
        match self.free_slots.pop() {
            Some(free) => self.slots[free as usize] = slot,
            None => {
                self.make_room();
                self.slots.push(slot);
            }
        }
    }

    /// Slots are large, so they grow by an eighth and not by doubling: a book is never paid for
    /// twice, and once it has the market's size it does not grow at all.
    fn make_room(&mut self) {
        let length = self.slots.len();
        if length == self.slots.capacity() {
            self.slots.reserve_exact(length / 8 + SLOTS_MIN);
        }
    }

    /// Gives slots back, the last one to be used next.
    #[inline]
    pub(super) fn free(&mut self, slot: u32) {
        self.free_slots.push(slot);
    }

    /// An empty level.
    pub(super) fn take_level(&mut self, price: Price, pair: u32) -> u32 {
        let fresh = Level {
            price,
            oldest: NONE,
            newest: NONE,
            orders: 0,
            pair,
            lots: 0,
        };
        match self.free_levels.pop() {
            Some(level) => {
                self.levels[level as usize] = fresh;
                level
            }
            None => {
                self.levels.push(fresh);
                number(self.levels.len() - 1)
            }
        }
    }

    #[inline]
    pub(super) fn free_level(&mut self, level: u32) {
        self.free_levels.push(level);
    }

    /// The newest order of a level that is older than `priority`; nearly always its newest.
    #[inline]
    pub(super) fn predecessor(&self, level: u32, priority: u64) -> u32 {
        let mut slot = self.level(level).newest;
        while slot != NONE && self.order(slot).priority > priority {
            slot = self.slot(slot).previous;
        }
        slot
    }

    /// Links a slot between the neighbours that it names itself.
    #[inline]
    pub(super) fn link(&mut self, slot: u32) {
        let Slot {
            previous,
            next,
            level,
            ref order,
            ..
        } = self.slots[slot as usize];
        let level = &mut self.levels[level as usize];
        level.orders += 1;
        level.lots += u128::from(order.remaining.lots());
        match previous {
            NONE => level.oldest = slot,
            _ => self.slots[previous as usize].next = slot,
        }
        match next {
            NONE => level.newest = slot,
            _ => self.slots[next as usize].previous = slot,
        }
    }

    /// Takes a slot out of its level and leaves its own links as they are. Whether the level is
    /// empty now.
    #[inline]
    pub(super) fn unlink(&mut self, slot: u32) -> bool {
        let Slot {
            previous,
            next,
            level,
            ref order,
            ..
        } = self.slots[slot as usize];
        let level = &mut self.levels[level as usize];
        level.orders -= 1;
        level.lots -= u128::from(order.remaining.lots());
        match previous {
            NONE => level.oldest = next,
            _ => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => level.newest = previous,
            _ => self.slots[next as usize].previous = previous,
        }
        level.orders == 0
    }

    /// Changes an order in its place, and its level's total with it.
    #[inline]
    pub(super) fn alter(&mut self, slot: u32, change: impl FnOnce(&mut RestingOrder)) {
        let slot = &mut self.slots[slot as usize];
        let before = slot.order.remaining.lots();
        change(&mut slot.order);
        let after = slot.order.remaining.lots();
        let level = &mut self.levels[slot.level as usize];
        level.lots = level.lots - u128::from(before) + u128::from(after);
    }
}

/// Slots, levels and pairs are counted in 32 bits.
pub(super) fn number(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 orders, levels and pairs fit one partition")
}
