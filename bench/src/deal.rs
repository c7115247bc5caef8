//! The decision alone: commands against the book, without any input or output.
//!
//! The timed part holds what a conductor's match step holds: routing, the book, the events and the
//! writes as values. It holds no decoding, no spelling of events and no store.

use crate::figures::{Rates, rate};
use crate::record::{Keep, Run, value};
use anyhow::{Context, ensure};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{Book, Command, FastBook, NaiveBook, PartitionId};
use conductor_io::wire::{Digest, encode_event};
use conductor_tools::workload::{Workload, WorkloadOptions};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The pure decision, no input and no output
///
/// Example: conductor-bench deal --commands 1000000 --runs 5
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Commands of the seeded workload in each run
    #[arg(long, default_value_t = 200_000)]
    commands: usize,
    /// Seed of the workload; the same seed is the same commands
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Timed runs; the median is printed
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Commands that the naive book decides too, before anything is timed
    #[arg(long, default_value_t = 5_000)]
    checked: usize,
}

/// What one measurement came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    commands: usize,
    deals: u64,
    events: u64,
    seed: u64,
    digest: String,
    commands_per_second: Rates,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let options = WorkloadOptions {
        seed: arguments.seed,
        ..WorkloadOptions::default()
    };
    let commands: Vec<Command> = Workload::new(options)?.take(arguments.commands).collect();
    let checked = &commands[..arguments.checked.min(commands.len())];
    let fast = decide(FastBook::default(), checked)?.digest;
    let naive = decide(NaiveBook::default(), checked)?.digest;
    ensure!(
        fast == naive,
        "the books differ ({fast}, {naive}): there is no speed to print"
    );
    let mut runs = Vec::new();
    let mut last = None;
    for _ in 0..arguments.runs {
        let decided = decide(FastBook::default(), &commands)?;
        runs.push(rate(commands.len(), decided.elapsed));
        last = Some(decided);
    }
    let decided = last.context("there was no run")?;
    let figures = Figures {
        commands: commands.len(),
        deals: decided.deals,
        events: decided.events,
        seed: arguments.seed,
        digest: decided.digest,
        commands_per_second: Rates::of(runs),
    };
    print(&figures);
    keep.run(&Run {
        boundary: "deal",
        settings: json!({ "commands": arguments.commands, "seed": arguments.seed, "runs": arguments.runs }),
        servers: Value::Null,
        figures: value(&figures),
    })
}

fn print(figures: &Figures) {
    println!("commands            {}", figures.commands);
    println!("deals, events       {}, {}", figures.deals, figures.events);
    println!("digest              {}", figures.digest);
    let rates = &figures.commands_per_second;
    println!(
        "commands a second   {} (least {}, most {})",
        rates.median, rates.least, rates.most
    );
}

struct Decided {
    digest: String,
    deals: u64,
    events: u64,
    elapsed: Duration,
}

/// Decides all commands; only the decisions are timed, their digest is made afterwards.
fn decide(book: impl Book, commands: &[Command]) -> anyhow::Result<Decided> {
    let mut matcher = Matcher::new(Cell::single(), book, Cursor::default());
    let mut accepted = AcceptedOrders::default();
    let mut writes = Vec::with_capacity(commands.len() * 8);
    let began = Instant::now();
    for command in commands {
        matcher.apply(command, &mut accepted, &mut writes)?;
    }
    let elapsed = began.elapsed();
    let (mut digest, mut line) = (Digest::default(), Vec::new());
    let (mut deals, mut events) = (0, 0);
    for write in &writes {
        if let Write::Event(event) = write {
            line.clear();
            encode_event(event, PartitionId(0), &mut line);
            digest.line(&line);
            events += 1;
            deals += u64::from(matches!(event.payload, conductor_engine::Payload::Deal(_)));
        }
    }
    Ok(Decided {
        digest: digest.hex(),
        deals,
        events,
        elapsed,
    })
}
