//! One look at every partition: what its core says and what the I/O core knows of it.
//!
//! Readiness and role are judged here, once, so that `/ready` and `/metrics` cannot differ.

use super::ask::{self, Silence};
use super::{PartitionHandle, PartitionIo, Site};
use crate::messages::PartitionReport;
use conductor_engine::PartitionId;
use conductor_engine::partition::{Role, Status};
use futures_util::future::join_all;

/// One partition at one moment.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) partition: PartitionId,
    pub(super) core: Option<usize>,
    /// What its core answered.
    pub(super) report: Result<PartitionReport, Silence>,
    /// What the I/O core knew.
    pub(super) io: PartitionIo,
}

/// Looks at every partition at the same time.
pub(super) async fn look(site: &Site) -> Vec<Look> {
    join_all(site.admin.partitions.iter().map(|handle| one(site, handle))).await
}

async fn one(site: &Site, handle: &PartitionHandle) -> Look {
    let report = ask::report(handle).await;
    let io = site.admin.io.of(handle.partition).clone();
    Look {
        partition: handle.partition,
        core: handle.core,
        report,
        io,
    }
}

impl Look {
    /// What the core says of itself, or said last.
    pub(super) fn status(&self) -> Option<&Status> {
        self.report
            .as_ref()
            .ok()
            .map(|report| &report.status)
            .or(self.io.standing.as_ref())
    }

    /// Why this process cannot take the partition's next delivery; `None` when it can.
    pub(super) fn not_ready(&self) -> Option<String> {
        match &self.report {
            Err(silence) => Some(silence.to_string()),
            Ok(report) => {
                let broker = self.io.broker_problem.clone();
                let waiting = report.status.state == "opening";
                let said = report.status.not_ready.clone();
                broker.filter(|_| waiting).or(said).or_else(|| {
                    let connected = self.io.broker_connected;
                    (!connected).then(|| "not connected to the broker".to_owned())
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
        let fenced = self
            .report
            .as_ref()
            .is_ok_and(|report| report.counters.fenced > 0);
        match self.io.queue {
            _ if self.io.behind_another => Role::Standby,
            None if fenced => Role::Standby,
            _ => Role::Unknown,
        }
    }
}
