//! Making servers into a cell: the topology in each store, the exchanges and queues at the broker.
//!
//! It can be run again at any time. What is there and is the same stays; what is there and differs
//! is refused, never changed.

use super::store::{Store, StoreError, TopologyWritten};
use conductor_config::Settings;
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, AmqpError};
use conductor_io::keys::{COMMAND_EXCHANGE, EVENT_EXCHANGE, command_queue, parking_queue};
use serde::Serialize;
use std::fmt;

/// Every type of event.
const EVERY_EVENT: [&str; 1] = ["#"];

/// Why a cell could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetUpError {
    /// At a store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// At the broker.
    #[error(transparent)]
    Broker(#[from] AmqpError),
}

/// What is set up now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetUp {
    /// The partitions.
    pub partitions: Vec<PartitionSetUp>,
    /// The exchanges.
    pub exchanges: Vec<&'static str>,
    /// The queues of events that were asked for.
    pub event_queues: Vec<String>,
}

/// One partition that is set up now.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionSetUp {
    /// Its number.
    pub partition: u32,
    /// Its store.
    pub store: String,
    /// Of how many partitions.
    pub partition_count: u32,
    /// With which prefetch.
    pub prefetch: u16,
    /// Whether the topology was written now; it was there already otherwise.
    pub topology_written: bool,
    /// Its queue of commands.
    pub command_queue: String,
    /// Its queue of messages that are no command.
    pub parking_queue: String,
}

/// Sets up every partition of the settings, and these queues of all events.
///
/// The stores come first: a queue in front of a store that belongs to another cell would take
/// commands that nobody may execute.
///
/// # Errors
/// [`SetUpError`]; what was set up before it stays.
pub async fn set_up(settings: &Settings, event_queues: &[String]) -> Result<SetUp, SetUpError> {
    let mut partitions = Vec::with_capacity(settings.partitions.len());
    for own in &settings.partitions {
        partitions.push(partition(settings, own.id).await?);
    }
    let connection = amqp::connect(&settings.broker, "cell init").await?;
    let declared = declare(&connection, settings, event_queues).await;
    amqp::close_connection(&connection).await;
    declared?;
    Ok(SetUp {
        partitions,
        exchanges: vec![COMMAND_EXCHANGE, EVENT_EXCHANGE],
        event_queues: event_queues.to_vec(),
    })
}

async fn partition(
    settings: &Settings,
    partition: PartitionId,
) -> Result<PartitionSetUp, StoreError> {
    let mut store = Store::open(settings, partition).await?;
    let written = store.write_topology().await?;
    Ok(PartitionSetUp {
        partition: partition.0,
        store: store.address().to_owned(),
        partition_count: settings.partition_count,
        prefetch: settings.prefetch,
        topology_written: written == TopologyWritten::Now,
        command_queue: command_queue(partition),
        parking_queue: parking_queue(partition),
    })
}

async fn declare(
    connection: &lapin::Connection,
    settings: &Settings,
    event_queues: &[String],
) -> Result<(), AmqpError> {
    let channel = amqp::open_channel(connection).await?;
    for own in &settings.partitions {
        amqp::declare_partition(&channel, own.id).await?;
    }
    amqp::declare_events(&channel).await?;
    for queue in event_queues {
        amqp::declare_event_queue(&channel, queue, &EVERY_EVENT).await?;
    }
    Ok(())
}

impl fmt::Display for SetUp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for own in &self.partitions {
            let written = if own.topology_written {
                "written"
            } else {
                "already there, and the same"
            };
            writeln!(
                out,
                "partition {} of {}: topology at {} {written} (prefetch {})",
                own.partition, own.partition_count, own.store, own.prefetch
            )?;
            writeln!(
                out,
                "  queues {} and {}",
                own.command_queue, own.parking_queue
            )?;
        }
        writeln!(out, "exchanges {}", self.exchanges.join(" and "))?;
        for queue in &self.event_queues {
            writeln!(out, "event queue {queue}, bound to every event")?;
        }
        Ok(())
    }
}
