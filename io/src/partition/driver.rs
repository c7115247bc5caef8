//! The loop of a partition's core: what arrives becomes inputs, actions are performed.
//!
//! One turn takes what has arrived, a mailbox full at most, hands it to the state machine, performs what it
//! asks for, and only then waits. The clock is read here, and handed down. Nothing in a turn
//! waits for another core or for the network: the session does that beside it.

use super::Assignment;
use super::answers;
use super::local::LocalQueue;
use super::measure::Measures;
use super::nudge::Nudge;
use super::packet::{self, Waits};
use super::session::{Job, Session, Site, Told};
use super::waiting::Waiting;
use crate::clock::wall_ms;
use crate::keys::Keys;
use crate::mailbox::{Receiver, Refused, Sender};
use crate::messages::{
    Delivery, FromPartition, Question, ReplyAddress, ReplyOut, Settled, Standing, ToPartition,
};
use crate::wire;
use conductor_engine::partition::{
    Action, Answer, Confirmed, Executed, Generation, Input, Note, Packet, Partition, Status,
    StoreEvent, Tag,
};
use conductor_engine::{Incoming, PartitionId, Step};
use glommio::Task;
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tracing::{debug, error, info, warn};

/// A delivery that the broker waits for, as far as the core must remember it.
#[derive(Debug)]
struct Pending {
    tag: Tag,
    arrived: Instant,
    timestamp_ms: Option<u64>,
    reply_to: Option<ReplyAddress>,
    /// Kept only for what goes to the parking queue.
    body: Vec<u8>,
}

/// When the group in flight reached its steps.
#[derive(Clone, Copy, Debug)]
struct FlightTimes {
    sent: Instant,
    executed: Option<Instant>,
    commands: usize,
}

/// What wakes the core.
enum Woken {
    Told(Told),
    Message(Option<ToPartition>),
    /// The store has become silent, or is so no longer.
    Silence,
}

/// The driver.
pub(super) struct Driver {
    partition: PartitionId,
    machine: Partition,
    nudge: Arc<Nudge>,
    site: Rc<Site>,
    retention_seconds: Option<u64>,
    inbox: Receiver<ToPartition>,
    outbox: Sender<FromPartition>,
    /// Messages that the I/O core had no room for yet, in order.
    unsent: VecDeque<FromPartition>,
    replies: Sender<ReplyOut>,
    told: LocalQueue<Told>,
    jobs: LocalQueue<Job>,
    session: Option<Task<()>>,
    session_number: u64,
    pause: Option<Task<()>>,
    pause_number: u64,
    pending: VecDeque<Pending>,
    generation: Generation,
    measures: Measures,
    flight: Option<FlightTimes>,
    looking_up_since: Option<Instant>,
    durable_at: Instant,
    spare: Vec<u8>,
    inspections: HashMap<u64, Question>,
    next_ticket: u64,
    shown: Option<Status>,
    waiting: Waiting,
    /// Whether `shown` says that the store is silent.
    silent: bool,
    /// Whether the log has said that this process is not ready, where the machine has not.
    told_unready: bool,
    /// What the log last said is waited for.
    waited_for: Option<String>,
    ended: bool,
}

impl Driver {
    pub(super) fn new(assignment: Assignment, nudge: Arc<Nudge>) -> Self {
        let partition = assignment.settings.cell.partition;
        let waits = Waits {
            durability: assignment.settings.durability,
            timeout: assignment.durability_timeout,
        };
        let topology = assignment.settings.topology();
        Self {
            partition,
            machine: Partition::new(assignment.settings),
            nudge,
            site: Rc::new(Site {
                keys: Keys::new(partition),
                address: assignment.store,
                store_login: assignment.store_login,
                sentinel_login: assignment.sentinel_login,
                waits,
                topology,
            }),
            retention_seconds: assignment.result_retention_seconds,
            inbox: assignment.inbox,
            outbox: assignment.outbox,
            unsent: VecDeque::new(),
            replies: assignment.replies,
            told: LocalQueue::new(),
            jobs: LocalQueue::new(),
            session: None,
            session_number: 0,
            pause: None,
            pause_number: 0,
            pending: VecDeque::new(),
            generation: 0,
            measures: Measures::new(),
            flight: None,
            looking_up_since: None,
            durable_at: Instant::now(),
            spare: Vec::new(),
            inspections: HashMap::new(),
            next_ticket: 0,
            shown: None,
            waiting: Waiting::default(),
            silent: false,
            told_unready: false,
            waited_for: None,
            ended: false,
        }
    }

    pub(super) async fn run(mut self) {
        self.machine.start();
        self.perform();
        while !self.ended {
            let woken = self.woken().await;
            self.take(woken);
            while let Some(message) = self.inbox.try_receive() {
                self.take(Woken::Message(Some(message)));
            }
            self.machine.input(Input::CaughtUp, &mut self.measures);
            self.perform();
            self.show();
            // The session's turn, however much has arrived here meanwhile. The network's comes when
            // both wait, and no more than the prefetch can arrive before they do.
            futures_lite::future::yield_now().await;
        }
        self.nudge.end();
    }

    async fn woken(&mut self) -> Woken {
        while !self.unsent.is_empty() {
            // The I/O core is behind; it will have made room by the next look.
            glommio::timer::Timer::new(Duration::from_millis(1)).await;
            self.flush_unsent();
        }
        poll_fn(|context| {
            self.nudge.seen(context.waker());
            if let Poll::Ready(told) = self.told.poll_pop(context) {
                return Poll::Ready(Woken::Told(told));
            }
            if let Poll::Ready(message) = self.inbox.poll_receive(context) {
                return Poll::Ready(Woken::Message(message));
            }
            // Asked at every nudge, so that silence is shown though nothing happens.
            if self.waiting.is_long() != self.silent {
                return Poll::Ready(Woken::Silence);
            }
            Poll::Pending
        })
        .await
    }

    fn take(&mut self, woken: Woken) {
        match woken {
            Woken::Told(Told::Store(number, event)) => {
                if number == self.session_number {
                    self.store_event(event);
                }
            }
            Woken::Told(Told::Spent(buffer)) => self.spare = buffer,
            Woken::Told(Told::PauseOver(number)) => {
                if number == self.pause_number {
                    self.input(Input::PauseOver);
                }
            }
            Woken::Silence => {}
            Woken::Message(None) => self.input(Input::Stop),
            Woken::Message(Some(message)) => self.message(message),
        }
    }

    fn message(&mut self, message: ToPartition) {
        match message {
            ToPartition::ChannelOpened(generation) => {
                self.pending.clear();
                self.generation = generation;
                self.input(Input::ChannelOpened(generation));
            }
            ToPartition::ChannelLost(generation, reason) => {
                self.input(Input::ChannelLost(generation, reason));
            }
            ToPartition::Delivery(delivery) => self.delivery(delivery),
            ToPartition::Parked(generation, tag) => self.input(Input::Parked(generation, tag)),
            ToPartition::Ask(question) => self.ask(question),
            ToPartition::Stop => self.input(Input::Stop),
        }
    }

    fn delivery(&mut self, delivery: Delivery) {
        if delivery.generation != self.generation {
            return;
        }
        let began = Instant::now();
        let incoming = wire::decode(&delivery.body);
        self.measures.steps.record(Step::Decode, began.elapsed(), 1);
        let timestamp_ms = match &incoming {
            Incoming::Command(command) => Some(command.timestamp.milliseconds()),
            Incoming::Refused(refused) => refused.timestamp.map(|time| time.milliseconds()),
            Incoming::Unusable(_) => None,
        };
        if let Some(timestamp_ms) = timestamp_ms {
            self.measures.age(wall_ms(), timestamp_ms);
        }
        let unusable = matches!(incoming, Incoming::Unusable(_));
        self.pending.push_back(Pending {
            tag: delivery.tag,
            arrived: delivery.arrived,
            timestamp_ms,
            reply_to: delivery.reply_to,
            body: if unusable { delivery.body } else { Vec::new() },
        });
        let (generation, tag) = (delivery.generation, delivery.tag);
        self.input(Input::Delivery {
            generation,
            tag,
            incoming,
        });
    }

    /// Measures what an event says about the group, then hands it on.
    fn store_event(&mut self, event: StoreEvent) {
        let now = Instant::now();
        match &event {
            StoreEvent::LookedUp(_) => {
                if let Some(since) = self.looking_up_since.take() {
                    self.measures.steps.record(Step::Dedup, now - since, 1);
                }
            }
            StoreEvent::Executed(Executed::Committed { .. }) => {
                if let Some(flight) = &mut self.flight {
                    flight.executed = Some(now);
                    let commands = flight.commands as u64;
                    self.measures
                        .steps
                        .record(Step::Commit, now - flight.sent, commands);
                }
            }
            StoreEvent::Confirmed(confirmed) => self.confirmed(*confirmed, now),
            _ => {}
        }
        self.input(Input::Store(event));
    }

    fn confirmed(&mut self, confirmed: Confirmed, now: Instant) {
        let needed = self.site.waits.durability;
        let enough = needed.is_none_or(|needed| needed.is_met_by(confirmed));
        if let (true, Some(flight)) = (enough, self.flight.take()) {
            let executed = flight.executed.unwrap_or(now);
            let commands = flight.commands as u64;
            self.measures
                .steps
                .record(Step::Durable, now - executed, commands);
            self.durable_at = now;
        }
    }

    fn input(&mut self, input: Input) {
        self.machine.input(input, &mut self.measures);
        self.perform();
    }

    fn perform(&mut self) {
        for action in self.machine.take_actions() {
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { first } => self.connect(first),
            Action::Disconnect => self.disconnect(),
            Action::OpenChannel => self.send(FromPartition::OpenChannel),
            Action::CloseChannel(generation, reason) => {
                self.pending.clear();
                self.generation = 0;
                self.send(FromPartition::CloseChannel(generation, reason));
            }
            Action::RaiseEpoch => self.jobs.push(Job::RaiseEpoch),
            Action::AwaitDisks => self.jobs.push(Job::AwaitDisks),
            Action::Prepare => self.jobs.push(Job::Prepare),
            Action::Load { remember, known } => self.jobs.push(Job::Load { remember, known }),
            Action::WatchEpoch => self.jobs.push(Job::WatchEpoch),
            Action::LookUp(keys) => {
                self.looking_up_since = Some(Instant::now());
                self.jobs.push(Job::LookUp(keys));
            }
            Action::Commit(packet) => self.commit(&packet),
            Action::WriteHalt(record) => self.jobs.push(Job::WriteHalt(record)),
            Action::Inspect(ticket) => self.inspect(ticket),
            Action::InspectRefused(ticket) => {
                if let Some(question) = self.inspections.remove(&ticket) {
                    answers::refuse(question);
                }
            }
            Action::Reply(generation, tag, answer) => self.reply(generation, tag, answer),
            Action::Park(generation, tag, reason) => self.park(generation, tag, reason),
            Action::Acknowledge(generation, tag) => self.acknowledge(generation, tag),
            Action::Pause(milliseconds) => self.pause(Duration::from_millis(milliseconds)),
            Action::Note(note) => self.note(&note),
            Action::RefuseToStart(line) => {
                let partition = self.partition;
                let line = format!("partition {partition}: {line}");
                self.send(FromPartition::RefuseToStart(line));
                self.ended = true;
            }
            Action::Stopped => {
                self.send(FromPartition::Stopped);
                self.ended = true;
            }
        }
    }

    fn connect(&mut self, first: bool) {
        self.disconnect();
        self.session_number += 1;
        self.jobs = LocalQueue::new();
        let (site, told) = (Rc::clone(&self.site), self.told.clone());
        let session = Session::new(
            site,
            self.session_number,
            self.jobs.clone(),
            told,
            self.waiting.clone(),
        );
        self.session = Some(glommio::spawn_local(session.run(first)));
    }

    /// Dropping the task closes its socket, wherever it is.
    fn disconnect(&mut self) {
        self.session = None;
        self.session_number += 1;
        self.waiting.end();
        self.flight = None;
        self.looking_up_since = None;
        for (_, question) in self.inspections.drain() {
            answers::refuse(question);
        }
    }

    fn commit(&mut self, packet: &Packet) {
        let began = Instant::now();
        let bytes = packet::commit(
            &self.site.keys,
            &packet.writes,
            self.retention_seconds,
            &packet.look_ups,
            self.site.waits,
            std::mem::take(&mut self.spare),
        );
        let sent = Instant::now();
        let commands = packet.commands.max(1);
        let each = (sent - began) / u32::try_from(commands).unwrap_or(u32::MAX);
        self.measures
            .steps
            .record(Step::Stage, each, commands as u64);
        self.measures.group(commands);
        if !packet.look_ups.is_empty() {
            self.looking_up_since = Some(sent);
        }
        self.flight = Some(FlightTimes {
            sent,
            executed: None,
            commands,
        });
        if self.site.waits.durability.is_none() {
            self.durable_at = sent;
        }
        self.jobs.push(Job::Commit(bytes));
    }

    fn find(&mut self, tag: Tag) -> Option<&mut Pending> {
        let place = self
            .pending
            .binary_search_by_key(&tag, |pending| pending.tag)
            .ok()?;
        self.pending.get_mut(place)
    }

    fn reply(&mut self, generation: Generation, tag: Tag, answer: Answer) {
        if generation != self.generation {
            return;
        }
        let durable = self.durable_at;
        let Some(pending) = self.find(tag) else {
            return;
        };
        let took = durable.saturating_duration_since(pending.arrived);
        let address = pending.reply_to.take();
        self.measures.last_command = took;
        let Some(address) = address else { return };
        let body = match answer {
            Answer::Stored(bytes) => bytes.into_vec(),
            Answer::Fresh(result) => {
                let mut body = Vec::with_capacity(256);
                wire::encode_result(&result, &mut body);
                body
            }
        };
        let partition = self.partition;
        if self
            .replies
            .send(ReplyOut {
                partition,
                address,
                body,
                durable,
            })
            .is_err()
        {
            self.measures.replies_dropped += 1;
        }
    }

    fn park(&mut self, generation: Generation, tag: Tag, reason: String) {
        let body = self
            .find(tag)
            .map(|pending| std::mem::take(&mut pending.body));
        let body = body.unwrap_or_default();
        warn!(
            "partition {}: a message is no command and is parked: {reason}",
            self.partition
        );
        self.send(FromPartition::Park {
            generation,
            tag,
            body,
            reason,
        });
    }

    fn acknowledge(&mut self, generation: Generation, tag: Tag) {
        let durable = self.durable_at;
        let mut settled = Vec::new();
        while self.pending.front().is_some_and(|oldest| oldest.tag <= tag) {
            if let Some(Pending { timestamp_ms, .. }) = self.pending.pop_front() {
                settled.push(Settled {
                    durable,
                    timestamp_ms,
                });
            }
        }
        self.send(FromPartition::Acknowledge {
            generation,
            tag,
            settled,
        });
    }

    fn pause(&mut self, length: Duration) {
        self.pause_number += 1;
        let (number, told) = (self.pause_number, self.told.clone());
        self.pause = Some(glommio::spawn_local(async move {
            glommio::timer::Timer::new(length).await;
            told.push(Told::PauseOver(number));
        }));
    }

    /// One line for each step: a reason that is waited out again and again is said once.
    fn note(&mut self, note: &Note) {
        let partition = self.partition;
        match note {
            Note::Waiting { reason } if self.waited_for.as_ref() == Some(reason) => {
                return debug!("partition {partition}: {note}");
            }
            Note::Waiting { reason } => self.waited_for = Some(reason.clone()),
            Note::StandingBy { .. } | Note::Claimed { .. } => self.waited_for = None,
            _ => {}
        }
        match note {
            Note::Halting { .. } | Note::Halted { .. } => error!("partition {partition}: {note}"),
            note if note.is_warning() => warn!("partition {partition}: {note}"),
            note => info!("partition {partition}: {note}"),
        }
    }

    fn send(&mut self, message: FromPartition) {
        self.unsent.push_back(message);
        self.flush_unsent();
    }

    fn flush_unsent(&mut self) {
        while let Some(message) = self.unsent.pop_front() {
            match self.outbox.send(message) {
                Ok(()) => {}
                Err(Refused::Full(message)) => return self.unsent.push_front(message),
                Err(Refused::Closed(_)) => return self.unsent.clear(),
            }
        }
    }

    /// Where the partition stands: what the machine knows, and a store that is silent.
    fn standing(&self) -> Status {
        let mut status = self.machine.status();
        if self.silent && status.not_ready.is_none() {
            let executed = self.flight.is_some_and(|flight| flight.executed.is_some());
            let what = if executed {
                "a transaction is committed, and its disks have not confirmed it"
            } else {
                "the store has not answered"
            };
            status.not_ready = Some(format!("{what} for more than 1.5 s"));
        }
        status
    }

    /// Tells the I/O core where the partition stands, when that has changed.
    fn show(&mut self) {
        self.silent = self.waiting.is_long();
        let status = self.standing();
        let changed = self.shown.as_ref().is_none_or(|shown| {
            shown.role != status.role
                || shown.state != status.state
                || shown.not_ready != status.not_ready
                || shown.epoch != status.epoch
        });
        if changed {
            self.log_readiness(&status);
            self.shown = Some(status.clone());
            self.send(FromPartition::Standing(status));
        }
    }

    /// One line down and one up, where the machine has nothing to say: it goes on.
    fn log_readiness(&mut self, status: &Status) {
        let goes_on = matches!(status.state, "standing-by" | "owning");
        match &status.not_ready {
            Some(reason) if goes_on && !self.told_unready => {
                self.told_unready = true;
                warn!("partition {}: not ready: {reason}", self.partition);
            }
            None if self.told_unready => {
                self.told_unready = false;
                info!("partition {}: ready again", self.partition);
            }
            _ => {}
        }
    }

    fn ask(&mut self, question: Question) {
        match question {
            Question::Standing(answer) => {
                let (status, fenced) = (self.standing(), self.machine.counters().fenced);
                let _ = answer.send(Standing { status, fenced });
            }
            Question::Report(answer) => {
                let report = answers::report(
                    self.partition,
                    self.standing(),
                    &self.machine,
                    &self.measures,
                    self.inbox.depth(),
                );
                let _ = answer.send(report);
            }
            Question::Depth {
                pair,
                levels_max,
                answer,
            } => {
                let _ = answer.send(answers::depth(self.machine.book(), pair, levels_max));
            }
            Question::Orders {
                pair,
                orders_max,
                answer,
            } => {
                let _ = answer.send(answers::orders(self.machine.book(), pair, orders_max));
            }
            question @ Question::Verify { .. } => {
                self.next_ticket += 1;
                self.inspections.insert(self.next_ticket, question);
                self.input(Input::Inspect(self.next_ticket));
            }
        }
    }

    /// Memory and store must agree now: compare them in one MULTI on this core's connection.
    fn inspect(&mut self, ticket: u64) {
        match self.inspections.remove(&ticket) {
            Some(Question::Verify {
                pair,
                suspects,
                answer,
            }) => {
                let verification =
                    answers::verification(self.machine.book(), pair, suspects, answer);
                self.jobs.push(Job::Verify(Box::new(verification)));
            }
            _ => self.input(Input::Store(StoreEvent::Inspected)),
        }
    }
}
