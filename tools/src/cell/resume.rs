//! `cell resume`: lets a halted partition go on. Nothing else does.

use super::{EXIT_DONE, Output};
use crate::client::{Parked, SettingsArgs, Store, block_on, park_command};
use anyhow::{Context, bail};
use conductor_config::Settings;
use conductor_engine::partition::HaltRecord;
use conductor_engine::{CommandId, PartitionId};
use conductor_io::amqp;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell resume --partition 3
  cell resume --partition 3 --park c-81734

A partition halts when an invariant breaks, when a transaction was half applied, or when its store
has gone back behind what was acknowledged. It stays down on every instance, across restarts, until
this lifts it; so first mend what the reason names. Where the command at hand would only halt it
again, --park puts that command, and nothing else, into the parking queue first: it can be seen there
with `cell parked`. It must be among the first messages of the queue, as many as the prefetch.";

/// Let a halted partition go on, and perhaps park the command that halted it
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The partition
    #[arg(long, value_name = "NUMBER")]
    partition: u32,
    /// Park this command first
    #[arg(long, value_name = "COMMAND", value_parser = super::ask::command_id)]
    park: Option<CommandId>,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let partition = PartitionId(args.partition);
    let settings = args.settings.load_for(&[partition])?;
    let resumed = block_on(resume(&settings, partition, args.park.as_ref()))?;
    output.result(&resumed)?;
    Ok(ExitCode::from(EXIT_DONE))
}

async fn resume(
    settings: &Settings,
    partition: PartitionId,
    park: Option<&CommandId>,
) -> anyhow::Result<Resumed> {
    let mut store = Store::open(settings, partition).await?;
    let guards = store.guards().await?;
    let Some(halt) = guards.halted else {
        bail!("partition {partition} is not halted, so there is nothing to lift");
    };
    let parked = match park {
        None => None,
        Some(command) => {
            let topology = guards.topology.context(
                "the store has no topology, so the prefetch of its queue is not known; is it the \
                 right store?",
            )?;
            let reason = format!("parked by cell resume: {}", halt.reason);
            let connection = amqp::connect(&settings.broker, "cell resume").await?;
            let prefetch = topology.prefetch;
            let parking = park_command(&connection, partition, prefetch, command, &reason).await;
            amqp::close_connection(&connection).await;
            Some(parking?)
        }
    };
    store.lift_halt().await?;
    Ok(Resumed::of(partition, halt, parked))
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resumed {
    partition: u32,
    reason: String,
    command: Option<String>,
    epoch: u64,
    parked: Option<Parked>,
}

impl Resumed {
    fn of(partition: PartitionId, halt: HaltRecord, parked: Option<Parked>) -> Self {
        Self {
            partition: partition.0,
            reason: halt.reason,
            command: halt.command,
            epoch: halt.epoch,
            parked,
        }
    }
}

impl fmt::Display for Resumed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "partition {} was halted: {}",
            self.partition, self.reason
        )?;
        if let Some(command) = &self.command {
            writeln!(
                out,
                "  at command {command}, by the owner of epoch {}",
                self.epoch
            )?;
        }
        if let Some(parked) = &self.parked {
            writeln!(out, "the command is parked now, as message {}:", parked.id)?;
            writeln!(out, "  {}", parked.body)?;
        }
        writeln!(
            out,
            "The halt is lifted; a conductor takes the partition within seconds."
        )
    }
}
