//! Publishing commands and hearing what became of them.
//!
//! One channel publishes with confirms and `mandatory`, one exclusive queue brings the replies; the
//! correlation id is the command's number within this producer. A run keeps at most a window of
//! commands open, counted from the oldest that is not done, so memory is bounded and everything is
//! handed on in the order of sending. It is a closed loop: a slow cell is sent less.
//!
//! A run never repeats a command by itself. After a lost connection what was not confirmed
//! may or may not be in the queue, and publishing it again could put it behind a later one; the
//! summary says how far it came, and the caller decides.

mod run;

use super::subscription::{Subscription, Taking};
use super::summary::Summary;
use conductor_config::BrokerSettings;
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, AmqpError, Outgoing, Publication, PublishError, Publisher, within};
use conductor_io::keys::{COMMAND_EXCHANGE, command_queue};
use lapin::message::Delivery;
use lapin::options::QueueDeclareOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Connection};
use run::Run;
use std::time::Duration;

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
    #[error("{0:#}")]
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
        Run::new(self.before, options).drive(self, load).await
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

    /// Leaves a connection that is in doubt: what is open on it stays open. A message that was
    /// handed to it may still reach its queue.
    pub(crate) async fn abandon(self) {
        amqp::close_connection(&self.connection).await;
    }

    /// The next reply, whichever command it answers; it may be abandoned while it waits.
    ///
    /// # Errors
    /// [`AmqpError`] when the connection is gone.
    pub(crate) async fn next_reply(&mut self) -> Result<Delivery, AmqpError> {
        self.replies.next().await
    }

    /// Hands a command to the channel.
    pub(crate) fn publish(&self, request: Request, correlation: Option<u64>) -> Publication {
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
