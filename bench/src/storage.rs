//! What a command costs in the store: memory while its events wait, memory for ever, and bytes of
//! the append-only file.
//!
//! One kind at a time, from an empty store, in the conductor's own transactions; the figures are
//! the store's own, divided by the commands. What is for ever is what is left once the events are
//! deleted, as the outbox deletes them. The seeded workload comes last and is what the line about
//! days is made of.

mod kinds;

use crate::commit::stream;
use crate::connection::{Connection, StoreAt};
use crate::entry::id;
use crate::record::{Keep, Run, table, value};
use crate::stores::{self, Stores};
use anyhow::{Context, bail, ensure};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{Command, FastBook, PartitionId};
use conductor_io::keys::Keys;
use conductor_io::resp::Packer;
use conductor_io::wire::{Digest, encode_event, store_writes};
use conductor_tools::workload::{Workload, WorkloadOptions};
use kinds::KINDS;
use serde::Serialize;
use serde_json::json;

/// Entries that the outbox deletes at once.
const DELETE_AT_ONCE: usize = 1_024;
const SECONDS_A_DAY: f64 = 86_400.0;
const GIB: f64 = (1_u64 << 30) as f64;

/// Memory and file bytes of a store, per kind of command
///
/// Example: conductor-bench storage --rate 500 --host-gib 64 --disk-gib 1000
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Commands of each kind
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..))]
    commands: u32,
    /// Commands in each transaction
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=4096))]
    group: u32,
    /// Commands a second of a cell, for the line about days
    #[arg(long, default_value_t = 100.0)]
    rate: f64,
    /// Memory that the host has for the store
    #[arg(long, default_value_t = 64.0)]
    host_gib: f64,
    /// Disk that the host has for the store
    #[arg(long, default_value_t = 1_000.0)]
    disk_gib: f64,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What one command of a kind costs, in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    kind: String,
    memory: f64,
    memory_for_ever: f64,
    file: f64,
    file_of_outbox: f64,
    events: f64,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let stores = Stores::start(1, 0)?;
    let store = stores
        .primaries()
        .into_iter()
        .next()
        .context("there is a store")?;
    let count = arguments.commands as usize;
    let mut rows = Vec::new();
    for kind in KINDS {
        let (before, commands) = (kind.make)(count);
        rows.push(measure(&store, kind.name, &before, &commands, arguments)?);
    }
    let options = WorkloadOptions {
        seed: arguments.seed,
        ..WorkloadOptions::default()
    };
    // The first commands fill the book; what is measured is a market that stands.
    let mut commands: Vec<Command> = Workload::new(options)?.take(2 * count).collect();
    let measured = commands.split_off(count);
    rows.push(measure(
        &store,
        "the seeded workload",
        &commands,
        &measured,
        arguments,
    )?);
    print(&rows, arguments);
    keep.run(&Run {
        boundary: "storage",
        settings: json!({
            "commands": count, "group": arguments.group, "seed": arguments.seed,
            "rate": arguments.rate, "hostGib": arguments.host_gib, "diskGib": arguments.disk_gib,
        }),
        servers: stores::versions(&store)?,
        figures: json!({ "kinds": value(&rows), "days": value(&Days::of(&rows, arguments)) }),
    })
}

/// What a store says of its size.
#[derive(Clone, Copy, Debug)]
struct Size {
    memory: u64,
    file: u64,
}

fn measure(
    store: &StoreAt,
    kind: &str,
    before: &[Command],
    commands: &[Command],
    arguments: &Arguments,
) -> anyhow::Result<Row> {
    let mut cell = Session::new(store, arguments.group as usize)?;
    cell.commit(before)?;
    cell.delete_events()?;
    let start = cell.size()?;
    let events = cell.commit(commands)?;
    let full = cell.size()?;
    cell.delete_events()?;
    let end = cell.size()?;
    let each = |more: u64, less: u64| difference(more, less) / commands.len() as f64;
    Ok(Row {
        kind: kind.to_owned(),
        memory: each(full.memory, start.memory),
        memory_for_ever: each(end.memory, start.memory),
        file: each(full.file, start.file),
        file_of_outbox: each(end.file, full.file),
        events: each(events, 0),
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "bytes of a bench's store are far below 2^53"
)]
fn difference(more: u64, less: u64) -> f64 {
    more as f64 - less as f64
}

/// An empty store, and the partition that writes to it.
struct Session {
    connection: Connection,
    keys: Keys,
    matcher: Matcher<FastBook>,
    accepted: AcceptedOrders,
    group: usize,
    /// Of all events, in order.
    digest: Digest,
}

impl Session {
    fn new(store: &StoreAt, group: usize) -> anyhow::Result<Self> {
        let mut connection = Connection::open(store)?;
        connection.ask(&["FLUSHALL", "SYNC"])?;
        // The file is to grow by what is written and by nothing else.
        connection.ask(&["CONFIG", "SET", "auto-aof-rewrite-percentage", "0"])?;
        Ok(Self {
            connection,
            keys: Keys::new(PartitionId(0)),
            matcher: Matcher::new(Cell::single(), FastBook::default(), Cursor::default()),
            accepted: AcceptedOrders::default(),
            group,
            digest: Digest::default(),
        })
    }

    /// Commits commands and checks that their events are there; gives how many.
    fn commit(&mut self, commands: &[Command]) -> anyhow::Result<u64> {
        self.digest = Digest::default();
        let (mut events, mut bytes) = (0, Vec::new());
        for group in commands.chunks(self.group) {
            let mut writes = Vec::new();
            for command in group {
                self.matcher
                    .apply(command, &mut self.accepted, &mut writes)?;
            }
            writes.push(Write::Cursor(self.matcher.cursor().clone()));
            events += self.count(&writes);
            bytes.clear();
            Packer::new(&mut bytes).start(b"MULTI").end();
            let count = store_writes(&self.keys, &writes, None, &mut bytes);
            Packer::new(&mut bytes).start(b"EXEC").end();
            self.connection.send(&bytes)?;
            for _ in 0..count + 2 {
                if let Some(error) = self.connection.reply()?.first_error() {
                    bail!("the store refuses a write: {error}");
                }
            }
        }
        let (found, digest) = stream(&mut self.connection, self.keys.events())?;
        ensure!(
            found as u64 == events && digest == self.digest.hex(),
            "the stream holds {found} events, not the {events} that were decided"
        );
        Ok(events)
    }

    fn count(&mut self, writes: &[Write]) -> u64 {
        let (mut events, mut line) = (0, Vec::new());
        for write in writes {
            if let Write::Event(event) = write {
                line.clear();
                encode_event(event, self.keys.partition(), &mut line);
                self.digest.line(&line);
                events += 1;
            }
        }
        events
    }

    /// Deletes all events, as the outbox does once they are confirmed.
    fn delete_events(&mut self) -> anyhow::Result<()> {
        let page = DELETE_AT_ONCE.to_string();
        loop {
            let entries =
                self.connection
                    .ask(&["XRANGE", self.keys.events(), "-", "+", "COUNT", &page])?;
            let ids: Vec<&str> = entries
                .elements()
                .unwrap_or_default()
                .iter()
                .filter_map(id)
                .collect();
            if ids.is_empty() {
                return Ok(());
            }
            let words = [&["XDEL", self.keys.events()], &ids[..]].concat();
            self.connection.ask(&words)?;
        }
    }

    fn size(&mut self) -> anyhow::Result<Size> {
        Ok(Size {
            memory: self
                .connection
                .info_number("memory", "used_memory_dataset")?,
            file: self
                .connection
                .info_number("persistence", "aof_current_size")?,
        })
    }
}

/// Until a host is full of what a cell writes at a rate.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Days {
    memory_a_day_gib: f64,
    memory_full_in: f64,
    file_a_day_gib: f64,
    file_full_in: f64,
}

impl Days {
    fn of(rows: &[Row], arguments: &Arguments) -> Option<Self> {
        let workload = rows.last()?;
        let a_day = |bytes: f64| bytes * arguments.rate * SECONDS_A_DAY / GIB;
        let memory = a_day(workload.memory_for_ever);
        let file = a_day(workload.file + workload.file_of_outbox);
        Some(Self {
            memory_a_day_gib: memory,
            memory_full_in: arguments.host_gib / memory,
            file_a_day_gib: file,
            file_full_in: arguments.disk_gib / file,
        })
    }
}

fn print(rows: &[Row], arguments: &Arguments) {
    let head = [
        "bytes a command",
        "memory",
        "memory for ever",
        "file",
        "file, outbox",
        "events",
    ];
    let shown = rows.iter().map(|row| {
        let bytes = [
            row.memory,
            row.memory_for_ever,
            row.file,
            row.file_of_outbox,
        ];
        let [memory, for_ever, file, outbox] = bytes.map(|bytes| format!("{bytes:.0}"));
        let events = format!("{:.2}", row.events);
        [row.kind.clone(), memory, for_ever, file, outbox, events]
    });
    println!("{}", table(head, shown));
    if let Some(days) = Days::of(rows, arguments) {
        println!(
            "the seeded workload at {} commands a second: memory grows by {:.2} GiB a day, a host \
             of {} GiB is full in {:.0} days; the file grows by {:.2} GiB a day until it is \
             rewritten, a disk of {} GiB is full in {:.0} days without that",
            arguments.rate,
            days.memory_a_day_gib,
            arguments.host_gib,
            days.memory_full_in,
            days.file_a_day_gib,
            arguments.disk_gib,
            days.file_full_in
        );
    }
}
