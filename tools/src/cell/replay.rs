//! `cell replay`: the engine alone over a trace.

use super::files::{create, file, open, reading};
use super::{EXIT_DONE, Output};
use crate::replay::{Counts, FastReplay, NaiveReplay, Replay};
use crate::trace::TraceReader;
use anyhow::Context;
use conductor_engine::Book;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

const AFTER_HELP: &str = "\
Examples:
  cell replay trace.jsonl
  cell replay trace.jsonl --events events.jsonl --book book.json
  cell workload --seed 7 --commands 10000 --out - | cell replay - --json

A command goes to the partition that it names if there is one of that number, and else to its
pair's. With several partitions the events file holds the events of all of them in the order in
which they happened; each partition counts its own sequence.";

/// Decide a trace with the engine alone, without any server
///
/// Reads commands, one JSON object a line, and gives the events, the book and the digest that a
/// cell gives for the same commands, always the same for the same trace. A line that is no command
/// is counted as parked, as a cell would park it. Prints counts and the digest of each partition.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The trace to read; `-` reads stdin
    trace: PathBuf,
    /// Write every event to this file, one a line in canonical form
    #[arg(long, value_name = "FILE", value_parser = file())]
    events: Option<PathBuf>,
    /// Write the final book to this file as JSON
    #[arg(long, value_name = "FILE", value_parser = file())]
    book: Option<PathBuf>,
    /// Use the slow and obvious book instead of the fast one; everything else must come out equal
    #[arg(long)]
    naive: bool,
    /// How many partitions the cell has
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=PARTITIONS_MAX))]
    partitions: u32,
}

/// More partitions than anyone runs; keeps a slip of the finger from taking all memory.
const PARTITIONS_MAX: i64 = 4_096;

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let report = if args.naive {
        replay(args, NaiveReplay::new(args.partitions), output)?
    } else {
        replay(args, FastReplay::new(args.partitions), output)?
    };
    output.result(&report)?;
    Ok(ExitCode::from(EXIT_DONE))
}

fn replay<B: Book>(args: &Args, mut replay: Replay<B>, output: &Output) -> anyhow::Result<Report> {
    let (source, bytes) = open(&args.trace)?;
    let mut events = args.events.as_deref().map(create).transpose()?;
    let mut progress = output.progress("replaying", bytes);
    let mut trace = TraceReader::new(source);
    let began = Instant::now();
    while let Some(line) = trace.read().with_context(|| reading(&args.trace))? {
        progress.advance(line.bytes_read);
        let partition = line.destination(replay.partition_count());
        let decided = replay
            .feed(partition, &line.incoming)
            .with_context(|| format!("line {} of {}", line.number, args.trace.display()))?;
        if let Some(out) = &mut events {
            out.write_all(decided.canonical).context("writing events")?;
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    drop(progress);
    replay.audit()?;
    if let Some(out) = &mut events {
        out.flush().context("writing events")?;
    }
    if let Some(path) = &args.book {
        let mut out = create(path)?;
        writeln!(out, "{}", replay.view().to_json())?;
        out.flush()
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(Report::of(&replay, seconds))
}

/// What a replay came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    #[serde(flatten)]
    counts: Counts,
    digests: Vec<String>,
    commands_per_second: u64,
}

impl Report {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate for people, far below 2^52 and never negative"
    )]
    fn of<B: Book>(replay: &Replay<B>, seconds: f64) -> Self {
        let counts = replay.counts().clone();
        let rate = (counts.commands + counts.repeats) as f64 / seconds.max(f64::EPSILON);
        Self {
            counts,
            digests: replay.digests(),
            commands_per_second: rate as u64,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        let mut row = |name: &str, count: u64| writeln!(out, "{name:<26}{count:>12}");
        row("messages", counts.messages)?;
        row("  commands decided", counts.commands)?;
        row("    accepted", counts.accepted)?;
        row("    unchanged", counts.unchanged)?;
        row("    rejected", counts.rejected)?;
        row("  commands repeated", counts.repeats)?;
        row("  parked (no command)", counts.parked)?;
        row("duplicate orders", counts.duplicate_orders)?;
        row("deals", counts.deals)?;
        row("events", counts.events_in_all())?;
        for (kind, count) in &counts.events {
            row(&format!("  {kind}"), *count)?;
        }
        row("commands per second", self.commands_per_second)?;
        for (partition, digest) in self.digests.iter().enumerate() {
            writeln!(out, "digest of partition {partition}: {digest}")?;
        }
        Ok(())
    }
}
