//! One look at every partition: what its core says and what the I/O core knows of it.
//!
//! Readiness and role are judged here, once, so that `/ready` and `/metrics` cannot differ.

use super::ask::{self, Silence};
use super::{PartitionHandle, PartitionIo, Site};
use crate::messages::{PartitionReport, Standing};
use conductor_engine::PartitionId;
use conductor_engine::partition::{Role, Status};
use futures_util::future::join_all;
use std::time::Duration;

/// How long the broker may owe an answer before it cannot be counted on.
const BROKER_SILENT: Duration = Duration::from_millis(1_500);

/// One partition at one moment. `Said` is what its core was asked for: a few words, or all that it
/// counts and measures, which costs the core a copy.
#[derive(Debug)]
pub(super) struct Look<Said = PartitionReport> {
    pub(super) partition: PartitionId,
    pub(super) core: Option<usize>,
    /// What its core answered.
    pub(super) report: Result<Said, Silence>,
    /// What the I/O core knew.
    pub(super) io: PartitionIo,
}

/// What readiness and role go by, in whatever a core has said.
pub(super) trait Says {
    /// Where the partition stands.
    fn status(&self) -> &Status;
    /// Transactions that the fence held back.
    fn fenced(&self) -> u64;
}

impl Says for PartitionReport {
    fn status(&self) -> &Status {
        &self.status
    }

    fn fenced(&self) -> u64 {
        self.counters.fenced
    }
}

impl Says for Standing {
    fn status(&self) -> &Status {
        &self.status
    }

    fn fenced(&self) -> u64 {
        self.fenced
    }
}

/// Looks at all that every partition counts and measures, at the same time.
pub(super) async fn look(site: &Site) -> Vec<Look> {
    each(site, ask::report).await
}

/// Looks at where every partition stands.
pub(super) async fn glance(site: &Site) -> Vec<Look<Standing>> {
    each(site, ask::standing).await
}

async fn each<Said>(
    site: &Site,
    asking: impl AsyncFn(&PartitionHandle) -> Result<Said, Silence>,
) -> Vec<Look<Said>> {
    let asking = &asking;
    let one = |handle| async move {
        let report = asking(handle).await;
        let io = site.admin.io.of(handle.partition).clone();
        Look {
            partition: handle.partition,
            core: handle.core,
            report,
            io,
        }
    };
    join_all(site.admin.partitions.iter().map(one)).await
}

impl<Said: Says> Look<Said> {
    /// What the core says of itself, or said last.
    pub(super) fn status(&self) -> Option<&Status> {
        self.report
            .as_ref()
            .ok()
            .map(Says::status)
            .or(self.io.standing.as_ref())
    }

    /// Why this process cannot take the partition's next delivery; `None` when it can.
    pub(super) fn not_ready(&self) -> Option<String> {
        match &self.report {
            Err(silence) => Some(silence.to_string()),
            Ok(report) => {
                let broker = self.io.broker_problem.clone();
                let waiting = report.status().state == "opening";
                let said = report.status().not_ready.clone();
                let parking = self.io.parking_problem.as_ref().map(|problem| {
                    format!(
                        "a message cannot be parked, and nothing behind it is acknowledged: {problem}"
                    )
                });
                broker.filter(|_| waiting).or(said).or(parking).or_else(|| {
                    let asked = self.io.broker_asked;
                    let silent = asked.is_some_and(|since| since.elapsed() > BROKER_SILENT);
                    let problem = match self.io.broker_connected {
                        false => "not connected to the broker",
                        true if silent => "the broker has not answered for more than 1.5 s",
                        true => return None,
                    };
                    Some(problem.to_owned())
                })
            }
        }
    }

    /// What this process is to the partition.
    ///
    /// The broker does not tell a consumer that it stands behind another one. Where somebody else
    /// was registered before it, or the fence has shown that somebody else is at work, it stands
    /// by; where it was the first, it cannot say what it is until something arrives.
    pub(super) fn role(&self) -> Role {
        let Some(status) = self.status() else {
            return Role::Unknown;
        };
        if status.role != Role::Standby {
            return status.role;
        }
        let fenced = self.report.as_ref().is_ok_and(|report| report.fenced() > 0);
        match self.io.queue {
            _ if self.io.behind_another => Role::Standby,
            None if fenced => Role::Standby,
            _ => Role::Unknown,
        }
    }
}
