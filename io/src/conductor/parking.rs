//! The parking queue: where messages go that are no command.
//!
//! A message is acknowledged at its own queue only after the parking queue has confirmed it, so a
//! crash in between can park it twice and never lose it. Runs on the I/O core, on a connection
//! that carries nothing else.

use crate::amqp::{self, Nodes, Outgoing, Publisher};
use crate::keys::{HEADER_PARKED_REASON, HEADER_PARTITION, parking_queue};
use crate::mailbox::{Refused, Sender};
use crate::messages::ToPartition;
use conductor_engine::PartitionId;
use conductor_engine::partition::{Generation, Tag};
use lapin::BasicProperties;
use lapin::Connection;
use lapin::types::{AMQPValue, FieldTable, LongString};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::warn;

/// A message to park.
#[derive(Debug)]
pub(super) struct ParkJob {
    pub(super) partition: PartitionId,
    pub(super) generation: Generation,
    pub(super) tag: Tag,
    pub(super) body: Vec<u8>,
    pub(super) reason: String,
}

/// What parking needs to know of a partition.
pub(super) struct Lot {
    pub(super) to_partition: Sender<ToPartition>,
    pub(super) generation: watch::Receiver<Generation>,
}

/// Longest reason in a header.
const REASON_BYTES_MAX: usize = 1_024;
/// How long the broker may leave a parked message unconfirmed.
const CONFIRM_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Parks messages one after the other, each until it is confirmed or its delivery is void.
pub(super) async fn run(
    broker: Nodes,
    mut jobs: mpsc::UnboundedReceiver<ParkJob>,
    lots: BTreeMap<PartitionId, Lot>,
) {
    let mut publisher: Option<(Connection, Publisher)> = None;
    while let Some(job) = jobs.recv().await {
        let Some(lot) = lots.get(&job.partition) else {
            continue;
        };
        while *lot.generation.borrow() == job.generation {
            match park(&broker, &mut publisher, &job).await {
                Ok(()) => {
                    confirm(lot, &job).await;
                    break;
                }
                Err(reason) => {
                    warn!(
                        "partition {}: parking failed, trying again: {reason}",
                        job.partition
                    );
                    publisher = None;
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
    }
}

async fn park(
    broker: &Nodes,
    publisher: &mut Option<(Connection, Publisher)>,
    job: &ParkJob,
) -> Result<(), String> {
    let usable = publisher
        .take()
        .filter(|(_, publisher)| publisher.is_usable());
    let (_, open) = match usable {
        Some(usable) => publisher.insert(usable),
        None => {
            let opened = connect(broker, job.partition)
                .await
                .map_err(|error| error.to_string())?;
            publisher.insert(opened)
        }
    };
    let publication = open.publish(message(job));
    publication.await.map_err(|error| error.to_string())
}

/// The queue is declared again too: somebody may have deleted it.
async fn connect(
    broker: &Nodes,
    partition: PartitionId,
) -> Result<(Connection, Publisher), amqp::AmqpError> {
    let connection = broker.connect("conductor parking").await?;
    let channel = amqp::open_channel(&connection).await?;
    amqp::declare_partition(&channel, partition).await?;
    amqp::close_channel(&channel).await;
    let publisher = Publisher::open(&connection, CONFIRM_WITHIN).await?;
    Ok((connection, publisher))
}

fn message(job: &ParkJob) -> Outgoing {
    let mut reason = job.reason.clone();
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    let mut headers = FieldTable::default();
    let reason = LongString::from(reason.into_bytes());
    headers.insert(HEADER_PARKED_REASON.into(), AMQPValue::LongString(reason));
    headers.insert(
        HEADER_PARTITION.into(),
        AMQPValue::LongLongInt(i64::from(job.partition.0)),
    );
    let id = format!("parked-p{}-{}-{}", job.partition, job.generation, job.tag);
    Outgoing {
        exchange: String::new(),
        routing_key: parking_queue(job.partition),
        properties: BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(id.into())
            .with_headers(headers),
        body: job.body.clone(),
        mandatory: true,
    }
}

async fn confirm(lot: &Lot, job: &ParkJob) {
    let mut message = ToPartition::Parked(job.generation, job.tag);
    while let Err(Refused::Full(back)) = lot.to_partition.send(message) {
        message = back;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
