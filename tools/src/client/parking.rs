//! The parking queue: what could not be read as a command, and what a person put there.
//!
//! Looking loses nothing: messages are fetched without being acknowledged, and closing the channel
//! gives them back in their order. While somebody looks, another one sees only the rest. Taking a
//! message away always means that another queue has confirmed it before; a crash in between leaves
//! it in both, never in none.

use super::subscription::Subscription;
use conductor_engine::{CommandId, Incoming, PartitionId};
use conductor_io::amqp::{
    AmqpError, Outgoing, PublishError, Publisher, close_channel, open_channel, queue_counts, within,
};
use conductor_io::keys::{COMMAND_EXCHANGE, HEADER_PARKED_REASON, command_queue, parking_queue};
use conductor_io::wire::decode;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicGetOptions};
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use lapin::{BasicProperties, Channel, Connection};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// How long the broker may leave a message unconfirmed.
const CONFIRM_WITHIN: Duration = Duration::from_secs(10);
/// How long a halted partition's queue may take to hand out its messages.
const DELIVERED_WITHIN: Duration = Duration::from_secs(15);
/// How long nothing comes once something came, when all was handed out.
const QUIET: Duration = Duration::from_secs(2);
/// Bytes of a message's digest that are its id.
const ID_BYTES: usize = 6;
/// The delivery mode of a message that survives the broker's restart.
const PERSISTENT: u8 = 2;

/// Why the parking queue could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ParkingError {
    /// A call to the broker.
    #[error(transparent)]
    Broker(#[from] AmqpError),
    /// A message did not reach the queue it was to go to; it stays where it was.
    #[error("message {id} stays where it was, because it did not reach {queue}: {error}")]
    Publish {
        /// Which message.
        id: String,
        /// Where it was to go.
        queue: String,
        /// Why it did not.
        error: PublishError,
    },
    /// The command to park was not handed out.
    #[error(
        "command {command} is not among the {seen} messages that the queue {queue} handed out \
         ({consumers} other consumers, prefetch {prefetch}). Is it spelled right? While another \
         consumer is registered, nothing comes here; a conductor of a halted partition has none"
    )]
    NoCommand {
        /// The command.
        command: CommandId,
        /// Where it was looked for.
        queue: String,
        /// How many messages came.
        seen: usize,
        /// How many can come.
        prefetch: u16,
        /// Who else consumes.
        consumers: u32,
    },
}

/// One parked message.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parked {
    /// Begin of the SHA-256 of its bytes; equal messages share it.
    pub id: String,
    /// Its command id, where it has a usable one.
    pub command_id: Option<String>,
    /// Its message id.
    pub message_id: Option<String>,
    /// Why it is here, as whoever parked it says.
    pub reason: String,
    /// Its length.
    pub bytes: usize,
    /// Its headers, as text.
    pub headers: Vec<(String, String)>,
    /// Its bytes, or how they begin.
    pub body: String,
}

/// Which parked messages are meant.
#[derive(Clone, Debug)]
pub enum Which {
    /// Those with this id, command id or message id.
    Id(String),
    /// All.
    All,
}

/// Looks at the parked messages, the oldest first, at most so many; `body_max` bytes of each.
///
/// # Errors
/// [`AmqpError`].
pub async fn parked(
    connection: &Connection,
    partition: PartitionId,
    limit: u32,
    body_max: usize,
) -> Result<(Vec<Parked>, u32), AmqpError> {
    let queue = parking_queue(partition);
    let channel = open_channel(connection).await?;
    let waiting = queue_counts(&channel, &queue).await?.messages;
    let mut found = Vec::new();
    for _ in 0..waiting.min(limit) {
        let Some(delivery) = fetch(&channel, &queue).await? else {
            break;
        };
        found.push(Parked::of(&delivery, body_max));
    }
    // Nothing was acknowledged, so this gives all of it back.
    close_channel(&channel).await;
    Ok((found, waiting))
}

/// Parked messages by their id: how often each is there.
pub type ParkedCounts = BTreeMap<String, u64>;

/// Counts the parked messages by their id.
///
/// # Errors
/// [`AmqpError`].
pub async fn parked_counts(
    connection: &Connection,
    partition: PartitionId,
) -> Result<ParkedCounts, AmqpError> {
    let (messages, _) = parked(connection, partition, u32::MAX, 0).await?;
    let mut counts = ParkedCounts::new();
    for message in messages {
        *counts.entry(message.id).or_default() += 1;
    }
    Ok(counts)
}

/// Sends parked messages to their partition's command queue again, in their order.
///
/// # Errors
/// [`ParkingError`]; what was sent before it is sent.
pub async fn redrive(
    connection: &Connection,
    partition: PartitionId,
    which: &Which,
) -> Result<Vec<Parked>, ParkingError> {
    let queue = parking_queue(partition);
    let publisher = Publisher::open(connection, CONFIRM_WITHIN).await?;
    let channel = open_channel(connection).await?;
    let sent = redrive_on(&channel, &publisher, &queue, partition, which).await;
    close_channel(&channel).await;
    publisher.close().await;
    sent
}

async fn redrive_on(
    channel: &Channel,
    publisher: &Publisher,
    queue: &str,
    partition: PartitionId,
    which: &Which,
) -> Result<Vec<Parked>, ParkingError> {
    // What is parked meanwhile, perhaps one of these again, is left for the next time.
    let waiting = queue_counts(channel, queue).await?.messages;
    let mut sent = Vec::new();
    for _ in 0..waiting {
        let Some(delivery) = fetch(channel, queue).await? else {
            break;
        };
        let about = Parked::of(&delivery, 0);
        if !about.is(which) {
            continue;
        }
        let commands = command_queue(partition);
        let message = Outgoing {
            exchange: COMMAND_EXCHANGE.to_owned(),
            routing_key: commands.clone(),
            properties: properties(about.command_id.as_deref()),
            body: delivery.data.clone(),
            mandatory: true,
        };
        move_over(publisher, &delivery, message, &about.id, commands).await?;
        sent.push(about);
    }
    Ok(sent)
}

/// Takes one command out of a halted partition's queue and parks it.
///
/// The partition's queue serves one consumer; this becomes it, with the prefetch that every
/// consumer of the queue has, so that what is given back stays in order.
///
/// # Errors
/// [`ParkingError`]; the queue is then as it was.
pub async fn park_command(
    connection: &Connection,
    partition: PartitionId,
    prefetch: u16,
    command: &CommandId,
    reason: &str,
) -> Result<Parked, ParkingError> {
    let queue = command_queue(partition);
    let counting = open_channel(connection).await?;
    let consumers = queue_counts(&counting, &queue).await?.consumers;
    close_channel(&counting).await;
    let publisher = Publisher::open(connection, CONFIRM_WITHIN).await?;
    let mut subscription = Subscription::open(connection, &queue, prefetch).await?;
    let mut seen = 0;
    let parked = loop {
        let patience = if seen == 0 { DELIVERED_WITHIN } else { QUIET };
        let next = tokio::time::timeout(patience, subscription.next());
        let delivery = match next.await {
            Ok(Ok(delivery)) if seen < usize::from(prefetch) => delivery,
            Ok(Err(error)) => break Err(error.into()),
            Ok(Ok(_)) | Err(_) => {
                let (command, queue) = (command.clone(), queue.clone());
                break Err(ParkingError::NoCommand {
                    command,
                    queue,
                    seen,
                    prefetch,
                    consumers,
                });
            }
        };
        seen += 1;
        if command_id(&delivery.data).as_ref() == Some(command) {
            break park(&publisher, partition, &delivery, reason).await;
        }
    };
    // Everything but the parked command goes back, in order.
    subscription.close().await;
    publisher.close().await;
    parked
}

async fn park(
    publisher: &Publisher,
    partition: PartitionId,
    delivery: &Delivery,
    reason: &str,
) -> Result<Parked, ParkingError> {
    let mut about = Parked::of(delivery, usize::MAX);
    reason.clone_into(&mut about.reason);
    let mut headers = FieldTable::default();
    headers.insert(
        HEADER_PARKED_REASON.into(),
        AMQPValue::LongString(LongString::from(reason)),
    );
    let parking = parking_queue(partition);
    let message = Outgoing {
        exchange: String::new(),
        routing_key: parking.clone(),
        properties: properties(about.command_id.as_deref()).with_headers(headers),
        body: delivery.data.clone(),
        mandatory: true,
    };
    move_over(publisher, delivery, message, &about.id, parking).await?;
    Ok(about)
}

/// Publishes a message and only then acknowledges the delivery that it was.
async fn move_over(
    publisher: &Publisher,
    delivery: &Delivery,
    message: Outgoing,
    id: &str,
    queue: String,
) -> Result<(), ParkingError> {
    let published = publisher.publish(message).await;
    published.map_err(|error| ParkingError::Publish {
        id: id.to_owned(),
        queue,
        error,
    })?;
    let acknowledging = delivery.acker.ack(BasicAckOptions::default());
    within("acknowledging", acknowledging).await?;
    Ok(())
}

async fn fetch(channel: &Channel, queue: &str) -> Result<Option<Delivery>, AmqpError> {
    let name = ShortString::from(queue);
    let fetching = channel.basic_get(name, BasicGetOptions::default());
    let fetched = within(&format!("queue {queue}"), fetching).await?;
    Ok(fetched.map(|message| message.delivery))
}

fn properties(command_id: Option<&str>) -> BasicProperties {
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type("application/json".into());
    match command_id {
        Some(id) => properties.with_message_id(id.into()),
        None => properties,
    }
}

impl Parked {
    fn of(delivery: &Delivery, body_max: usize) -> Self {
        let headers = headers(delivery);
        let reason = headers
            .iter()
            .find(|(name, _)| name == HEADER_PARKED_REASON);
        let reason = match (reason, headers.iter().any(|(name, _)| name == "x-death")) {
            (Some((_, reason)), _) => reason.clone(),
            (None, true) => "the broker gave it up: delivered too often".to_owned(),
            (None, false) => "no reason is recorded".to_owned(),
        };
        let data = &delivery.data;
        Self {
            id: id(data),
            command_id: command_id(data).map(|id| id.to_string()),
            message_id: delivery
                .properties
                .message_id()
                .as_ref()
                .map(ToString::to_string),
            reason,
            bytes: data.len(),
            headers,
            body: String::from_utf8_lossy(&data[..data.len().min(body_max)]).into_owned(),
        }
    }

    /// The id that a message of these bytes has.
    pub(crate) fn id_of(body: &[u8]) -> String {
        id(body)
    }

    /// Whether it is meant.
    pub fn is(&self, which: &Which) -> bool {
        match which {
            Which::All => true,
            Which::Id(id) => {
                let own = [
                    Some(&self.id),
                    self.command_id.as_ref(),
                    self.message_id.as_ref(),
                ];
                own.into_iter().flatten().any(|name| name == id)
            }
        }
    }
}

fn headers(delivery: &Delivery) -> Vec<(String, String)> {
    let table = delivery.properties.headers().as_ref();
    let pairs = table.into_iter().flat_map(|table| table.inner());
    pairs
        .map(|(name, value)| (name.to_string(), shown(value)))
        .collect()
}

/// A header's value for people.
fn shown(value: &AMQPValue) -> String {
    match value {
        AMQPValue::LongString(text) => text.to_string(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        AMQPValue::FieldArray(values) => {
            let all: Vec<String> = values.as_slice().iter().map(shown).collect();
            format!("[{}]", all.join(", "))
        }
        AMQPValue::FieldTable(table) => {
            let pairs = table.into_iter();
            let all: Vec<String> = pairs
                .map(|(name, value)| format!("{name} {}", shown(value)))
                .collect();
            format!("({})", all.join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn id(body: &[u8]) -> String {
    Sha256::digest(body)
        .iter()
        .take(ID_BYTES)
        .fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a string takes all text");
            text
        })
}

fn command_id(body: &[u8]) -> Option<CommandId> {
    match decode(body) {
        Incoming::Command(command) => Some(command.id),
        Incoming::Refused(refused) => Some(refused.id),
        Incoming::Unusable(_) => None,
    }
}
