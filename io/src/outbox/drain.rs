//! One partition's task: performs what its machine asks for and tells it what came of it.
//!
//! At most one packet is under way to the store, and what is asked for next waits behind it. The
//! broker's answers, pauses and the end of the process are listened to all the while. Nothing here
//! decides: a failure of any kind is told to the machine, which knows what is still safe.

use super::entry::{Sequences, StreamEntry};
use super::line::{Line, OpenLine};
use super::packet::{self, Done, Packet};
use super::plan::{Plan, StoreError, StoreLink};
use super::report::{Report, locked};
use super::store::{Hold, Read};
use crate::amqp::{AmqpError, PublishError};
use conductor_engine::limits::OUTBOX_BACKOFF_MS_MAX;
use conductor_engine::outbox::{Action, Batch, Input, Note, Outbox, Settings};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, Sleep};
use tracing::{error, info, warn};

/// How long what is under way may take once the process is to end; then it counts as lost.
const PATIENCE: Duration = Duration::from_millis(2_500);

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Answered = (usize, Result<(), PublishError>);

/// One partition's task.
pub(super) struct Drain {
    plan: Arc<Plan>,
    line: Arc<Line>,
    machine: Outbox,
    report: Arc<Mutex<Report>>,
    link: Option<StoreLink>,
    packet: Option<Boxed<Packet>>,
    queue: VecDeque<Action>,
    batch: Vec<StreamEntry>,
    sequences: Sequences,
    connecting: Option<Boxed<Result<OpenLine, AmqpError>>>,
    open: Option<OpenLine>,
    flights: FuturesUnordered<Boxed<Answered>>,
    pause: Option<Pin<Box<Sleep>>>,
    patience: Option<Pin<Box<Sleep>>>,
    /// Whether the store was seen to be the right one; what it says later is no boot's fault.
    seen: bool,
    stopped: bool,
    refusal: Option<String>,
    /// How often the clock is looked at: for the lease, and for who is silent.
    clock: Interval,
    renewed: Instant,
    /// Whether the log has said that somebody is silent.
    silent: bool,
}

/// How often the clock is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

enum Happened {
    Clock,
    Packet(Packet),
    Answers(Vec<Answered>),
    Line(Result<OpenLine, AmqpError>),
    LineLost(String),
    PauseOver,
    Stop,
    OutOfPatience,
}

impl Drain {
    /// A task that has not begun.
    pub(super) fn new(
        plan: Arc<Plan>,
        machine: Settings,
        line: Arc<Line>,
        report: Arc<Mutex<Report>>,
    ) -> Self {
        Self {
            plan,
            line,
            machine: Outbox::new(machine),
            report,
            link: None,
            packet: None,
            queue: VecDeque::new(),
            batch: Vec::new(),
            sequences: Sequences::default(),
            connecting: None,
            open: None,
            flights: FuturesUnordered::new(),
            pause: None,
            patience: None,
            seen: false,
            stopped: false,
            refusal: None,
            clock: looks(),
            renewed: Instant::now(),
            silent: false,
        }
    }

    /// Drains the partition until the process is to end.
    ///
    /// # Errors
    /// One line when the store is not the right one at the first look.
    pub(super) async fn run(mut self, mut stopping: watch::Receiver<bool>) -> Result<(), String> {
        self.machine.start();
        loop {
            self.act();
            locked(&self.report).follow(&self.machine);
            if let Some(line) = self.refusal.take() {
                return Err(line);
            }
            if self.stopped && self.packet.is_none() {
                break;
            }
            let happened = self.next(&mut stopping).await;
            self.told(happened);
        }
        if let Some(open) = self.open.take() {
            open.publisher.close().await;
        }
        info!("the partition's outbox has ended");
        Ok(())
    }

    /// Performs all that is asked for, and what that leads to.
    fn act(&mut self) {
        loop {
            for action in self.machine.take_actions() {
                self.perform(action);
            }
            self.send_next();
            if !self.machine.has_actions() {
                return;
            }
        }
    }

    /// Waits for whatever comes next. Answers of the broker come before the news of its end.
    async fn next(&mut self, stopping: &mut watch::Receiver<bool>) -> Happened {
        let told = self.patience.is_some();
        let busy = !self.flights.is_empty();
        let lost = self.open.as_mut().map(|open| &mut open.lost);
        let mut answers = (&mut self.flights).ready_chunks(ANSWERS_AT_ONCE);
        tokio::select! {
            biased;
            Some(answers) = answers.next(), if busy => Happened::Answers(answers),
            packet = ready(&mut self.packet) => Happened::Packet(packet),
            line = ready(&mut self.connecting) => Happened::Line(line),
            () = ready(&mut self.pause) => Happened::PauseOver,
            _ = stopping.wait_for(|stop| *stop), if !told => Happened::Stop,
            () = ready(&mut self.patience) => Happened::OutOfPatience,
            reason = line_lost(lost) => Happened::LineLost(reason),
            _ = self.clock.tick() => Happened::Clock,
        }
    }

    fn told(&mut self, happened: Happened) {
        match happened {
            Happened::Clock => self.look_at_the_clock(),
            Happened::Packet(packet) => {
                self.packet = None;
                locked(&self.report).asked_since = None;
                self.packet_answered(packet);
            }
            Happened::Answers(answers) => self.answered(answers),
            Happened::Line(opened) => {
                self.connecting = None;
                match opened {
                    Ok(open) => {
                        self.open = Some(open);
                        self.machine.input(Input::BrokerReady);
                    }
                    Err(error) => self.machine.input(Input::BrokerLost(error.to_string())),
                }
            }
            Happened::LineLost(reason) => self.line_lost(reason),
            Happened::PauseOver => {
                self.pause = None;
                self.machine.input(Input::PauseOver);
            }
            Happened::Stop => {
                self.patience = Some(Box::pin(tokio::time::sleep(PATIENCE)));
                self.machine.input(Input::Stop);
            }
            Happened::OutOfPatience => self.lose_patience(),
        }
    }

    /// A lease that lasts three looks is renewed in time, and silence is said once.
    fn look_at_the_clock(&mut self) {
        if self.renewed.elapsed() > self.plan.lease / 3 && self.packet.is_none() {
            self.renewed = Instant::now();
            self.machine.input(Input::LeaseDue);
        }
        let silence = {
            let report = locked(&self.report);
            report.silence().filter(|_| report.not_ready.is_none())
        };
        match (silence, self.silent) {
            (Some(reason), false) => {
                self.silent = true;
                warn!("not ready: {reason}");
            }
            (None, true) => {
                self.silent = false;
                info!("no longer kept waiting");
            }
            _ => {}
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::ConnectStore => {
                self.drop_store();
                self.queue.push_back(Action::ConnectStore);
            }
            Action::DisconnectStore => self.drop_store(),
            Action::ConnectBroker => {
                self.drop_line();
                let line = Arc::clone(&self.line);
                self.connecting = Some(Box::pin(async move { line.open().await }));
            }
            Action::Publish(place) => self.publish(place),
            Action::Pause(milliseconds) => {
                let pause = Duration::from_millis(milliseconds).mul_f64(0.5 + fastrand::f64());
                let pause = pause.min(Duration::from_millis(OUTBOX_BACKOFF_MS_MAX));
                self.pause = Some(Box::pin(tokio::time::sleep(pause)));
            }
            Action::Note(note) => self.note(&note),
            Action::Stopped => {
                self.stopped = true;
                self.pause = None;
                self.connecting = None;
                // Only a lease that is still to be given up is worth waiting for.
                if self.queue.is_empty() {
                    self.drop_store();
                }
            }
            packet => self.queue.push_back(packet),
        }
    }

    fn note(&mut self, note: &Note) {
        match note {
            Note::LeaseTaken => {
                self.sequences.forget();
                info!("{note}");
            }
            Note::LeaseLost => info!("{note}"),
            Note::Waiting { .. } | Note::Refused { .. } => warn!("{note}"),
            Note::DeadLettered { .. } => error!("{note}"),
        }
    }

    fn publish(&mut self, place: usize) {
        let message = self
            .batch
            .get_mut(place)
            .and_then(StreamEntry::take_message);
        let (Some(message), Some(open)) = (message, &self.open) else {
            // The machine publishes each entry of a batch once, and only events.
            return self
                .machine
                .input(Input::Refused(place, "it is not there".to_owned()));
        };
        let publication = open.publisher.publish(message);
        self.flights
            .push(Box::pin(async move { (place, publication.await) }));
    }

    /// Sends what was asked for next, if nothing is under way.
    fn send_next(&mut self) {
        if self.packet.is_some() {
            return;
        }
        let Some(action) = self.queue.pop_front() else {
            return;
        };
        let mut batch = Vec::new();
        match &action {
            // What is out of an earlier batch is nobody's business any more.
            Action::Read { .. } => self.flights.clear(),
            Action::DeadLetter(_) => batch = std::mem::take(&mut self.batch),
            _ => {}
        }
        if matches!(action, Action::Read { .. } | Action::AwaitDisks) {
            self.renewed = Instant::now();
        }
        locked(&self.report).asked_since = Some(Instant::now());
        let (link, plan) = (self.link.take(), Arc::clone(&self.plan));
        self.packet = Some(Box::pin(packet::exchange(action, link, plan, batch)));
    }

    fn packet_answered(&mut self, packet: Packet) {
        let (link, done) = match packet {
            Ok(answered) => answered,
            Err(StoreError::Refused(line)) if !self.seen && !self.stopped => {
                self.refusal = Some(format!("partition {}: {line}", self.plan.keys.partition()));
                return;
            }
            Err(error) => {
                self.drop_store();
                return self.machine.input(Input::StoreLost(error.to_string()));
            }
        };
        self.link = Some(link);
        match done {
            Done::Connected => {
                self.seen = true;
                self.machine.input(Input::StoreConnected);
            }
            Done::Lease(hold) => self.lease_answered(hold),
            Done::Released => {}
            Done::Read(read) => self.read_answered(read),
            Done::Confirmed(confirmed) => self.machine.input(Input::Confirmed(confirmed)),
            Done::AwaitedDisks(hold, confirmed) => {
                self.lease_answered(hold);
                self.machine.input(Input::Confirmed(confirmed));
            }
            Done::Awaited => self.machine.input(Input::Awaited),
            Done::DeadLettered => self.machine.input(Input::DeadLettered),
            Done::Settled => self.machine.input(Input::Settled),
        }
    }

    fn lease_answered(&mut self, hold: Hold) {
        self.follow(hold);
        self.machine.input(Input::Lease(hold.is_ours()));
    }

    /// What this worker published last says nothing of what comes next where another one may have
    /// published in between.
    fn follow(&mut self, hold: Hold) {
        if hold != Hold::Kept {
            self.sequences.forget();
        }
    }

    /// Tells what was read, then takes the replies of the wait that was sent behind it.
    fn read_answered(&mut self, read: Read) {
        self.follow(read.lease);
        for gap in self.sequences.look(&read.entries) {
            locked(&self.report).sequence_gaps += 1;
            error!(
                stream_id = gap.stream_id,
                "the event's sequence is {} where {} was to come; it is published, and consumers \
                 that count will wait: find out what became of the events between",
                gap.found,
                gap.expected
            );
        }
        self.batch = read.entries;
        if let Some(wait) = self.plan.wait
            && let Some(link) = self.link.take()
        {
            locked(&self.report).asked_since = Some(Instant::now());
            self.packet = Some(Box::pin(packet::wait_of_read(link, wait)));
        }
        self.machine.input(Input::Read(Batch {
            entries: self.batch.iter().map(StreamEntry::for_machine).collect(),
            lease_held: read.lease.is_ours(),
            stream_length: read.stream_length,
        }));
    }

    /// What the broker took is told before the end of the channel, or it would come again.
    fn answered(&mut self, answers: Vec<Answered>) {
        let mut lost = None;
        for (place, answer) in answers {
            match answer {
                Ok(()) => self.machine.input(Input::Published(place)),
                Err(error) if error.channel_survives() => {
                    self.machine.input(Input::Refused(place, refusal(&error)));
                }
                Err(error) => lost = Some(error.to_string()),
            }
        }
        if let Some(reason) = lost {
            self.line_lost(reason);
        }
    }

    fn line_lost(&mut self, reason: String) {
        self.drop_line();
        self.machine.input(Input::BrokerLost(reason));
    }

    /// The process is to end and something takes too long: it counts as lost.
    fn lose_patience(&mut self) {
        // Far beyond the end of the process, so that this comes once.
        self.patience = Some(Box::pin(tokio::time::sleep(PATIENCE * 100)));
        let reason = || "it took too long while the process was to end".to_owned();
        if !self.flights.is_empty() {
            self.line_lost(reason());
        }
        if self.packet.is_some() {
            self.drop_store();
            self.machine.input(Input::StoreLost(reason()));
        }
    }

    fn drop_store(&mut self) {
        locked(&self.report).asked_since = None;
        self.link = None;
        self.packet = None;
        self.queue.clear();
    }

    fn drop_line(&mut self) {
        self.open = None;
        self.connecting = None;
        self.flights.clear();
    }
}

/// The first look comes after a whole interval, and late ones are not made up for.
fn looks() -> Interval {
    let mut clock = tokio::time::interval_at((Instant::now() + LOOK_EVERY).into(), LOOK_EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    clock
}

/// Answers of the broker that are taken in one turn.
const ANSWERS_AT_ONCE: usize = 1_024;

/// What an operator can do about an event that was refused.
fn refusal(error: &PublishError) -> String {
    match error {
        PublishError::Returned { .. } => format!(
            "{error}; `cell init --event-queue NAME` declares a queue for all events, or bind one \
             of your own"
        ),
        _ => error.to_string(),
    }
}

/// The outcome of what is in the slot; nothing for ever while it is empty.
async fn ready<F: Future + Unpin>(slot: &mut Option<F>) -> F::Output {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Why the connection was lost, once it is.
async fn line_lost(lost: Option<&mut watch::Receiver<Option<String>>>) -> String {
    let Some(lost) = lost else {
        return std::future::pending().await;
    };
    match lost.wait_for(Option::is_some).await {
        Ok(reason) => reason.clone().unwrap_or_default(),
        Err(_) => "the connection ended".to_owned(),
    }
}
