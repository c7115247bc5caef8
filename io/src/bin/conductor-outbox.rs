//! The outbox: publishes the committed events of its partitions to the broker, in order, once
//! enough disks have them.
#![forbid(unsafe_code)]

use clap::Parser;
use conductor_config::Settings;
use conductor_io::{outbox, process};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Publishes the committed events of one or more partitions.
///
/// A conductor commits each command with its events into a stream in the partition's store. This
/// process reads that stream from the head, waits until what it read is on enough disks, publishes
/// it to the exchange matching.events (the routing key is the event's type), and deletes what the
/// broker has confirmed. After a crash it publishes again what it had not deleted, so a consumer
/// drops an event whose sequence it has had.
///
/// A second outbox for the same partition stands by and takes over when the first one's lease has
/// run out. The admin pages are /health, /ready (503 without the lease) and /metrics.
///
/// The exchange and the stores' topology must be there first: `cell init` writes both, and
/// `cell init --event-queue NAME` binds a queue to it. An event that no queue takes is tried again
/// until one does; it is never lost.
///
/// Exit codes: 0 after SIGTERM or an interrupt, 78 when a setting must be changed first (one line
/// on standard error says which), 1 when the machine refuses something.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  MATCHING_PARTITION=0,1 conductor-outbox \
    --config conductor.toml\n\nThe settings are the conductor's; what concerns the outbox alone \
    is in [outbox]:\n  MATCHING_OUTBOX_ADMIN_ADDRESS, MATCHING_OUTBOX_WINDOW, \
    MATCHING_OUTBOX_BATCH, MATCHING_OUTBOX_LEASE_MS.\nLogs go to standard error; RUST_LOG=debug \
    says more."
)]
struct Arguments {
    /// Settings file; the environment is stronger than what it says.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    process::abort_on_panic();
    let arguments = Arguments::parse();
    process::run("conductor-outbox", arguments.config, |sources| {
        outbox::run(Settings::load(sources)?)
    })
}
