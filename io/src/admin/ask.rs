//! Asking a partition's core through its mailbox, with a limit.
//!
//! The mailbox is the one that deliveries take. Where it is full the page waits for room: a page
//! never pushes a delivery out, and gives up when its time is over.

use super::PartitionHandle;
use crate::mailbox::Refused;
use crate::messages::{PartitionReport, Question, Standing, ToPartition};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a core may take for what it answers between two turns.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a core may take to compare itself with its store: a transaction and its disks may be
/// under way.
pub(super) const VERIFY_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two tries at a full mailbox.
const RETRY: Duration = Duration::from_millis(2);

/// A core that gave no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Silence {
    /// Not within the limit.
    #[error("the partition's core does not answer")]
    Late,
    /// It is gone, or dropped the question.
    #[error("the partition's core has ended")]
    Ended,
}

/// Asks and waits for the answer.
pub(super) async fn ask<T>(
    handle: &PartitionHandle,
    limit: Duration,
    question: impl FnOnce(oneshot::Sender<T>) -> Question,
) -> Result<T, Silence> {
    let (answer, answered) = oneshot::channel();
    let message = ToPartition::Ask(question(answer));
    let asking = async {
        hand_over(handle, message).await?;
        answered.await.map_err(|_| Silence::Ended)
    };
    tokio::time::timeout(limit, asking)
        .await
        .unwrap_or(Err(Silence::Late))
}

/// Where the partition stands.
pub(super) async fn standing(handle: &PartitionHandle) -> Result<Standing, Silence> {
    ask(handle, ANSWER_TIMEOUT, Question::Standing).await
}

/// Everything that the partition's core counts and measures.
pub(super) async fn report(handle: &PartitionHandle) -> Result<PartitionReport, Silence> {
    ask(handle, ANSWER_TIMEOUT, Question::Report).await
}

async fn hand_over(handle: &PartitionHandle, mut message: ToPartition) -> Result<(), Silence> {
    loop {
        match handle.sender.send(message) {
            Ok(()) => return Ok(()),
            Err(Refused::Closed(_)) => return Err(Silence::Ended),
            Err(Refused::Full(back)) => message = back,
        }
        tokio::time::sleep(RETRY).await;
    }
}
