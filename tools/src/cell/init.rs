//! `cell init`: makes servers that exist already into a cell.

use super::{EXIT_DONE, Output};
use crate::client::{SettingsArgs, block_on, set_up};
use conductor_engine::PartitionId;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell init --config conductor.toml
  cell init --config conductor.toml --all --event-queue events.audit
  MATCHING_PARTITION=3 cell init --config conductor.toml

It can be run again at any time: what is there and is the same stays. A topology that differs is
refused and never overwritten, and so is a queue that exists with other arguments; the line says
which argument it is and how to move.";

/// Set up servers that exist already: write the topology, declare the queues
///
/// Writes `topology` (partition, partition count, prefetch) into the store of each partition where
/// there is none, and waits until the disks that the policy asks for have it. Then declares the
/// exchanges matching.commands and matching.events, and each partition's command queue and parking
/// queue. A conductor writes none of these and refuses to start without them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Set up every partition, instead of those that the settings name for this machine
    #[arg(long)]
    all: bool,
    /// Also declare a durable queue that receives every event; may be repeated
    #[arg(long, value_name = "NAME")]
    event_queue: Vec<String>,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let mut settings = args.settings.load()?;
    if args.all {
        let every: Vec<PartitionId> = (0..settings.partition_count).map(PartitionId).collect();
        settings = args.settings.load_for(&every)?;
    }
    let done = block_on(async { Ok(set_up(&settings, &args.event_queue).await?) })?;
    output.result(&done)?;
    Ok(ExitCode::from(EXIT_DONE))
}
