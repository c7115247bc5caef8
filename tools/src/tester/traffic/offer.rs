//! The producer's side of traffic: it offers the script, and no fault ends it.
//!
//! On any doubt about a connection it makes a new one and publishes again everything that is not
//! confirmed, in order. Why the oracle may decide a message as it is sent, although it may be sent
//! several times: all messages of one connection go through one channel, and a channel hands its
//! messages to a queue in order, so what a queue has of them is always a beginning of them. What was
//! confirmed is in its queue, with everything before it; what follows is published again from the
//! oldest on, behind that beginning. Even when an old channel, in a node that stood still, hands over
//! its rest meanwhile, both bring the same messages in the same order, and of two such rows merged
//! in any way each message's *first* appearance is in that order again. Later appearances are
//! repeats, which a cell answers from its record. So the order of first appearances in each queue is
//! the order of publishing.
//!
//! A message that the broker refuses or returns breaks this argument; it is published again all the
//! same, and what the audit then finds is told with that trouble beside it.

use super::backoff::Backoff;
use super::board::{Board, Phase};
use super::pace::Pace;
use super::window::{Answer, Window};
use crate::client::{Producer, Request};
use crate::tester::record::Published;
use crate::tester::script::{Kind, Message, Script};
use conductor_config::BrokerSettings;
use conductor_io::amqp::{AmqpError, PublishError};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lapin::message::Delivery;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// The connection's name at the broker.
const NAME: &str = "conductor-tester producer";
/// Messages that are published before confirms and answers are looked at again.
const BURST: usize = 64;
/// Confirms and answers that are taken before the next message is looked at.
const TAKEN_AT_ONCE: usize = 256;
/// Between two looks at what is overdue.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The producer's side.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) broker: BrokerSettings,
    pub(super) script: Script,
    pub(super) pace: Pace,
    pub(super) window: Window,
    pub(super) window_max: usize,
    /// Messages that are still to be offered.
    pub(super) left: Option<u64>,
    pub(super) board: Arc<Board>,
    pub(super) phases: watch::Receiver<Phase>,
    /// What is done, on its way into the record.
    pub(super) done: mpsc::Sender<Published>,
}

type Confirm = Pin<Box<dyn Future<Output = (u64, Result<(), PublishError>)> + Send>>;

/// One connection, until it is in doubt.
struct Session {
    producer: Producer,
    confirms: FuturesUnordered<Confirm>,
}

/// The connection is in doubt.
#[derive(Debug)]
struct Lost(String);

impl Offer {
    /// Goes on until the run is over.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new();
        while !self.is_over() {
            let Some(connected) = self.connect().await else {
                break;
            };
            match connected {
                Ok(producer) => {
                    backoff = Backoff::new();
                    self.serve(producer).await;
                }
                Err(error) => {
                    self.board
                        .tell(|state| state.trouble = Some(error.to_string()));
                    let pause = backoff.next();
                    let mut phases = self.phases.clone();
                    let ended = phases.wait_for(|phase| *phase == Phase::End);
                    let _ = tokio::time::timeout(pause, ended).await;
                }
            }
        }
        self.leave().await;
    }

    /// A connection; `None` when the run ended meanwhile.
    async fn connect(&self) -> Option<Result<Producer, AmqpError>> {
        let mut phases = self.phases.clone();
        tokio::select! {
            connected = Producer::connect(&self.broker, NAME) => Some(connected),
            _ = phases.wait_for(|phase| *phase == Phase::End) => None,
        }
    }

    async fn serve(&mut self, producer: Producer) {
        let confirms = FuturesUnordered::new();
        if self.window.next_number() == 0 {
            let now = Instant::now();
            self.pace = self.pace.begun(now);
            self.board.tell(|state| state.began = now);
        }
        let mut session = Session { producer, confirms };
        for open in self.window.unconfirmed() {
            session.publish(&open.message);
        }
        let ended = self.drive(&mut session).await;
        let missing = self.window.disconnect();
        session.producer.abandon().await;
        self.board.tell(|state| {
            state.progress.replies_missing += missing;
            if let Err(Lost(why)) = ended {
                state.progress.reconnects += 1;
                state.trouble = Some(why);
            }
        });
    }

    async fn drive(&mut self, session: &mut Session) -> Result<(), Lost> {
        let mut look = Instant::now();
        while !self.is_over() {
            self.offer(session);
            let wake = self.next_due().map_or(look, |due| due.min(look));
            let mut phases = self.phases.clone();
            let phase = *phases.borrow_and_update();
            tokio::select! {
                Some((number, outcome)) = session.confirms.next() => {
                    self.confirmed(number, outcome)?;
                }
                answer = session.producer.next_reply() => {
                    let delivery = answer.map_err(|error| Lost(error.to_string()))?;
                    self.answered(&delivery);
                }
                () = tokio::time::sleep_until(wake.into()) => {}
                _ = phases.wait_for(|now| *now != phase) => {}
            }
            self.take_what_is_there(session)?;
            self.hand_over().await;
            if Instant::now() >= look {
                look = Instant::now() + LOOK_EVERY;
                self.look();
            }
        }
        Ok(())
    }

    /// Publishes what is due, as far as there is room.
    fn offer(&mut self, session: &mut Session) {
        let mut burst = 0;
        while burst < BURST && self.may_offer() {
            let now = Instant::now();
            let due = self.pace.due(self.window.next_number()).unwrap_or(now);
            if due > now {
                break;
            }
            let message = match self.script.next() {
                Ok(message) => message,
                Err(broken) => return self.board.violate(broken.to_string()),
            };
            session.publish(&message);
            self.left = self.left.map(|left| left - 1);
            self.count(&message);
            self.window.add(message, due, now);
            burst += 1;
        }
    }

    fn count(&self, message: &Message) {
        let cursor = self.script.oracle().cursor(message.partition);
        self.board.tell(|state| {
            state.progress.published += 1;
            state.progress.repeats += u64::from(matches!(message.kind, Kind::Repeat(_)));
            state.progress.poison += u64::from(message.slip.is_some());
            let partition = message.partition;
            state.sequences_due.insert(partition, cursor.sequence);
            if let Some(command) = &cursor.command {
                state.last_commands.insert(partition, command.to_string());
            }
            state.offered = self.left == Some(0);
            state.confirmed = false;
        });
    }

    fn may_offer(&self) -> bool {
        *self.phases.borrow() == Phase::Offer
            && self.left != Some(0)
            && self.window.len() < self.window_max
    }

    /// When the next message is due, where there is room for it.
    fn next_due(&self) -> Option<Instant> {
        let may = self.may_offer();
        let due = || self.pace.due(self.window.next_number());
        may.then(|| due().unwrap_or_else(Instant::now))
    }

    fn confirmed(&mut self, number: u64, outcome: Result<(), PublishError>) -> Result<(), Lost> {
        outcome.map_err(|error| Lost(error.to_string()))?;
        if self.window.confirm(number) {
            self.board.look(|state| state.progress.confirmed += 1);
        }
        Ok(())
    }

    fn answered(&mut self, delivery: &Delivery) {
        let id = delivery.properties.correlation_id().as_ref();
        let Some(number) = id.and_then(|id| id.as_str().parse::<u64>().ok()) else {
            return;
        };
        let answer = self.window.answer(number, &delivery.data);
        let now = Instant::now();
        match answer {
            Answer::First { due, published } => self.board.tell(|state| {
                state.progress.answered += 1;
                state.timeline.answered(published, now);
                state.latencies.record(now.saturating_duration_since(due));
            }),
            Answer::Again | Answer::Late => {
                self.board
                    .look(|state| state.progress.replies_repeated += 1);
            }
            Answer::Differs { expected } => {
                self.board
                    .tell(|state| state.progress.replies_differing += 1);
                let found = String::from_utf8_lossy(&delivery.data);
                self.board.violate(format!(
                    "the answer to message {number} differs: expected {expected}, found {found}"
                ));
            }
        }
    }

    /// Takes the confirms and answers that are there already.
    fn take_what_is_there(&mut self, session: &mut Session) -> Result<(), Lost> {
        for _ in 0..TAKEN_AT_ONCE {
            let Some(Some((number, outcome))) = session.confirms.next().now_or_never() else {
                break;
            };
            self.confirmed(number, outcome)?;
        }
        for _ in 0..TAKEN_AT_ONCE {
            let Some(answer) = session.producer.next_reply().now_or_never() else {
                break;
            };
            let delivery = answer.map_err(|error| Lost(error.to_string()))?;
            self.answered(&delivery);
        }
        Ok(())
    }

    /// Hands on what is done.
    async fn hand_over(&mut self) {
        while let Some(published) = self.window.take_done() {
            // The other thread ends only behind this one, or with a violation.
            let _ = self.done.send(published).await;
        }
    }

    /// Looks at what is overdue, and says how things stand.
    fn look(&mut self) {
        let missing = self.window.give_up_on_overtaken(Instant::now());
        let confirmed = self.window.unconfirmed().next().is_none();
        let under_way = (!self.window.is_empty()).then(|| self.window.stands());
        self.board.tell(|state| {
            state.progress.replies_missing += missing;
            state.confirmed = confirmed;
            state.under_way = under_way;
        });
    }

    /// Nothing is left to do, or the run was ended.
    fn is_over(&self) -> bool {
        match *self.phases.borrow() {
            Phase::Offer => false,
            Phase::Drain => self.window.is_empty(),
            Phase::End => true,
        }
    }

    /// Hands on what is under way as it stands.
    async fn leave(mut self) {
        let missing = self.window.disconnect();
        let confirmed = self.window.unconfirmed().next().is_none();
        while let Some(published) = self.window.take() {
            let _ = self.done.send(published).await;
        }
        self.board.tell(|state| {
            state.progress.replies_missing += missing;
            state.confirmed = confirmed;
            state.under_way = None;
        });
    }
}

impl Session {
    fn publish(&mut self, message: &Message) {
        let number = message.number;
        let request = Request {
            partition: message.partition,
            body: message.body.to_vec(),
            message_id: Some(message.message_id.clone()),
            answered: message.answer.is_some(),
        };
        let correlation = message.answer.is_some().then_some(number);
        let publication = self.producer.publish(request, correlation);
        self.confirms
            .push(Box::pin(async move { (number, publication.await) }));
    }
}
