//! One whole run: traffic, whatever is done to the site meanwhile, the end and the audit; and what
//! came of it. `chaos` and `soak` differ in what they do meanwhile.

use super::course::Course;
use super::outcome::{KindRow, Outcome, by_kind, kind_table};
use super::site::Site;
use super::story::Failure;
use crate::cell::Output;
use crate::tester::audit::Audit;
use crate::tester::traffic::{Finished, TrafficOptions};
use anyhow::Context;
use serde::Serialize;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a run came to.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::tester) struct Came {
    seconds: f64,
    faults: Vec<Outcome>,
    kinds: Vec<KindRow>,
    traffic: Option<Finished>,
    audit: Option<Audit>,
    /// Why the run failed, if it did.
    pub(in crate::tester) failure: Option<Failure>,
}

/// What to do with a run that fails.
pub(in crate::tester) struct OnFailure<'a> {
    /// Where its logs and its record are kept.
    pub(in crate::tester) folder: PathBuf,
    /// The command line that repeats it up to a fault.
    pub(in crate::tester) again: &'a dyn Fn(Option<u64>) -> String,
}

impl Came {
    /// Runs traffic on the site, does the work meanwhile, and audits.
    pub(in crate::tester) fn of(
        site: &Site,
        traffic: TrafficOptions,
        output: &Output,
        on_failure: &OnFailure<'_>,
        work: impl FnOnce(&mut Course<'_>) -> anyhow::Result<()>,
    ) -> Self {
        let began = Instant::now();
        let mut came = Self::default();
        let mut under_way = None;
        let ended = Course::begin(site, traffic, output).and_then(|mut course| {
            let worked = work(&mut course);
            came.faults = course.outcomes().to_vec();
            under_way = course.under_way();
            worked.and_then(|()| course.end())
        });
        came.seconds = began.elapsed().as_secs_f64();
        came.kinds = by_kind(&came.faults);
        let what = match ended {
            Ok((finished, audit)) => {
                let difference = (!audit.is_clean()).then(|| format!("the audit found\n{audit}"));
                (came.traffic, came.audit) = (Some(finished), Some(audit));
                difference
            }
            Err(error) => Some(format!("{error:#}")),
        };
        if let Some(what) = what {
            let mut failure = Failure::tell(what, site, &came.faults, under_way);
            failure.repeat = (on_failure.again)(failure.fault);
            if let Err(error) = failure.keep(site, &on_failure.folder) {
                let folder = on_failure.folder.display();
                failure
                    .story
                    .push(format!("{folder} could not be kept whole: {error}"));
            }
            came.failure = Some(failure);
        }
        came
    }
}

impl fmt::Display for Came {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.kinds.is_empty() {
            writeln!(out, "{}", kind_table(&self.kinds))?;
        }
        writeln!(out, "{} faults in {:.0} s", self.faults.len(), self.seconds)?;
        if let Some(finished) = &self.traffic {
            let it = &finished.progress;
            writeln!(
                out,
                "{} messages published, {} answered, {} answers lost, {} events, {} reconnects",
                it.published, it.answered, it.replies_missing, it.events, it.reconnects
            )?;
        }
        match &self.audit {
            Some(audit) => write!(out, "{audit}"),
            None => writeln!(out, "there was no audit"),
        }
    }
}

/// Where a failed run is kept: a folder of its own in the temporary folder unless another is named.
pub(in crate::tester) fn kept_in(named: Option<&PathBuf>, what: &str, seed: u64) -> PathBuf {
    let own = format!("conductor-{what}-{seed}-{}", std::process::id());
    named
        .cloned()
        .unwrap_or_else(|| std::env::temp_dir().join(own))
}

/// Writes a report to a file, if there is one to write to.
pub(in crate::tester) fn write_report(
    file: Option<&Path>,
    report: &impl Serialize,
) -> anyhow::Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(report)?;
    fs::write(file, text + "\n")
        .with_context(|| format!("the report cannot be written to {}", file.display()))
}
