//! The conductor process: one I/O core and one core for each partition.
//!
//! This file starts them and ends them. On the I/O core, a single-threaded tokio runtime, run one
//! consumer a partition, the replies, the parking and the admin pages; each partition's core runs
//! what [`crate::partition`] describes. They share nothing but mailboxes.

mod advice;
mod consumer;
mod parking;
mod replies;
mod reply_address;

use crate::admin::{self, Admin, IoCoreReport, PartitionHandle};
use crate::amqp::Nodes;
use crate::mailbox::{self, Refused, Sender};
use crate::messages::{ReplyOut, ToPartition};
use crate::partition::{self, Assignment};
use crate::process::ProcessError;
use conductor_config::{CoreMap, Durability, Settings};
use conductor_engine::PartitionId;
use conductor_engine::limits::REPLIES_QUEUED_MAX;
use conductor_engine::matching::Cell;
use conductor_engine::partition::{self as machine, Settings as MachineSettings};
use consumer::{Ending, PartitionConsumer, Post};
use parking::Lot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{error, info, warn};

/// How long the process may take to end after it was asked to; the group in flight is waited for.
const END_WITHIN: Duration = Duration::from_millis(4_500);
/// Room in a partition's mailbox beyond its prefetch: control messages and admin questions.
const MAILBOX_SPARE: usize = 256;

/// Everything that runs on the I/O core.
struct Process {
    settings: Settings,
    cores: CoreMap,
    report: Arc<IoCoreReport>,
    mailboxes: BTreeMap<PartitionId, Sender<ToPartition>>,
    endings: mpsc::UnboundedReceiver<Ending>,
}

/// Runs the conductor on the calling thread, which becomes the I/O core, until it is asked to end.
///
/// # Errors
/// [`ProcessError`] when it cannot start.
pub fn run(settings: Settings, cores: CoreMap) -> Result<(), ProcessError> {
    if !core_affinity::set_for_current(core_affinity::CoreId { id: cores.io }) {
        let line = format!(
            "the I/O thread cannot be pinned to core {}; choose another",
            cores.io
        );
        return Err(ProcessError::Configuration(line));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ProcessError::System(format!("no runtime: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let ended = local.block_on(&runtime, serve(settings, cores));
    // What still waits for a peer that does not answer is not waited for.
    runtime.shutdown_background();
    ended
}

async fn serve(settings: Settings, cores: CoreMap) -> Result<(), ProcessError> {
    let listener = TcpListener::bind(settings.admin_address)
        .await
        .map_err(|error| {
            let address = settings.admin_address;
            ProcessError::Configuration(format!(
                "the admin pages cannot listen on {address}: {error}; choose another address"
            ))
        })?;
    let (process, stop_pages) = start(settings, cores, listener)?;
    let ended = process.until_the_end().await;
    let _ = stop_pages.send(());
    ended
}

/// Starts every core and every task.
fn start(
    settings: Settings,
    cores: CoreMap,
    listener: TcpListener,
) -> Result<(Process, oneshot::Sender<()>), ProcessError> {
    let broker = Arc::new(settings.broker.clone());
    let report = Arc::new(IoCoreReport::new(
        settings.partitions.iter().map(|each| each.id),
    ));
    let (replies, replies_out) = mailbox::mailbox::<ReplyOut>(REPLIES_QUEUED_MAX);
    let (ending, endings) = mpsc::unbounded_channel();
    let mut mailboxes = BTreeMap::new();
    let mut handles = Vec::new();
    for (place, part) in settings.partitions.iter().enumerate() {
        let capacity = usize::from(settings.prefetch) * 2 + MAILBOX_SPARE;
        let (to_partition, inbox) = mailbox::mailbox(capacity);
        let (outbox, from_partition) = mailbox::mailbox(capacity);
        let (generation, generations) = watch::channel(0);
        let (parking, park_jobs) = mpsc::unbounded_channel();
        let core = cores.partitions.get(place).copied();
        let assigned = assignment(
            &settings,
            part.id,
            part.store.clone(),
            core,
            inbox,
            outbox,
            &replies,
        );
        partition::spawn(assigned).map_err(|error| ProcessError::System(error.to_string()))?;
        let post = Post {
            partition: part.id,
            broker: Nodes::new(Arc::clone(&broker)),
            prefetch: settings.prefetch,
            watchdog: settings.watchdog,
            to_partition: to_partition.clone(),
            from_partition,
            parking,
            generation,
            endings: ending.clone(),
            report: Arc::clone(&report),
        };
        tokio::task::spawn_local(PartitionConsumer::new(post).run());
        let lot = Lot {
            partition: part.id,
            broker: Nodes::new(Arc::clone(&broker)),
            to_partition: to_partition.clone(),
            generation: generations,
            report: Arc::clone(&report),
        };
        tokio::task::spawn_local(parking::run(lot, park_jobs));
        handles.push(PartitionHandle {
            partition: part.id,
            core,
            sender: to_partition.clone(),
            store: part.store.clone(),
        });
        mailboxes.insert(part.id, to_partition);
    }
    tokio::task::spawn_local(advice::run(Nodes::new(Arc::clone(&broker))));
    tokio::task::spawn_local(replies::run(
        Nodes::new(broker),
        replies_out,
        Arc::clone(&report),
    ));
    let stop_pages = serve_pages(&settings, &cores, listener, handles, &report);
    Ok((
        Process {
            settings,
            cores,
            report,
            mailboxes,
            endings,
        },
        stop_pages,
    ))
}

fn serve_pages(
    settings: &Settings,
    cores: &CoreMap,
    listener: TcpListener,
    partitions: Vec<PartitionHandle>,
    report: &Arc<IoCoreReport>,
) -> oneshot::Sender<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    let pages = Admin {
        partition_count: settings.partition_count,
        store_login: settings.store_login.clone(),
        sentinel_login: settings.sentinel_login.clone(),
        partitions,
        io_core: Some(cores.io),
        io: Arc::clone(report),
    };
    tokio::task::spawn_local(async move {
        let shutdown = async {
            let _ = stopped.await;
        };
        if let Err(error) = admin::serve(listener, pages, shutdown).await {
            error!("the admin pages ended: {error}");
        }
    });
    stop
}

fn assignment(
    settings: &Settings,
    partition: PartitionId,
    store: conductor_config::StoreAddress,
    core: Option<usize>,
    inbox: mailbox::Receiver<ToPartition>,
    outbox: Sender<crate::messages::FromPartition>,
    replies: &Sender<ReplyOut>,
) -> Assignment {
    let (durability, timeout) = match settings.durability {
        Durability::AofReplicated { replicas, timeout } => {
            (Some(machine::Durability { replicas }), timeout)
        }
        Durability::Memory => (None, MEMORY_TIMEOUT),
    };
    let retention = settings.result_retention;
    Assignment {
        settings: MachineSettings {
            cell: Cell {
                partition,
                partition_count: settings.partition_count,
                pairs: settings.pairs.clone(),
            },
            prefetch: settings.prefetch,
            durability,
            group_commands_max: settings.group.commands_max,
            group_writes_max: settings.group.writes_max,
            event_stream_max: settings.event_stream_entries_max,
            results_kept: retention.is_none(),
            hash_seed: fastrand::u64(..),
        },
        store,
        store_login: settings.store_login.clone(),
        sentinel_login: settings.sentinel_login.clone(),
        durability_timeout: timeout,
        result_retention_seconds: retention.map(|retention| retention.as_secs()),
        core,
        spin: settings.spin,
        inbox,
        outbox,
        replies: replies.clone(),
    }
}

/// How long a store in memory mode may take to answer.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(2);

impl Process {
    async fn until_the_end(mut self) -> Result<(), ProcessError> {
        let served: Vec<String> = self.mailboxes.keys().map(ToString::to_string).collect();
        info!(
            "conductor of partitions {} of {}: I/O on core {}, partitions on cores {:?}, admin \
             pages on http://{}",
            served.join(", "),
            self.settings.partition_count,
            self.cores.io,
            self.cores.partitions,
            self.settings.admin_address,
        );
        let mut open: BTreeSet<PartitionId> = self.mailboxes.keys().copied().collect();
        let mut asked = std::pin::pin!(asked_to_end());
        tokio::select! {
            () = &mut asked => {}
            ending = self.endings.recv() => match ending {
                Some(Ending::RefuseToStart(line)) => {
                    return Err(ProcessError::Configuration(line));
                }
                Some(Ending::Stopped(partition)) => {
                    open.remove(&partition);
                }
                None => {}
            },
        }
        info!("ending: the group in flight is waited for");
        let ending = async {
            self.stop_all().await;
            self.all_stopped(&mut open).await;
        };
        let ended = tokio::time::timeout(END_WITHIN, ending).await;
        if ended.is_err() {
            warn!(
                "ended without partitions {open:?}: their disks or their broker did not answer; \
                 nothing is lost, what was not acknowledged is delivered again"
            );
        }
        drop(self.report);
        Ok(())
    }

    async fn stop_all(&self) {
        for mailbox in self.mailboxes.values() {
            // A partition whose core is gone has stopped.
            while let Err(Refused::Full(_)) = mailbox.send(ToPartition::Stop) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    async fn all_stopped(&mut self, open: &mut BTreeSet<PartitionId>) {
        while !open.is_empty() {
            match self.endings.recv().await {
                Some(Ending::Stopped(partition)) => {
                    open.remove(&partition);
                }
                Some(Ending::RefuseToStart(_)) => {}
                None => break,
            }
        }
    }
}

/// SIGTERM, or an interrupt from a terminal.
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = match signal(SignalKind::terminate()) {
        Ok(terminate) => terminate,
        Err(error) => {
            error!("SIGTERM cannot be listened for: {error}");
            return std::future::pending().await;
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
