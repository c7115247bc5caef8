//! One partition's store: where it is, what it must be, and how to connect to it.

use crate::keys::Keys;
use crate::store::discover::Logins;
use crate::store::over_tokio::{self, Socket};
use crate::store::{Link, LinkError, meta};
use conductor_config::{Login, StoreAddress};
use conductor_engine::partition::Topology;
use std::future::Future;
use std::time::Duration;

/// How long a connection may take to open.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long the store may take for anything that does not wait for disks or events.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// Everything about one partition that does not change.
#[derive(Debug)]
pub(super) struct Plan {
    /// Its keys.
    pub(super) keys: Keys,
    /// What its store must say of itself.
    pub(super) topology: Topology,
    /// Where its store is.
    pub(super) address: StoreAddress,
    /// As whom to log in to it.
    pub(super) store_login: Option<Login>,
    /// As whom to log in to the Sentinels.
    pub(super) sentinel_login: Option<Login>,
    /// What the lease holds while it is ours.
    pub(super) worker: String,
    /// How long the lease lasts without renewal.
    pub(super) lease: Duration,
    /// The wait for disks; `None` in memory mode.
    pub(super) wait: Option<Wait>,
}

/// A wait for disks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// Replicas that must confirm.
    pub(super) replicas: u32,
    /// How long one wait lasts.
    pub(super) timeout: Duration,
}

/// A partition's connection.
pub(super) type StoreLink = Link<Socket>;

/// Why the store cannot be worked with.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// Time, or a failover, may mend it.
    #[error("{0}")]
    Lost(String),
    /// Somebody must change something first.
    #[error("{0}")]
    Refused(String),
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Record { .. } => StoreError::Refused(error.to_string()),
            error => StoreError::Lost(error.to_string()),
        }
    }
}

/// What came of asking the store.
pub(super) type Outcome<T> = Result<T, StoreError>;

impl Wait {
    /// Two waits and some time to answer.
    pub(super) fn limit(self) -> Duration {
        self.timeout * 2 + ANSWER_WITHIN
    }
}

/// Finds the primary, connects, and checks that the store is this partition's.
pub(super) async fn connect(plan: &Plan) -> Outcome<StoreLink> {
    let logins = Logins {
        store: plan.store_login.as_ref(),
        sentinel: plan.sentinel_login.as_ref(),
    };
    let found = over_tokio::primary(&plan.address, logins, CONNECT_WITHIN).await;
    let mut link = found
        .map_err(|error| StoreError::Lost(error.to_string()))?
        .link;
    let asking = async { Ok(meta::guards(&mut link, &plan.keys).await?) };
    let guards = within(ANSWER_WITHIN, asking).await?;
    match plan.topology.problem(guards.topology) {
        None => Ok(link),
        Some(line) => Err(StoreError::Refused(line)),
    }
}

/// Waits for an answer, but not for ever.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Outcome<T>>,
) -> Outcome<T> {
    let timed = tokio::time::timeout(limit, work).await;
    timed.unwrap_or_else(|_| Err(LinkError::TimedOut.into()))
}
