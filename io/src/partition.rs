//! A partition's core: one pinned thread, one glommio executor, one book, one Valkey connection.
//!
//! Everything in this folder runs on that core and shares nothing with any other: messages come in
//! through one bounded mailbox and leave through two. The only folder that knows glommio.
//! `driver` turns what arrives into inputs of the engine's state machine and performs its
//! actions; `session` owns the connection to the store and `loading` reads the book over it;
//! `answers` serves the admin pages.

mod answers;
mod driver;
mod loading;
mod local;
mod measure;
mod nudge;
mod packet;
mod session;
mod socket;
mod waiting;

use crate::mailbox::{Receiver, Sender};
use crate::messages::{FromPartition, ReplyOut, ToPartition};
use conductor_config::{Login, StoreAddress};
use conductor_engine::PartitionId;
use conductor_engine::partition::Settings;
use driver::Driver;
use glommio::{LocalExecutorBuilder, Placement};
use nudge::Nudge;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// When the executor interrupts its tasks to look at the network and at what other cores have sent:
/// never, because the driver gives way at the end of every turn.
///
/// A short time would be the usual advice, and makes the fault worse that the nudging thread is there for. On
/// two shared cores with 1 ms, nine runs of nine that woke this core from another as fast as they
/// could lost a wake-up within seconds.
const PREEMPT_TIMER: Duration = Duration::from_secs(3_600);

/// What a partition's core is given.
#[derive(Debug)]
pub struct Assignment {
    /// The state machine's settings; they name the partition.
    pub settings: Settings,
    /// Where its store is.
    pub store: StoreAddress,
    /// As whom to log in there.
    pub store_login: Option<Login>,
    /// As whom to log in at the Sentinels.
    pub sentinel_login: Option<Login>,
    /// How long one wait for disks may take.
    pub durability_timeout: Duration,
    /// Seconds that results are kept; `None` is for ever.
    pub result_retention_seconds: Option<u64>,
    /// The core to run on; `None` leaves that to the kernel.
    pub core: Option<usize>,
    /// How long it looks for work before it sleeps.
    pub spin: Duration,
    /// Messages in.
    pub inbox: Receiver<ToPartition>,
    /// Messages out; never full, because it has room for all that can be outstanding.
    pub outbox: Sender<FromPartition>,
    /// Results out; full means dropped and counted.
    pub replies: Sender<ReplyOut>,
}

/// Why a partition's core did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The thread was not created.
    #[error("partition {partition}: its thread was not created: {error}")]
    Thread {
        /// The partition.
        partition: PartitionId,
        /// The system's words.
        error: std::io::Error,
    },
}

/// Starts a partition's core. The thread ends when the machine has stopped.
///
/// # Errors
/// [`SpawnError`] when the thread cannot be created. What fails on the thread itself, such as an
/// executor that the kernel refuses, comes as [`FromPartition::RefuseToStart`].
pub fn spawn(assignment: Assignment) -> Result<JoinHandle<()>, SpawnError> {
    let partition = assignment.settings.cell.partition;
    let name = format!("partition-{partition}");
    let failed = |error| SpawnError::Thread { partition, error };
    let nudge = Arc::new(Nudge::default());
    nudge.start(format!("nudge-{partition}")).map_err(failed)?;
    std::thread::Builder::new()
        .name(name)
        .spawn(move || run(assignment, nudge))
        .map_err(failed)
}

fn run(assignment: Assignment, nudge: Arc<Nudge>) {
    let partition = assignment.settings.cell.partition;
    if let Some(core) = assignment.core
        && !core_affinity::set_for_current(core_affinity::CoreId { id: core })
    {
        let line = format!("partition {partition} cannot be pinned to core {core}; choose another");
        return refuse(&assignment.outbox, line);
    }
    let executor = LocalExecutorBuilder::new(Placement::Unbound)
        .preempt_timer(PREEMPT_TIMER)
        .spin_before_park(assignment.spin)
        .name(&format!("partition-{partition}"))
        .make();
    match executor {
        Ok(executor) => executor.run(Driver::new(assignment, nudge).run()),
        Err(error) => {
            let line = format!(
                "partition {partition}: the kernel refuses an io_uring executor ({error}); allow \
                 io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile, and \
                 at least 512 KiB of locked memory (ulimit -l)"
            );
            refuse(&assignment.outbox, line);
        }
    }
}

/// The process ends on this message, so a mailbox that does not take it changes nothing.
fn refuse(outbox: &Sender<FromPartition>, line: String) {
    let _ = outbox.send(FromPartition::RefuseToStart(line));
}
