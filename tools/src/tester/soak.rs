//! `conductor-tester soak`: hours of traffic with a fault every minute, AOF rewrites among them, and
//! the memory of every process.
//!
//! The faults and the end are those of `chaos`. What is added is time: what leaks, grows or drifts
//! shows only after a while. Memory is sampled on a thread of its own, because a fault can take
//! longer than the time between two samples.

mod memory;

use super::chaos::kind::FaultKind;
use super::chaos::schedule::{Schedule, ScheduleOptions};
use super::chaos::site::Site;
use super::chaos::{Came, Course, OnFailure, SiteArgs, chosen, kept_in, repeated, write_report};
use crate::cell::{EXIT_DONE, EXIT_FAILED, Output, table};
use crate::client::Pages;
use crate::testbed::{Valkey, wait_for};
use anyhow::Context;
use conductor_engine::{PairId, PartitionId};
use memory::{LOOK_EVERY, MemoryRow, Sample, Samples};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const AFTER_HELP: &str = "\
Examples:
  conductor-tester soak --hours 1 --seed 3 --nodes 3
  conductor-tester soak --minutes 10 --every 20 --fault-kinds conductor-kill --fault-kinds outbox-kill

Every twenty minutes the primary and its replicas rewrite their append-only files, and every pair is
reconciled. Memory is level when the most that a process held in the last ten minutes is at most
15 % and 16 MiB above the most of the ten minutes after the first ten. The stores keep a record for
every command for ever and are not held to that; nor is the tester, whose oracle knows every command
id. For them the bytes for each command are told.";

/// Run a private cell under load for hours, with a fault every minute, and watch its memory
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// How many hours
    #[arg(long, value_name = "HOURS", default_value_t = 1, conflicts_with = "minutes",
          value_parser = clap::value_parser!(u64).range(1..=240))]
    hours: u64,
    /// How many minutes, for a run shorter than an hour
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Seconds from one fault to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Strike with this kind; may be repeated. Every kind but disk-full unless given
    #[arg(long, value_name = "KIND")]
    fault_kinds: Vec<FaultKind>,
    /// Decides which faults strike when, and the traffic
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,
    /// Write the whole report, samples of memory included, to this file as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Where logs and record of a failed run are kept; in the temporary folder unless given
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    #[command(flatten)]
    site: SiteArgs,
}

impl Args {
    fn length(&self) -> Duration {
        let minutes = self.minutes.unwrap_or(self.hours * 60);
        Duration::from_secs(minutes * 60)
    }

    fn again(&self) -> String {
        let name = |kind: &FaultKind| kind.name().to_owned();
        let minutes = self.length().as_secs() / 60;
        format!(
            "conductor-tester soak --minutes {minutes} --every {} --seed {}{}{}",
            self.every,
            self.seed,
            repeated("fault-kinds", self.fault_kinds.iter().map(name)),
            self.site.words()
        )
    }
}

/// Between two rounds of rewrites; the first comes after half of it.
const REWRITE_EVERY: Duration = Duration::from_secs(20 * 60);
/// How long the rewrite of a file may take.
const REWRITTEN_WITHIN: Duration = Duration::from_secs(180);
/// Between two looks at whether it is time for the next fault.
const WATCH_EVERY: Duration = Duration::from_millis(200);

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    // A small disk is made of memory, and hours of records would need much of it.
    let without: &[FaultKind] = if args.fault_kinds.is_empty() {
        &[FaultKind::DiskFull]
    } else {
        &[]
    };
    let kinds = chosen(&args.site, &args.fault_kinds, without, output)?;
    output.note("starting the servers, two conductors and two outboxes ...");
    let site = Site::start(&args.site.site(&kinds)?).context("there is no site")?;
    let on_failure = OnFailure {
        folder: kept_in(args.keep.as_ref(), "soak", args.seed),
        again: &|_| args.again(),
    };
    let traffic = args.site.traffic(args.seed, site.record());
    let pairs = traffic.pairs.clone();
    let schedule = Schedule::new(ScheduleOptions {
        seed: args.seed,
        kinds,
        overlap_percent: 0,
    });
    let mut rewrites = Vec::new();
    let watch = Watch::default();
    let (came, samples) = std::thread::scope(|scope| {
        let sampling = scope.spawn(|| watch.sample(&site));
        let came = Came::of(&site, traffic, output, &on_failure, |course| {
            let soak = Soak {
                args,
                site: &site,
                pairs: &pairs,
                watch: &watch,
                output,
            };
            soak.go(course, schedule, &mut rewrites)
        });
        watch.over.store(true, Ordering::Relaxed);
        sampling.thread().unpark();
        let samples = sampling.join().unwrap_or_else(|_| Samples::new());
        (came, samples)
    });
    let report = Report {
        seed: args.seed,
        command: args.again(),
        came,
        rewrites,
        memory: samples.rows(),
        samples: samples.all().to_vec(),
    };
    write_report(args.report.as_deref(), &report)?;
    output.result(&report.summary())?;
    let failure = report.came.failure.as_ref();
    failure.inspect(|failure| output.note(failure));
    let level = report.memory.iter().all(|row| row.level != Some(false));
    Ok(ExitCode::from(if failure.is_some() || !level {
        EXIT_FAILED
    } else {
        EXIT_DONE
    }))
}

/// What the run and the thread that samples tell each other.
#[derive(Debug, Default)]
struct Watch {
    over: AtomicBool,
    answered: AtomicU64,
}

impl Watch {
    fn sample(&self, site: &Site) -> Samples {
        let mut samples = Samples::new();
        while !self.over.load(Ordering::Relaxed) {
            samples.look(site, self.answered.load(Ordering::Relaxed));
            std::thread::park_timeout(LOOK_EVERY);
        }
        samples
    }
}

/// Hours of faults.
struct Soak<'a> {
    args: &'a Args,
    site: &'a Site,
    pairs: &'a [PairId],
    watch: &'a Watch,
    output: &'a Output,
}

impl Soak<'_> {
    fn go(
        &self,
        course: &mut Course<'_>,
        schedule: Schedule,
        rewrites: &mut Vec<Rewrite>,
    ) -> anyhow::Result<()> {
        let (began, length) = (Instant::now(), self.args.length());
        let rewrite_every = REWRITE_EVERY.min(length / 3);
        let mut next_rewrite = began + rewrite_every / 2;
        let mut due = began;
        for strike in schedule {
            due += Duration::from_secs(self.args.every);
            // A fault that took longer than its turn moves the later ones; it does not double them.
            due = due.max(Instant::now());
            self.wait(course, due.min(began + length))?;
            if began.elapsed() >= length {
                break;
            }
            if Instant::now() >= next_rewrite {
                next_rewrite += rewrite_every;
                rewrites.extend(self.rewrite(course, began)?);
                self.reconcile()?;
            }
            course.strike(&strike)?;
        }
        Ok(())
    }

    /// Waits for a moment, and watches that everything goes on meanwhile.
    fn wait(&self, course: &Course<'_>, until: Instant) -> anyhow::Result<()> {
        loop {
            let progress = course.traffic().progress();
            self.watch
                .answered
                .store(progress.answered, Ordering::Relaxed);
            if let Some(violation) = progress.violation {
                anyhow::bail!(violation);
            }
            if let Some(ended) = self.site.ended() {
                anyhow::bail!(ended);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(WATCH_EVERY));
        }
    }

    /// Lets every store rewrite its file under traffic.
    fn rewrite(&self, course: &Course<'_>, began: Instant) -> anyhow::Result<Vec<Rewrite>> {
        let stores = self
            .site
            .partitions()
            .flat_map(|it| self.site.servers().store(it).servers());
        let mut done = Vec::new();
        for store in stores {
            let start = Instant::now();
            rewrite(store)?;
            let rewrite = Rewrite {
                store: store.process().name().to_owned(),
                at_seconds: start.duration_since(began).as_secs_f64(),
                took_ms: start.elapsed().as_secs_f64() * 1_000.0,
                silence_ms: course.traffic().longest_silence(start).as_secs_f64() * 1_000.0,
            };
            self.output.note(&rewrite);
            done.push(rewrite);
        }
        Ok(done)
    }

    /// Index, records and the owner's memory agree for every pair, as far as can be seen while
    /// they change.
    fn reconcile(&self) -> anyhow::Result<()> {
        let pages = Pages::new(self.site.pages());
        let count = self.site.settings().partition_count;
        for pair in self.pairs {
            let owner = pages.owner_first(PartitionId(pair.partition(count).0));
            let page = format!("/reconcile?pairId={}", pair.0);
            let answer = owner.first(&page)?;
            anyhow::ensure!(answer["healthy"] == true, "{page} is not healthy: {answer}");
        }
        Ok(())
    }
}

fn rewrite(store: &Valkey) -> anyhow::Result<()> {
    let name = store.process().name();
    let state = |field: &str| -> Result<String, String> {
        let info: String = store
            .command(&["INFO", "persistence"])
            .map_err(|error| error.to_string())?;
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.map(|value| value.trim().to_owned())
            .ok_or_else(|| format!("it does not tell {field}"))
    };
    let idle = || match state("aof_rewrite_in_progress")?.as_str() {
        "0" => Ok(()),
        _ => Err("it is still rewriting".to_owned()),
    };
    wait_for(
        &format!("end of an earlier rewrite of {name}"),
        REWRITTEN_WITHIN,
        idle,
    )?;
    store.command::<String>(&["BGREWRITEAOF"])?;
    wait_for(&format!("rewritten file of {name}"), REWRITTEN_WITHIN, idle)?;
    let status = state("aof_last_bgrewrite_status").map_err(anyhow::Error::msg)?;
    anyhow::ensure!(
        status == "ok",
        "{name} could not rewrite its file: {status}"
    );
    Ok(())
}

/// One file that was rewritten.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rewrite {
    store: String,
    at_seconds: f64,
    took_ms: f64,
    /// The longest time without an answer meanwhile.
    silence_ms: f64,
}

impl fmt::Display for Rewrite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "     file of {} rewritten in {:.1} s · no answer for {:.2} s",
            self.store,
            self.took_ms / 1_000.0,
            self.silence_ms / 1_000.0
        )
    }
}

/// What a soak came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seed: u64,
    command: String,
    #[serde(flatten)]
    came: Came,
    rewrites: Vec<Rewrite>,
    memory: Vec<MemoryRow>,
    samples: Vec<Sample>,
}

impl Report {
    fn summary(&self) -> Summary<'_> {
        Summary {
            command: &self.command,
            came: &self.came,
            rewrites: &self.rewrites,
            memory: &self.memory,
        }
    }
}

/// The same without the samples.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary<'a> {
    command: &'a str,
    #[serde(flatten)]
    came: &'a Came,
    rewrites: &'a [Rewrite],
    memory: &'a [MemoryRow],
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.came)?;
        for rewrite in self.rewrites {
            writeln!(out, "{rewrite}")?;
        }
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let head = [
            "memory",
            "lives",
            "after the first",
            "at the end",
            "most",
            "",
        ];
        let rows = self.memory.iter().map(|row| {
            let verdict = match (row.level, row.bytes_per_command) {
                (Some(true), _) => "level".to_owned(),
                (Some(false), _) => "NOT level".to_owned(),
                (None, each) => format!("{:.0} bytes a command", each.unwrap_or_default()),
            };
            [
                row.process.clone(),
                row.lives.to_string(),
                mebibytes(row.first_bytes),
                mebibytes(row.last_bytes),
                mebibytes(row.most_bytes),
                verdict,
            ]
        });
        let shown = table(head, rows);
        writeln!(out, "{shown}\n{}", self.command)
    }
}
