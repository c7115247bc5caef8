//! What the I/O core counts and measures itself.
//!
//! It lives on the I/O core alone: the consumers write, the pages read, all on one thread. The
//! locks are there because the pages' server asks for types that could move between threads; they
//! are never contended and never held across a wait.

use crate::messages::{Settled, StepTimes};
use conductor_engine::partition::Status;
use conductor_engine::{PartitionId, Step};
use hdrhistogram::Histogram;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Oldest command that is told apart, in milliseconds: a day.
const AGE_MS_MAX: u64 = 86_400_000;

/// What the I/O core knows of every partition that the process serves.
#[derive(Debug)]
pub struct IoCoreReport {
    partitions: Vec<(PartitionId, Mutex<PartitionIo>)>,
}

/// What the I/O core knows of one partition.
#[derive(Clone, Debug)]
pub struct PartitionIo {
    /// Nanoseconds of the steps that run here: reply and ack. The others are empty.
    pub steps: StepTimes,
    /// Milliseconds from a command's own time to its acknowledgement.
    pub age_at_ack: Histogram<u64>,
    /// Replies that were handed to the broker.
    pub replies_sent: u64,
    /// Replies that found the broker gone or blocked. Those that found their queue full are
    /// counted by the partition's core.
    pub replies_dropped: u64,
    /// Replies whose address was refused before the broker saw it.
    pub replies_refused: u64,
    /// Deliveries that the broker had made before.
    pub redeliveries: u64,
    /// What the broker last said of the command queue; `None` until it has.
    pub queue: Option<QueueCounts>,
    /// Whether the connection to the broker stands.
    pub broker_connected: bool,
    /// Why the broker could not be used when it was last tried; `None` once it could.
    pub broker_problem: Option<String>,
    /// Since when the broker has owed an answer about the queue.
    pub broker_asked: Option<Instant>,
    /// Why the message that waits for the parking queue is not in it; `None` while none fails.
    pub parking_problem: Option<String>,
    /// Whether somebody else was registered at the command queue when this process last was.
    pub behind_another: bool,
    /// What the partition's core last said of itself; `None` until it has.
    pub standing: Option<Status>,
}

/// What the broker says of a command queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// Messages that wait for a consumer.
    pub messages: u64,
    /// Consumers that are registered, this process among them.
    pub consumers: u64,
}

impl IoCoreReport {
    /// A report of these partitions, with nothing in it.
    pub fn new(partitions: impl IntoIterator<Item = PartitionId>) -> Self {
        let empty = |partition| (partition, Mutex::new(PartitionIo::default()));
        Self {
            partitions: partitions.into_iter().map(empty).collect(),
        }
    }

    /// One partition's figures, to be read or changed at once and let go before any wait.
    ///
    /// # Panics
    /// When the partition is none of those that the report was made for.
    pub fn of(&self, partition: PartitionId) -> MutexGuard<'_, PartitionIo> {
        let mut known = self.partitions.iter();
        let found = known.find(|(each, _)| *each == partition);
        let (_, figures) = found.expect("the report was made for every partition of the process");
        figures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for PartitionIo {
    fn default() -> Self {
        Self {
            steps: StepTimes::default(),
            age_at_ack: Histogram::new_with_bounds(1, AGE_MS_MAX, 3)
                .expect("the bounds are in order"),
            replies_sent: 0,
            replies_dropped: 0,
            replies_refused: 0,
            redeliveries: 0,
            queue: None,
            broker_connected: false,
            broker_problem: None,
            broker_asked: None,
            parking_problem: None,
            behind_another: false,
            standing: None,
        }
    }
}

impl PartitionIo {
    /// Records deliveries that were acknowledged `now`, which is `now_ms` on the wall.
    pub fn acknowledged(&mut self, settled: &[Settled], now: Instant, now_ms: u64) {
        for delivery in settled {
            let elapsed = now.saturating_duration_since(delivery.durable);
            self.steps.record(Step::Ack, elapsed, 1);
            if let Some(timestamp_ms) = delivery.timestamp_ms {
                let age_ms = now_ms.saturating_sub(timestamp_ms).max(1);
                self.age_at_ack.saturating_record(age_ms);
            }
        }
    }

    /// Records a reply that was handed to the broker `now`, its group being durable since then.
    pub fn replied(&mut self, durable: Instant, now: Instant) {
        let elapsed = now.saturating_duration_since(durable);
        self.steps.record(Step::Reply, elapsed, 1);
        self.replies_sent += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn an_acknowledgement_is_measured_from_durable_and_from_the_commands_own_time() {
        let report = IoCoreReport::new([PartitionId(3)]);
        let durable = Instant::now();
        let now = durable + Duration::from_micros(250);
        let settled = [
            Settled {
                durable,
                timestamp_ms: Some(1_000),
            },
            Settled {
                durable,
                timestamp_ms: None,
            },
        ];
        report.of(PartitionId(3)).acknowledged(&settled, now, 1_007);
        let figures = report.of(PartitionId(3));
        assert_eq!(figures.steps.of(Step::Ack).len(), 2);
        assert!(
            figures
                .steps
                .of(Step::Ack)
                .equivalent(figures.steps.of(Step::Ack).max(), 250_000)
        );
        assert_eq!((figures.age_at_ack.len(), figures.age_at_ack.max()), (1, 7));
    }
}
