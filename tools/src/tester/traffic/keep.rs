//! The consumer's side of traffic: it writes the record, and what it has written it acknowledges.
//!
//! Both what was published and what arrived go through this one thread into the file, a batch in a
//! transaction. Events are acknowledged behind the commit and never before, so a lost connection, or
//! the death of this process, brings again only what is known. No fault of the broker ends it; the
//! queue it reads is durable and was there before the first message.

use super::backoff::Backoff;
use super::board::{Board, Phase};
use crate::client::Subscription;
use crate::tester::inbox::{Inbox, InboxError};
use crate::tester::record::{Published, Record, add};
use conductor_config::BrokerSettings;
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, AmqpError};
use futures_util::FutureExt;
use lapin::Connection;
use lapin::message::Delivery;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The connection's name at the broker.
const NAME: &str = "conductor-tester inbox";
/// Events ahead of their acknowledgement.
const PREFETCH: u16 = 1_024;
/// Events, and messages, that share one transaction.
const BATCH: usize = 1_024;

/// The consumer's side.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) broker: BrokerSettings,
    pub(super) queue: String,
    pub(super) record: Record,
    pub(super) inbox: Inbox,
    pub(super) board: Arc<Board>,
    pub(super) phases: watch::Receiver<Phase>,
    /// What is done.
    pub(super) done: mpsc::Receiver<Published>,
}

type Connecting = JoinHandle<Result<Box<Reading>, AmqpError>>;

/// How the queue is reached at the moment.
enum Line {
    /// It is being connected to, after a pause.
    Connecting(Connecting),
    /// It is read.
    Reading(Box<Reading>),
}

/// The queue while it is read.
struct Reading {
    connection: Connection,
    subscription: Subscription,
}

/// What woke the thread.
enum Woken {
    Published(Option<Published>),
    Arrived(Result<Box<Delivery>, AmqpError>),
    Connected(Result<Box<Reading>, AmqpError>),
    Ended,
}

impl Keep {
    /// Goes on until the run is over and everything that was published is written.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::new();
        let mut line = Line::Connecting(self.connect(Duration::ZERO));
        let mut open = true;
        loop {
            let ended = *self.phases.borrow() == Phase::End;
            if ended && !open {
                break;
            }
            let woken = self.wait(&mut line, open, ended).await;
            line = match woken {
                Woken::Ended => line,
                Woken::Published(None) => {
                    open = false;
                    line
                }
                Woken::Published(Some(first)) => {
                    self.write(vec![first], Vec::new());
                    line
                }
                Woken::Arrived(Ok(first)) => match self.take(*first, line).await {
                    Ok(line) => line,
                    Err(lost) => self.reconnect(&lost, &mut backoff),
                },
                Woken::Arrived(Err(lost)) => {
                    let next = self.reconnect(&lost, &mut backoff);
                    leave(line).await;
                    next
                }
                Woken::Connected(Ok(reading)) => {
                    backoff = Backoff::new();
                    Line::Reading(reading)
                }
                Woken::Connected(Err(error)) => {
                    self.board
                        .tell(|state| state.trouble = Some(error.to_string()));
                    Line::Connecting(self.connect(backoff.next()))
                }
            };
        }
        leave(line).await;
    }

    async fn wait(&mut self, line: &mut Line, open: bool, ended: bool) -> Woken {
        let (done, phases) = (&mut self.done, &mut self.phases);
        tokio::select! {
            published = done.recv(), if open => Woken::Published(published),
            woken = next(line), if !ended => woken,
            _ = phases.wait_for(|phase| *phase == Phase::End), if !ended => Woken::Ended,
        }
    }

    fn connect(&self, pause: Duration) -> Connecting {
        let (broker, queue) = (self.broker.clone(), self.queue.clone());
        tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let connection = amqp::connect(&broker, NAME).await?;
            match Subscription::open(&connection, &queue, PREFETCH).await {
                Ok(subscription) => Ok(Box::new(Reading {
                    connection,
                    subscription,
                })),
                Err(error) => {
                    amqp::close_connection(&connection).await;
                    Err(error)
                }
            }
        })
    }

    fn reconnect(&self, lost: &AmqpError, backoff: &mut Backoff) -> Line {
        self.board.tell(|state| {
            state.progress.reconnects += 1;
            state.trouble = Some(lost.to_string());
        });
        Line::Connecting(self.connect(backoff.next()))
    }

    /// Writes an event, those that are there already, and what is done; then acknowledges.
    async fn take(&mut self, first: Delivery, line: Line) -> Result<Line, AmqpError> {
        let Line::Reading(mut reading) = line else {
            return Ok(line);
        };
        let subscription = &mut reading.subscription;
        let mut events = vec![first];
        let mut lost = None;
        while events.len() < BATCH && lost.is_none() {
            match subscription.next().now_or_never() {
                Some(Ok(delivery)) => events.push(delivery),
                Some(Err(error)) => lost = Some(error),
                None => break,
            }
        }
        let bodies = events
            .iter_mut()
            .map(|delivery| std::mem::take(&mut delivery.data))
            .collect();
        let written = self.write(Vec::new(), bodies);
        if written && lost.is_none() {
            let last = events.last().expect("one came");
            lost = subscription.acknowledge(last, true).await.err();
        }
        let line = Line::Reading(reading);
        match lost {
            None => Ok(line),
            Some(error) => {
                leave(line).await;
                Err(error)
            }
        }
    }

    /// Writes one batch, and as much as is done; whether it is kept.
    fn write(&mut self, mut published: Vec<Published>, events: Vec<Vec<u8>>) -> bool {
        while published.len() < BATCH
            && let Ok(next) = self.done.try_recv()
        {
            published.push(next);
        }
        let mut inbox = self.inbox.clone();
        match keep(&mut self.record, &mut inbox, &published, &events) {
            Ok(()) => {
                self.inbox = inbox;
                self.say();
                true
            }
            Err(error) => {
                self.board.violate(error.to_string());
                false
            }
        }
    }

    fn say(&self) {
        let inbox = &self.inbox;
        self.board.tell(|state| {
            state.progress.events = inbox.fresh;
            state.progress.events_repeated = inbox.repeated;
            let partitions: Vec<PartitionId> = state.sequences_due.keys().copied().collect();
            for partition in partitions {
                state
                    .sequences_taken
                    .insert(partition, inbox.last(partition));
            }
        });
    }
}

async fn next(line: &mut Line) -> Woken {
    match line {
        Line::Reading(reading) => Woken::Arrived(reading.subscription.next().await.map(Box::new)),
        Line::Connecting(connecting) => match connecting.await {
            Ok(connected) => Woken::Connected(connected),
            Err(error) => Woken::Connected(Err(AmqpError::Failed {
                what: "connecting".to_owned(),
                words: error.to_string(),
            })),
        },
    }
}

/// Leaves the queue; what was not acknowledged comes again.
async fn leave(line: Line) {
    match line {
        Line::Connecting(connecting) => connecting.abort(),
        Line::Reading(reading) => {
            reading.subscription.close().await;
            amqp::close_connection(&reading.connection).await;
        }
    }
}

fn keep(
    record: &mut Record,
    inbox: &mut Inbox,
    published: &[Published],
    events: &[Vec<u8>],
) -> Result<(), InboxError> {
    let transaction = record.begin()?;
    for message in published {
        add(&transaction, message)?;
    }
    for event in events {
        inbox.take(&transaction, event)?;
    }
    transaction.commit()?;
    Ok(())
}
