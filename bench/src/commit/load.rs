//! What is written: the seeded workload as the conductor commits it, spelled before the clock
//! starts.

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
    /// What the stream must hold afterwards.
    pub(crate) events: usize,
    pub(crate) digest: String,
    /// How many orders must rest afterwards.
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
    let cell = Cell {
        partition,
        partition_count: partitions,
        pairs: BTreeMap::new(),
    };
    let keys = Keys::new(partition);
    let mut matcher = Matcher::new(cell, FastBook::default(), Cursor::default());
    let (mut digest, mut events, mut line) = (Digest::default(), 0, Vec::new());
    let mut groups = Vec::new();
    let mut chunks = commands.chunks(group).peekable();
    while let Some(chunk) = chunks.next() {
        let (mut accepted, mut writes) = (AcceptedOrders::default(), Vec::new());
        for command in chunk {
            matcher.apply(command, &mut accepted, &mut writes)?;
        }
        writes.push(Write::Cursor(matcher.cursor().clone()));
        for event in writes.iter().filter_map(event) {
            line.clear();
            encode_event(event, partition, &mut line);
            digest.line(&line);
            events += 1;
        }
        groups.push(spell(
            &keys,
            &writes,
            chunks.peek().copied().unwrap_or_default(),
        ));
    }
    Ok(Load {
        keys,
        groups,
        commands: commands.len(),
        events,
        digest: digest.hex(),
        resting: conductor_engine::Book::len(matcher.book()),
    })
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
