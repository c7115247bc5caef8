//! What is told, and kept, of a run that failed.
//!
//! The folder of a site goes with the site, so what explains a failure is copied out of it before:
//! every log, and the record that `conductor-tester audit` can be run on again.

use super::outcome::Outcome;
use super::schedule::Planned;
use super::site::Site;
use super::whole::pages_now;
use crate::testbed::Process;
use serde::Serialize;
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// So many lines of each log are told, of so many that are read; all of them are kept.
const LOG_LINES: usize = 12;
const LOG_LINES_READ: usize = 200;
/// What the traffic brings about all the time, and what explains nothing.
const EXPECTED: &str = "is no command and is parked";
/// So many faults before the failure are told.
const FAULTS: usize = 5;

/// Why a run failed, and where to look further.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tester) struct Failure {
    /// What happened.
    pub what: String,
    /// The fault that the site did not get over; none when the end was not as it should be.
    pub fault: Option<u64>,
    /// What was going on.
    pub story: Vec<String>,
    /// How to have it again.
    pub repeat: String,
    /// The folder that holds logs and record.
    pub kept: Option<PathBuf>,
}

impl Failure {
    /// The story as it can be told now, while the site still runs.
    pub(in crate::tester) fn tell(
        what: String,
        site: &Site,
        outcomes: &[Outcome],
        under_way: Option<Planned>,
    ) -> Self {
        let before = outcomes.len().saturating_sub(FAULTS);
        let mut story: Vec<String> = outcomes[before..].iter().map(ToString::to_string).collect();
        if let Some(planned) = under_way {
            let Planned {
                number, kind, hold, ..
            } = planned;
            story.push(format!("{number:>4} {kind:<22} {hold} · and then: {what}"));
        }
        story.extend(pages_now(site));
        let told = |process: &&Process| {
            let name = process.name();
            name.starts_with("conductor") || name.starts_with("outbox") || !process.is_running()
        };
        for process in site.processes().iter().filter(|it| told(it)) {
            story.push(format!("the log of {} ends:", process.name()));
            let tail = process.log_tail(LOG_LINES_READ);
            let mut lines: Vec<&str> = tail.lines().filter(|it| !it.contains(EXPECTED)).collect();
            lines.drain(..lines.len().saturating_sub(LOG_LINES));
            story.extend(lines.iter().map(|line| format!("  {line}")));
        }
        Self {
            what,
            fault: under_way.map(|planned| planned.number),
            story,
            repeat: String::new(),
            kept: None,
        }
    }

    /// Copies logs and record to a folder that stays.
    pub(in crate::tester) fn keep(&mut self, site: &Site, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(site.servers().folder().path())? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default();
            let text = name.to_string_lossy();
            if text.ends_with(".log") || text.starts_with(RECORD) {
                fs::copy(&path, folder.join(name))?;
            }
        }
        self.kept = Some(folder.to_owned());
        fs::write(folder.join("story.txt"), self.to_string())
    }
}

/// The name of the record's file; what its database keeps beside it begins the same.
pub(in crate::tester) const RECORD: &str = "record.sqlite";

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.story {
            writeln!(out, "{line}")?;
        }
        match self.fault {
            Some(number) => writeln!(out, "FAILED at fault {number}: {}", self.what)?,
            None => writeln!(out, "FAILED: {}", self.what)?,
        }
        writeln!(out, "again: {}", self.repeat)?;
        if let Some(kept) = &self.kept {
            writeln!(out, "logs and record: {}", kept.display())?;
        }
        Ok(())
    }
}

/// The words of a command line that names these.
pub(in crate::tester) fn repeated(option: &str, values: impl Iterator<Item = String>) -> String {
    values.fold(String::new(), |mut words, value| {
        let _ = write!(words, " --{option} {value}");
        words
    })
}
