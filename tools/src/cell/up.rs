//! `cell up`: a private cell in the foreground.

use super::{EXIT_DONE, Output};
use crate::client::block_on;
use crate::private_cell::{EVENT_QUEUE, Plan, PrivateCell};
use anyhow::Context;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks at whether everything still runs.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const AFTER_HELP: &str = "\
Examples:
  cell up
  cell up --partitions 2 --sentinels
  cell up --memory

It prints how to reach the cell. In a second terminal, export the line that it prints and go on with
`cell place`, `cell depth`, `cell events`, `cell status`. Ctrl-C ends everything that was started
and removes its folder; nothing that was running before is touched.";

/// Run a private cell in the foreground, until Ctrl-C
///
/// Starts a RabbitMQ node and a Valkey primary with its replicas for each partition, as private
/// processes in a folder of their own and on free ports of 127.0.0.1; sets them up; starts a
/// conductor for all partitions and an outbox. Every event also goes to the queue events.all.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    shape: Shape,
}

/// What a private cell is to be, as options.
#[derive(Debug, clap::Args)]
pub(crate) struct Shape {
    /// How many partitions; a pair belongs to partition `pair % COUNT`
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub(super) partitions: u32,
    /// Watch the stores with three Sentinels, which promote a replica when a primary dies
    #[arg(long)]
    sentinels: bool,
    /// How many replicas each store has; all of them must confirm every command
    #[arg(long, value_name = "COUNT", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=5))]
    replicas: u8,
    /// Keep books in memory alone: no replica, no waiting for disks
    #[arg(long, conflicts_with_all = ["replicas", "sentinels"])]
    memory: bool,
}

impl Shape {
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            partitions: self.partitions,
            replicas: if self.memory {
                0
            } else {
                usize::from(self.replicas)
            },
            sentinels: self.sentinels,
        }
    }

    /// Starts it, and says what takes so long.
    pub(crate) fn start(&self, output: &Output) -> anyhow::Result<PrivateCell> {
        let plan = self.plan();
        output.note("starting a private RabbitMQ and Valkey, a conductor and an outbox ...");
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if plan.partitions as usize >= cores {
            output.note(format_args!(
                "{} partitions and the I/O share {cores} cores (MATCHING_SHARE_CORES=true); a \
                 conductor in earnest gives each of them a core of its own",
                plan.partitions
            ));
        }
        PrivateCell::start(&plan).context("there is no private cell")
    }
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let cell = args.shape.start(output)?;
    output.result(&Reach::of(&cell))?;
    let ended = block_on(until_signal(&cell))?;
    output.note("ending the cell ...");
    if let Some(ended) = ended {
        anyhow::bail!(ended);
    }
    cell.stop()?;
    Ok(ExitCode::from(EXIT_DONE))
}

/// Waits for Ctrl-C or SIGTERM, or until something of the cell has ended by itself.
async fn until_signal(cell: &PrivateCell) -> anyhow::Result<Option<String>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = interrupt.recv() => return Ok(None),
            _ = terminate.recv() => return Ok(None),
            _ = look.tick() => {
                if let Some(ended) = cell.ended() {
                    return Ok(Some(ended));
                }
            }
        }
    }
}

/// How to reach a private cell.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Reach {
    config: String,
    partitions: u32,
    conductor_pages: String,
    outbox_pages: String,
    rabbit: Rabbit,
    stores: Vec<Store>,
    sentinels: Vec<String>,
    event_queue: &'static str,
    folder: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rabbit {
    uri: String,
    user: &'static str,
    password_file: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Store {
    partition: usize,
    primary: String,
    replicas: Vec<String>,
    user: &'static str,
    password_file: String,
}

impl Reach {
    fn of(cell: &PrivateCell) -> Self {
        let servers = cell.servers();
        let store = |partition: usize| {
            let group = servers.store(partition);
            let replicas = group.replicas.iter();
            Store {
                partition,
                primary: group.primary.address().to_string(),
                replicas: replicas
                    .map(|replica| replica.address().to_string())
                    .collect(),
                user: "conductor",
                password_file: servers.store_password_file().display().to_string(),
            }
        };
        let sentinels = servers
            .sentinels()
            .map(|them| them.addresses())
            .unwrap_or_default();
        Self {
            config: cell.config().display().to_string(),
            partitions: cell.settings().partition_count,
            conductor_pages: cell.conductor().url(""),
            outbox_pages: cell.outbox().url(""),
            rabbit: Rabbit {
                uri: servers.rabbit().uri(),
                user: servers.rabbit().user(),
                password_file: servers.rabbit().password_file().display().to_string(),
            },
            stores: (0..servers.partitions()).map(store).collect(),
            sentinels: sentinels.iter().map(ToString::to_string).collect(),
            event_queue: EVENT_QUEUE,
            folder: servers.folder().path().display().to_string(),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "The cell runs. In another terminal:\n")?;
        writeln!(out, "  export CONDUCTOR_CONFIG={}\n", self.config)?;
        let place = "  cell place --pair 1 --price 100.25 --volume 2";
        writeln!(out, "{place} --side ask --user u-1")?;
        writeln!(out, "{place} --side bid --user u-2")?;
        writeln!(out, "  cell depth --pair 1")?;
        writeln!(out, "  cell events")?;
        writeln!(out, "  cell status\n")?;
        writeln!(
            out,
            "conductor's pages   {}/ready /metrics /histogram",
            self.conductor_pages
        )?;
        writeln!(
            out,
            "outbox's pages      {}/ready /metrics",
            self.outbox_pages
        )?;
        let rabbit = &self.rabbit;
        writeln!(
            out,
            "RabbitMQ            {} user {} password in {}",
            rabbit.uri, rabbit.user, rabbit.password_file
        )?;
        for store in &self.stores {
            let replicas = match store.replicas.as_slice() {
                [] => "no replica".to_owned(),
                some => format!("replicas {}", some.join(", ")),
            };
            writeln!(
                out,
                "Valkey, partition {} {} ({replicas}) user {} password in {}",
                store.partition, store.primary, store.user, store.password_file
            )?;
        }
        if !self.sentinels.is_empty() {
            writeln!(out, "Sentinels           {}", self.sentinels.join(", "))?;
        }
        writeln!(out, "logs                {}/*.log", self.folder)?;
        writeln!(
            out,
            "\nEvery event also waits in the queue {}, until `cell events` reads it.",
            self.event_queue
        )?;
        writeln!(out, "Ctrl-C ends the cell and removes its folder.")
    }
}
