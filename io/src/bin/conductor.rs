//! The conductor: consumes the commands of its partitions, matches them on one pinned core each,
//! and acknowledges what is on enough disks.
#![forbid(unsafe_code)]

use clap::Parser;
use conductor_config::{CoreInventory, Settings};
use conductor_io::{conductor, process};
use std::path::PathBuf;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Matches the commands of one or more partitions.
///
/// It reads its settings from the environment and from a file, checks the stores it is pointed at,
/// and takes ownership of a partition when the broker delivers the first command to it. A second
/// conductor for the same partition stands by and takes over when the first one is gone.
///
/// The stores must have a topology first: `cell init` writes it.
///
/// Exit codes: 0 after SIGTERM or an interrupt, 78 when a setting must be changed first (one line
/// on standard error says which), 1 when the machine refuses something.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Example:\n  MATCHING_PARTITION=0 REDIS_HOST=127.0.0.1 \
    RABBITMQ_USERNAME=conductor \\\n  RABBITMQ_PASSWORD_FILE=/etc/conductor/broker conductor \
    --config conductor.toml\n\nLogs go to standard error; RUST_LOG=debug says more."
)]
struct Arguments {
    /// Settings file; the environment is stronger than what it says.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    process::abort_on_panic();
    let arguments = Arguments::parse();
    process::run("conductor", arguments.config, |sources| {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let inventory = CoreInventory(cores.into_iter().map(|core| core.id).collect());
        let (settings, cores) = Settings::load_with_cores(sources, &inventory)?;
        conductor::run(settings, cores)
    })
}
