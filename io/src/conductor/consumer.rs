//! One partition's consumer: the I/O core's half of a partition.
//!
//! It opens a channel when the partition asks for one, hands deliveries over with the channel's
//! generation, acknowledges what the partition says is durable, and closes the channel on any
//! doubt. It never rejects and never cancels: only a closed channel gives everything back in
//! order. A delivery or an acknowledgement of an earlier generation goes nowhere.
//!
//! Runs on the I/O core. Its connection carries nothing that is published, because a broker that
//! is short of memory blocks publishing connections, acknowledgements included.

use super::parking::ParkJob;
use crate::admin::{IoCoreReport, PartitionIo, QueueCounts};
use crate::amqp::{self, AmqpError, Nodes};
use crate::clock::wall_ms;
use crate::keys::command_queue;
use crate::mailbox::{Receiver, Refused, Sender};
use crate::messages::{Delivery, FromPartition, ReplyAddress, ToPartition};
use conductor_engine::PartitionId;
use conductor_engine::limits::{RECONNECT_BACKOFF_MS_MAX, RECONNECT_BACKOFF_MS_MIN};
use conductor_engine::partition::{Generation, Tag};
use futures_util::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, Consumer};
use std::collections::VecDeque;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::MissedTickBehavior;
use tracing::{info, warn};

/// What the process must hear of a partition.
#[derive(Debug)]
pub(super) enum Ending {
    /// It cannot start as it is configured.
    RefuseToStart(String),
    /// It has stopped.
    Stopped(PartitionId),
}

/// What one consumer is given.
pub(super) struct Post {
    pub(super) partition: PartitionId,
    pub(super) broker: Nodes,
    pub(super) prefetch: u16,
    pub(super) watchdog: Duration,
    pub(super) to_partition: Sender<ToPartition>,
    pub(super) from_partition: Receiver<FromPartition>,
    pub(super) parking: mpsc::UnboundedSender<ParkJob>,
    pub(super) generation: watch::Sender<Generation>,
    pub(super) endings: mpsc::UnboundedSender<Ending>,
    pub(super) report: Arc<IoCoreReport>,
}

/// A channel on which deliveries come.
struct Line {
    generation: Generation,
    channel: Channel,
    /// Never dropped: a consumer that is dropped cancels, and a successor would overtake what is
    /// unacknowledged here.
    consumer: ManuallyDrop<Consumer>,
    /// Deliveries that are not acknowledged, with what their producers said beside the bodies.
    outstanding: VecDeque<(Tag, BasicProperties)>,
    last_delivery: Instant,
}

struct Opened {
    connection: Connection,
    channel: Channel,
    consumer: Consumer,
    /// Whether somebody was registered before.
    behind_another: bool,
}

type Opening = Pin<Box<dyn Future<Output = Result<Opened, AmqpError>>>>;

/// The consumer task.
pub(super) struct PartitionConsumer {
    post: Post,
    connection: Option<Connection>,
    line: Option<Line>,
    opening: Option<Opening>,
    tries: u32,
    opened_before: bool,
    last_generation: Generation,
    /// Messages that the partition's mailbox had no room for, in order.
    unsent: VecDeque<ToPartition>,
    counts: Option<Channel>,
    /// Whether the log has said that the queue cannot be counted.
    uncounted: bool,
    ready_before: u32,
}

/// How often the queue is looked at.
const COUNTS_EVERY: Duration = Duration::from_secs(2);

impl PartitionConsumer {
    pub(super) const fn new(post: Post) -> Self {
        Self {
            post,
            connection: None,
            line: None,
            opening: None,
            tries: 0,
            opened_before: false,
            last_generation: 0,
            unsent: VecDeque::new(),
            counts: None,
            uncounted: false,
            ready_before: 0,
        }
    }

    /// Works until the partition has stopped.
    pub(super) async fn run(mut self) {
        let mut looking = tokio::time::interval(COUNTS_EVERY);
        looking.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.flush();
            let crowded = !self.unsent.is_empty();
            tokio::select! {
                biased;
                message = self.post.from_partition.receive() => {
                    let Some(message) = message else { break };
                    if self.heed(message).await {
                        break;
                    }
                }
                opened = next_opened(&mut self.opening) => self.opened(opened).await,
                delivery = next_delivery(&mut self.line), if !crowded => self.delivery(delivery).await,
                () = tokio::time::sleep(Duration::from_millis(1)), if crowded => {}
                _ = looking.tick() => self.look().await,
            }
        }
        self.close("the process is ending").await;
        if let Some(connection) = self.connection.take() {
            amqp::close_connection(&connection).await;
        }
    }

    /// Whether the partition has ended.
    async fn heed(&mut self, message: FromPartition) -> bool {
        match message {
            FromPartition::OpenChannel => self.start_opening(),
            FromPartition::CloseChannel(generation, reason) => {
                let current = self
                    .line
                    .as_ref()
                    .is_some_and(|line| line.generation == generation);
                if current {
                    self.close(&reason).await;
                }
            }
            FromPartition::Acknowledge {
                generation,
                tag,
                settled,
            } => {
                self.acknowledge(generation, tag).await;
                let (now, now_ms) = (Instant::now(), wall_ms());
                self.figures().acknowledged(&settled, now, now_ms);
            }
            FromPartition::Park {
                generation,
                tag,
                body,
                reason,
            } => {
                let original = self.original(generation, tag);
                let job = ParkJob {
                    generation,
                    tag,
                    body,
                    reason,
                    original,
                };
                // The parking task lives as long as the process.
                let _ = self.post.parking.send(job);
            }
            FromPartition::Standing(status) => {
                self.figures().standing = Some(status);
            }
            FromPartition::RefuseToStart(line) => self.end(Ending::RefuseToStart(line)),
            FromPartition::Stopped => {
                self.close("the process is ending").await;
                self.end(Ending::Stopped(self.post.partition));
                return true;
            }
        }
        false
    }

    /// Held for one statement, never across a wait.
    fn figures(&self) -> MutexGuard<'_, PartitionIo> {
        self.post.report.of(self.post.partition)
    }

    fn end(&self, ending: Ending) {
        // The process may have ended already.
        let _ = self.post.endings.send(ending);
    }

    fn start_opening(&mut self) {
        // With a line that stands, word of it is still on its way to the partition.
        if self.opening.is_some() || self.line.is_some() {
            return;
        }
        let pause = match self.tries {
            0 => Duration::ZERO,
            tries => {
                let doubled = RECONNECT_BACKOFF_MS_MIN.saturating_mul(1 << tries.min(16));
                Duration::from_millis(doubled.min(RECONNECT_BACKOFF_MS_MAX))
            }
        };
        self.tries = self.tries.saturating_add(1);
        let kept = self
            .connection
            .take()
            .filter(|connection| connection.status().connected());
        let (broker, partition) = (self.post.broker.clone(), self.post.partition);
        let prefetch = self.post.prefetch;
        self.opening = Some(Box::pin(async move {
            tokio::time::sleep(pause).await;
            open(kept, &broker, partition, prefetch).await
        }));
    }

    async fn opened(&mut self, opened: Result<Opened, AmqpError>) {
        self.opening = None;
        match opened {
            Ok(Opened {
                connection,
                channel,
                consumer,
                behind_another,
            }) => {
                self.tries = 0;
                self.opened_before = true;
                self.last_generation += 1;
                let generation = self.last_generation;
                self.post.generation.send_replace(generation);
                self.connection = Some(connection);
                self.counts = None;
                self.line = Some(Line {
                    generation,
                    channel,
                    consumer: ManuallyDrop::new(consumer),
                    outstanding: VecDeque::new(),
                    last_delivery: Instant::now(),
                });
                let mut figures = self.post.report.of(self.post.partition);
                figures.broker_connected = true;
                figures.broker_problem = None;
                figures.behind_another = behind_another;
                drop(figures);
                self.unsent
                    .push_back(ToPartition::ChannelOpened(generation));
            }
            Err(error) if !error.may_pass() && !self.opened_before => {
                let partition = self.post.partition;
                self.end(Ending::RefuseToStart(format!(
                    "partition {partition}: {error}"
                )));
            }
            Err(error) => {
                let problem = Some(error.to_string());
                let mut figures = self.post.report.of(self.post.partition);
                let news = figures.broker_problem != problem;
                figures.broker_connected = false;
                figures.broker_problem = problem;
                drop(figures);
                if news {
                    warn!("partition {}: {error}; trying again", self.post.partition);
                }
                self.start_opening();
            }
        }
    }

    async fn delivery(&mut self, delivery: Option<lapin::Result<lapin::message::Delivery>>) {
        let Some(line) = &mut self.line else { return };
        let generation = line.generation;
        match delivery {
            Some(Ok(delivery)) => {
                line.last_delivery = Instant::now();
                if delivery.redelivered {
                    self.post.report.of(self.post.partition).redeliveries += 1;
                }
                let (delivery, properties) = taken(delivery, generation);
                line.outstanding.push_back((delivery.tag, properties));
                self.unsent.push_back(ToPartition::Delivery(delivery));
            }
            Some(Err(error)) => self.lost(generation, &error.to_string()).await,
            None => self.lost(generation, "the broker ended the consumer").await,
        }
    }

    /// The channel is gone without our doing, or cannot be trusted. It is closed all the same: what
    /// was delivered on it must come back before anything else does.
    async fn lost(&mut self, generation: Generation, reason: &str) {
        self.close(reason).await;
        self.counts = None;
        self.connection = self
            .connection
            .take()
            .filter(|connection| connection.status().connected());
        self.figures().broker_connected = self.connection.is_some();
        self.unsent
            .push_back(ToPartition::ChannelLost(generation, reason.to_owned()));
    }

    /// Closes the channel: the broker takes back what is unacknowledged, in order.
    async fn close(&mut self, reason: &str) {
        self.opening = None;
        self.unsent
            .retain(|message| !matches!(message, ToPartition::Delivery(_)));
        self.post.generation.send_replace(0);
        if let Some(line) = self.line.take() {
            info!(
                "partition {}: closing the channel: {reason}",
                self.post.partition
            );
            amqp::close_channel(&line.channel).await;
            if line.channel.status().connected() {
                // The broker did not answer. While the channel stands it keeps what it delivered
                // on it, so the whole connection goes.
                if let Some(connection) = self.connection.take() {
                    amqp::close_connection(&connection).await;
                }
            }
        }
    }

    /// What a delivery's producer said beside its body.
    fn original(&mut self, generation: Generation, tag: Tag) -> BasicProperties {
        let line = self
            .line
            .as_mut()
            .filter(|line| line.generation == generation);
        let entry = line.and_then(|line| {
            let place = line
                .outstanding
                .binary_search_by_key(&tag, |(open, _)| *open);
            line.outstanding.get_mut(place.ok()?)
        });
        entry.map_or_else(BasicProperties::default, |(_, properties)| {
            std::mem::take(properties)
        })
    }

    async fn acknowledge(&mut self, generation: Generation, tag: Tag) {
        let Some(line) = self
            .line
            .as_mut()
            .filter(|line| line.generation == generation)
        else {
            return;
        };
        while line
            .outstanding
            .front()
            .is_some_and(|(open, _)| *open <= tag)
        {
            line.outstanding.pop_front();
        }
        let acknowledging = line
            .channel
            .basic_ack(tag, BasicAckOptions { multiple: true });
        if let Err(error) = amqp::within("acknowledging", acknowledging).await {
            self.lost(generation, &error.to_string()).await;
        }
    }

    fn flush(&mut self) {
        while let Some(message) = self.unsent.pop_front() {
            match self.post.to_partition.send(message) {
                Ok(()) => {}
                Err(Refused::Full(message)) => return self.unsent.push_front(message),
                Err(Refused::Closed(_)) => return self.unsent.clear(),
            }
        }
    }

    /// Counts the queue, which tells a standby from a lonely consumer, and a silent queue from an
    /// empty one.
    async fn look(&mut self) {
        if self.line.is_some() {
            self.figures().broker_asked = Some(Instant::now());
        }
        self.count().await;
        self.figures().broker_asked = None;
    }

    async fn count(&mut self) {
        let Some(connection) = self.connection.as_ref().filter(|_| self.line.is_some()) else {
            self.figures().queue = None;
            return;
        };
        if self
            .counts
            .as_ref()
            .is_none_or(|channel| !channel.status().connected())
        {
            self.counts = amqp::open_channel(connection).await.ok();
        }
        let Some(channel) = &self.counts else { return };
        let counted = amqp::queue_counts(channel, &command_queue(self.post.partition)).await;
        match counted {
            Ok(counts) => {
                let (messages, consumers) = (counts.messages.into(), counts.consumers.into());
                self.figures().queue = Some(QueueCounts {
                    messages,
                    consumers,
                });
                if std::mem::take(&mut self.uncounted) {
                    info!(
                        "partition {}: the queue is counted again",
                        self.post.partition
                    );
                }
                self.watch_for_silence(counts.messages).await;
            }
            Err(error) => {
                self.counts = None;
                if !std::mem::replace(&mut self.uncounted, true) {
                    let partition = self.post.partition;
                    warn!("partition {partition}: the queue cannot be counted: {error}");
                }
            }
        }
    }

    /// A queue that has messages and delivers none, with none of ours out, is asked again over a
    /// new connection.
    async fn watch_for_silence(&mut self, ready: u32) {
        let grows = ready > 0 && ready >= self.ready_before;
        self.ready_before = ready;
        let watchdog = self.post.watchdog;
        let silent = self.line.as_ref().filter(|line| {
            grows && line.outstanding.is_empty() && line.last_delivery.elapsed() > watchdog
        });
        let Some(generation) = silent.map(|line| line.generation) else {
            return;
        };
        let reason = format!(
            "{ready} messages wait and none arrived for {} s; connecting anew",
            watchdog.as_secs()
        );
        warn!("partition {}: {reason}", self.post.partition);
        self.close(&reason).await;
        if let Some(connection) = self.connection.take() {
            amqp::close_connection(&connection).await;
        }
        self.lost(generation, &reason).await;
    }
}

async fn open(
    kept: Option<Connection>,
    broker: &Nodes,
    partition: PartitionId,
    prefetch: u16,
) -> Result<Opened, AmqpError> {
    let connection = match kept {
        Some(connection) => connection,
        None => {
            let name = format!("conductor commands p{partition}");
            broker.connect(&name).await?
        }
    };
    let channel = amqp::open_channel(&connection).await?;
    amqp::declare_partition(&channel, partition).await?;
    let qos = channel.basic_qos(prefetch, BasicQosOptions::default());
    amqp::within("setting the prefetch", qos).await?;
    let queue = command_queue(partition);
    // The broker counts the active consumer of such a queue and none that wait behind it, so who
    // asks after registering always hears of one.
    let registered = amqp::queue_counts(&channel, &queue).await?.consumers;
    let consuming = channel.basic_consume(
        queue.as_str().into(),
        "".into(),
        BasicConsumeOptions::default(),
        FieldTable::default(),
    );
    let consumer = amqp::within("registering the consumer", consuming).await?;
    Ok(Opened {
        connection,
        channel,
        consumer,
        behind_another: registered > 0,
    })
}

async fn next_opened(opening: &mut Option<Opening>) -> Result<Opened, AmqpError> {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}

async fn next_delivery(line: &mut Option<Line>) -> Option<lapin::Result<lapin::message::Delivery>> {
    match line {
        Some(line) => line.consumer.next().await,
        None => std::future::pending().await,
    }
}

fn taken(
    delivery: lapin::message::Delivery,
    generation: Generation,
) -> (Delivery, BasicProperties) {
    let text = |name: &lapin::types::ShortString| name.as_str().to_owned();
    let properties = &delivery.properties;
    let reply_to = properties.reply_to().as_ref().map(|queue| ReplyAddress {
        queue: text(queue),
        correlation: properties.correlation_id().as_ref().map(text),
    });
    let taken = Delivery {
        generation,
        tag: delivery.delivery_tag,
        redelivered: delivery.redelivered,
        reply_to,
        arrived: Instant::now(),
        body: delivery.data,
    };
    (taken, delivery.properties)
}
