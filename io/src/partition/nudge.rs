//! A nudge for a core that may have fallen asleep with work in hand.
//!
//! glommio 0.9 parks when anything arrives on its latency ring between its poll and its first task:
//! it takes that for having nothing to run (glommio/glommio#53), and work that is already runnable
//! waits for the next event from outside, which may be none. What wakes it for certain is a wake-up
//! from another thread, so one comes every few milliseconds, from a thread that does nothing else.
//! It shares no lock: the waker is set once, the rest are two counters.
//!
//! The thread runs on the I/O core, whose mask it inherits, and must never do more than this.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

/// How long a stranded core waits at most; a wake-up of a core that is well costs it microseconds.
const EVERY: Duration = Duration::from_millis(5);
/// Nudges that may go unseen before they become rare: a wake-up that waits holds a reference, and
/// a task has room for 32,767 of them.
const UNSEEN_MAX: u64 = 1_000;
/// Between two nudges of a core that does not see them.
const RARELY: Duration = Duration::from_secs(1);

/// What the core and its nudging thread both know.
#[derive(Debug, Default)]
pub(super) struct Nudge {
    /// Of the driver's task, which has one and the same for its whole life.
    waker: OnceLock<Waker>,
    /// Times that the driver looked for something to do.
    seen: AtomicU64,
    ended: AtomicBool,
}

impl Nudge {
    /// The driver looks for something to do.
    pub(super) fn seen(&self, waker: &Waker) {
        self.waker.get_or_init(|| waker.clone());
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// The driver has ended; its executor is about to go.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub(super) fn start(self: &Arc<Self>, name: String) -> io::Result<()> {
        let nudge = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name);
        thread.spawn(move || nudge.run()).map(drop)
    }

    fn run(&self) {
        let (mut last_seen, mut unseen) = (0, 0);
        loop {
            std::thread::sleep(if unseen > UNSEEN_MAX { RARELY } else { EVERY });
            if self.ended.load(Ordering::Acquire) {
                return;
            }
            let seen = self.seen.load(Ordering::Relaxed);
            unseen = if seen == last_seen { unseen + 1 } else { 0 };
            last_seen = seen;
            if let Some(waker) = self.waker.get() {
                waker.wake_by_ref();
            }
        }
    }
}
