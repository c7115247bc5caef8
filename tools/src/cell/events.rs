//! `cell events`: reads a queue of events.

use super::files::create;
use super::{EXIT_DONE, Output};
use crate::client::{SettingsArgs, block_on};
use crate::consumer::{Beginning, EventConsumer};
use crate::private_cell::EVENT_QUEUE;
use conductor_io::amqp::AmqpError;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  cell events
  cell events --queue events.audit --follow
  cell events --count 10

Events leave the queue as they are read. They come at least once; a repeat is dropped and counted.
A queue serves one reader at a time. A gap, a known sequence with another content, or a queue that
another reader holds ends this with exit code 1. With --json and without, an event is one line in
the canonical form.";

/// Read events from a queue, each once and in sequence
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The queue; `cell up` declares events.all, `cell init --event-queue NAME` any
    #[arg(long, value_name = "NAME", default_value = EVENT_QUEUE)]
    queue: String,
    /// Go on waiting for events until Ctrl-C
    #[arg(long)]
    follow: bool,
    /// Stop after so many
    #[arg(long, value_name = "COUNT")]
    count: Option<u64>,
    /// Stop when nothing has come for so long, in milliseconds
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 1_000,
        conflicts_with = "follow"
    )]
    quiet_ms: u64,
    #[command(flatten)]
    settings: SettingsArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let settings = args.settings.load()?;
    let (read, repeats) = args.settings.explained(block_on(async {
        let broker = &settings.broker;
        let attaching = EventConsumer::attach(broker, &args.queue, Beginning::Anywhere);
        let mut consumer = attaching
            .await
            .map_err(|error| missing(error, &args.queue))?;
        let read = print(args, &mut consumer).await;
        if matches!(read, Ok(0)) && are_withheld(&consumer).await? {
            let queue = &args.queue;
            consumer.abandon().await;
            anyhow::bail!(
                "the queue {queue} holds events and gives none: another reader is at work, and a \
                 queue of events serves one at a time; end that one, or declare another queue \
                 with `cell init --event-queue NAME`"
            );
        }
        let repeats = consumer.ledger().repeats();
        match read {
            Ok(read) => {
                consumer.close().await?;
                Ok((read, repeats))
            }
            // What could not be printed stays in the queue.
            Err(error) => {
                consumer.abandon().await;
                Err(error)
            }
        }
    }))?;
    output.note(format_args!("{read} events, {repeats} repeats dropped"));
    Ok(ExitCode::from(EXIT_DONE))
}

/// Whether the queue holds events that do not come: had they just arrived, they would be here by the
/// second look.
async fn are_withheld(consumer: &EventConsumer) -> Result<bool, AmqpError> {
    if consumer.waiting().await? == 0 {
        return Ok(false);
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    Ok(consumer.waiting().await? > 0)
}

/// A cell has no queue of events but those that somebody asked for.
fn missing(error: AmqpError, queue: &str) -> anyhow::Error {
    match error {
        AmqpError::Missing { .. } => anyhow::Error::from(error).context(format!(
            "no queue {queue} holds events here; `cell init --event-queue {queue}` declares it, and \
             --queue NAME reads another (`cell up` declares {EVENT_QUEUE})"
        )),
        other => other.into(),
    }
}

/// Prints events until it is told to stop or nothing more comes.
async fn print(args: &Args, consumer: &mut EventConsumer) -> anyhow::Result<u64> {
    let mut out = create(Path::new("-"))?;
    let quiet = (!args.follow).then(|| Duration::from_millis(args.quiet_ms));
    let mut read = 0;
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    while args.count.is_none_or(|count| read < count) {
        let arrived = tokio::select! {
            biased;
            _ = &mut interrupt => break,
            arrived = consumer.next() => arrived?,
            () = after(quiet) => break,
        };
        if arrived.fresh {
            read += 1;
            out.write_all(&arrived.body)?;
            out.write_all(b"\n")?;
            // Whatever is acknowledged has been printed.
            out.flush()?;
        }
    }
    Ok(read)
}

/// Waits so long, or for ever.
async fn after(quiet: Option<Duration>) {
    match quiet {
        Some(quiet) => tokio::time::sleep(quiet).await,
        None => std::future::pending().await,
    }
}
