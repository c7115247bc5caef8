//! The outbox: publishes the committed events of its partitions to the broker, in order, once
//! enough disks have them.
#![forbid(unsafe_code)]

use clap::Parser;
use conductor_config::{Settings, Sources};
use conductor_io::outbox::{self, OutboxError};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Exit code for a setting that must be changed first.
const EXIT_CONFIGURATION: u8 = 78;
/// The client library knows no partition and prints whole messages; what it says is said by us.
const LOGGED_UNLESS_TOLD: &str = "info,lapin=off";

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
    conductor_io::abort_on_panic();
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(LOGGED_UNLESS_TOLD));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let sources = Sources {
        file: arguments.config,
        environment: std::env::vars_os().collect(),
    };
    let ended = match Settings::load(&sources) {
        Ok(settings) => outbox::run(settings),
        Err(error) => Err(OutboxError::Configuration(error.to_string())),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ OutboxError::Configuration(_)) => {
            eprintln!("conductor-outbox: {error}");
            ExitCode::from(EXIT_CONFIGURATION)
        }
        Err(error) => {
            eprintln!("conductor-outbox: {error}");
            ExitCode::FAILURE
        }
    }
}
