//! The audit: oracle, store, memory and inbox must be equal, and nothing may be left over.

use crate::cell::Output;
use crate::client::Pages;
use conductor_config::Settings;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  conductor-tester audit --record run.sqlite --config conductor.toml";

/// Compare a cell with the record of what was sent to it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The record that traffic wrote
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
}

pub(super) fn run(args: &Args, _output: &Output) -> anyhow::Result<ExitCode> {
    anyhow::bail!("{}", args.record.display())
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AuditError(String);

/// One thing that must hold.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Whether it does.
    pub holds: bool,
    /// What it is, with figures.
    pub what: String,
}

/// What the audit found.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Everything that was looked at.
    pub checks: Vec<Check>,
    /// The first difference, in the order of the commands.
    pub first_difference: Option<String>,
}

impl Audit {
    /// Whether all sides are equal.
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let mark = if check.holds { "ok    " } else { "FAILED" };
            writeln!(out, "{mark} {}", check.what)?;
        }
        if let Some(difference) = &self.first_difference {
            writeln!(out, "the first difference: {difference}")?;
        }
        Ok(())
    }
}

/// Compares the cell with the record. What may still be under way (the last events, a parked
/// message) is waited for, at most this long.
///
/// # Errors
/// [`AuditError`] when a side cannot be read at all.
pub fn audit(
    _settings: &Settings,
    _pages: &Pages,
    record: &Path,
    _within: Duration,
) -> Result<Audit, AuditError> {
    Err(AuditError(record.display().to_string()))
}
