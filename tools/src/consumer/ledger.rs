//! Which events were seen, and whether the next one may be.

use conductor_engine::PartitionId;
use conductor_io::wire::{EnvelopeError, decode_event};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Events of a partition whose bytes are remembered, so that a repeat can be compared. An outbox
/// repeats what it had not yet deleted, which is far less.
const REMEMBERED: usize = 1 << 18;

/// Where a partition's events begin for this consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// With the first event of all.
    First,
    /// With whatever comes first.
    Anywhere,
}

/// What an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The next one of its partition.
    Fresh,
    /// One that was there before; it is to be dropped.
    Repeat,
}

/// Why an event must not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// It is no event.
    #[error(transparent)]
    NoEvent(#[from] EnvelopeError),
    /// One or more are missing before it.
    #[error(
        "partition {partition}: event {found} came where {expected} was due; those between \
        are missing"
    )]
    Gap {
        /// The partition.
        partition: PartitionId,
        /// The sequence that was due.
        expected: u64,
        /// The sequence that came.
        found: u64,
    },
    /// Its sequence was there before with other bytes.
    #[error(
        "partition {partition}: event {sequence} ({event_id}) was there before with another \
        content: the store has gone back behind what was published. Stop consuming, and compare \
        with the store before going on"
    )]
    WentBack {
        /// The partition.
        partition: PartitionId,
        /// The sequence.
        sequence: u64,
        /// The id that it has now.
        event_id: String,
    },
}

/// The events of every partition that were seen.
#[derive(Debug)]
pub struct Ledger {
    beginning: Beginning,
    lanes: BTreeMap<PartitionId, Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    last: u64,
    repeats: u64,
    /// Of the newest events, the last one at the end.
    remembered: VecDeque<u64>,
}

impl Ledger {
    /// A ledger that has seen nothing.
    pub const fn new(beginning: Beginning) -> Self {
        Self {
            beginning,
            lanes: BTreeMap::new(),
        }
    }

    /// Judges one event.
    ///
    /// # Errors
    /// [`LedgerError`] when it must not be taken.
    pub fn take(&mut self, body: &[u8]) -> Result<(PartitionId, u64, Seen), LedgerError> {
        let event = decode_event(body)?;
        let (partition, sequence) = (event.partition, event.sequence);
        let known = self.lanes.contains_key(&partition);
        let lane = self.lanes.entry(partition).or_default();
        if !known && self.beginning == Beginning::Anywhere {
            lane.last = sequence - 1;
        }
        let expected = lane.last + 1;
        if sequence > expected {
            return Err(LedgerError::Gap {
                partition,
                expected,
                found: sequence,
            });
        }
        let fingerprint = fingerprint(body);
        if sequence == expected {
            lane.add(fingerprint);
            return Ok((partition, sequence, Seen::Fresh));
        }
        if lane
            .recall(sequence)
            .is_some_and(|before| before != fingerprint)
        {
            let event_id = event.event_id.to_owned();
            return Err(LedgerError::WentBack {
                partition,
                sequence,
                event_id,
            });
        }
        lane.repeats += 1;
        Ok((partition, sequence, Seen::Repeat))
    }

    /// The last sequence of each partition.
    pub fn last(&self) -> BTreeMap<PartitionId, u64> {
        self.lanes
            .iter()
            .map(|(partition, lane)| (*partition, lane.last))
            .collect()
    }

    /// Events that came again.
    pub fn repeats(&self) -> u64 {
        self.lanes.values().map(|lane| lane.repeats).sum()
    }
}

impl Lane {
    fn add(&mut self, fingerprint: u64) {
        self.last += 1;
        if self.remembered.len() == REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back(fingerprint);
    }

    fn recall(&self, sequence: u64) -> Option<u64> {
        let back = usize::try_from(self.last - sequence).ok()?;
        let place = self.remembered.len().checked_sub(back + 1)?;
        self.remembered.get(place).copied()
    }
}

fn fingerprint(body: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    body.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(partition: u32, sequence: u64, command: &str) -> Vec<u8> {
        format!(
            r#"{{"eventId":"{command}.0","type":"order.closed.v1","causationId":"{command}","partition":{partition},"pairId":1,"sequence":{sequence},"timestamp":5,"payload":{{}}}}"#
        )
        .into_bytes()
    }

    #[test]
    fn each_partition_counts_for_itself_and_repeats_are_dropped() {
        let mut ledger = Ledger::new(Beginning::First);
        let mut take = |event: &[u8]| ledger.take(event).expect("it may be taken").2;
        assert_eq!(take(&event(0, 1, "a")), Seen::Fresh);
        assert_eq!(take(&event(1, 1, "b")), Seen::Fresh);
        assert_eq!(take(&event(0, 2, "c")), Seen::Fresh);
        assert_eq!(take(&event(0, 1, "a")), Seen::Repeat);
        assert_eq!(take(&event(0, 2, "c")), Seen::Repeat);
        assert_eq!(take(&event(0, 3, "d")), Seen::Fresh);
        assert_eq!(ledger.repeats(), 2);
        let last = [(PartitionId(0), 3), (PartitionId(1), 1)];
        assert_eq!(ledger.last(), last.into());
    }

    #[test]
    fn a_gap_and_a_store_that_went_back_end_it() {
        let mut ledger = Ledger::new(Beginning::First);
        let gap = ledger.take(&event(0, 2, "a")).expect_err("the first is 1");
        assert!(
            matches!(
                gap,
                LedgerError::Gap {
                    expected: 1,
                    found: 2,
                    ..
                }
            ),
            "{gap}"
        );
        let mut ledger = Ledger::new(Beginning::Anywhere);
        ledger.take(&event(0, 7, "a")).expect("it joins late");
        let gap = ledger.take(&event(0, 9, "b")).expect_err("8 is missing");
        assert!(
            matches!(
                gap,
                LedgerError::Gap {
                    expected: 8,
                    found: 9,
                    ..
                }
            ),
            "{gap}"
        );
        let back = ledger
            .take(&event(0, 7, "other"))
            .expect_err("7 was another one");
        assert!(
            matches!(back, LedgerError::WentBack { sequence: 7, .. }),
            "{back}"
        );
        assert!(ledger.take(b"{}").is_err());
    }
}
