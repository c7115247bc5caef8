//! The one clock and the one queue of everything that is still to happen.
//!
//! Two things at the same time happen in the order in which they were planned, so that a run is a
//! function of its plan and its seed.

use super::world::Event;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Virtual time, in microseconds.
pub(super) type Time = u64;

/// One millisecond.
pub(super) const MILLISECOND: Time = 1_000;
/// One second.
pub(super) const SECOND: Time = 1_000_000;

/// Something that is to happen.
#[derive(Debug)]
struct Due {
    time: Time,
    serial: u64,
    event: Event,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Due {}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Due {
    /// The earliest is the greatest, because a heap gives its greatest first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.time, other.serial).cmp(&(self.time, self.serial))
    }
}

/// The clock.
#[derive(Debug, Default)]
pub(super) struct Clock {
    now: Time,
    serial: u64,
    due: BinaryHeap<Due>,
}

impl Clock {
    /// What time it is.
    pub(super) const fn now(&self) -> Time {
        self.now
    }

    /// Plans something for a time that is not over.
    pub(super) fn at(&mut self, time: Time, event: Event) {
        self.serial += 1;
        self.due.push(Due {
            time: time.max(self.now),
            serial: self.serial,
            event,
        });
    }

    /// The next thing, at its time.
    pub(super) fn next(&mut self) -> Option<Event> {
        let due = self.due.pop()?;
        self.now = due.time;
        Some(due.event)
    }
}
