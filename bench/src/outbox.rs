//! How fast the outbox drains a stream that is full: its window against one event at a time.
//!
//! The outbox that is shipped, as a process of its own, between a real store with a replica and a
//! real broker. The stream is filled while no outbox runs; the time is from the first event to the
//! last one at a consumer, so that starting up is no part of it. One at a time is the same program
//! with a window of one and a batch of one: read, wait for disks, publish, confirm, delete. A third
//! row reads a hundred at once and still publishes one by one, as the articles' first version did.

use crate::bed::{Bed, END_WITHIN, EVENT_QUEUE, READY_WITHIN};
use crate::connection::Connection;
use crate::figures::{Rates, rate, ratio};
use crate::record::{Keep, Run, table, value};
use anyhow::{Context, ensure};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{FastBook, PartitionId};
use conductor_io::keys::{Keys, field};
use conductor_io::resp::Packer;
use conductor_io::wire::{Digest, encode_event};
use conductor_tools::client::block_on;
use conductor_tools::consumer::{Beginning, EventConsumer};
use conductor_tools::testbed::{Layout, wait_for};
use conductor_tools::workload::{Workload, WorkloadOptions};
use serde::Serialize;
use serde_json::json;
use std::time::{Duration, Instant};

/// An event that does not come in this time is lost.
const EVENT_WITHIN: Duration = Duration::from_secs(60);
/// Entries that are added to the stream in one packet.
const ADD_AT_ONCE: usize = 500;

/// Drain rate of the outbox, its window against one at a time
///
/// Example: conductor-bench outbox --events 20000 --runs 5
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Events in each run with the window
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(2..))]
    events: u32,
    /// Events in each run one at a time
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    one_by_one: u32,
    /// Runs of each, in turn; the medians are compared
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Replicas whose disks are waited for; none means the policy memory
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Seed of the workload whose events are drained
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// How the outbox is set.
#[derive(Clone, Copy, Debug)]
struct Mode {
    name: &'static str,
    window: &'static str,
    batch: &'static str,
}

const MODES: [Mode; 3] = [
    Mode {
        name: "window",
        window: "1024",
        batch: "1024",
    },
    Mode {
        name: "one by one, read 100 at once",
        window: "1",
        batch: "100",
    },
    Mode {
        name: "one at a time",
        window: "1",
        batch: "1",
    },
];

/// What one way came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    mode: &'static str,
    events: usize,
    events_per_second: Rates,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    block_on(measure(arguments, keep))
}

async fn measure(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let counts = MODES.map(|mode| match mode.window {
        "1" => arguments.one_by_one as usize,
        _ => arguments.events as usize,
    });
    let all = counts.iter().sum::<usize>() * arguments.runs as usize;
    let events = events(all, arguments.seed)?;
    let bed = Bed::start(&Layout {
        replicas: arguments.replicas,
        ..Layout::default()
    })
    .await?;
    let broker = &bed.settings.broker;
    let consumer = EventConsumer::attach(broker, EVENT_QUEUE, Beginning::First).await?;
    let mut drain = Drain {
        bed: &bed,
        consumer,
        events: events.as_slice(),
    };
    let mut rates = MODES.map(|_| Vec::new());
    for run in 0..arguments.runs {
        for (place, mode) in MODES.into_iter().enumerate() {
            rates[place].push(drain.run(mode, counts[place], run).await?);
        }
    }
    let rows: Vec<Row> = MODES
        .into_iter()
        .zip(counts)
        .zip(rates)
        .map(|((mode, events), rates)| Row {
            mode: mode.name,
            events,
            events_per_second: Rates::of(rates),
        })
        .collect();
    print(&rows);
    keep.run(&Run {
        boundary: "outbox",
        settings: json!({
            "events": arguments.events, "oneByOne": arguments.one_by_one, "runs": arguments.runs,
            "replicas": arguments.replicas, "seed": arguments.seed,
        }),
        servers: bed.versions()?,
        figures: value(&rows),
    })
}

/// The first events of the workload, spelled.
fn events(count: usize, seed: u64) -> anyhow::Result<Vec<Vec<u8>>> {
    let options = WorkloadOptions {
        seed,
        ..WorkloadOptions::default()
    };
    let mut matcher = Matcher::new(Cell::single(), FastBook::default(), Cursor::default());
    let (mut accepted, mut writes) = (AcceptedOrders::default(), Vec::new());
    let mut events = Vec::with_capacity(count);
    for command in Workload::new(options)? {
        matcher.apply(&command, &mut accepted, &mut writes)?;
        for write in writes.drain(..) {
            if let Write::Event(event) = write {
                let mut line = Vec::new();
                encode_event(&event, PartitionId(0), &mut line);
                events.push(line);
            }
        }
        if events.len() >= count {
            break;
        }
    }
    events.truncate(count);
    Ok(events)
}

struct Drain<'a> {
    bed: &'a Bed,
    consumer: EventConsumer,
    /// Those that were not drained yet.
    events: &'a [Vec<u8>],
}

impl Drain<'_> {
    /// Fills the stream, starts an outbox and counts what arrives; events a second.
    async fn run(&mut self, mode: Mode, count: usize, run: u32) -> anyhow::Result<u64> {
        let (events, rest) = self.events.split_at(count);
        self.events = rest;
        self.add(events)?;
        let variables = [
            ("MATCHING_OUTBOX_WINDOW", mode.window),
            ("MATCHING_OUTBOX_BATCH", mode.batch),
        ];
        let name = format!("outbox-{}-{}-{run}", mode.window, mode.batch);
        let outbox = self.bed.servers.outbox(&name, &[0], &variables)?;
        outbox.wait_ready(READY_WITHIN)?;
        let (mut arrived, mut digest) = (0, Digest::default());
        let (mut first, mut last) = (None, None);
        while arrived < count {
            let event = tokio::time::timeout(EVENT_WITHIN, self.consumer.next()).await;
            let event = event.context("an event did not come: there is no speed to print")??;
            if event.fresh {
                arrived += 1;
                digest.line(&event.body);
                last = Some(Instant::now());
                first = first.or(last);
            }
        }
        let mut expected = Digest::default();
        events.iter().for_each(|event| expected.line(event));
        ensure!(
            digest.hex() == expected.hex(),
            "the events that came are not those that were committed: there is no speed to print"
        );
        self.drained()?;
        outbox.terminate(END_WITHIN)?;
        let elapsed = last.zip(first).map(|(last, first)| last - first);
        Ok(rate(count - 1, elapsed.unwrap_or_default()))
    }

    fn add(&self, events: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut store = self.store()?;
        let keys = Keys::new(PartitionId(0));
        for events in events.chunks(ADD_AT_ONCE) {
            let mut bytes = Vec::new();
            let mut packer = Packer::new(&mut bytes);
            for event in events {
                packer
                    .start(b"XADD")
                    .part(keys.events().as_bytes())
                    .part(b"*")
                    .part(field::EVENT.as_bytes())
                    .part(event)
                    .end();
            }
            store.send(&bytes)?;
            for _ in events {
                let added = store.reply()?;
                ensure!(
                    added.error().is_none(),
                    "the store refuses an event: {added:?}"
                );
            }
        }
        Ok(())
    }

    /// Waits until the outbox has deleted what it published.
    fn drained(&self) -> anyhow::Result<()> {
        let mut store = self.store()?;
        let keys = Keys::new(PartitionId(0));
        let empty = || match store.number(&["XLEN", keys.events()]) {
            Ok(0) => Ok(()),
            Ok(left) => Err(format!("{left} entries")),
            Err(error) => Err(format!("{error:#}")),
        };
        Ok(wait_for("an empty stream", EVENT_WITHIN, empty)?)
    }

    fn store(&self) -> anyhow::Result<Connection> {
        Connection::open(&crate::stores::at(&self.bed.servers.store(0).primary))
    }
}

fn print(rows: &[Row]) {
    let head = ["outbox", "events a run", "events/s", "least", "most"];
    let shown = rows.iter().map(|row| {
        let rates = &row.events_per_second;
        let [median, least, most] =
            [rates.median, rates.least, rates.most].map(|it| it.to_string());
        [
            row.mode.to_owned(),
            row.events.to_string(),
            median,
            least,
            most,
        ]
    });
    println!("{}", table(head, shown));
    if let (Some(window), Some(single)) = (rows.first(), rows.last()) {
        let times = ratio(
            window.events_per_second.median,
            single.events_per_second.median,
        );
        println!(
            "every event came once, in sequence, with its bytes; the window is {times:.1} times one at a time"
        );
    }
}
