//! The exchanges and queues of a cell, as `cell init` declares them and every process expects them.
//!
//! Declaring what exists already and is the same changes nothing. What exists and differs is
//! refused by the broker, never changed, and the refusal says how to move. The command exchange
//! has no alternate exchange, because a command for a partition that does not exist would vanish
//! into it instead of coming back to its producer. The command queue has no maximum length,
//! because the broker would drop the oldest confirmed commands in silence.

use super::{AmqpError, Inequivalence, short, within};
use crate::keys::{COMMAND_EXCHANGE, EVENT_EXCHANGE, command_queue, parking_queue};
use conductor_engine::PartitionId;
use conductor_engine::limits::DELIVERY_LIMIT;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, ExchangeKind};

/// What a queue holds and who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// Messages that are ready to be delivered.
    pub messages: u32,
    /// Consumers.
    pub consumers: u32,
}

/// Declares one partition's command exchange, command queue, binding and parking queue.
///
/// The delivery limit is far above any crash loop. It is positive, because without one a returned
/// command goes behind all others on some versions and is thrown away after twenty returns on
/// others. What does reach it goes to the parking queue.
///
/// # Errors
/// [`AmqpError::Inequivalent`] when something exists and differs.
pub async fn declare_partition(channel: &Channel, partition: PartitionId) -> Result<(), AmqpError> {
    let (commands, parking) = (command_queue(partition), parking_queue(partition));
    declare_exchange(channel, COMMAND_EXCHANGE, ExchangeKind::Direct).await?;
    declare_queue(channel, &parking, quorum()).await?;
    let mut arguments = single_active();
    arguments.insert("x-dead-letter-exchange".into(), text(""));
    arguments.insert("x-dead-letter-routing-key".into(), text(&parking));
    declare_queue(channel, &commands, arguments).await?;
    bind(channel, &commands, COMMAND_EXCHANGE, &commands).await
}

/// Declares the exchange that events are published to.
///
/// # Errors
/// [`AmqpError::Inequivalent`] when it exists and differs.
pub async fn declare_events(channel: &Channel) -> Result<(), AmqpError> {
    declare_exchange(channel, EVENT_EXCHANGE, ExchangeKind::Topic).await
}

/// Checks that the exchange for events is there, without declaring it.
///
/// # Errors
/// [`AmqpError::Missing`] when it is not; the channel is dead then.
pub async fn require_events(channel: &Channel) -> Result<(), AmqpError> {
    let options = ExchangeDeclareOptions {
        passive: true,
        ..ExchangeDeclareOptions::default()
    };
    let (name, arguments) = (short(EVENT_EXCHANGE)?, FieldTable::default());
    let asking = channel.exchange_declare(name, ExchangeKind::Topic, options, arguments);
    within(&format!("exchange {EVENT_EXCHANGE}"), asking).await
}

/// Declares a durable queue of events and binds it; `#` is every type, `deal.#` is deals.
///
/// It has a single active consumer: when a node of the broker dies, a consumer that comes back at
/// once would else be given what is new before what its old connection held, and a reader that
/// counts would see a gap where nothing is missing.
///
/// # Errors
/// [`AmqpError::Inequivalent`] when it exists and differs.
pub async fn declare_event_queue(
    channel: &Channel,
    name: &str,
    routing_keys: &[&str],
) -> Result<(), AmqpError> {
    declare_queue(channel, name, single_active()).await?;
    for routing_key in routing_keys {
        bind(channel, name, EVENT_EXCHANGE, routing_key).await?;
    }
    Ok(())
}

/// What a queue holds and who reads it, without changing anything.
///
/// # Errors
/// [`AmqpError::Missing`] when there is no such queue; the channel is dead then.
pub async fn queue_counts(channel: &Channel, queue: &str) -> Result<QueueCounts, AmqpError> {
    let options = QueueDeclareOptions {
        passive: true,
        ..QueueDeclareOptions::default()
    };
    let asking = channel.queue_declare(short(queue)?, options, FieldTable::default());
    let found = within(&format!("queue {queue}"), asking).await?;
    Ok(QueueCounts {
        messages: found.message_count(),
        consumers: found.consumer_count(),
    })
}

/// The arguments of every queue of ours: on a majority of disks, and returned messages in front.
fn quorum() -> FieldTable {
    let limit = i32::try_from(DELIVERY_LIMIT).unwrap_or(i32::MAX);
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), text("quorum"));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(limit));
    arguments
}

/// The same for a queue whose order counts.
fn single_active() -> FieldTable {
    let mut arguments = quorum();
    arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    arguments
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value))
}

async fn declare_exchange(
    channel: &Channel,
    name: &str,
    kind: ExchangeKind,
) -> Result<(), AmqpError> {
    let options = ExchangeDeclareOptions {
        durable: true,
        ..ExchangeDeclareOptions::default()
    };
    let declaring = channel.exchange_declare(short(name)?, kind, options, FieldTable::default());
    let declared = within(&format!("exchange {name}"), declaring).await;
    declared.map_err(|error| explained("exchange", name, error))
}

async fn declare_queue(
    channel: &Channel,
    name: &str,
    arguments: FieldTable,
) -> Result<(), AmqpError> {
    let declaring = channel.queue_declare(short(name)?, QueueDeclareOptions::durable(), arguments);
    let declared = within(&format!("queue {name}"), declaring).await;
    declared
        .map(drop)
        .map_err(|error| explained("queue", name, error))
}

async fn bind(
    channel: &Channel,
    queue: &str,
    exchange: &str,
    routing_key: &str,
) -> Result<(), AmqpError> {
    let what = format!("queue {queue} and exchange {exchange} to bind");
    let binding = channel.queue_bind(
        short(queue)?,
        short(exchange)?,
        short(routing_key)?,
        QueueBindOptions::default(),
        FieldTable::default(),
    );
    within(&what, binding).await
}

/// A refusal of other arguments, where it is one.
fn explained(kind: &'static str, name: &str, error: AmqpError) -> AmqpError {
    let AmqpError::Failed { words, .. } = &error else {
        return error;
    };
    Inequivalence::read(kind, name, words).map_or(error, AmqpError::Inequivalent)
}
