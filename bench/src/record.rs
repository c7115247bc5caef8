//! What a run leaves behind: a table for people, and a file that says on what and with what it was
//! measured, so that somebody else can repeat it.

pub(crate) use conductor_tools::cell::table::table;

use anyhow::Context;
use conductor_io::admin::hgrm;
use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a run is kept.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Keep {
    /// Write machine, versions, settings, seed and figures to this file as JSON
    #[arg(long, global = true, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a percentile file for each histogram into this folder, as HdrHistogram's plotter reads
    /// them; the unit is nanoseconds
    #[arg(long, global = true, value_name = "DIR")]
    percentiles: Option<PathBuf>,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// The subcommand.
    pub(crate) boundary: &'a str,
    /// What it was asked for, the seed among it.
    pub(crate) settings: Value,
    /// What it ran against, beside this program.
    pub(crate) servers: Value,
    /// What came of it.
    pub(crate) figures: Value,
}

impl Keep {
    /// Writes the run where it was asked for.
    pub(crate) fn run(&self, run: &Run<'_>) -> anyhow::Result<()> {
        warn_of_debug();
        let Some(path) = &self.json else {
            return Ok(());
        };
        let record = json!({
            "boundary": run.boundary,
            "at": seconds_since_1970(),
            "machine": machine(),
            "versions": versions(&run.servers),
            "settings": run.settings,
            "figures": run.figures,
        });
        let text = serde_json::to_string_pretty(&record)?;
        write(path, &(text + "\n"))
    }

    /// Writes a histogram of nanoseconds under a name.
    pub(crate) fn histogram(&self, name: &str, histogram: &Histogram<u64>) -> anyhow::Result<()> {
        match &self.percentiles {
            Some(folder) => {
                let path = folder.join(format!("{name}.hgrm"));
                write(&path, &hgrm::text(histogram))
            }
            None => Ok(()),
        }
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(cannot)?;
    }
    fs::write(path, text).with_context(cannot)
}

/// A value as JSON; what cannot be said is said so.
pub(crate) fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).unwrap_or_else(|error| json!({ "unspeakable": error.to_string() }))
}

fn warn_of_debug() {
    if cfg!(debug_assertions) {
        eprintln!("this is a debug build: its speeds say nothing; build with --release");
    }
}

fn seconds_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |since| since.as_secs())
}

fn machine() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_once(':'));
        value.map(|(_, value)| value.trim().to_owned())
    };
    json!({
        "processor": field(&read("/proc/cpuinfo"), "model name"),
        "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        "memory": field(&read("/proc/meminfo"), "MemTotal"),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "loadAtTheEnd": read("/proc/loadavg").trim(),
    })
}

fn versions(servers: &Value) -> Value {
    json!({
        "conductor": env!("CARGO_PKG_VERSION"),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "servers": servers,
    })
}
