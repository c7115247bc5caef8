//! The parking queues: each message that is no command at least once, and nothing else.
//!
//! At least once, because a crash between parking and acknowledging parks it again.

use super::findings::Findings;
use crate::client::parked;
use conductor_engine::PartitionId;
use conductor_io::amqp::AmqpError;
use lapin::Connection;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks at a queue in which something is still missing.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Compares one partition's parking queue, by the messages' begin of a digest.
pub(super) async fn compare(
    connection: &Connection,
    partition: PartitionId,
    expected: &BTreeMap<String, u64>,
    findings: &mut Findings,
    give_up: Instant,
) -> Result<(), AmqpError> {
    let found = loop {
        let found = look(connection, partition).await?;
        let whole = expected
            .iter()
            .all(|(id, count)| found.get(id).is_some_and(|(there, _)| there >= count));
        if whole || Instant::now() >= give_up {
            break found;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    for (id, count) in expected {
        let there = found.get(id).map_or(0, |(there, _)| *there);
        findings.compare(there >= *count, || {
            format!(
                "partition {partition}: message {id}, published {count} times, was parked {there} \
                 times"
            )
        });
    }
    for (id, (count, body)) in found {
        if !expected.contains_key(&id) {
            findings.differ(|| {
                format!(
                    "partition {partition}: message {id} was parked {count} times and is a command \
                     or none of ours: {body}"
                )
            });
        }
    }
    Ok(())
}

async fn look(
    connection: &Connection,
    partition: PartitionId,
) -> Result<BTreeMap<String, (u64, String)>, AmqpError> {
    const SHOWN: usize = 200;
    let (messages, _) = parked(connection, partition, u32::MAX, SHOWN).await?;
    let mut found = BTreeMap::new();
    for message in messages {
        let entry = found.entry(message.id).or_insert((0, message.body));
        entry.0 += 1;
    }
    Ok(found)
}
