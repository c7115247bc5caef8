//! The outbox as a state machine: inputs in, actions out, no waiting.
//!
//! It drains one partition's event stream in order. Whoever works reads from the head, so first
//! appearances are in order whatever a paused worker does; a consumer drops a sequence at or below
//! its last, and one that sees a gap waits, because what is missing comes again with what follows
//! it. An event is published only after a write of this connection, made after the event was read,
//! is on enough disks: the event is then there too, and cannot be lost by a failover.
//!
//! Nothing is published past a failure, and only what lies before the first failure is deleted.
//! The lease only saves work: it is no fence, and nothing here relies on it for order.

use crate::limits::{OUTBOX_BACKOFF_MS_MAX, OUTBOX_BACKOFF_MS_MIN};
use crate::partition::{Confirmed, Durability};
use std::fmt;

/// What an outbox is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Disks that must confirm; `None` in memory mode.
    pub durability: Option<Durability>,
    /// Events that are read at once.
    pub batch: usize,
    /// Publications that may wait for their confirm.
    pub window: usize,
}

/// One entry of the stream. Its bytes stay with whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The stream's own id for it.
    pub stream_id: String,
    /// The event's id, or why the entry is no envelope.
    pub event: Result<String, String>,
}

/// What one read brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Entries from the head of the stream.
    pub entries: Vec<Entry>,
    /// Whether the lease was still this worker's, and is renewed.
    pub lease_held: bool,
    /// Entries in the stream.
    pub stream_length: u64,
}

/// What an outbox is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// The store is connected.
    StoreConnected,
    /// The store is not there, or its answer is unknown.
    StoreLost(String),
    /// The broker takes publications.
    BrokerReady,
    /// The broker is gone; unconfirmed publications have failed.
    BrokerLost(String),
    /// Whether the lease was taken.
    Lease(bool),
    /// A read came back; its wait is still under way.
    Read(Batch),
    /// How many disks had confirmed when the wait ended.
    Confirmed(Confirmed),
    /// Entries may be there, or a second is over.
    Awaited,
    /// The broker confirmed the entry at this place of the batch.
    Published(usize),
    /// The broker refused or returned the entry at this place of the batch.
    Refused(usize, String),
    /// Entries that are no events are in the dead letters.
    DeadLettered,
    /// The failed tries are counted.
    AttemptsCounted,
    /// The pause is over.
    PauseOver,
    /// The process is to end.
    Stop,
}

/// What an outbox asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Find the primary and connect to it. Replaces any connection.
    ConnectStore,
    /// Drop the store's connection.
    DisconnectStore,
    /// Open a publishing channel.
    ConnectBroker,
    /// Take the lease, unless another worker has it.
    TakeLease,
    /// Give the lease up.
    ReleaseLease,
    /// Delete what was confirmed with its attempts, read from the head, renew the lease, and wait
    /// for disks: one packet.
    Read {
        /// Entries to delete, with their event ids.
        delete: Vec<(String, String)>,
        /// Entries to read.
        count: usize,
    },
    /// Wait for disks again on the same connection.
    AwaitDisks,
    /// Wait until the stream has an entry, for a second at most.
    AwaitEvents,
    /// Publish the entry at this place of the batch.
    Publish(usize),
    /// Move the entries at these places to the dead letters, each with its reason.
    DeadLetter(Vec<(usize, String)>),
    /// Count one more failed try of these events.
    CountAttempts(Vec<String>),
    /// Report when about this many milliseconds are over; the driver adds jitter.
    Pause(u64),
    /// Tell the operator.
    Note(Note),
    /// The machine has ended.
    Stopped,
}

/// One line for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// This worker drains the stream now.
    LeaseTaken,
    /// Another worker drains the stream.
    LeaseLost,
    /// What is missing.
    Waiting {
        /// Why.
        reason: String,
    },
    /// An event could not be published.
    Refused {
        /// The event.
        event: String,
        /// The broker's words.
        reason: String,
    },
    /// An entry is no event.
    DeadLettered {
        /// The stream's id for it.
        stream_id: String,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::LeaseTaken => write!(out, "lease taken, publishing"),
            Note::LeaseLost => write!(out, "another outbox holds the lease, standing by"),
            Note::Waiting { reason } => write!(out, "waiting: {reason}"),
            Note::Refused { event, reason } => {
                write!(
                    out,
                    "event {event} was not published and will be tried again: {reason}"
                )
            }
            Note::DeadLettered { stream_id, reason } => {
                write!(
                    out,
                    "entry {stream_id} is no event and went to the dead letters: {reason}"
                )
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    ConnectingStore,
    ConnectingBroker,
    TakingLease,
    Reading,
    Idling,
    Publishing,
    DeadLettering,
    Counting,
    Pausing,
    Stopped,
}

/// What an outbox has counted since its process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events that the broker confirmed.
    pub published: u64,
    /// Publications that failed and are tried again.
    pub retried: u64,
    /// Entries that went to the dead letters.
    pub dead_lettered: u64,
    /// Times that the lease was taken.
    pub leases: u64,
    /// Waits that ended with too few disks.
    pub waits_below_policy: u64,
}

/// The batch that is being published.
#[derive(Debug, Default)]
struct Work {
    entries: Vec<Entry>,
    confirmed: Vec<bool>,
    next: usize,
    unconfirmed: usize,
    failed: Option<usize>,
}

/// The machine.
#[derive(Debug)]
pub struct Outbox {
    settings: Settings,
    phase: Phase,
    actions: Vec<Action>,
    work: Work,
    read: Option<Batch>,
    delete: Vec<(String, String)>,
    lease: bool,
    store: bool,
    broker: bool,
    stopping: bool,
    failures: u32,
    problem: Option<String>,
    stream_length: u64,
    counters: Counters,
}

impl Outbox {
    /// An outbox that has done nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            phase: Phase::New,
            actions: Vec::new(),
            work: Work::default(),
            read: None,
            delete: Vec::new(),
            lease: false,
            store: false,
            broker: false,
            stopping: false,
            failures: 0,
            problem: Some("starting".to_owned()),
            stream_length: 0,
            counters: Counters::default(),
        }
    }

    /// Starts connecting.
    pub fn start(&mut self) {
        self.go_on();
    }

    /// What is to be done now, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// What was counted.
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// Whether this worker drains the stream.
    pub const fn holds_lease(&self) -> bool {
        self.lease
    }

    /// Why this worker does not publish; `None` while it does.
    pub fn not_ready(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Publications that wait for their confirm.
    pub const fn unconfirmed(&self) -> usize {
        self.work.unconfirmed
    }

    /// Entries in the stream, when last read.
    pub const fn stream_length(&self) -> u64 {
        self.stream_length
    }

    /// Tells the machine what happened.
    pub fn input(&mut self, input: Input) {
        match input {
            Input::StoreConnected => self.store_connected(),
            Input::StoreLost(reason) => self.store_lost(reason),
            Input::BrokerReady => self.broker_ready(),
            Input::BrokerLost(reason) => self.broker_lost(reason),
            Input::Lease(taken) => self.lease_answered(taken),
            Input::Read(batch) => self.read_answered(batch),
            Input::Confirmed(confirmed) => self.confirmed(confirmed),
            Input::Awaited if self.phase == Phase::Idling => self.read(),
            Input::Published(place) => self.published(place, None),
            Input::Refused(place, reason) => self.published(place, Some(reason)),
            Input::DeadLettered if self.phase == Phase::DeadLettering => self.read(),
            Input::AttemptsCounted if self.phase == Phase::Counting => self.back_off(),
            Input::PauseOver if self.phase == Phase::Pausing => self.go_on(),
            Input::Stop => self.stop(),
            Input::Awaited | Input::DeadLettered | Input::AttemptsCounted | Input::PauseOver => {}
        }
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn wait_for(&mut self, reason: String) {
        if self.problem.as_ref() != Some(&reason) {
            self.act(Action::Note(Note::Waiting {
                reason: reason.clone(),
            }));
        }
        self.problem = Some(reason);
    }

    /// Whatever is missing next: store, broker, lease, then events.
    fn go_on(&mut self) {
        if self.stopping {
            return self.end();
        }
        if !self.store {
            self.phase = Phase::ConnectingStore;
            self.act(Action::ConnectStore);
        } else if !self.broker {
            self.phase = Phase::ConnectingBroker;
            self.act(Action::ConnectBroker);
        } else if !self.lease {
            self.phase = Phase::TakingLease;
            self.act(Action::TakeLease);
        } else {
            self.read();
        }
    }

    fn store_connected(&mut self) {
        if self.phase == Phase::ConnectingStore {
            self.store = true;
            self.go_on();
        }
    }

    fn store_lost(&mut self, reason: String) {
        if self.phase == Phase::Stopped {
            return;
        }
        if self.stopping {
            return self.end();
        }
        self.store = false;
        self.lease = false;
        self.delete.clear();
        self.forget_batch();
        self.act(Action::DisconnectStore);
        self.wait_for(format!("the store: {reason}"));
        self.back_off();
    }

    fn broker_ready(&mut self) {
        self.broker = true;
        if self.phase == Phase::ConnectingBroker {
            self.go_on();
        }
    }

    /// Unconfirmed publications have failed; what was confirmed before them is still deleted.
    fn broker_lost(&mut self, reason: String) {
        self.broker = false;
        match self.phase {
            Phase::Publishing => {
                let first = self.work.confirmed.iter().position(|confirmed| !confirmed);
                self.work.failed = first.filter(|place| *place < self.work.next);
                self.work.unconfirmed = 0;
                self.wait_for(format!("the broker: {reason}"));
                self.conclude(reason);
            }
            Phase::ConnectingBroker => {
                self.wait_for(format!("the broker: {reason}"));
                self.back_off();
            }
            _ => {}
        }
    }

    fn lease_answered(&mut self, taken: bool) {
        if self.phase != Phase::TakingLease {
            return;
        }
        if taken {
            self.lease = true;
            self.counters.leases += 1;
            self.problem = None;
            self.act(Action::Note(Note::LeaseTaken));
            self.read();
        } else {
            self.stand_by();
        }
    }

    fn stand_by(&mut self) {
        self.lease = false;
        let reason = "another outbox holds the lease".to_owned();
        if self.problem.as_ref() != Some(&reason) {
            self.act(Action::Note(Note::LeaseLost));
        }
        self.problem = Some(reason);
        self.phase = Phase::Pausing;
        self.act(Action::Pause(LEASE_RETRY_MS));
    }

    fn read(&mut self) {
        if self.stopping && self.delete.is_empty() {
            return self.end();
        }
        self.forget_batch();
        self.phase = Phase::Reading;
        let count = if self.stopping {
            0
        } else {
            self.settings.batch
        };
        let delete = std::mem::take(&mut self.delete);
        self.act(Action::Read { delete, count });
    }

    fn read_answered(&mut self, batch: Batch) {
        if self.phase != Phase::Reading {
            return;
        }
        self.stream_length = batch.stream_length;
        self.read = Some(batch);
        if self.settings.durability.is_none() {
            self.durable();
        }
    }

    fn confirmed(&mut self, confirmed: Confirmed) {
        if self.phase != Phase::Reading || self.read.is_none() {
            return;
        }
        let enough = self.settings.durability.is_none_or(|needed| {
            confirmed.primary_disk
                && confirmed.replica_disks >= needed.replicas
                && confirmed.replicas_in_memory >= needed.replicas
        });
        if enough {
            return self.durable();
        }
        self.counters.waits_below_policy += 1;
        self.wait_for(format!(
            "too few disks confirmed ({confirmed}); bring the replica back"
        ));
        self.act(Action::AwaitDisks);
    }

    fn durable(&mut self) {
        let Some(batch) = self.read.take() else {
            return;
        };
        if self.stopping {
            return self.end();
        }
        if !batch.lease_held {
            return self.stand_by();
        }
        if batch.entries.is_empty() {
            self.problem = None;
            self.failures = 0;
            self.phase = Phase::Idling;
            return self.act(Action::AwaitEvents);
        }
        self.begin_batch(batch.entries);
    }

    /// Entries that are no events leave first; the rest is read again and published.
    fn begin_batch(&mut self, entries: Vec<Entry>) {
        let mut foreign = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            if let Err(reason) = &entry.event {
                foreign.push((place, reason.clone()));
                let (stream_id, reason) = (entry.stream_id.clone(), reason.clone());
                self.act(Action::Note(Note::DeadLettered { stream_id, reason }));
            }
        }
        if !foreign.is_empty() {
            self.counters.dead_lettered += foreign.len() as u64;
            self.phase = Phase::DeadLettering;
            return self.act(Action::DeadLetter(foreign));
        }
        let confirmed = vec![false; entries.len()];
        self.work = Work {
            entries,
            confirmed,
            ..Work::default()
        };
        self.phase = Phase::Publishing;
        if self.broker {
            self.publish();
        } else {
            self.conclude("the broker is not connected".to_owned());
        }
    }

    fn publish(&mut self) {
        while self.work.failed.is_none()
            && self.work.next < self.work.entries.len()
            && self.work.unconfirmed < self.settings.window
            && !self.stopping
        {
            let place = self.work.next;
            self.work.next += 1;
            self.work.unconfirmed += 1;
            self.act(Action::Publish(place));
        }
    }

    fn published(&mut self, place: usize, refusal: Option<String>) {
        if self.phase != Phase::Publishing || place >= self.work.next {
            return;
        }
        self.work.unconfirmed = self.work.unconfirmed.saturating_sub(1);
        match &refusal {
            None => {
                self.work.confirmed[place] = true;
                self.counters.published += 1;
            }
            Some(reason) => {
                let earlier = self.work.failed.is_some_and(|failed| failed <= place);
                if !earlier {
                    self.work.failed = Some(place);
                }
                let (event, reason) = (self.event_at(place), reason.clone());
                self.act(Action::Note(Note::Refused { event, reason }));
            }
        }
        self.publish();
        if self.work.unconfirmed == 0 {
            self.conclude(refusal.unwrap_or_default());
        }
    }

    fn event_at(&self, place: usize) -> String {
        let event = self
            .work
            .entries
            .get(place)
            .and_then(|entry| entry.event.as_ref().ok());
        event.cloned().unwrap_or_default()
    }

    /// Every publication is answered: delete what lies before the first failure, and go on or try
    /// again.
    fn conclude(&mut self, reason: String) {
        let good = self
            .work
            .confirmed
            .iter()
            .take_while(|confirmed| **confirmed)
            .count();
        let delete = self.work.entries.drain(..good).map(|entry| {
            let event = entry.event.unwrap_or_default();
            (entry.stream_id, event)
        });
        self.delete.extend(delete);
        let tried = self.work.next.saturating_sub(good);
        let failed: Vec<String> = self
            .work
            .entries
            .iter()
            .take(tried.min(1))
            .filter_map(|entry| entry.event.as_ref().ok().cloned())
            .collect();
        let whole = self.work.entries.is_empty();
        self.forget_batch();
        if whole || (self.broker && failed.is_empty()) {
            self.failures = 0;
            self.problem = None;
            return self.read();
        }
        self.counters.retried += tried as u64;
        if self.problem.is_none() {
            self.problem = Some(format!("the broker did not take an event: {reason}"));
        }
        if failed.is_empty() {
            self.back_off();
        } else {
            self.phase = Phase::Counting;
            self.act(Action::CountAttempts(failed));
        }
    }

    fn forget_batch(&mut self) {
        self.work = Work::default();
        self.read = None;
    }

    fn back_off(&mut self) {
        if self.stopping {
            return self.end();
        }
        let doubled = OUTBOX_BACKOFF_MS_MIN.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Pausing;
        self.act(Action::Pause(doubled.min(OUTBOX_BACKOFF_MS_MAX)));
    }

    /// Publications that are out are waited for, so that they need not be repeated.
    fn stop(&mut self) {
        self.stopping = true;
        match self.phase {
            Phase::Publishing | Phase::Reading | Phase::DeadLettering | Phase::Counting => {}
            Phase::Stopped => {}
            _ => self.end(),
        }
    }

    fn end(&mut self) {
        if self.lease && self.store {
            self.act(Action::ReleaseLease);
        }
        self.lease = false;
        self.phase = Phase::Stopped;
        self.problem = Some("the process is ending".to_owned());
        self.act(Action::Stopped);
    }
}

/// Between two tries to take a lease that another worker holds, in milliseconds.
const LEASE_RETRY_MS: u64 = 1_000;
