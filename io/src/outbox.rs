//! The outbox process: publishes the committed events of its partitions to the broker.
//!
//! One single-threaded tokio runtime. Each partition has a task that drives its state machine with
//! a connection of its own to the store and a channel of its own on one shared connection to the
//! broker; beside them run the admin pages. This file starts them and ends them. What may be
//! published when, and what may be deleted, is decided by [`conductor_engine::outbox`]; nothing
//! here may publish or delete on its own account.

mod drain;
mod entry;
mod line;
mod packet;
mod pages;
mod plan;
mod report;
mod store;

use crate::process::ProcessError;
use conductor_config::{Durability, PartitionSettings, Settings};
use conductor_engine::outbox::Settings as MachineSettings;
use conductor_engine::partition::Durability as Disks;
use drain::Drain;
use line::Line;
use plan::{Plan, Wait};
use report::{Report, Reports};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument, error, info, info_span, warn};

/// How long the process may take to end after it was asked to.
const END_WITHIN: Duration = Duration::from_millis(4_500);

/// Runs the outbox until it is asked to end.
///
/// # Errors
/// [`ProcessError`] when it cannot start.
pub fn run(settings: Settings) -> Result<(), ProcessError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ProcessError::System(format!("no runtime: {error}")))?;
    let ended = runtime.block_on(serve(settings));
    // What still waits for a peer that does not answer is not waited for.
    runtime.shutdown_background();
    ended
}

async fn serve(settings: Settings) -> Result<(), ProcessError> {
    let address = settings.outbox.admin_address;
    let listener = TcpListener::bind(address).await.map_err(|error| {
        ProcessError::Configuration(format!(
            "the admin pages cannot listen on {address}: {error}; choose another address with \
             [outbox] admin_address or MATCHING_OUTBOX_ADMIN_ADDRESS"
        ))
    })?;
    let worker = worker_name();
    let named: Vec<_> = settings
        .partitions
        .iter()
        .map(|it| it.id.to_string())
        .collect();
    let partitions = named.join(",");
    let line = Arc::new(Line::new(&settings.broker, &partitions, &worker));
    let reports: Reports = settings
        .partitions
        .iter()
        .map(|partition| Arc::new(Mutex::new(Report::new(partition.id))))
        .collect();
    let (stop, stopping) = watch::channel(false);
    let mut drains = JoinSet::new();
    for (partition, report) in settings.partitions.iter().zip(&reports) {
        let plan = Arc::new(plan(&settings, partition, &worker));
        let span = info_span!("outbox", partition = partition.id.0);
        let machine = machine_settings(&settings);
        let drain = Drain::new(plan, machine, Arc::clone(&line), Arc::clone(report));
        drains.spawn(drain.run(stopping.clone()).instrument(span));
    }
    let pages = pages::serve(listener, reports, Arc::clone(&line), stopping);
    tokio::spawn(async move {
        if let Err(error) = pages.await {
            error!(%error, "the admin pages have ended");
        }
    });
    info!(partitions, worker, %address, "the outbox has started");
    let ended = until_ended(&mut drains, &stop).await;
    line.close().await;
    info!(partitions, "the outbox has ended");
    ended
}

/// Waits for a signal or a refusal, then for the drains, but not for ever.
async fn until_ended(
    drains: &mut JoinSet<Result<(), String>>,
    stop: &watch::Sender<bool>,
) -> Result<(), ProcessError> {
    let mut refusal = None;
    let signal = signalled().map_err(|error| ProcessError::System(error.to_string()))?;
    tokio::select! {
        name = signal => info!(signal = name, "asked to end; finishing what is under way"),
        ended = drains.join_next() => refusal = refused(ended),
    }
    stop.send_replace(true);
    let rest = async {
        while let Some(ended) = drains.join_next().await {
            refusal = refusal.take().or(refused(Some(ended)));
        }
    };
    if tokio::time::timeout(END_WITHIN, rest).await.is_err() {
        warn!("some partitions did not finish in time; their leases run out by themselves");
    }
    refusal.map_or(Ok(()), |line| Err(ProcessError::Configuration(line)))
}

type Joined = Result<Result<(), String>, tokio::task::JoinError>;

fn refused(ended: Option<Joined>) -> Option<String> {
    match ended {
        Some(Ok(Err(line))) => Some(line),
        Some(Err(error)) => Some(format!("a partition's task broke: {error}")),
        Some(Ok(Ok(()))) | None => None,
    }
}

/// The name of the signal that asks the process to end, once it comes.
fn signalled() -> std::io::Result<impl Future<Output = &'static str>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// What the lease holds, so that an operator finds the holder: host, process, and a number that
/// no earlier process of this name had.
fn worker_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = Some(host.trim()).filter(|host| !host.is_empty());
    let (host, process) = (host.unwrap_or("unknown-host"), std::process::id());
    format!("{host}:{process}:{:08x}", fastrand::u32(..))
}

fn machine_settings(settings: &Settings) -> MachineSettings {
    MachineSettings {
        durability: match settings.durability {
            Durability::AofReplicated { replicas, .. } => Some(Disks { replicas }),
            Durability::Memory => None,
        },
        batch: settings.outbox.batch,
        window: settings.outbox.window,
    }
}

fn plan(settings: &Settings, partition: &PartitionSettings, worker: &str) -> Plan {
    let wait = match settings.durability {
        Durability::AofReplicated { replicas, timeout } => Some(Wait { replicas, timeout }),
        Durability::Memory => None,
    };
    Plan {
        keys: crate::keys::Keys::new(partition.id),
        topology: settings.topology(partition.id),
        address: partition.store.clone(),
        store_login: settings.store_login.clone(),
        sentinel_login: settings.sentinel_login.clone(),
        worker: worker.to_owned(),
        lease: settings.outbox.lease,
        wait,
    }
}
