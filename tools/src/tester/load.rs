//! `conductor-tester load`: a cell under load for a while, and the audit.

use super::audit::{Audit, audit};
use super::site::SiteArgs;
use super::traffic::{Finished, Progress, Traffic, TrafficOptions};
use crate::cell::{EXIT_DONE, EXIT_FAILED, Output, Shape};
use crate::client::Pages;
use crate::private_cell::PrivateCell;
use anyhow::Context;
use conductor_config::Settings;
use conductor_engine::PairId;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Between two looks at how it goes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const AFTER_HELP: &str = "\
Examples:
  conductor-tester load --rate 500 --seconds 60
  conductor-tester load --full-speed --seconds 30 --partitions 2 --json
  conductor-tester load --rate 200 --seconds 600 --config conductor.toml --record run.sqlite

Without --config it runs a private cell and ends it afterwards. A cell that is named must be idle and have
no other producer meanwhile; pairs that it never held are used. At a rate the loop is open: each command is due at its moment whatever
the cell does, and its latency counts from that moment, so a stall shows in all the commands that had
to wait for it. Exit code 0 only if the audit is clean.";

/// Load a cell for a while, then audit it
///
/// Publishes a seeded workload with confirms and replies, among it wrong messages and commands that
/// were sent before; compares every reply with the engine's; takes every event into an inbox. At the
/// end everything that was sent must be decided, stored, published and equal on all sides.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Commands a second
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 200.0,
        conflicts_with = "full_speed"
    )]
    rate: f64,
    /// As many commands as the window allows, instead of a rate
    #[arg(long)]
    full_speed: bool,
    /// For how long
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How long the cell may take for the rest, behind that
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    site: SiteArgs,
    #[command(flatten)]
    shape: Shape,
}

/// What traffic is to be, as options that every command with traffic has.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Traffic")]
pub(super) struct TrafficArgs {
    /// Decides everything about the commands that is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Commands that may be under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 1_024,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: u32,
    /// How many pairs, from pair 0 on
    #[arg(long, value_name = "COUNT", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pairs: u32,
    /// Of a thousand messages, how many are what somebody got wrong
    #[arg(long, value_name = "COUNT", default_value_t = 5,
          value_parser = clap::value_parser!(u16).range(0..=500))]
    poison_permille: u16,
    /// Of a thousand messages, how many are an earlier command once more
    #[arg(long, value_name = "COUNT", default_value_t = 20,
          value_parser = clap::value_parser!(u16).range(0..=500))]
    repeat_permille: u16,
    /// Where to keep the record; in a temporary folder, and gone afterwards, unless given
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

impl TrafficArgs {
    /// The options, with the record in this file unless another one is named.
    pub(super) fn options(&self, record: PathBuf) -> TrafficOptions {
        TrafficOptions {
            seed: self.seed,
            window: self.window as usize,
            pairs: (0..self.pairs).map(PairId).collect(),
            poison_permille: self.poison_permille,
            repeat_permille: self.repeat_permille,
            ..TrafficOptions::new(self.record.clone().unwrap_or(record))
        }
    }
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let folder = tempfile::tempdir()?;
    let options = TrafficOptions {
        rate: (!args.full_speed).then_some(args.rate),
        ..args.traffic.options(folder.path().join("record.sqlite"))
    };
    anyhow::ensure!(
        args.rate.is_finite() && args.rate > 0.0,
        "a rate is above zero; --rate {} is not",
        args.rate
    );
    let report = if args.site.settings.config.is_some() {
        let (settings, pages) = args.site.open()?;
        load(args, options, (&settings, &pages), output)?
    } else {
        let cell = args.shape.start(output)?;
        let pages = Pages::new([cell.conductor().url("")]);
        let report = load(args, options, (cell.settings(), &pages), output);
        let report = report.with_context(|| ended(&cell))?;
        cell.stop()?;
        report
    };
    output.result(&report)?;
    Ok(ExitCode::from(if report.audit.is_clean() {
        EXIT_DONE
    } else {
        EXIT_FAILED
    }))
}

/// What a failure is told with.
fn ended(cell: &PrivateCell) -> String {
    let ended = cell.ended();
    ended.unwrap_or_else(|| format!("the end of {}", cell.conductor().process().log_tail(5)))
}

fn load(
    args: &Args,
    options: TrafficOptions,
    (settings, pages): (&Settings, &Pages),
    output: &Output,
) -> anyhow::Result<Report> {
    let seed = options.seed;
    let traffic = Traffic::start(settings, options)?;
    offer(&traffic, Duration::from_secs(args.seconds), output);
    let wait = Duration::from_secs(args.wait);
    let finished = traffic.finish(wait)?;
    output.note("comparing oracle, store, memory and inbox ...");
    let audit = audit(settings, pages, &finished.record, wait)?;
    Ok(Report {
        seed,
        offered_rate: (!args.full_speed).then_some(args.rate),
        finished,
        audit,
    })
}

/// Watches for so long, or until something is wrong.
fn offer(traffic: &Traffic, duration: Duration, output: &Output) {
    let until = Instant::now() + duration;
    let mut bar = output.progress("commands answered", None);
    let mut shown = 0;
    loop {
        let progress = traffic.progress();
        bar.set(progress.answered.saturating_sub(shown));
        shown = progress.answered;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || progress.violation.is_some() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}

/// What the load came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seed: u64,
    offered_rate: Option<f64>,
    #[serde(flatten)]
    finished: Finished,
    audit: Audit,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n{}", self.finished, self.audit)
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.progress)?;
        writeln!(
            out,
            "{:<30}{:>12.0}",
            "commands per second", self.commands_per_second
        )?;
        let times = &self.due_to_reply_ms;
        writeln!(out, "due to reply, milliseconds")?;
        for (name, value) in [
            ("  p50", times.milliseconds_at(0.5)),
            ("  p99", times.milliseconds_at(0.99)),
            ("  p99.9", times.milliseconds_at(0.999)),
            ("  longest", times.longest_ms()),
        ] {
            writeln!(out, "{name:<30}{value:>12.2}")?;
        }
        if let Some(left) = &self.left_behind {
            writeln!(out, "{left}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let always = [
            ("messages published", self.published),
            ("  earlier commands once more", self.repeats),
            ("  got wrong", self.poison),
            ("confirmed by the broker", self.confirmed),
            ("answered", self.answered),
            ("events in the inbox", self.events),
        ];
        let rare = [
            ("answers missing", self.replies_missing),
            ("answers repeated", self.replies_repeated),
            ("answers that differ", self.replies_differing),
            ("events repeated", self.events_repeated),
            ("connections lost", self.reconnects),
        ];
        let rare = rare.into_iter().filter(|(_, count)| *count > 0);
        for (name, count) in always.into_iter().chain(rare) {
            writeln!(out, "{name:<30}{count:>12}")?;
        }
        Ok(())
    }
}
