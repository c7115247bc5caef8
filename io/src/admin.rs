//! The conductor's admin pages: what it is doing, for people, probes and Prometheus.
//!
//! They run on the I/O core beside the broker's connections, and change nothing: no page writes to
//! a store, to the broker or to a partition. What a partition's core alone knows it is asked for
//! through its mailbox, with a limit on the wait, so that a page tells the truth about a core that
//! no longer answers instead of hanging with it. What is in a store is read on connections of the
//! pages' own, which the command path never shares.
//!
//! There is no login: the pages listen on the loopback address unless the settings say otherwise.

mod answer;
mod ask;
mod depth;
pub mod hgrm;
mod histogram;
mod io_report;
mod look;
mod metrics;
mod ready;
mod reconcile;
mod store;

pub use io_report::{IoCoreReport, PartitionIo, QueueCounts};

use crate::listener::BoundedListener;
use crate::mailbox;
use crate::messages::ToPartition;
use answer::problem;
use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use conductor_config::{Login, StoreAddress};
use conductor_engine::{PairId, PartitionId};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// How long open requests may go on once the process is to end.
const GRACE: Duration = Duration::from_secs(1);

const PAGES: [&str; 6] = [
    "/health",
    "/ready",
    "/metrics",
    "/reconcile?pairId=",
    "/depth?pairId=&levels=",
    "/histogram",
];

/// One partition of the process, as the pages reach it.
#[derive(Debug)]
pub struct PartitionHandle {
    /// Its number.
    pub partition: PartitionId,
    /// The core that it runs on; `None` where it is not pinned.
    pub core: Option<usize>,
    /// Its core's mailbox.
    pub sender: mailbox::Sender<ToPartition>,
    /// Where its store is.
    pub store: StoreAddress,
}

/// Everything that the pages show and ask.
#[derive(Debug)]
pub struct Admin {
    /// The number of partitions of the whole system.
    pub partition_count: u32,
    /// As whom to log in to the stores.
    pub store_login: Option<Login>,
    /// As whom to log in to the Sentinels.
    pub sentinel_login: Option<Login>,
    /// The partitions that this process serves.
    pub partitions: Vec<PartitionHandle>,
    /// The core that the pages and the broker's connections run on; `None` where it is not pinned.
    pub io_core: Option<usize>,
    /// What the I/O core measures itself.
    pub io: Arc<IoCoreReport>,
}

/// Serves the pages until `shutdown` is over, and gives requests that are open then a second.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    admin: Admin,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let (ending, ended) = oneshot::channel::<()>();
    let shutdown = async move {
        shutdown.await;
        let _ = ending.send(());
    };
    let serving =
        axum::serve(BoundedListener::new(listener), router(admin)).with_graceful_shutdown(shutdown);
    let overtime = async move {
        match ended.await {
            Ok(()) => tokio::time::sleep(GRACE).await,
            // The server dropped it and is about to return by itself.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        served = serving => served,
        () = overtime => Ok(()),
    }
}

/// What every page works with.
struct Site {
    admin: Admin,
    stores: store::Stores,
    reconciling: tokio::sync::Mutex<()>,
}

type Shared = axum::extract::State<Arc<Site>>;

fn router(admin: Admin) -> Router {
    let stores = store::Stores::new(admin.partitions.len());
    let reconciling = tokio::sync::Mutex::new(());
    let site = Arc::new(Site {
        admin,
        stores,
        reconciling,
    });
    Router::new()
        .route("/health", get(health))
        .route("/ready", get(ready::page))
        .route("/metrics", get(metrics::page))
        .route("/reconcile", get(reconcile::page))
        .route("/depth", get(depth::page))
        .route("/histogram", get(histogram::page))
        .method_not_allowed_fallback(only_reading)
        .fallback(no_such_page)
        .with_state(site)
}

/// The I/O core runs, or this would not be answered.
async fn health() -> Response {
    answer::json(StatusCode::OK, &serde_json::json!({ "status": "ok" }))
}

async fn only_reading() -> Response {
    problem(
        StatusCode::METHOD_NOT_ALLOWED,
        "the pages change nothing; ask them with GET",
    )
}

async fn no_such_page() -> Response {
    let body = serde_json::json!({ "error": "there is no such page", "pages": PAGES });
    answer::json(StatusCode::NOT_FOUND, &body)
}

impl Site {
    /// The place and the handle of the partition that a pair belongs to.
    ///
    /// # Errors
    /// The answer for a pair of another process.
    fn owner_of(&self, pair: PairId) -> Result<(usize, &PartitionHandle), Box<Response>> {
        let count = self.admin.partition_count;
        let partition = pair.partition(count);
        let mut served = self.admin.partitions.iter().enumerate();
        served.find(|(_, handle)| handle.partition == partition).ok_or_else(|| {
            let error = format!(
                "pair {pair} belongs to partition {partition} of {count}, which this process does \
                 not serve; ask a conductor that does"
            );
            let body = serde_json::json!({ "error": error, "partition": partition.0 });
            Box::new(answer::json(StatusCode::NOT_FOUND, &body))
        })
    }
}

#[cfg(test)]
mod tests;
