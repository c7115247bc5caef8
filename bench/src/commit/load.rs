//! What is written: the seeded workload as the conductor commits it, spelled before the clock
//! starts.

use conductor_config::limits::DURABILITY_TIMEOUT_MS;
use conductor_engine::event::Event;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{Body, Command, FastBook, PairId, PartitionId};
use conductor_io::keys::Keys;
use conductor_io::resp::Packer;
use conductor_io::store::waits;
use conductor_io::wire::{Digest, encode_event, store_writes};
use conductor_tools::workload::{Workload, WorkloadOptions};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pairs of one partition.
const PAIRS: u32 = 8;

/// What is waited for behind each transaction; nothing in memory mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) replicas: u32,
    pub(crate) timeout: Duration,
}

impl Wait {
    /// For the disks of so many replicas, as long as a conductor waits unless configured; nothing
    /// where there are none.
    pub(crate) fn of(replicas: u32) -> Option<Self> {
        (replicas > 0).then_some(Self {
            replicas,
            timeout: Duration::from_millis(DURABILITY_TIMEOUT_MS.default),
        })
    }
}

/// One group, ready to be sent.
#[derive(Debug)]
pub(crate) struct Group {
    /// `MULTI … EXEC`.
    pub(crate) transaction: Vec<u8>,
    /// What follows it in the conductor's packet, up to the waits.
    pub(crate) look_ups: Vec<u8>,
    /// Writes of the transaction.
    pub(crate) writes: usize,
}

/// All groups of one partition.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) keys: Keys,
    pub(crate) groups: Vec<Group>,
    pub(crate) commands: usize,
    pub(crate) due: StoredDue,
}

/// What a store must hold afterwards.
#[derive(Debug)]
pub(crate) struct StoredDue {
    /// Events that went into the stream.
    pub(crate) events: usize,
    pub(crate) digest: String,
    /// How many orders rest.
    pub(crate) resting: usize,
}

/// The commands of one partition.
pub(crate) fn commands(
    partition: PartitionId,
    partitions: u32,
    seed: u64,
    count: usize,
) -> anyhow::Result<Vec<Command>> {
    let options = WorkloadOptions {
        seed: seed.wrapping_add(u64::from(partition.0)),
        pairs: (0..PAIRS)
            .map(|place| PairId(partition.0 + place * partitions))
            .collect(),
        ..WorkloadOptions::default()
    };
    Ok(Workload::new(options)?.take(count).collect())
}

/// Decides the commands and spells what is committed of each group of so many.
pub(crate) fn load(
    partition: PartitionId,
    partitions: u32,
    commands: &[Command],
    group: usize,
) -> anyhow::Result<Load> {
    let mut spelling = Spelling::new(partition, partitions, commands.iter().cloned());
    let mut groups = Vec::new();
    while let Some(next) = spelling.next_group(group)? {
        groups.push(next);
    }
    Ok(Load {
        keys: Keys::new(partition),
        groups,
        commands: commands.len(),
        due: spelling.end(),
    })
}

/// Commands that are decided and spelled, a group at a time.
pub(crate) struct Spelling<C> {
    partition: PartitionId,
    keys: Keys,
    matcher: Matcher<FastBook>,
    commands: C,
    /// Commands of the group that comes next, for the look-ups of the one before.
    coming: Vec<Command>,
    digest: Digest,
    events: usize,
    line: Vec<u8>,
}

impl<C: Iterator<Item = Command>> Spelling<C> {
    pub(crate) fn new(partition: PartitionId, partitions: u32, commands: C) -> Self {
        let cell = Cell {
            partition,
            partition_count: partitions,
            pairs: BTreeMap::new(),
        };
        Self {
            partition,
            keys: Keys::new(partition),
            matcher: Matcher::new(cell, FastBook::default(), Cursor::default()),
            commands,
            coming: Vec::new(),
            digest: Digest::default(),
            events: 0,
            line: Vec::new(),
        }
    }

    /// The next group of so many commands; the last one may have fewer.
    pub(crate) fn next_group(&mut self, count: usize) -> anyhow::Result<Option<Group>> {
        let mut group = std::mem::take(&mut self.coming);
        let missing = count.saturating_sub(group.len());
        group.extend(self.commands.by_ref().take(missing));
        if group.is_empty() {
            return Ok(None);
        }
        self.coming.extend(self.commands.by_ref().take(count));
        let (mut accepted, mut writes) = (AcceptedOrders::default(), Vec::new());
        for command in &group {
            self.matcher.apply(command, &mut accepted, &mut writes)?;
        }
        writes.push(Write::Cursor(self.matcher.cursor().clone()));
        for event in writes.iter().filter_map(event) {
            self.line.clear();
            encode_event(event, self.partition, &mut self.line);
            self.digest.line(&self.line);
            self.events += 1;
        }
        Ok(Some(spell(&self.keys, &writes, &self.coming)))
    }

    /// What the store must hold of everything that was spelled.
    pub(crate) fn end(self) -> StoredDue {
        StoredDue {
            events: self.events,
            digest: self.digest.hex(),
            resting: conductor_engine::Book::len(self.matcher.book()),
        }
    }
}

fn event(write: &Write) -> Option<&Event> {
    match write {
        Write::Event(event) => Some(event),
        _ => None,
    }
}

/// A transaction, and the look-ups of the group after it.
fn spell(keys: &Keys, writes: &[Write], next: &[Command]) -> Group {
    let mut transaction = Vec::new();
    Packer::new(&mut transaction).start(b"MULTI").end();
    let count = store_writes(keys, writes, None, &mut transaction);
    Packer::new(&mut transaction).start(b"EXEC").end();
    let mut look_ups = Vec::new();
    let mut packer = Packer::new(&mut look_ups);
    packer.start(b"XLEN").part(keys.events().as_bytes()).end();
    packer.start(b"MGET").part(keys.epoch().as_bytes());
    for command in next {
        packer.build(|key| keys.write_processed_command(&command.id, key));
        for order in orders(&command.body) {
            packer.build(|key| keys.write_accepted_order(order, key));
        }
    }
    packer.end();
    Group {
        transaction,
        look_ups,
        writes: count,
    }
}

/// The orders that a command asks after.
fn orders(body: &Body) -> Vec<&conductor_engine::OrderId> {
    match body {
        Body::Place(order) => vec![&order.id],
        Body::Cancel { order } | Body::Amend { order, .. } => vec![order],
        Body::Replace { cancel, place } => cancel
            .iter()
            .chain(place.iter().map(|order| &order.id))
            .collect(),
    }
}

/// The conductor's whole packet for a group, into an empty buffer; gives how many replies it has.
pub(crate) fn packet(keys: &Keys, group: &Group, wait: Option<Wait>, out: &mut Vec<u8>) -> usize {
    out.clear();
    out.extend_from_slice(&group.transaction);
    out.extend_from_slice(&group.look_ups);
    let mut packer = Packer::new(out);
    if let Some(Wait { replicas, timeout }) = wait {
        waits::pack(&mut packer, replicas, timeout);
    }
    packer.start(b"WATCH").part(keys.epoch().as_bytes()).end();
    packer.start(b"GET").part(keys.epoch().as_bytes()).end();
    // MULTI, a QUEUED for each write, EXEC, XLEN and MGET stand before.
    group.writes + 4 + packer.packed()
}
