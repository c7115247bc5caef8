//! The public workloads of flash1-dev/matching-engine-benchmark, with the published hash of their
//! reports.
//!
//! One thread. Reports are built and kept inside the timed part; they are hashed outside, after
//! each run, and a run whose hash is wrong has no speed. The messages are made before: see
//! [`workload`].

mod drive;
mod report;
mod whole;
mod workload;

use crate::figures::{Rates, rate, ratio};
use crate::record::{Keep, Run, table, value};
use anyhow::{Context, bail, ensure};
use conductor_engine::{FastBook, Timestamp};
use report::Report;
use serde::Serialize;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workload::Message;

/// What the benchmark publishes for its seed 23, by the name of the workload.
const PUBLISHED: [(&str, &str); 2] = [
    (
        "normal",
        "e9b2e3926854410b01a035aeb25dd05f1e597c233be8263de9eb49b6713d367e",
    ),
    (
        "flash-crash",
        "cff8d3f94b709fc64a8b2058a6ca4fb6920364904796e46906895e362d2bb16b",
    ),
];
/// Two reports for a message leave room.
const REPORTS_PER_MESSAGE: usize = 2;
/// The start of 2026: the messages have no time of their own.
const TIME: Timestamp = Timestamp::new(1_767_225_600_000).expect("before the year 2100");

/// The public workloads of matching-engine-benchmark, hashes checked
///
/// Example: conductor-bench meb normal.bin.zst flash-crash.bin.zst --runs 7
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Workloads, as they are published or packed with zstd
    #[arg(required = true, value_name = "FILE")]
    workloads: Vec<PathBuf>,
    /// The hash that the reports must have, where the file's name is not that of a published
    /// workload
    #[arg(long, value_name = "HEX")]
    sha256: Option<String>,
    /// Timed runs; the median is what counts
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
}

/// What one workload came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    workload: String,
    messages: usize,
    reports: usize,
    sha256: String,
    /// The book and its trade.
    book: Rates,
    /// The whole decision, with events, writes and results.
    decision: Rates,
    events: usize,
    deals: usize,
    writes: usize,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let measured = arguments
        .workloads
        .iter()
        .map(|path| measure(path, arguments))
        .collect::<anyhow::Result<Vec<_>>>()?;
    print(&measured);
    keep.run(&Run {
        boundary: "meb",
        settings: serde_json::json!({ "seed": 23, "runs": arguments.runs }),
        servers: Value::Null,
        figures: value(&measured),
    })
}

fn measure(path: &Path, arguments: &Arguments) -> anyhow::Result<Figures> {
    let (workload, expected) = expected(path, arguments)?;
    let messages = workload::read(path)?;
    let mut reports = Vec::with_capacity(messages.len() * REPORTS_PER_MESSAGE);
    let mut book = Vec::new();
    for run in 0..=arguments.runs {
        let elapsed = through_the_book(&messages, &mut reports)?;
        check(&messages, &reports, &expected, "the book")?;
        // The first run is for the pages of the reports' memory.
        if run > 0 {
            book.push(rate(messages.len(), elapsed));
        }
    }
    let counted = reports.len();
    drop(reports);
    let commands = whole::commands(&messages, TIME)?;
    let (told, counts) = whole::reports(&messages, &commands)?;
    check(&messages, &told, &expected, "the whole decision")?;
    drop(told);
    let mut decision = Vec::new();
    for _ in 0..arguments.runs {
        let began = Instant::now();
        let again = whole::run(&commands)?;
        decision.push(rate(messages.len(), began.elapsed()));
        ensure!(again == counts, "a run came to something else: {again:?}");
    }
    Ok(Figures {
        workload,
        messages: messages.len(),
        reports: counted,
        sha256: expected,
        book: Rates::of(book),
        decision: Rates::of(decision),
        events: counts.events,
        deals: counts.deals,
        writes: counts.writes,
    })
}

fn through_the_book(messages: &[Message], reports: &mut Vec<Report>) -> anyhow::Result<Duration> {
    reports.clear();
    let mut book = FastBook::default();
    let began = Instant::now();
    let done = drive::run(&mut book, messages, TIME, reports);
    let elapsed = began.elapsed();
    match done {
        Ok(()) => Ok(elapsed),
        Err(stop) => bail!("the workload cannot be run: {stop:?}"),
    }
}

fn check(
    messages: &[Message],
    reports: &[Report],
    expected: &str,
    what: &str,
) -> anyhow::Result<()> {
    let found = report::sha256(messages, reports);
    ensure!(
        found == expected,
        "the reports of {what} have the hash {found}, not {expected}: there is no speed to print"
    );
    Ok(())
}

/// A workload's name, and the hash that its reports must have.
fn expected(path: &Path, arguments: &Arguments) -> anyhow::Result<(String, String)> {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let name = name.context("a workload is a file")?;
    let stem = name.split('.').next().unwrap_or_default();
    let published = PUBLISHED.iter().find(|(name, _)| *name == stem);
    match (&arguments.sha256, published) {
        (Some(given), _) => Ok((stem.to_owned(), given.to_lowercase())),
        (None, Some((_, hash))) => Ok((stem.to_owned(), (*hash).to_owned())),
        (None, None) => bail!(
            "no hash is published for {stem}; name the file normal.bin.zst or \
             flash-crash.bin.zst, or give --sha256"
        ),
    }
}

fn print(measured: &[Figures]) {
    let head = ["workload", "what runs", "messages/s", "least", "most"];
    let rows = measured.iter().flat_map(|figures| {
        let row = |what: &str, rates: &Rates| {
            let shown = [rates.median, rates.least, rates.most].map(millions);
            let [median, least, most] = shown;
            [
                figures.workload.clone(),
                what.to_owned(),
                median,
                least,
                most,
            ]
        };
        [
            row("book and trade", &figures.book),
            row("whole decision", &figures.decision),
        ]
    });
    println!("{}", table(head, rows));
    for figures in measured {
        println!(
            "{}: {} messages, {} reports, hash {} as published; events and writes cost {:.1} times \
             the book",
            figures.workload,
            figures.messages,
            figures.reports,
            figures.sha256,
            ratio(figures.book.median, figures.decision.median) - 1.0
        );
    }
    if let Some(slower) = measured.iter().map(|figures| figures.book.median).min() {
        println!("slower workload: {} messages a second", millions(slower));
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a rate for people needs no more digits than a double has"
)]
fn millions(rate: u64) -> String {
    format!("{:.2} M", rate as f64 / 1e6)
}
