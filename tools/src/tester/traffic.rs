//! Traffic: a seeded workload into a cell, and everything that comes of it into a record.
//!
//! Two threads do it, so that whoever causes faults only has to ask how it goes: `offer` publishes
//! and hears the answers, `keep` reads the events and writes the record. Neither ends for a fault of
//! the cell or of the broker, however long it lasts; both end for a violation, which is anything that
//! no fault explains: an answer that is not the oracle's, a gap in the events, a store that went back.
//! The oracle decides each message as it is published; `offer` has the argument why it may.
//!
//! Memory is level: what is under way is bounded by the window, and what is done is in the record.

mod backoff;
mod board;
mod keep;
mod offer;
mod pace;
mod settle;
mod timeline;
mod window;

use super::inbox::Inbox;
use super::oracle::{Oracle, Shape};
use super::record::{About, Record, RecordError};
use super::script::{Script, ScriptOptions};
use super::start::{Start, StartError};
use crate::client::{Latencies, Store, StoreError, block_on};
use crate::workload::WorkloadError;
use board::{Board, Phase};
use conductor_config::Settings;
use conductor_engine::{PairId, PartitionId};
use conductor_io::amqp::{self, AmqpError};
use conductor_io::keys::command_queue;
use keep::Keep;
use lapin::options::QueueDeleteOptions;
use lapin::types::ShortString;
use offer::Offer;
use pace::Pace;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use window::Window;

/// Messages that are done and not yet written.
const DONE_QUEUED: usize = 8_192;
/// Every type of event.
const EVERY_EVENT: [&str; 1] = ["#"];

/// What traffic is to be.
#[derive(Clone, Debug)]
pub struct TrafficOptions {
    /// Decides everything about the commands that is left to chance.
    pub seed: u64,
    /// Commands a second; `None` is as fast as the window allows.
    pub rate: Option<f64>,
    /// Commands that may be under way: unconfirmed, or not answered yet.
    pub window: usize,
    /// The pairs, each as likely as any other; every partition should have one. In a cell that has
    /// held pairs before, as many above those are taken instead.
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
    /// Its options.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// Its record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The broker, before anything was sent.
    #[error(transparent)]
    Broker(#[from] AmqpError),
    /// A store, before anything was sent.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The settings leave partitions out.
    #[error(
        "the settings name {named} of {count} partitions; name all of them in {key}, because traffic \
         goes to all",
        key = conductor_config::keys::PARTITIONS
    )]
    Partitions {
        /// How many they name.
        named: usize,
        /// How many there are.
        count: u32,
    },
    /// The cell is at work.
    #[error(
        "the cell has {commands} commands and {events} events under way in partition {partition}: traffic \
         must be the only producer from its beginning on; end the others and wait until it is idle"
    )]
    NotIdle {
        /// The partition.
        partition: PartitionId,
        /// Commands in its queue.
        commands: u32,
        /// Events in its stream.
        events: u64,
    },
    /// What no fault explains was seen.
    #[error("{0}")]
    Violation(String),
    /// Something of the system.
    #[error("{0}")]
    Failed(String),
    /// A condition did not come true in time.
    #[error("{what}: not within {} s: {last}", within.as_secs())]
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
    /// What could not be cleared away at the broker.
    pub left_behind: Option<String>,
    /// The record, for the audit.
    pub record: PathBuf,
}

/// Traffic under way. Dropping it ends it at once; the record then says how far it came.
#[derive(Debug)]
pub struct Traffic {
    settings: Settings,
    queue: String,
    record: PathBuf,
    board: Arc<Board>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Traffic {
    /// Declares the inbox's queue, begins the record and starts to offer commands.
    ///
    /// The settings must name every partition of the cell, which must be idle. In a cell that has
    /// worked before, pairs that it never held are used, above those of the options.
    ///
    /// # Errors
    /// [`TrafficError`] with what to change.
    pub fn start(settings: &Settings, options: TrafficOptions) -> Result<Self, TrafficError> {
        let named = settings.partitions.len();
        let count = settings.partition_count;
        if u32::try_from(named) != Ok(count) {
            return Err(TrafficError::Partitions { named, count });
        }
        let preparing = async { Ok(prepare(settings, &options.event_queue).await) };
        let start = block_on(preparing).unwrap_or_else(|error| Err(system(&error)))?;
        let prefix = if start.is_new() {
            String::new()
        } else {
            own_prefix()
        };
        let script = ScriptOptions {
            seed: options.seed,
            pairs: free_pairs(settings, &start, &options.pairs),
            prefix: prefix.clone(),
            poison_permille: options.poison_permille,
            repeat_permille: options.repeat_permille,
        };
        let script = Script::new(script, Oracle::new(&Shape::of(settings), &start), count)?;
        let about = About {
            seed: options.seed,
            partition_count: count,
            event_queue: options.event_queue.clone(),
            prefix,
            start,
        };
        let record = Record::create(&options.record, &about)?;
        let inbox = Inbox::of(&record, &about)?;
        let board = Arc::new(Board::new());
        let (done, finished) = mpsc::channel(DONE_QUEUED);
        let keep = Keep {
            broker: settings.broker.clone(),
            queue: options.event_queue,
            record,
            inbox,
            board: Arc::clone(&board),
            phases: board.phases(),
            done: finished,
        };
        let offer = Offer {
            broker: settings.broker.clone(),
            script,
            pace: Pace::new(Instant::now(), options.rate),
            window: Window::new(),
            window_max: options.window.max(1),
            left: options.commands,
            board: Arc::clone(&board),
            phases: board.phases(),
            done,
        };
        let mut traffic = Self {
            settings: settings.clone(),
            queue: about.event_queue,
            record: options.record,
            board,
            threads: Vec::new(),
        };
        traffic.spawn("tester-inbox", move || {
            block_on(async {
                keep.run().await;
                Ok(())
            })
        })?;
        traffic.spawn("tester-producer", move || {
            block_on(async {
                offer.run().await;
                Ok(())
            })
        })?;
        Ok(traffic)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce() -> anyhow::Result<()> + Send + 'static,
    ) -> Result<(), TrafficError> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let spawned = thread.spawn(run);
        self.threads
            .push(spawned.map_err(|error| system(&error.into()))?);
        Ok(())
    }

    /// How it goes.
    pub fn progress(&self) -> Progress {
        self.board.look(|state| {
            let mut progress = state.progress.clone();
            progress.last_answer = state.timeline.last();
            progress
        })
    }

    /// The longest time without an answer since this moment, until now.
    pub fn longest_silence(&self, since: Instant) -> Duration {
        let now = Instant::now();
        self.board
            .look(|state| state.timeline.longest_silence(since, now))
    }

    /// Waits until so many commands that were first published after this moment are answered, and
    /// gives the time from the moment to the last of these answers.
    ///
    /// # Errors
    /// [`TrafficError::TimedOut`], or a violation.
    pub fn wait_acknowledged(
        &self,
        after: Instant,
        count: u64,
        within: Duration,
    ) -> Result<Duration, TrafficError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.board.wait("new commands answered", within, |state| {
            let found = state.timeline.acknowledged(after, count);
            found.ok_or_else(|| state.stands())
        })
    }

    /// Waits until every command of [`TrafficOptions::commands`] has been published.
    ///
    /// # Errors
    /// [`TrafficError::TimedOut`], or a violation.
    pub fn wait_offered(&self, within: Duration) -> Result<(), TrafficError> {
        self.board.wait("every command published", within, |state| {
            state.offered.then_some(()).ok_or_else(|| state.stands())
        })
    }

    /// Stops offering, and waits until every command is confirmed and decided and every event has
    /// arrived.
    ///
    /// # Errors
    /// [`TrafficError::TimedOut`] says what is missing; a violation. The record is whole either way.
    pub fn finish(mut self, within: Duration) -> Result<Finished, TrafficError> {
        self.board.advance(Phase::Drain);
        let settled = settle::settle(&self.settings, &self.board, within);
        self.end()?;
        settled?;
        // Every event has come, so nothing is lost with it.
        let forgetting = async { Ok(forget(&self.settings, &self.queue).await?) };
        let left = block_on(forgetting).err().map(|error| {
            let queue = &self.queue;
            format!("the queue {queue} is still there and gathers events; delete it: {error:#}")
        });
        let progress = self.progress();
        if let Some(violation) = progress.violation {
            return Err(TrafficError::Violation(violation));
        }
        let (seconds, due_to_reply_ms) = self.board.look(|state| {
            let last = state.timeline.last().unwrap_or(state.began);
            let seconds = last.saturating_duration_since(state.began).as_secs_f64();
            (seconds, state.latencies.clone())
        });
        Ok(Finished {
            commands_per_second: progress.answered as f64 / seconds.max(f64::EPSILON),
            progress,
            seconds,
            due_to_reply_ms,
            left_behind: left,
            record: self.record.clone(),
        })
    }

    /// Ends both threads, the record written.
    fn end(&mut self) -> Result<(), TrafficError> {
        self.board.advance(Phase::End);
        let mut ended = Ok(());
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            let outcome = match thread.join() {
                Ok(outcome) => outcome.map_err(|error| system(&error)),
                Err(_) => Err(TrafficError::Failed(format!(
                    "the thread {name} panicked; its words are on stderr"
                ))),
            };
            ended = ended.and(outcome);
        }
        ended
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        // Nobody is left to hear of it.
        let _ = self.end();
    }
}

fn system(error: &anyhow::Error) -> TrafficError {
    TrafficError::Failed(format!("{error:#}"))
}

/// What ids of this run begin with in a cell that has others.
fn own_prefix() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    format!("t{:x}-", now.unwrap_or_default().as_millis())
}

/// The same pairs, above all that the cell has held and all that are configured; each stays in its
/// partition.
fn free_pairs(settings: &Settings, start: &Start, pairs: &[PairId]) -> Vec<PairId> {
    let configured = settings
        .pairs
        .keys()
        .next_back()
        .map_or(0, |pair| pair.0 + 1);
    let above = start.pairs_end().max(configured);
    let above = above.next_multiple_of(settings.partition_count);
    pairs.iter().map(|pair| PairId(pair.0 + above)).collect()
}

/// Makes sure that the cell is idle, declares the inbox's queue, and reads where the cell stands.
async fn prepare(settings: &Settings, queue: &str) -> Result<Start, TrafficError> {
    let connection = amqp::connect(&settings.broker, "conductor-tester").await?;
    let preparing = async {
        let channel = amqp::open_channel(&connection).await?;
        for own in &settings.partitions {
            let waiting = amqp::queue_counts(&channel, &command_queue(own.id)).await?;
            let guards = Store::open(settings, own.id).await?.guards().await?;
            if waiting.messages > 0 || guards.event_stream > 0 {
                return Err(TrafficError::NotIdle {
                    partition: own.id,
                    commands: waiting.messages,
                    events: guards.event_stream,
                });
            }
        }
        amqp::declare_events(&channel).await?;
        amqp::declare_event_queue(&channel, queue, &EVERY_EVENT).await?;
        Start::read(settings, &connection)
            .await
            .map_err(|error| match error {
                StartError::Store(error) => TrafficError::Store(error),
                StartError::Broker(error) => TrafficError::Broker(error),
            })
    };
    let start = preparing.await;
    amqp::close_connection(&connection).await;
    start
}

/// Deletes the inbox's queue, which would otherwise gather events for ever.
async fn forget(settings: &Settings, queue: &str) -> Result<(), AmqpError> {
    let connection = amqp::connect(&settings.broker, "conductor-tester").await?;
    let deleting = async {
        let channel = amqp::open_channel(&connection).await?;
        let name = ShortString::from(queue);
        let deleting = channel.queue_delete(name, QueueDeleteOptions::default());
        amqp::within(&format!("queue {queue}"), deleting).await
    };
    let deleted = deleting.await;
    amqp::close_connection(&connection).await;
    deleted.map(drop)
}
