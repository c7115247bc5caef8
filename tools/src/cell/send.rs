//! `cell send`: a trace through a real cell.

use super::files::{self, create, open, reading};
use super::{EXIT_DONE, EXIT_FAILED, Output, Progress};
use crate::client::{
    Done, Interrupted, Load, Producer, ProducerOptions, Request, SettingsArgs, block_on,
};
use crate::trace::TraceReader;
use anyhow::Context;
use conductor_engine::Incoming;
use conductor_io::amqp::PublishError;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  cell send trace.jsonl --config conductor.toml
  cell send trace.jsonl --replies replies.jsonl --window 1024
  cell workload --seed 7 --commands 10000 --out - | cell send - --json

Exit code 1: the connection was lost (the line says after how many confirmed messages), or a message
reached no queue, or a reply is missing. Sending the same trace again changes nothing: every command
that was decided is answered from its record with the same bytes.";

/// Publish a trace, one message a line, and wait for the replies
///
/// Every line is published as it stands, with confirms and `mandatory`, to the command queue of its
/// partition, in the order of the file. A line that names no partition goes to its pair's. At most
/// a window of messages is under way, so memory is bounded and a slow cell slows this down.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The trace to send; `-` reads stdin
    trace: PathBuf,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Messages under way at once, from the oldest that is not confirmed and answered
    #[arg(long, value_name = "COUNT", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: u32,
    /// Ask for no replies; only the broker's confirms are waited for
    #[arg(long, conflicts_with = "replies")]
    no_replies: bool,
    /// Write every reply to this file, one a line in the order of sending; a message that is never
    /// answered leaves an empty line
    #[arg(long, value_name = "FILE", value_parser = files::file())]
    replies: Option<PathBuf>,
    /// How long one reply may take before it counts as missing, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    wait_ms: u64,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let settings = args.settings.load()?;
    let (source, bytes) = open(&args.trace)?;
    let mut trace = Trace {
        reader: TraceReader::new(source),
        name: reading(&args.trace),
        partition_count: settings.partition_count,
        replies: args.replies.as_deref().map(create).transpose()?,
        progress: output.progress("sending", bytes),
        too_long: 0,
        first_failure: None,
    };
    let reply_within = (!args.no_replies).then(|| Duration::from_millis(args.wait_ms));
    let options = ProducerOptions {
        window: args.window as usize,
        reply_within,
    };
    let sent = args.settings.explained(block_on(async {
        let mut producer = Producer::connect(&settings.broker, "cell send").await?;
        let sent = producer.run(&mut trace, options).await;
        producer.close().await;
        Ok(sent)
    }))?;
    let (too_long, failure) = trace.finish()?;
    if let Err(Interrupted::Lost { summary, .. }) = &sent {
        output.result(summary)?;
    }
    let summary = sent?;
    output.result(&summary)?;
    if too_long > 0 {
        output.note(format_args!(
            "{too_long} lines were not sent: they are longer than a message may be"
        ));
    }
    if let Some(failure) = failure {
        output.note(failure);
    }
    if summary.replies.missing > 0 {
        output.note(format_args!(
            "error: {} replies did not come within {} ms; `cell status` says what the cell waits \
             for, and sending the same commands again asks for the same replies",
            summary.replies.missing, args.wait_ms
        ));
    }
    let complete = summary.is_complete() && too_long == 0;
    Ok(ExitCode::from(if complete {
        EXIT_DONE
    } else {
        EXIT_FAILED
    }))
}

/// A trace as a load.
struct Trace<R> {
    reader: TraceReader<R>,
    name: String,
    partition_count: u32,
    replies: Option<Box<dyn Write>>,
    progress: Progress,
    too_long: u64,
    first_failure: Option<String>,
}

impl<R: BufRead> Load for Trace<R> {
    fn next(&mut self) -> anyhow::Result<Option<Request>> {
        loop {
            let Some(line) = self.reader.read().with_context(|| self.name.clone())? else {
                return Ok(None);
            };
            self.progress.advance(line.bytes_read);
            let Some(message) = line.message else {
                self.too_long += 1;
                continue;
            };
            let id = match &line.incoming {
                Incoming::Command(command) => Some(command.id.to_string()),
                Incoming::Refused(refused) => Some(refused.id.to_string()),
                Incoming::Unusable(_) => None,
            };
            return Ok(Some(Request {
                partition: line.destination(self.partition_count),
                body: message.to_vec(),
                answered: id.is_some(),
                message_id: id,
            }));
        }
    }

    fn done(&mut self, done: Done) -> anyhow::Result<()> {
        if let Err(error) = &done.published
            && self.first_failure.is_none()
        {
            self.first_failure = Some(failure(done.number, error));
        }
        if let Some(out) = &mut self.replies {
            out.write_all(done.reply.as_deref().unwrap_or_default())
                .and_then(|()| out.write_all(b"\n"))
                .context("writing replies")?;
        }
        Ok(())
    }
}

impl<R> Trace<R> {
    fn finish(self) -> anyhow::Result<(u64, Option<String>)> {
        if let Some(mut out) = self.replies {
            out.flush().context("writing replies")?;
        }
        Ok((self.too_long, self.first_failure))
    }
}

fn failure(number: u64, error: &PublishError) -> String {
    let what_now = match error {
        PublishError::Returned { .. } => "; declare it with `cell init`",
        _ => "",
    };
    format!(
        "error: message {} did not reach a queue: {error}{what_now}",
        number + 1
    )
}
