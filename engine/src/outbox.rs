//! The outbox as a state machine: inputs in, actions out, no waiting.
//!
//! It drains one partition's event stream in order. Whoever works reads from the head, so first
//! appearances are in order whatever a paused worker does; a consumer drops a sequence at or below
//! its last, and one that sees a gap waits, because what is missing comes again with what follows
//! it. An event is published only after a write of this connection, made after the event was read,
//! is on enough disks: the event is then there too, and cannot be lost by a failover.
//!
//! Nothing is published past a failure, and only what lies before the first failure is deleted.
//! What was open when one failed comes again, so after a failure one event is tried alone before
//! the window opens: an event that nobody takes does not repeat a window of others at every try.
//! The lease only saves work: it is no fence, and nothing here relies on it for order.

mod action;
mod input;
mod note;
mod publish;

pub use action::Action;
pub use input::{Batch, Entry, Input, Settings};
pub use note::Note;

use crate::guards::{AllGuards, Guard, GuardSet};
use crate::limits::{OUTBOX_BACKOFF_MS_MAX, OUTBOX_BACKOFF_MS_MIN, RECONNECT_BACKOFF_MS_MAX};
use crate::partition::Confirmed;
use publish::Work;

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
    Settling,
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

/// The machine.
#[derive(Debug)]
pub struct Outbox<G = AllGuards> {
    guards: G,
    settings: Settings,
    phase: Phase,
    actions: Vec<Action>,
    work: Work,
    read: Option<Batch>,
    /// Entries on their way to the dead letters, each with its reason.
    foreign: Vec<(String, String)>,
    delete: Vec<(String, String)>,
    lease: bool,
    /// Whether the lease is being renewed while confirms are out.
    renewing: bool,
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
        Self::with_guards(settings, AllGuards)
    }
}

impl<G: GuardSet> Outbox<G> {
    /// [`Outbox::new`] with the guards that hold; for the simulator.
    pub fn with_guards(settings: Settings, guards: G) -> Self {
        Self {
            guards,
            settings,
            phase: Phase::New,
            actions: Vec::new(),
            work: Work::default(),
            read: None,
            foreign: Vec::new(),
            delete: Vec::new(),
            lease: false,
            renewing: false,
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
        if self.phase == Phase::New {
            self.go_on();
        }
    }

    /// What is to be done now, in order.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Whether anything is to be done now.
    pub const fn has_actions(&self) -> bool {
        !self.actions.is_empty()
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
            Input::LeaseDue => self.lease_due(),
            Input::Read(batch) => self.read_answered(batch),
            Input::Confirmed(confirmed) => self.confirmed(confirmed),
            Input::Awaited if self.phase == Phase::Idling => self.go_on(),
            Input::Published(place) => self.published(place),
            Input::Refused(place, reason) => self.refused(place, reason),
            Input::DeadLettered if self.phase == Phase::DeadLettering => self.dead_lettered(),
            Input::Settled if self.phase == Phase::Settling => self.back_off(),
            Input::PauseOver if self.phase == Phase::Pausing => self.go_on(),
            Input::Stop => self.stop(),
            Input::Awaited | Input::DeadLettered | Input::Settled | Input::PauseOver => {}
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
            // Another outbox may still reach a broker.
            self.release();
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
        self.store = false;
        self.renewing = false;
        self.delete.clear();
        self.forget_batch();
        self.act(Action::DisconnectStore);
        if self.stopping {
            return self.end();
        }
        self.lease = false;
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
        if self.phase == Phase::Stopped {
            return;
        }
        self.wait_for(format!("the broker: {reason}"));
        match self.phase {
            Phase::Publishing => {
                self.work.unconfirmed = 0;
                self.conclude();
            }
            Phase::ConnectingBroker => self.back_off(),
            _ => {}
        }
    }

    fn lease_answered(&mut self, taken: bool) {
        let renewing = std::mem::take(&mut self.renewing);
        match (self.phase, &mut self.read) {
            (Phase::Reading, Some(batch)) => batch.lease_held &= taken,
            (Phase::TakingLease, _) if self.stopping => {
                self.lease = taken;
                self.end();
            }
            (Phase::TakingLease, _) if taken => {
                self.lease = true;
                self.counters.leases += 1;
                self.problem = None;
                self.act(Action::Note(Note::LeaseTaken));
                self.read();
            }
            (Phase::TakingLease, _) => self.stand_by(),
            // What is out is still waited for and deleted; nothing more goes out.
            (Phase::Publishing, _) if renewing && !taken => self.lose_lease(),
            _ => {}
        }
    }

    /// Every other phase renews it by itself; confirms may take longer than it lasts.
    fn lease_due(&mut self) {
        if self.phase == Phase::Publishing && self.lease && !self.stopping {
            self.renewing = true;
            self.act(Action::RenewLease);
        }
    }

    fn lose_lease(&mut self) {
        self.lease = false;
        let reason = "another outbox holds the lease".to_owned();
        if self.problem.as_ref() != Some(&reason) {
            self.act(Action::Note(Note::LeaseLost));
        }
        self.problem = Some(reason);
    }

    fn stand_by(&mut self) {
        self.lose_lease();
        self.failures = 0;
        self.forget_batch();
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
        if self.settings.durability.is_none() || !self.guards.holds(Guard::OutboxDurable) {
            self.durable();
        }
    }

    fn confirmed(&mut self, confirmed: Confirmed) {
        let Some(batch) = &self.read else { return };
        let needed = self.settings.durability;
        let enough = needed.is_none_or(|needed| needed.is_met_by(confirmed));
        // Without the lease nothing was written, so the wait says nothing and is not repeated.
        if enough || self.stopping || !batch.lease_held {
            return self.durable();
        }
        self.counters.waits_below_policy += 1;
        self.wait_for(format!(
            "too few disks confirmed ({confirmed}); bring the replica back"
        ));
        self.act(Action::AwaitDisks);
    }

    /// What was read may be published, if this worker is the one to do it.
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
        self.lease = true;
        if !self.broker {
            return self.go_on();
        }
        // What was refused is still missing until the broker has taken it.
        if self.failures == 0 || batch.entries.is_empty() {
            self.problem = None;
        }
        if batch.entries.is_empty() {
            self.failures = 0;
            self.phase = Phase::Idling;
            return self.act(Action::AwaitEvents);
        }
        self.begin_batch(batch.entries);
    }

    fn forget_batch(&mut self) {
        self.work = Work::default();
        self.read = None;
        self.foreign.clear();
    }

    fn back_off(&mut self) {
        if self.stopping {
            return self.end();
        }
        // A server that comes back is to be found soon; an event that is refused may stay so.
        let longest = if self.store && self.broker {
            OUTBOX_BACKOFF_MS_MAX
        } else {
            RECONNECT_BACKOFF_MS_MAX
        };
        let doubled = OUTBOX_BACKOFF_MS_MIN.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Pausing;
        self.act(Action::Pause(doubled.min(longest)));
    }

    /// What is under way and would leave something behind is waited for: publications, so that they
    /// need not be repeated, and a lease that may just be taken.
    fn stop(&mut self) {
        self.stopping = true;
        match self.phase {
            Phase::Publishing
            | Phase::Reading
            | Phase::DeadLettering
            | Phase::Settling
            | Phase::TakingLease
            | Phase::Stopped => {}
            _ => self.end(),
        }
    }

    fn release(&mut self) {
        if self.lease {
            self.lease = false;
            self.act(Action::ReleaseLease);
        }
    }

    fn end(&mut self) {
        self.release();
        self.phase = Phase::Stopped;
        self.problem = Some("the process is ending".to_owned());
        self.act(Action::Stopped);
    }
}

/// Between two tries to take a lease that another worker holds, in milliseconds.
const LEASE_RETRY_MS: u64 = 1_000;

#[cfg(test)]
mod tests;
