//! The memory of every process of a site, looked at again and again, and whether it is level.
//!
//! A process is followed by its name: one that was killed and started again begins small, so what
//! counts is the most that a name held in a stretch of time. The first stretch, in which everything
//! fills its caches, is left out. *Level* means: the most of the last stretch is at most
//! 15 % and 16 MiB above the most of the stretch after the first. A stretch is ten minutes, or a
//! sixth of a shorter run.
//!
//! Valkey keeps a record for every command for ever, by design, and the tester's oracle knows every
//! command id. Neither can be level; for both the bytes for each command are told instead.

use crate::testbed::Process;
use crate::tester::chaos::site::Site;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

/// Between two looks.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The longest stretch.
const STRETCH_MAX: Duration = Duration::from_secs(600);
const STRETCHES_MIN: u32 = 6;
/// What the last stretch may have above the first, in hundredths and in bytes.
const GROWTH_PERCENT: u64 = 15;
const GROWTH_BYTES: u64 = 16 << 20;
/// The tester itself.
const TESTER: &str = "tester";

/// One process at one moment.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Sample {
    at_seconds: f64,
    process: String,
    pid: u32,
    resident_bytes: u64,
    /// Commands that were answered by then.
    answered: u64,
}

/// Everything that was seen.
#[derive(Debug)]
pub(super) struct Samples {
    began: Instant,
    all: Vec<Sample>,
}

impl Samples {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            all: Vec::new(),
        }
    }

    /// Looks at every process that runs.
    pub(super) fn look(&mut self, site: &Site, answered: u64) {
        let at_seconds = self.began.elapsed().as_secs_f64();
        let own = (TESTER.to_owned(), std::process::id());
        let running = site.processes().into_iter().filter(|it| it.is_running());
        let named = |it: &Process| (it.name().to_owned(), it.pid());
        let all: Vec<_> = running.map(named).chain([own]).collect();
        let resident = resident_by_group();
        for (process, pid) in all {
            let group = if process == TESTER {
                own_group()
            } else {
                Some(pid)
            };
            let Some(&resident_bytes) = group.and_then(|group| resident.get(&group)) else {
                continue;
            };
            self.all.push(Sample {
                at_seconds,
                process,
                pid,
                resident_bytes,
                answered,
            });
        }
    }

    /// Everything that was seen.
    pub(super) fn all(&self) -> &[Sample] {
        &self.all
    }

    /// What to say of each process, by name.
    pub(super) fn rows(&self) -> Vec<MemoryRow> {
        let names: BTreeSet<&str> = self.all.iter().map(|it| it.process.as_str()).collect();
        let end = self.all.last().map_or(0.0, |it| it.at_seconds);
        let stretch = STRETCH_MAX
            .as_secs_f64()
            .min(end / f64::from(STRETCHES_MIN));
        let row = |name: &str| {
            let own: Vec<&Sample> = self.all.iter().filter(|it| it.process == name).collect();
            MemoryRow::of(name, &own, stretch, end)
        };
        names.into_iter().filter_map(row).collect()
    }
}

/// The memory of one process over the run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MemoryRow {
    /// The process.
    pub(super) process: String,
    /// How often it was started.
    pub(super) lives: usize,
    /// The most that it held in the stretch after the first.
    pub(super) first_bytes: u64,
    /// The most that it held in the last stretch.
    pub(super) last_bytes: u64,
    /// The most that it ever held.
    pub(super) most_bytes: u64,
    /// Growth for each answered command, where growth is by design.
    pub(super) bytes_per_command: Option<f64>,
    /// Whether it is level; nothing where growth is by design.
    pub(super) level: Option<bool>,
}

impl MemoryRow {
    fn of(name: &str, own: &[&Sample], stretch: f64, end: f64) -> Option<Self> {
        let most = |from: f64, to: f64| {
            let within = own
                .iter()
                .filter(|it| it.at_seconds >= from && it.at_seconds <= to);
            within.max_by_key(|it| it.resident_bytes)
        };
        let (first, last) = (most(stretch, 2.0 * stretch)?, most(end - stretch, end)?);
        let lives: BTreeSet<u32> = own.iter().map(|it| it.pid).collect();
        let grows = name == TESTER || name.starts_with("store-");
        let (before, after) = (first.resident_bytes, last.resident_bytes);
        let commands = last.answered.saturating_sub(first.answered).max(1);
        let growth = after.saturating_sub(before) as f64;
        Some(Self {
            process: name.to_owned(),
            lives: lives.len(),
            first_bytes: before,
            last_bytes: after,
            most_bytes: most(0.0, end)?.resident_bytes,
            bytes_per_command: grows.then(|| growth / commands as f64),
            level: (!grows).then(|| is_level(before, after)),
        })
    }
}

fn is_level(first: u64, last: u64) -> bool {
    last <= first + first / 100 * GROWTH_PERCENT + GROWTH_BYTES
}

/// Resident bytes of every process group. A server may be more than one process.
fn resident_by_group() -> BTreeMap<u32, u64> {
    let mut groups = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(stat) = fs::read_to_string(path.join("stat")) else {
            continue;
        };
        let resident = resident_of(&fs::read_to_string(path.join("status")).unwrap_or_default());
        if let Some(group) = group_of(&stat) {
            *groups.entry(group).or_default() += resident;
        }
    }
    groups
}

/// The group is the third field behind the name, which is in parentheses and may hold anything.
fn group_of(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_whitespace().nth(2)?.parse().ok()
}

fn resident_of(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1_024
}

fn own_group() -> Option<u32> {
    group_of(&fs::read_to_string("/proc/self/stat").ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn samples(process: &str, resident: impl Fn(u32) -> u64) -> Samples {
        let sample = |minute: u32| Sample {
            at_seconds: f64::from(minute) * 60.0,
            process: process.to_owned(),
            pid: 1 + minute / 25,
            resident_bytes: resident(minute),
            answered: u64::from(minute) * 1_000,
        };
        Samples {
            began: Instant::now(),
            all: (0..=60).map(sample).collect(),
        }
    }

    #[test]
    fn what_fills_in_the_first_stretch_is_level_and_what_leaks_is_not() {
        let fills = samples("conductor-1", |minute| u64::from(minute.min(9)) * 100 * MIB);
        let row = &fills.rows()[0];
        assert_eq!((row.level, row.lives), (Some(true), 3));
        let leaks = samples("conductor-1", |minute| (100 + 2 * u64::from(minute)) * MIB);
        assert_eq!(leaks.rows()[0].level, Some(false));
    }

    #[test]
    fn a_store_grows_by_design_and_says_by_how_much() {
        let grows = samples("store-p0", |minute| u64::from(minute) * 1_000 * 500);
        let row = &grows.rows()[0];
        assert_eq!(row.level, None);
        assert_eq!(row.bytes_per_command, Some(500.0));
    }

    #[test]
    fn this_process_has_memory() {
        let resident = resident_by_group();
        let own = own_group().and_then(|group| resident.get(&group));
        assert!(own.is_some_and(|bytes| *bytes > MIB), "{own:?}");
    }
}
