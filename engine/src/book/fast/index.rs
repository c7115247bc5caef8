//! Which slot an order id rests in: a hash table that grows with the orders at rest, not with all
//! that ever were, so that it stays in the processor's caches.
//!
//! An entry holds 32 bits of the id's hash beside the slot. Looking an id up touches the order only
//! when they agree, and growing touches none. The table knows no ids; whoever asks compares them.

use crate::ids::OrderId;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Place;
use std::hash::{BuildHasher, Hasher};

pub(super) type Seeded = foldhash::fast::FixedState;

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: u32,
    slot: u32,
}

/// The index.
#[derive(Clone, Debug)]
pub(super) struct IdIndex {
    table: HashTable<Entry>,
    hasher: Seeded,
}

impl IdIndex {
    pub(super) const fn new(hasher: Seeded) -> Self {
        Self {
            table: HashTable::new(),
            hasher,
        }
    }

    /// The hash that the other functions ask for.
    #[inline]
    pub(super) fn hash(&self, id: &OrderId) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(id.as_str().as_bytes());
        let hash = hasher.finish();
        let (high, low) = (hash >> 32, hash & u64::from(u32::MAX));
        u32::try_from(high ^ low).unwrap_or_default()
    }

    /// The slot with this hash for which `is` says yes.
    #[inline]
    pub(super) fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self
            .table
            .find(spread(hash), |entry| entry.hash == hash && is(entry.slot));
        found.map(|entry| entry.slot)
    }

    /// Adds a slot unless one with this hash is there for which `is` says yes; whether it did.
    #[inline]
    pub(super) fn insert(&mut self, hash: u32, slot: u32, is: impl Fn(u32) -> bool) -> bool {
        let same = |entry: &Entry| entry.hash == hash && is(entry.slot);
        let rehash = |entry: &Entry| spread(entry.hash);
        match self.table.entry(spread(hash), same, rehash) {
            Place::Occupied(_) => false,
            Place::Vacant(place) => {
                place.insert(Entry { hash, slot });
                true
            }
        }
    }

    /// Takes out the slot with this hash for which `is` says yes.
    #[inline]
    pub(super) fn remove(&mut self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let same = |entry: &Entry| entry.hash == hash && is(entry.slot);
        let (entry, _) = self.table.find_entry(spread(hash), same).ok()?.remove();
        Some(entry.slot)
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

/// The table takes its place from the low bits and its tag from the high ones.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}
