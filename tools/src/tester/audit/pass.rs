//! One pass over the record: every message decided again, in the order of publishing.
//!
//! Beside each decision lie the result that the store keeps of it and the events that the inbox has,
//! and both must be the oracle's, byte for byte. Memory is level: a page of messages at a time.

use super::AuditError;
use super::findings::Findings;
use crate::client::Store;
use crate::tester::oracle::{Decision, Oracle, Shape};
use crate::tester::record::{Published, Record};
use crate::tester::script::Kind;
use crate::tester::start::Start;
use conductor_engine::{CommandId, OrderId, PartitionId};
use conductor_io::resp::Reply;
use conductor_io::wire::Digest;
use rusqlite::params;
use std::collections::{BTreeMap, VecDeque};

/// Messages that are decided before the stores are asked about them.
const PAGE: usize = 500;
/// Events of a partition that are read at once.
const EVENTS_PAGE: usize = 2_000;

/// A command that was decided, until its store was asked.
struct Decided {
    number: u64,
    id: CommandId,
    result: Vec<u8>,
    accepted: Vec<OrderId>,
}

/// The events of one partition's inbox, from the first on.
#[derive(Debug, Default)]
struct Lane {
    /// The sequence of the last event that was read.
    read: u64,
    page: VecDeque<(u64, Vec<u8>)>,
    expected: Digest,
    found: Digest,
}

/// The pass, and what it found.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    record: &'a Record,
    pub(super) oracle: Oracle,
    lanes: Vec<Lane>,
    pub(super) messages: Findings,
    pub(super) repeats: Findings,
    pub(super) results: Findings,
    pub(super) accepted: Findings,
    pub(super) events: Findings,
    /// Results that may have expired.
    results_expire: bool,
    /// Distinct commands of each partition.
    pub(super) commands: BTreeMap<PartitionId, u64>,
    /// Order ids that are used up, of each partition.
    pub(super) orders: BTreeMap<PartitionId, u64>,
    /// Bodies of what is no command, of each partition, by their begin of a digest.
    pub(super) parked: BTreeMap<PartitionId, BTreeMap<String, u64>>,
    /// Trades of each pair: how many, and how much.
    pub(super) traded: super::inbox::Traded,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        record: &'a Record,
        shape: &Shape,
        start: &Start,
        results_expire: bool,
    ) -> Self {
        let lanes = (0..shape.partition_count).map(|partition| Lane {
            read: start.of(PartitionId(partition)).sequence,
            ..Lane::default()
        });
        Self {
            record,
            oracle: Oracle::new(shape, start),
            lanes: lanes.collect(),
            messages: Findings::default(),
            repeats: Findings::default(),
            results: Findings::default(),
            accepted: Findings::default(),
            events: Findings::default(),
            results_expire,
            commands: BTreeMap::new(),
            orders: BTreeMap::new(),
            parked: BTreeMap::new(),
            traded: super::inbox::Traded::default(),
        }
    }

    /// Goes through the whole record.
    pub(super) async fn run(&mut self, stores: &mut [Store]) -> Result<(), AuditError> {
        let mut from = 0;
        loop {
            let page = self.record.published(from, PAGE)?;
            let Some(last) = page.last() else { break };
            from = last.number + 1;
            let mut decided: BTreeMap<PartitionId, Vec<Decided>> = BTreeMap::new();
            for message in &page {
                self.message(message);
                if let Some(one) = self.decide(message)? {
                    decided.entry(message.partition).or_default().push(one);
                }
            }
            for (partition, decided) in decided {
                let store = stores.iter_mut();
                let mut store = store.filter(|it| it.keys().partition() == partition);
                let store = store.next().expect("every partition has its store");
                self.compare_stored(store, &decided).await?;
            }
        }
        self.end_of_events()
    }

    fn message(&mut self, message: &Published) {
        self.messages.compare(message.confirmed, || {
            format!(
                "message {} (partition {}) was never confirmed: nobody knows whether it is in its \
                 queue, so what follows can prove nothing",
                message.number, message.partition
            )
        });
    }

    fn decide(&mut self, message: &Published) -> Result<Option<Decided>, AuditError> {
        let (number, partition) = (message.number, message.partition);
        if let Kind::Repeat(original) = message.kind {
            let same = self.record.body(original)?.as_ref() == Some(&message.body);
            self.repeats.compare(same && original < number, || {
                format!(
                    "message {number} is not message {original} once more: the record is broken"
                )
            });
            return Ok(None);
        }
        let decision = self.oracle.decide(partition, &message.body)?;
        let events: Vec<Vec<u8>> = self.oracle.events(partition).collect();
        for event in events {
            self.traded.add(&event);
            self.event(partition, number, &event)?;
        }
        match decision {
            Decision::Command { id, result } => {
                let accepted: Vec<OrderId> = self.oracle.accepted().cloned().collect();
                *self.commands.entry(partition).or_default() += 1;
                *self.orders.entry(partition).or_default() += accepted.len() as u64;
                Ok(Some(Decided {
                    number,
                    id,
                    result,
                    accepted,
                }))
            }
            Decision::Parked => {
                let id = crate::client::Parked::id_of(&message.body);
                let parked = self.parked.entry(partition).or_default();
                *parked.entry(id).or_default() += 1;
                Ok(None)
            }
        }
    }

    /// Compares the next event of a partition's inbox.
    fn event(
        &mut self,
        partition: PartitionId,
        number: u64,
        expected: &[u8],
    ) -> Result<(), AuditError> {
        let found = self.next_event(partition)?;
        let lane = &mut self.lanes[partition.0 as usize];
        lane.expected.line(expected);
        let found = found.map(|(_, body)| body);
        if let Some(body) = &found {
            lane.found.line(body);
        }
        self.events.compare_bytes(expected, found.as_deref(), || {
            format!("inbox of partition {partition}, an event of message {number}")
        });
        Ok(())
    }

    fn next_event(&mut self, partition: PartitionId) -> Result<Option<(u64, Vec<u8>)>, AuditError> {
        let lane = &mut self.lanes[partition.0 as usize];
        if lane.page.is_empty() {
            let reading = || -> rusqlite::Result<VecDeque<(u64, Vec<u8>)>> {
                let mut statement = self.record.connection().prepare_cached(
                    "SELECT sequence, body FROM event WHERE partition = ?1 AND sequence > ?2
                     ORDER BY sequence LIMIT ?3",
                )?;
                let values = params![partition.0, lane.read, EVENTS_PAGE];
                let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            };
            lane.page = reading().map_err(|error| self.record.failed(error))?;
        }
        let next = lane.page.pop_front();
        if let Some((sequence, _)) = next {
            lane.read = sequence;
        }
        Ok(next)
    }

    /// Nothing may be in an inbox behind the last event.
    fn end_of_events(&mut self) -> Result<(), AuditError> {
        for partition in self.oracle.partitions() {
            if let Some((sequence, body)) = self.next_event(partition)? {
                let body = String::from_utf8_lossy(&body).into_owned();
                self.events.differ(|| {
                    format!(
                        "inbox of partition {partition}: event {sequence} is none of the oracle's: \
                         {body}"
                    )
                });
            }
        }
        Ok(())
    }

    async fn compare_stored(
        &mut self,
        store: &mut Store,
        decided: &[Decided],
    ) -> Result<(), AuditError> {
        let keys = store.keys().clone();
        let partition = keys.partition();
        let orders: Vec<(&OrderId, &CommandId)> = decided
            .iter()
            .flat_map(|one| one.accepted.iter().map(|order| (order, &one.id)))
            .collect();
        let replies = store
            .ask_all(|packer| {
                packer.start(b"MGET");
                for one in decided {
                    packer.build(|key| keys.write_processed_command(&one.id, key));
                }
                packer.end();
                if !orders.is_empty() {
                    packer.start(b"MGET");
                    for (order, _) in &orders {
                        packer.build(|key| keys.write_accepted_order(order, key));
                    }
                    packer.end();
                }
            })
            .await?;
        let values = |place: usize| {
            let elements = replies.get(place).and_then(Reply::elements);
            elements.unwrap_or_default().iter().map(Reply::bytes)
        };
        let mut stored = values(0);
        for one in decided {
            let found = stored.next().flatten();
            if found.is_none() && self.results_expire {
                continue;
            }
            self.results.compare_bytes(&one.result, found, || {
                format!(
                    "stored result of command {} (message {}, partition {partition})",
                    one.id, one.number
                )
            });
        }
        let mut stored = values(1);
        for (order, command) in orders {
            let found = stored.next().flatten();
            self.accepted
                .compare_bytes(command.as_str().as_bytes(), found, || {
                    format!("the command that used up order id {order} (partition {partition})")
                });
        }
        Ok(())
    }

    /// The digest of each partition's events: the oracle's and the inbox's.
    pub(super) fn digests(&self) -> Vec<(String, String)> {
        let lanes = self.lanes.iter();
        lanes
            .map(|lane| (lane.expected.hex(), lane.found.hex()))
            .collect()
    }
}
