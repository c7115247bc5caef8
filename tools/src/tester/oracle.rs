//! The oracle: every command decided once more, alone, with no server and no clock.
//!
//! It decides the first appearance of each command, in the order of publishing; a repeat changes
//! nothing and is its caller's to know. On the naive book it shares no code of books with a
//! conductor. Its memory is level: results are handed out and forgotten, and of the order ids that
//! are used up it knows the newest, which is as far back as [`super::script`] reaches for one. The
//! audit decides by the same rule, so both forget the same.

use super::start::Start;
use conductor_config::Settings;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{
    Book, CommandId, Incoming, NaiveBook, OrderId, PairDecimals, PairId, PartitionId, Violation,
};
use conductor_io::wire::{decode, encode_event, encode_result};
use std::collections::{BTreeMap, VecDeque};

/// Order ids of a partition that are known to be used up.
const ACCEPTED_KNOWN: usize = 20_000;

/// All partitions of a cell on the naive book.
#[derive(Debug)]
pub(super) struct Oracle {
    lanes: Vec<Lane>,
    writes: Vec<Write>,
}

#[derive(Debug)]
struct Lane {
    matcher: Matcher<NaiveBook>,
    accepted: AcceptedOrders,
    /// The same ids, the oldest first.
    by_age: VecDeque<OrderId>,
}

/// What a message was.
#[derive(Debug)]
pub(super) enum Decision {
    /// A command, and the bytes of its result.
    Command { id: CommandId, result: Vec<u8> },
    /// No command; a cell parks it and never answers.
    Parked,
}

/// The engine found an invariant broken.
#[derive(Debug, thiserror::Error)]
#[error("the engine itself broke an invariant in partition {partition}: {violation}")]
pub(super) struct Broken {
    partition: PartitionId,
    violation: Violation,
}

/// What a cell is, as far as decisions depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) partition_count: u32,
    /// Decimals that the settings fix.
    pub(super) pairs: BTreeMap<PairId, PairDecimals>,
}

impl Shape {
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            partition_count: settings.partition_count,
            pairs: settings.pairs.clone(),
        }
    }
}

impl Oracle {
    /// Of a cell that stands there, with none of the orders that rest in it.
    pub(super) fn new(shape: &Shape, start: &Start) -> Self {
        let lane = |partition| {
            let cursor = start.of(PartitionId(partition)).cursor();
            let cell = Cell {
                partition: PartitionId(partition),
                partition_count: shape.partition_count,
                pairs: shape.pairs.clone(),
            };
            Lane {
                matcher: Matcher::new(cell, NaiveBook::default(), cursor),
                accepted: AcceptedOrders::default(),
                by_age: VecDeque::new(),
            }
        };
        Self {
            lanes: (0..shape.partition_count).map(lane).collect(),
            writes: Vec::new(),
        }
    }

    /// Decides the first appearance of a message.
    ///
    /// # Errors
    /// [`Broken`]; the oracle is not to be used afterwards.
    pub(super) fn decide(
        &mut self,
        partition: PartitionId,
        body: &[u8],
    ) -> Result<Decision, Broken> {
        self.writes.clear();
        let lane = &mut self.lanes[partition.0 as usize];
        let incoming = decode(body);
        let decided = lane.take(&incoming, &mut self.writes);
        let result = decided.map_err(|violation| Broken {
            partition,
            violation,
        })?;
        Ok(result.map_or(Decision::Parked, |result| {
            let mut bytes = Vec::new();
            encode_result(&result, &mut bytes);
            Decision::Command {
                id: result.command.clone(),
                result: bytes,
            }
        }))
    }

    /// The events of the message that was decided last, in their canonical form.
    pub(super) fn events(&self, partition: PartitionId) -> impl Iterator<Item = Vec<u8>> {
        self.writes.iter().filter_map(move |write| {
            let Write::Event(event) = write else {
                return None;
            };
            let mut bytes = Vec::new();
            encode_event(event, partition, &mut bytes);
            Some(bytes)
        })
    }

    /// The order ids that the message which was decided last used up.
    pub(super) fn accepted(&self) -> impl Iterator<Item = &OrderId> {
        self.writes.iter().filter_map(|write| match write {
            Write::Accepted { order, .. } => Some(order),
            _ => None,
        })
    }

    /// Whether an order id is known to be used up.
    pub(super) fn knows(&self, partition: PartitionId, order: &OrderId) -> bool {
        self.lanes[partition.0 as usize].accepted.contains(order)
    }

    /// Where a partition stands.
    pub(super) fn cursor(&self, partition: PartitionId) -> &Cursor {
        self.lanes[partition.0 as usize].matcher.cursor()
    }

    /// A partition's book.
    pub(super) fn book(&self, partition: PartitionId) -> &NaiveBook {
        self.lanes[partition.0 as usize].matcher.book()
    }

    /// All partitions.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        let count = u32::try_from(self.lanes.len()).expect("partitions were counted in 32 bits");
        (0..count).map(PartitionId)
    }
}

impl Lane {
    fn take(
        &mut self,
        incoming: &Incoming,
        writes: &mut Vec<Write>,
    ) -> Result<Option<std::sync::Arc<conductor_engine::event::CommandResult>>, Violation> {
        let result = self.matcher.take(incoming, &mut self.accepted, writes)?;
        for write in writes.iter() {
            if let Write::Accepted { order, .. } = write {
                self.by_age.push_back(order.clone());
            }
        }
        while self.by_age.len() > ACCEPTED_KNOWN {
            let oldest = self.by_age.pop_front().expect("there are that many");
            // One that rests is known by the book for as long as it does.
            self.accepted.remove(&oldest);
        }
        Ok(result)
    }
}

/// How many orders rest in a book.
pub(super) fn resting(book: &NaiveBook) -> usize {
    book.len()
}
