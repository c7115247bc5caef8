//! `cell parked`: messages that were no command, and commands that a person parked.

use super::{EXIT_DONE, EXIT_FAILED, Output, table};
use crate::client::{Parked, SettingsArgs, Which, block_on, parked, redrive};
use anyhow::bail;
use conductor_engine::PartitionId;
use conductor_io::amqp;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;

/// Bytes of a message that a list shows.
const PREVIEW_BYTES: usize = 60;
const AFTER_HELP: &str = "\
Examples:
  cell parked list --partition 3
  cell parked show 5f0a99c2d1b7 --partition 3
  cell parked redrive 5f0a99c2d1b7 --partition 3
  cell parked redrive --all --partition 3

An id is the begin of the SHA-256 of a message's bytes; a command id or a message id is taken too.
Nothing is ever thrown away: looking gives everything back in its order, and redriving removes a
message only after the command queue has confirmed it. A crash in between leaves it in both, and the
second time it is answered from its record.";

const LIST_HELP: &str = "\
Examples:
  cell parked list --partition 0
  cell parked list --partition 0 --limit 20 --json";
const SHOW_HELP: &str = "\
Example:
  cell parked show 5f0a99c2d1b7 --partition 0";
const REDRIVE_HELP: &str = "\
Examples:
  cell parked redrive 5f0a99c2d1b7 --partition 0
  cell parked redrive --all --partition 0

A message that was parked because it is no command is parked again unless the reason has gone.";

/// Look at what a partition has parked, and send it again
///
/// A message that is no command (no JSON, no usable command id, too large) goes to its partition's
/// parking queue with the reason, and so does a command that the broker delivered too often or that
/// `cell resume --park` took out.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// List what is parked, the oldest first
    #[command(after_help = LIST_HELP)]
    List {
        #[command(flatten)]
        of: Of,
        /// Show at most so many
        #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
        limit: u32,
    },
    /// Show one parked message whole, with its headers
    #[command(after_help = SHOW_HELP)]
    Show {
        /// Its id, as the list shows it; a command id or a message id will do too
        id: String,
        #[command(flatten)]
        of: Of,
    },
    /// Send parked messages to the command queue again, in their order
    #[command(after_help = REDRIVE_HELP)]
    Redrive {
        /// Its id, as the list shows it; a command id or a message id will do too
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// All that are parked now
        #[arg(long)]
        all: bool,
        #[command(flatten)]
        of: Of,
    },
}

/// Whose parking queue.
#[derive(Debug, clap::Args)]
struct Of {
    /// The partition
    #[arg(long, value_name = "NUMBER")]
    partition: u32,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::List { of, limit } => list(of, *limit, output),
        What::Show { id, of } => show(of, id, output),
        What::Redrive { id, of, .. } => {
            let which = id.clone().map_or(Which::All, Which::Id);
            send_again(of, &which, output)
        }
    }
}

impl Of {
    fn look(&self, limit: u32, body_max: usize) -> anyhow::Result<(Vec<Parked>, u32)> {
        let broker = self.settings.load()?.broker;
        self.settings.explained(block_on(async {
            let connection = amqp::connect(&broker, "cell parked").await?;
            let found = parked(&connection, PartitionId(self.partition), limit, body_max).await;
            amqp::close_connection(&connection).await;
            Ok(found?)
        }))
    }
}

fn list(of: &Of, limit: u32, output: &Output) -> anyhow::Result<ExitCode> {
    let (parked, waiting) = of.look(limit, PREVIEW_BYTES)?;
    output.result(&List {
        partition: of.partition,
        waiting,
        parked,
    })?;
    Ok(ExitCode::from(EXIT_DONE))
}

fn show(of: &Of, id: &str, output: &Output) -> anyhow::Result<ExitCode> {
    let (parked, _) = of.look(u32::MAX, usize::MAX)?;
    let which = Which::Id(id.to_owned());
    match parked.into_iter().find(|message| message.is(&which)) {
        Some(message) => output.result(&Whole(message))?,
        None => bail!("partition {} has parked no message {id}", of.partition),
    }
    Ok(ExitCode::from(EXIT_DONE))
}

fn send_again(of: &Of, which: &Which, output: &Output) -> anyhow::Result<ExitCode> {
    let broker = of.settings.load()?.broker;
    let sent = of.settings.explained(block_on(async {
        let connection = amqp::connect(&broker, "cell parked").await?;
        let sent = redrive(&connection, PartitionId(of.partition), which).await;
        amqp::close_connection(&connection).await;
        Ok(sent?)
    }))?;
    let found = !sent.is_empty() || matches!(which, Which::All);
    output.result(&Redriven {
        partition: of.partition,
        redriven: sent,
    })?;
    Ok(ExitCode::from(if found { EXIT_DONE } else { EXIT_FAILED }))
}

#[derive(Debug, Serialize)]
struct List {
    partition: u32,
    waiting: u32,
    parked: Vec<Parked>,
}

impl fmt::Display for List {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "partition {} has {} parked messages",
            self.partition, self.waiting
        )?;
        if self.parked.is_empty() {
            return Ok(());
        }
        let rows = self.parked.iter().map(|message| {
            let command = message.command_id.clone().unwrap_or_else(|| "-".to_owned());
            let begin = message.body.escape_debug().to_string();
            let (id, reason) = (message.id.clone(), message.reason.clone());
            [id, command, message.bytes.to_string(), reason, begin]
        });
        writeln!(
            out,
            "{}",
            table(["id", "command", "bytes", "reason", "begins"], rows)
        )
    }
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Whole(Parked);

impl fmt::Display for Whole {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = &self.0;
        let named = |name: &Option<String>| name.clone().unwrap_or_else(|| "none".to_owned());
        writeln!(out, "id          {}", message.id)?;
        writeln!(out, "command id  {}", named(&message.command_id))?;
        writeln!(out, "message id  {}", named(&message.message_id))?;
        writeln!(out, "reason      {}", message.reason)?;
        writeln!(out, "bytes       {}", message.bytes)?;
        for (name, value) in &message.headers {
            writeln!(out, "header      {name}: {value}")?;
        }
        writeln!(out, "\n{}", message.body)
    }
}

#[derive(Debug, Serialize)]
struct Redriven {
    partition: u32,
    redriven: Vec<Parked>,
}

impl fmt::Display for Redriven {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for message in &self.redriven {
            let command = message.command_id.as_deref().unwrap_or("no command id");
            writeln!(
                out,
                "{} ({command}) is in the command queue again",
                message.id
            )?;
        }
        let count = self.redriven.len();
        writeln!(
            out,
            "partition {}: {count} messages sent again",
            self.partition
        )
    }
}
