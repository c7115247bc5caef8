//! `conductor-tester chaos`: faults by schedule on real servers, under traffic, and the audit.
//!
//! The schedule is a pure function of the seed ([`schedule`]), a kind of fault is a row of one table
//! ([`kind`]), the site is a whole cell with two conductors and two outboxes ([`site`]). A run
//! strikes, undoes, waits until the site is whole and acknowledges, and goes on (`course`); what it
//! measures is how long the cell did not acknowledge. It ends with the audit, which must be clean.

mod args;
mod came;
mod course;
pub mod kind;
pub mod outcome;
pub mod schedule;
pub mod site;
mod story;
mod strike;
mod whole;

pub(super) use args::SiteArgs;
pub(super) use came::{Came, OnFailure, kept_in, write_report};
pub(super) use course::Course;
pub(super) use story::repeated;

use crate::cell::{EXIT_DONE, EXIT_FAILED, Output, table};
use anyhow::Context;
use kind::FaultKind;
use schedule::{Schedule, ScheduleOptions};
use serde::Serialize;
use site::Site;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const AFTER_HELP: &str = "\
Examples:
  conductor-tester chaos --list
  conductor-tester chaos --faults 100 --seed 4 --nodes 3
  conductor-tester chaos --minutes 15 --seed 9 --nodes 3 --overlap 20 --versions debian-13
  conductor-tester chaos --faults 12 --only primary-kill --only primary-pause --replicas 2

One line a fault on stderr as it is over: whom it struck, how long nothing was answered, and after how
long the site was whole. The same seed gives the same faults at the same places of the same traffic;
what the machine does in between differs from run to run, so a failure may need several tries to come
again. Exit code 1 comes with the seed, the number of the fault, the command that repeats it, and
a folder with every log and the record, on which `conductor-tester audit` can be run.";

/// Disturb a private cell under load, one fault after the other, and audit what came of it
///
/// Starts servers of its own (three Sentinels among them), two conductors and two outboxes; offers a
/// seeded workload; strikes with every kind of fault equally often, in an order that the seed
/// decides; and waits after each until every process runs, every replica is in step and commands
/// are answered again. At the end oracle, store, memory and inbox must be equal.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Show every kind of fault, and do nothing else
    #[arg(long)]
    list: bool,
    /// End after so many faults; 20 unless there is a limit in minutes
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    faults: Option<u64>,
    /// Decides which faults strike when, and the traffic
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Begin no fault after so many minutes
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Strike with this kind only; may be repeated
    #[arg(long, value_name = "KIND")]
    only: Vec<FaultKind>,
    /// Never strike with this kind; may be repeated
    #[arg(long, value_name = "KIND", conflicts_with = "only")]
    without: Vec<FaultKind>,
    /// Of a hundred strikes, how many bring a second fault of another part before the first is over
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    overlap: u8,
    /// Write the whole report to this file as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Where logs and record of a failed run are kept; in the temporary folder unless given
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    site: SiteArgs,
}

const USUAL_FAULTS: u64 = 20;

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    if args.list {
        output.result(&Kinds(FaultKind::all().map(KindShown::of).collect()))?;
        return Ok(ExitCode::from(EXIT_DONE));
    }
    let kinds = chosen(&args.site, &args.only, &args.without, output)?;
    output.note("starting the servers, two conductors and two outboxes ...");
    let site = Site::start(&args.site.site(&kinds)?).context("there is no site")?;
    let schedule = Schedule::new(ScheduleOptions {
        seed: args.seed,
        kinds,
        overlap_percent: args.overlap,
    });
    let traffic = args.site.traffic(args.seed, site.record());
    let on_failure = OnFailure {
        folder: kept_in(args.keep.as_ref(), "chaos", args.seed),
        again: &|fault| again(args, fault.or(args.faults)),
    };
    let strikes = |course: &mut Course<'_>| strike_all(args, schedule, course);
    let came = Came::of(&site, traffic, output, &on_failure, strikes);
    let report = Report {
        seed: args.seed,
        command: again(args, args.faults),
        came,
    };
    write_report(args.report.as_deref(), &report)?;
    output.result(&report)?;
    let failure = report.came.failure.as_ref();
    failure.inspect(|failure| output.note(failure));
    Ok(ExitCode::from(if failure.is_some() {
        EXIT_FAILED
    } else {
        EXIT_DONE
    }))
}

/// The kinds to strike with. One that the site rules out is an error where it was asked for, and
/// is left out with a word where it was not.
pub(super) fn chosen(
    site: &SiteArgs,
    only: &[FaultKind],
    without: &[FaultKind],
    output: &Output,
) -> anyhow::Result<Vec<FaultKind>> {
    let mut kinds = Vec::new();
    for kind in FaultKind::all() {
        let asked = only.contains(&kind);
        if !(asked || only.is_empty()) || without.contains(&kind) {
            continue;
        }
        match site.rules_out(kind) {
            Some(why) if asked => anyhow::bail!("{kind} cannot be had: {why}"),
            Some(why) => output.note(format_args!("without {kind}: {why}")),
            None => kinds.push(kind),
        }
    }
    anyhow::ensure!(
        !kinds.is_empty(),
        "no kind of fault is left; --without fewer"
    );
    Ok(kinds)
}

/// Strikes until there have been enough.
fn strike_all(args: &Args, schedule: Schedule, course: &mut Course<'_>) -> anyhow::Result<()> {
    let began = Instant::now();
    let until = args
        .minutes
        .map(|minutes| Duration::from_secs(minutes * 60));
    let usual = until.is_none().then_some(USUAL_FAULTS);
    let most = args.faults.or(usual).unwrap_or(u64::MAX);
    for strike in schedule {
        let done = course.outcomes().len() as u64;
        if done >= most || until.is_some_and(|until| began.elapsed() >= until) {
            break;
        }
        course.strike(&strike)?;
    }
    Ok(())
}

/// What a run came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seed: u64,
    command: String,
    #[serde(flatten)]
    came: Came,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}seed {}: {}", self.came, self.seed, self.command)
    }
}

/// The command line that gives the same faults up to a number.
fn again(args: &Args, faults: Option<u64>) -> String {
    let name = |kind: &FaultKind| kind.name().to_owned();
    let mut words = format!("conductor-tester chaos --seed {}", args.seed);
    words += &repeated("faults", faults.iter().map(u64::to_string));
    if faults.is_none() {
        words += &repeated("minutes", args.minutes.iter().map(u64::to_string));
    }
    words += &repeated("only", args.only.iter().map(name));
    words += &repeated("without", args.without.iter().map(name));
    if args.overlap > 0 {
        words += &repeated("overlap", [args.overlap.to_string()].into_iter());
    }
    words + &args.site.words()
}

/// Every kind of fault, for `--list`.
#[derive(Debug, Serialize)]
struct Kinds(Vec<KindShown>);

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct KindShown {
    name: &'static str,
    meaning: &'static str,
    strikes: &'static str,
    undone: &'static str,
    whole: &'static str,
    aim_seconds: u64,
}

impl KindShown {
    fn of(kind: FaultKind) -> Self {
        let facts = kind.facts();
        Self {
            name: facts.name,
            meaning: facts.meaning,
            strikes: facts.strikes,
            undone: facts.undone,
            whole: facts.part.whole(),
            aim_seconds: facts.aim_seconds,
        }
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.0.iter().map(|kind| {
            let words = format!(
                "{}\nstrikes: {}\nundone: {}\nwhole: {}",
                kind.meaning, kind.strikes, kind.undone, kind.whole
            );
            [kind.name.to_owned(), words]
        });
        writeln!(out, "{}", table(["fault", "what it is"], rows))?;
        writeln!(
            out,
            "The cell should acknowledge again 5 s after a process died, and 30 s after a store did; \
             what a pause itself lasts comes on top."
        )
    }
}
