//! The parking queue of one partition: where its messages go that are no command.
//!
//! A message is acknowledged at its own queue only after the parking queue has confirmed it, so a
//! crash in between can park it twice and never lose it. Each partition has a task and a connection
//! of its own: a parking queue that the broker refuses holds up the acknowledgements of its own
//! partition and of no other, and shows in that one's readiness. What the producer said beside the
//! body is kept in headers and never as properties, because an expiry, a user or a list of further
//! routes would be obeyed again.
//!
//! Runs on the I/O core, on connections that carry nothing else.

use crate::admin::IoCoreReport;
use crate::amqp::{self, Nodes, Outgoing, PublishError, Publisher};
use crate::keys::{
    HEADER_ORIGINAL_CORRELATION_ID, HEADER_ORIGINAL_HEADERS, HEADER_ORIGINAL_MESSAGE_ID,
    HEADER_ORIGINAL_REPLY_TO, HEADER_PARKED_REASON, HEADER_PARTITION, parking_queue,
};
use crate::mailbox::{Refused, Sender};
use crate::messages::ToPartition;
use conductor_engine::PartitionId;
use conductor_engine::partition::{Generation, Tag};
use lapin::BasicProperties;
use lapin::Connection;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::{info, warn};

/// A message to park.
#[derive(Debug)]
pub(super) struct ParkJob {
    pub(super) generation: Generation,
    pub(super) tag: Tag,
    pub(super) body: Vec<u8>,
    pub(super) reason: String,
    /// What its producer said beside the body.
    pub(super) original: BasicProperties,
}

/// What parking needs to know of its partition.
pub(super) struct Lot {
    pub(super) partition: PartitionId,
    pub(super) broker: Nodes,
    pub(super) to_partition: Sender<ToPartition>,
    pub(super) generation: watch::Receiver<Generation>,
    pub(super) report: Arc<IoCoreReport>,
}

/// Longest reason in a header.
const REASON_BYTES_MAX: usize = 1_024;
/// Longest headers of the original that are kept, as they would be printed: all of a message's
/// properties must fit into one frame, and the broker ends a connection that sends a longer one.
const ORIGINAL_HEADERS_BYTES_MAX: usize = 64 * 1_024;
/// How long the broker may leave a parked message unconfirmed.
const CONFIRM_WITHIN: Duration = Duration::from_secs(10);
/// Between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Parks messages one after the other, each until it is confirmed or its delivery is void.
pub(super) async fn run(lot: Lot, mut jobs: mpsc::UnboundedReceiver<ParkJob>) {
    // Tells this process's parked messages from an earlier one's.
    let process = fastrand::u64(..);
    let mut publisher: Option<(Connection, Publisher)> = None;
    while let Some(job) = jobs.recv().await {
        while *lot.generation.borrow() == job.generation {
            match park(&lot, &mut publisher, process, &job).await {
                Ok(()) => {
                    lot.goes_on();
                    confirm(&lot, &job).await;
                    break;
                }
                Err(reason) => {
                    lot.stands_still(reason);
                    tokio::time::sleep(TRY_AGAIN).await;
                }
            }
        }
        // A delivery that is void is the broker's again, and nothing waits here any more.
        lot.goes_on();
    }
}

impl Lot {
    /// Readiness is red from now on, and the log says so once.
    fn stands_still(&self, reason: String) {
        let mut figures = self.report.of(self.partition);
        if figures.parking_problem.is_none() {
            let queue = parking_queue(self.partition);
            warn!(
                "partition {}: a message cannot be parked in {queue}, and nothing behind it is \
                 acknowledged; trying again: {reason}",
                self.partition
            );
        }
        figures.parking_problem = Some(reason);
    }

    fn goes_on(&self) {
        if self
            .report
            .of(self.partition)
            .parking_problem
            .take()
            .is_some()
        {
            info!("partition {}: parking goes on", self.partition);
        }
    }
}

async fn park(
    lot: &Lot,
    publisher: &mut Option<(Connection, Publisher)>,
    process: u64,
    job: &ParkJob,
) -> Result<(), String> {
    let usable = publisher
        .take()
        .filter(|(_, publisher)| publisher.is_usable());
    let (connection, open) = match usable {
        Some(usable) => usable,
        None => connect(lot).await.map_err(|error| error.to_string())?,
    };
    let outcome = open.publish(message(lot.partition, process, job)).await;
    // A queue that is gone is declared by the next connection.
    if matches!(outcome, Ok(()) | Err(PublishError::Refused)) {
        *publisher = Some((connection, open));
    } else {
        amqp::close_connection(&connection).await;
    }
    outcome.map_err(|error| error.to_string())
}

/// The queue is declared again too: somebody may have deleted it.
async fn connect(lot: &Lot) -> Result<(Connection, Publisher), amqp::AmqpError> {
    let name = format!("conductor parking p{}", lot.partition);
    let connection = lot.broker.connect(&name).await?;
    match open(&connection, lot.partition).await {
        Ok(publisher) => Ok((connection, publisher)),
        Err(error) => {
            amqp::close_connection(&connection).await;
            Err(error)
        }
    }
}

async fn open(
    connection: &Connection,
    partition: PartitionId,
) -> Result<Publisher, amqp::AmqpError> {
    let channel = amqp::open_channel(connection).await?;
    amqp::declare_partition(&channel, partition).await?;
    amqp::close_channel(&channel).await;
    Publisher::open(connection, CONFIRM_WITHIN).await
}

fn message(partition: PartitionId, process: u64, job: &ParkJob) -> Outgoing {
    let mut reason = job.reason.clone();
    reason.truncate(reason.floor_char_boundary(REASON_BYTES_MAX));
    let mut headers = original(&job.original);
    let reason = LongString::from(reason.into_bytes());
    headers.insert(HEADER_PARKED_REASON.into(), AMQPValue::LongString(reason));
    headers.insert(
        HEADER_PARTITION.into(),
        AMQPValue::LongLongInt(i64::from(partition.0)),
    );
    let (generation, tag) = (job.generation, job.tag);
    let id = format!("parked-p{partition}-{process:016x}-{generation}-{tag}");
    Outgoing {
        exchange: String::new(),
        routing_key: parking_queue(partition),
        properties: BasicProperties::default()
            .with_delivery_mode(2)
            .with_message_id(id.into())
            .with_headers(headers),
        body: job.body.clone(),
        mandatory: true,
    }
}

/// What the producer said, as headers of ours.
fn original(said: &BasicProperties) -> FieldTable {
    let mut headers = FieldTable::default();
    let texts: [(&str, &Option<ShortString>); 3] = [
        (HEADER_ORIGINAL_REPLY_TO, said.reply_to()),
        (HEADER_ORIGINAL_CORRELATION_ID, said.correlation_id()),
        (HEADER_ORIGINAL_MESSAGE_ID, said.message_id()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            let text = LongString::from(text.as_str());
            headers.insert(name.into(), AMQPValue::LongString(text));
        }
    }
    if let Some(table) = said.headers()
        && format!("{table:?}").len() <= ORIGINAL_HEADERS_BYTES_MAX
    {
        let table = AMQPValue::FieldTable(table.clone());
        headers.insert(HEADER_ORIGINAL_HEADERS.into(), table);
    }
    headers
}

async fn confirm(lot: &Lot, job: &ParkJob) {
    let mut message = ToPartition::Parked(job.generation, job.tag);
    while let Err(Refused::Full(back)) = lot.to_partition.send(message) {
        message = back;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(original: BasicProperties) -> ParkJob {
        ParkJob {
            generation: 2,
            tag: 7,
            body: b"no command".to_vec(),
            reason: "it is no JSON".to_owned(),
            original,
        }
    }

    #[test]
    fn what_the_producer_said_is_kept_as_headers_and_obeyed_by_nobody() {
        let mut theirs = FieldTable::default();
        theirs.insert("CC".into(), AMQPValue::LongString("elsewhere".into()));
        let said = BasicProperties::default()
            .with_reply_to("answers".into())
            .with_correlation_id("c-1".into())
            .with_message_id("m-1".into())
            .with_expiration("1".into())
            .with_user_id("somebody".into())
            .with_headers(theirs.clone());
        let parked = message(PartitionId(3), 9, &job(said)).properties;
        assert_eq!(
            parked.message_id().as_ref().map(ShortString::as_str),
            Some("parked-p3-0000000000000009-2-7")
        );
        assert!(parked.expiration().is_none() && parked.user_id().is_none());
        assert!(parked.reply_to().is_none());
        let headers = parked.headers().clone().expect("it has headers");
        let headers = headers.inner();
        assert!(!headers.contains_key("CC"));
        let text = |name: &str| match headers.get(name) {
            Some(AMQPValue::LongString(text)) => text.to_string(),
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(text(HEADER_ORIGINAL_REPLY_TO), "answers");
        assert_eq!(text(HEADER_ORIGINAL_CORRELATION_ID), "c-1");
        assert_eq!(text(HEADER_ORIGINAL_MESSAGE_ID), "m-1");
        let kept = headers.get(HEADER_ORIGINAL_HEADERS);
        assert_eq!(kept, Some(&AMQPValue::FieldTable(theirs)));
    }

    #[test]
    fn headers_that_would_not_fit_into_a_frame_are_left_out() {
        let mut theirs = FieldTable::default();
        let long = AMQPValue::LongString("x".repeat(100_000).into());
        theirs.insert("long".into(), long);
        let said = BasicProperties::default().with_headers(theirs);
        let parked = message(PartitionId(3), 9, &job(said)).properties;
        let headers = parked.headers().clone().expect("it has headers");
        assert!(!headers.inner().contains_key(HEADER_ORIGINAL_HEADERS));
        assert!(headers.inner().contains_key(HEADER_PARKED_REASON));
    }
}
