//! Publishing commands and hearing what became of them.
//!
//! One channel publishes with confirms and `mandatory`, one exclusive queue brings the replies; the
//! correlation id is the command's number within this producer. A run keeps at most a window of
//! commands open, counted from the oldest that is not done, so memory is bounded and everything is
//! handed on in the order of sending. It is a closed loop: a slow cell is sent less.
//!
//! A producer never repeats a command by itself. After a lost connection what was not confirmed
//! may or may not be in the queue, and publishing it again could put it behind a later one; the
//! summary says how far it came, and the caller decides.

use super::subscription::{Subscription, Taking};
use super::summary::Summary;
use conductor_config::BrokerSettings;
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, AmqpError, Outgoing, Publication, PublishError, Publisher, within};
use conductor_io::keys::{COMMAND_EXCHANGE, command_queue};
use futures_util::stream::{FuturesUnordered, StreamExt};
use lapin::message::Delivery;
use lapin::options::QueueDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Connection};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// How long the broker may leave a command unconfirmed while it takes messages.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);
/// The delivery mode of a message that survives the broker's restart.
const PERSISTENT: u8 = 2;

/// One command on its way.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose queue it goes to.
    pub partition: PartitionId,
    /// Its bytes.
    pub body: Vec<u8>,
    /// Its command id, where it has a usable one.
    pub message_id: Option<String>,
    /// Whether a reply will come: what is no command is parked and never answered.
    pub answered: bool,
}

/// What became of one command.
#[derive(Clone, Debug)]
pub struct Done {
    /// Its number in the run, from zero.
    pub number: u64,
    /// Whether a queue has it.
    pub published: Result<(), PublishError>,
    /// Its reply, where one was awaited and came.
    pub reply: Option<Vec<u8>>,
    /// From publishing to the reply.
    pub waited: Option<Duration>,
}

/// Where a run's commands come from, and who hears of them.
pub trait Load {
    /// The next command; `None` at the end.
    ///
    /// # Errors
    /// Anything that must end the run.
    fn next(&mut self) -> anyhow::Result<Option<Request>>;

    /// A command is done. Called in the order of sending.
    ///
    /// # Errors
    /// Anything that must end the run.
    fn done(&mut self, done: Done) -> anyhow::Result<()>;
}

/// How a run is driven.
#[derive(Clone, Copy, Debug)]
pub struct ProducerOptions {
    /// Commands from the oldest that is not done to the newest.
    pub window: usize,
    /// How long a reply may take before it counts as missing; `None` asks for no replies.
    pub reply_within: Option<Duration>,
}

/// Why a run ended early, and how far it came.
#[derive(Debug, thiserror::Error)]
pub enum Interrupted {
    /// The broker is gone.
    #[error(
        "the connection to the broker was lost after {} messages, of which {} were confirmed and \
         the first {} without a gap: {reason}. What was not confirmed may be in the queue; send \
         the rest from message {} on, since what is sent twice is answered from its record",
        summary.sent, summary.confirmed, summary.confirmed_in_order,
        summary.confirmed_in_order + 1
    )]
    Lost {
        /// What happened.
        reason: String,
        /// How far it came.
        summary: Box<Summary>,
    },
    /// The source or the listener ended it.
    #[error("{0}")]
    Load(anyhow::Error),
}

/// A connection that publishes commands.
#[derive(Debug)]
pub struct Producer {
    connection: Connection,
    publisher: Publisher,
    replies: Subscription,
    reply_queue: String,
    /// Commands of earlier runs, so that a late reply to one of those is known as such.
    before: u64,
}

impl Producer {
    /// Connects, and declares a queue for replies that goes with the connection.
    ///
    /// # Errors
    /// [`AmqpError`].
    pub async fn connect(broker: &BrokerSettings, name: &str) -> Result<Self, AmqpError> {
        let connection = amqp::connect(broker, name).await?;
        let publisher = Publisher::open(&connection, CONFIRM_WITHIN).await?;
        let channel = amqp::open_channel(&connection).await?;
        let options = QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..QueueDeclareOptions::default()
        };
        let unnamed = ShortString::default();
        let declaring = channel.queue_declare(unnamed, options, FieldTable::default());
        let queue = within("declaring the reply queue", declaring).await?;
        let reply_queue = queue.name().to_string();
        let replies = Subscription::on(channel, &reply_queue, Taking::Blind).await?;
        Ok(Self {
            connection,
            publisher,
            replies,
            reply_queue,
            before: 0,
        })
    }

    /// Publishes everything that the load gives and waits until all of it is done.
    ///
    /// # Errors
    /// [`Interrupted`] with how far it came.
    pub async fn run(
        &mut self,
        load: &mut dyn Load,
        options: ProducerOptions,
    ) -> Result<Summary, Interrupted> {
        let run = Run {
            options,
            began: Instant::now(),
            last_done: None,
            first: self.before,
            open: VecDeque::with_capacity(options.window.min(4_096)),
            confirms: FuturesUnordered::new(),
            summary: Summary::default(),
        };
        run.drive(self, load).await
    }

    /// Publishes one command and waits for its reply.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub async fn ask(
        &mut self,
        request: Request,
        reply_within: Duration,
    ) -> Result<Done, Interrupted> {
        let mut one = One {
            request: Some(request),
            done: None,
        };
        let options = ProducerOptions {
            window: 1,
            reply_within: Some(reply_within),
        };
        self.run(&mut one, options).await?;
        one.done
            .ok_or_else(|| Interrupted::Load(anyhow::anyhow!("the run ended without it")))
    }

    /// Leaves in good order.
    pub async fn close(self) {
        self.publisher.close().await;
        self.replies.close().await;
        amqp::close_connection(&self.connection).await;
    }

    /// Hands a command to the channel.
    fn publish(&self, request: Request, correlation: Option<u64>) -> Publication {
        let mut properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into());
        // An id that is longer than the protocol carries is no command's id either.
        let id = request
            .message_id
            .and_then(|id| ShortString::try_new(id).ok());
        if let Some(id) = id {
            properties = properties.with_message_id(id);
        }
        if let Some(correlation) = correlation {
            properties = properties
                .with_reply_to(ShortString::from(self.reply_queue.as_str()))
                .with_correlation_id(ShortString::from(correlation.to_string()));
        }
        self.publisher.publish(Outgoing {
            exchange: COMMAND_EXCHANGE.to_owned(),
            routing_key: command_queue(request.partition),
            properties,
            body: request.body,
            mandatory: true,
        })
    }
}

/// A load of one command.
struct One {
    request: Option<Request>,
    done: Option<Done>,
}

impl Load for One {
    fn next(&mut self) -> anyhow::Result<Option<Request>> {
        Ok(self.request.take())
    }

    fn done(&mut self, done: Done) -> anyhow::Result<()> {
        self.done = Some(done);
        Ok(())
    }
}

/// A command that is not done.
struct Open {
    since: Instant,
    published: Option<Result<(), PublishError>>,
    awaits_reply: bool,
    reply: Option<(Vec<u8>, Duration)>,
}

impl Open {
    /// Nothing more is to come of it.
    fn is_done(&self) -> bool {
        match &self.published {
            None => false,
            Some(Ok(())) => !self.awaits_reply || self.reply.is_some(),
            Some(Err(_)) => true,
        }
    }
}

type Confirm = Pin<Box<dyn Future<Output = (u64, Result<(), PublishError>)> + Send>>;

/// One run of a producer.
struct Run {
    options: ProducerOptions,
    began: Instant,
    last_done: Option<Instant>,
    /// The number, within the producer, of the oldest open command.
    first: u64,
    open: VecDeque<Open>,
    confirms: FuturesUnordered<Confirm>,
    summary: Summary,
}

impl Run {
    async fn drive(
        mut self,
        producer: &mut Producer,
        load: &mut dyn Load,
    ) -> Result<Summary, Interrupted> {
        let started = producer.before;
        let mut more = true;
        loop {
            while more && self.open.len() < self.options.window.max(1) {
                match load.next().map_err(Interrupted::Load)? {
                    Some(request) => self.send(producer, request),
                    None => more = false,
                }
            }
            producer.before = self.first + self.open.len() as u64;
            if !more && self.open.is_empty() {
                return Ok(self.finish());
            }
            let late = self.deadline();
            tokio::select! {
                Some((number, outcome)) = self.confirms.next() => self.confirmed(number, outcome)?,
                reply = producer.replies.next() => match reply {
                    Ok(delivery) => self.replied(delivery),
                    Err(error) => return Err(self.lost(error.to_string())),
                },
                () = wait_until(late) => self.give_up_on_late(),
            }
            while self.open.front().is_some_and(Open::is_done) {
                let open = self.open.pop_front().expect("it was just looked at");
                let done = self.settle(open, started);
                load.done(done).map_err(Interrupted::Load)?;
            }
        }
    }

    fn send(&mut self, producer: &Producer, request: Request) {
        let awaits_reply = request.answered && self.options.reply_within.is_some();
        let number = self.first + self.open.len() as u64;
        self.open.push_back(Open {
            since: Instant::now(),
            published: None,
            awaits_reply,
            reply: None,
        });
        self.summary.sent += 1;
        let publication = producer.publish(request, awaits_reply.then_some(number));
        self.confirms
            .push(Box::pin(async move { (number, publication.await) }));
    }

    fn confirmed(
        &mut self,
        number: u64,
        outcome: Result<(), PublishError>,
    ) -> Result<(), Interrupted> {
        match &outcome {
            Ok(()) => self.summary.confirmed += 1,
            Err(PublishError::Returned { .. }) => self.summary.returned += 1,
            Err(error) if error.channel_survives() => self.summary.refused += 1,
            Err(error) => return Err(self.lost(error.to_string())),
        }
        // One that was given up on has left; its confirm is counted all the same.
        if let Some(open) = self.find(number) {
            open.published = Some(outcome);
        }
        Ok(())
    }

    fn replied(&mut self, delivery: Delivery) {
        let correlation = delivery.properties.correlation_id().as_ref();
        let number = correlation.and_then(|id| id.as_str().parse::<u64>().ok());
        let Some(open) = number.and_then(|number| self.find(number)) else {
            // Its command is done already: a new owner answers once more what it finds unacked.
            self.summary.replies.repeated += 1;
            return;
        };
        match &open.reply {
            Some((first, _)) => {
                let differs = *first != delivery.data;
                self.summary.replies.repeated += 1;
                self.summary.replies.contradicting += u64::from(differs);
            }
            None => {
                let waited = open.since.elapsed();
                self.summary.replies.count(&delivery.data);
                self.summary.publish_to_reply_ms.record(waited);
                let open = number.and_then(|number| self.find(number));
                open.expect("it was just found").reply = Some((delivery.data, waited));
            }
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Open> {
        let place = number.checked_sub(self.first)?;
        self.open.get_mut(usize::try_from(place).ok()?)
    }

    /// When the oldest command that is confirmed and not answered is late.
    fn deadline(&self) -> Option<Instant> {
        let oldest = self
            .open
            .front()
            .filter(|open| open.published == Some(Ok(())))?;
        Some(oldest.since + self.options.reply_within?)
    }

    /// Counts the replies that are late as missing, so that the run goes on.
    fn give_up_on_late(&mut self) {
        let Some(within) = self.options.reply_within else {
            return;
        };
        for open in &mut self.open {
            let late = open.since.elapsed() >= within;
            if late && open.published == Some(Ok(())) && open.awaits_reply && open.reply.is_none() {
                open.awaits_reply = false;
                self.summary.replies.missing += 1;
            }
        }
    }

    fn settle(&mut self, open: Open, started: u64) -> Done {
        let number = self.first - started;
        self.first += 1;
        self.last_done = Some(Instant::now());
        let published = open
            .published
            .expect("what is done was settled by the broker");
        if published.is_ok() && self.summary.confirmed_in_order == number {
            self.summary.confirmed_in_order += 1;
        }
        let (reply, waited) = open.reply.unzip();
        Done {
            number,
            published,
            reply,
            waited,
        }
    }

    fn finish(mut self) -> Summary {
        let ended = self.last_done.unwrap_or(self.began);
        self.summary.seconds = (ended - self.began).as_secs_f64();
        let finished = self.summary.confirmed - self.summary.replies.missing;
        self.summary.commands_per_second = finished as f64 / self.summary.seconds.max(f64::EPSILON);
        self.summary
    }

    fn lost(&mut self, reason: String) -> Interrupted {
        let mut run = Self {
            open: std::mem::take(&mut self.open),
            confirms: FuturesUnordered::new(),
            summary: std::mem::take(&mut self.summary),
            ..*self
        };
        if run.summary.confirmed_in_order == run.summary.sent - run.open.len() as u64 {
            let in_order = run
                .open
                .iter()
                .take_while(|open| open.published == Some(Ok(())));
            run.summary.confirmed_in_order += in_order.count() as u64;
        }
        run.last_done = Some(Instant::now());
        let summary = Box::new(run.finish());
        Interrupted::Lost { reason, summary }
    }
}

/// Waits for a moment, or for ever.
async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
