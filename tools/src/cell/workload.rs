//! `cell workload`: a seeded workload as a trace.

use super::files::{create, is_standard, writing};
use super::{EXIT_DONE, Output};
use crate::trace::write_command;
use crate::workload::{Workload, WorkloadOptions};
use anyhow::Context;
use conductor_engine::{Body, Command, PairId, Timestamp};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell workload --seed 7 --commands 10000 --out trace.jsonl
  cell workload --commands 60000 --pairs 4 --out - | cell replay -";

/// Make a trace of a busy market from a seed; the same seed gives the same bytes
///
/// Of a hundred commands sixty place an order, half of which trade, thirty cancel a live order,
/// five amend one, and five replace up to ten at once.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Decides everything that is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many commands to make
    #[arg(long, value_name = "COUNT", default_value_t = 10_000)]
    commands: u64,
    /// How many pairs there are; they are numbered from 0
    #[arg(long, value_name = "COUNT", default_value_t = 8)]
    pairs: u32,
    /// How many users there are
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    users: u32,
    /// How many of a thousand resting asks belong to the house and have no user
    #[arg(long, value_name = "COUNT", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(0..=1_000))]
    house_permille: u16,
    /// Let every command name its partition, in a cell with this many
    #[arg(long, value_name = "COUNT")]
    partitions: Option<u32>,
    /// The first command's time, in milliseconds since 1970
    #[arg(long, value_name = "MILLISECONDS", value_parser = timestamp)]
    start: Option<Timestamp>,
    /// How much later each command is than the one before
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1)]
    step: u64,
    /// What every command id and order id begins with
    #[arg(long, default_value = "")]
    prefix: String,
    /// Write the trace to this file; `-` writes to stdout, and the report then goes to stderr
    #[arg(long, value_name = "TRACE")]
    out: PathBuf,
}

fn timestamp(text: &str) -> Result<Timestamp, &'static str> {
    let milliseconds = text.parse().ok();
    milliseconds
        .and_then(Timestamp::new)
        .ok_or("give milliseconds since 1970, below the year 2100")
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let workload = Workload::new(options(args))?;
    let mut report = Report {
        seed: args.seed,
        ..Report::default()
    };
    let mut out = create(&args.out)?;
    let mut progress = output.progress("making commands", Some(args.commands));
    for (_, command) in (0..args.commands).zip(workload) {
        write_command(&command, &mut out).with_context(|| writing(&args.out))?;
        report.add(&command);
        progress.advance(1);
    }
    out.flush().with_context(|| writing(&args.out))?;
    drop(progress);
    if is_standard(&args.out) {
        output.note(&report);
    } else {
        output.result(&report)?;
    }
    Ok(ExitCode::from(EXIT_DONE))
}

fn options(args: &Args) -> WorkloadOptions {
    let standard = WorkloadOptions::default();
    WorkloadOptions {
        seed: args.seed,
        pairs: (0..args.pairs).map(PairId).collect(),
        partition_count: args.partitions,
        users: args.users,
        house_permille: args.house_permille,
        start: args.start.unwrap_or(standard.start),
        step_ms: args.step,
        prefix: args.prefix.clone(),
        ..standard
    }
}

/// What was made.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seed: u64,
    commands: u64,
    places: u64,
    cancels: u64,
    amends: u64,
    batches: u64,
}

impl Report {
    fn add(&mut self, command: &Command) {
        self.commands += 1;
        *match command.body {
            Body::Place(_) => &mut self.places,
            Body::Cancel { .. } => &mut self.cancels,
            Body::Amend { .. } => &mut self.amends,
            Body::Replace { .. } => &mut self.batches,
        } += 1;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} commands of seed {}: {} places, {} cancels, {} amends, {} batches",
            self.commands, self.seed, self.places, self.cancels, self.amends, self.batches
        )
    }
}
