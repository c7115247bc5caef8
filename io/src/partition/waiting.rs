//! Since when the store has owed an answer: what readiness goes by before any limit is over.
//!
//! Shared by the session, which asks, and the driver, which shows; both are tasks of one core, so
//! this is a cell and no lock. It decides nothing: what follows from a late answer is the session's
//! to find and the machine's to judge.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long the store may be silent before this process can no longer say that it takes the next
/// delivery. Far above a commit's time with its disks, and below every limit on a reply.
const SILENT_AFTER: Duration = Duration::from_millis(1_500);

/// The answer that is waited for.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting(Rc<Cell<Option<Instant>>>);

impl Waiting {
    /// Something was asked, or something came of it and there is more to come.
    pub(super) fn begin(&self) {
        self.0.set(Some(Instant::now()));
    }

    /// Something came of what was asked; the rest is waited for from now on.
    pub(super) fn heard(&self) {
        if self.0.get().is_some() {
            self.begin();
        }
    }

    /// Nothing is waited for.
    pub(super) fn end(&self) {
        self.0.set(None);
    }

    /// Whether an answer is late.
    pub(super) fn is_long(&self) -> bool {
        self.0
            .get()
            .is_some_and(|since| since.elapsed() > SILENT_AFTER)
    }
}
