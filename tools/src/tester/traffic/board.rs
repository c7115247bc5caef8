//! What the two threads of traffic say of themselves, for whoever asks.

use super::timeline::Timeline;
use super::{Progress, TrafficError};
use crate::client::Latencies;
use conductor_engine::PartitionId;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// What the threads are to do. It only ever goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Offer commands.
    Offer,
    /// Offer no more, and see those through that are under way.
    Drain,
    /// Write down what there is, and end.
    End,
}

/// Shared by both threads and the caller.
#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
    changed: Condvar,
    phase: watch::Sender<Phase>,
}

/// Everything that is said.
#[derive(Debug)]
pub(super) struct State {
    pub(super) progress: Progress,
    pub(super) timeline: Timeline,
    pub(super) latencies: Latencies,
    /// The sequence of each partition's last event, behind everything that was published.
    pub(super) sequences_due: BTreeMap<PartitionId, u64>,
    /// The sequence of the last event in the inbox.
    pub(super) sequences_taken: BTreeMap<PartitionId, u64>,
    /// The last command of each partition that changes its cursor.
    pub(super) last_commands: BTreeMap<PartitionId, String>,
    /// Every command that was asked for is published.
    pub(super) offered: bool,
    /// Everything that was published is confirmed.
    pub(super) confirmed: bool,
    /// What is published and not done, in words.
    pub(super) under_way: Option<String>,
    /// Why a connection was lost or not made last.
    pub(super) trouble: Option<String>,
    pub(super) began: Instant,
}

impl State {
    /// How it stands, in words.
    pub(super) fn stands(&self) -> String {
        let progress = &self.progress;
        let stands = self.under_way.as_deref().unwrap_or("nothing is under way");
        format!(
            "{} messages published, {} confirmed, {} answered; {stands}",
            progress.published, progress.confirmed, progress.answered
        )
    }
}

impl Board {
    pub(super) fn new() -> Self {
        let began = Instant::now();
        let state = State {
            progress: Progress::default(),
            timeline: Timeline::new(began),
            latencies: Latencies::default(),
            sequences_due: BTreeMap::new(),
            sequences_taken: BTreeMap::new(),
            last_commands: BTreeMap::new(),
            offered: false,
            confirmed: true,
            under_way: None,
            trouble: None,
            began,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            phase: watch::Sender::new(Phase::Offer),
        }
    }

    /// Looks, or writes.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.lock())
    }

    /// Writes something that somebody may wait for.
    pub(super) fn tell<T>(&self, write: impl FnOnce(&mut State) -> T) -> T {
        let written = write(&mut self.lock());
        self.changed.notify_all();
        written
    }

    /// What must not be was seen: everything ends. The first one counts.
    pub(super) fn violate(&self, what: String) {
        self.tell(|state| {
            state.progress.violation.get_or_insert(what);
        });
        self.advance(Phase::End);
    }

    /// Goes on to a later phase.
    pub(super) fn advance(&self, to: Phase) {
        self.phase.send_if_modified(|phase| {
            let later = *phase < to;
            *phase = (*phase).max(to);
            later
        });
    }

    /// To hear of phases.
    pub(super) fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// [`TrafficError`] when it is not so in time, or a violation came first.
    pub(super) fn wait<T>(
        &self,
        what: &'static str,
        within: Duration,
        mut so: impl FnMut(&State) -> Result<T, String>,
    ) -> Result<T, TrafficError> {
        let give_up = Instant::now() + within;
        let mut state = self.lock();
        loop {
            if let Some(violation) = &state.progress.violation {
                return Err(TrafficError::Violation(violation.clone()));
            }
            let last = match so(&state) {
                Ok(found) => return Ok(found),
                Err(last) => last,
            };
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let trouble = state.trouble.as_ref();
                let trouble = trouble.map(|trouble| format!("; last trouble: {trouble}"));
                return Err(TrafficError::TimedOut {
                    what,
                    within,
                    last: last + &trouble.unwrap_or_default(),
                });
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A thread that panicked has left whole values behind: each write is one assignment or count.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
