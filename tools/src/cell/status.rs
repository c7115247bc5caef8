//! `cell status`: what every instance is doing.

use super::pages::PagesArgs;
use super::{EXIT_DONE, EXIT_FAILED, Output, table};
use crate::client::{Page, Pages, UNNAMED};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell status
  cell status --admin http://10.0.0.4:9601 --admin http://10.0.0.5:9601 --outbox http://10.0.0.4:9602

Roles: active owns the partition, standby is registered behind another consumer, unknown is not
registered. Exit code 1: an instance does not answer, or says that it is not ready and why. A second
outbox without the lease is not ready, because it stands by.";

/// Show what every conductor and outbox is doing, and why one is not ready
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(flatten)]
    pages: PagesArgs,
    /// An outbox's admin pages; may be repeated. The address in the settings unless given
    #[arg(long, value_name = "URL", help_heading = "Where the cell is")]
    outbox: Vec<String>,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let (settings, conductors) = args.pages.open()?;
    let mut outboxes = args.outbox.clone();
    if outboxes.is_empty() {
        outboxes.push(settings.outbox.admin_address.to_string());
    }
    let status = Status {
        conductors: ask(&conductors),
        outboxes: ask(&Pages::new(outboxes)),
    };
    output.result(&status)?;
    let all = status.conductors.iter().chain(&status.outboxes);
    let ready = all.into_iter().all(|instance| instance.ready);
    if status.conductors.iter().all(|each| each.error.is_some()) && !args.pages.are_named() {
        output.note(format_args!("{UNNAMED}, or pages with --admin URL"));
    }
    Ok(ExitCode::from(if ready { EXIT_DONE } else { EXIT_FAILED }))
}

fn ask(pages: &Pages) -> Vec<Instance> {
    let answers = pages.each("/ready").into_iter();
    answers
        .map(|(url, answer)| Instance::read(url, answer))
        .collect()
}

/// What every instance is doing.
#[derive(Debug, Serialize)]
struct Status {
    conductors: Vec<Instance>,
    outboxes: Vec<Instance>,
}

/// What one instance says.
#[derive(Debug, Serialize)]
struct Instance {
    url: String,
    ready: bool,
    /// Why there is no answer that can be read.
    error: Option<String>,
    partitions: Vec<Value>,
}

impl Instance {
    fn read(url: String, answer: Page) -> Self {
        let parsed = answer.and_then(|(status, body)| {
            let read: Result<Value, _> = serde_json::from_str(&body);
            let partitions = read
                .ok()
                .and_then(|body| body["partitions"].as_array().cloned());
            let partitions = partitions.ok_or_else(|| format!("{status} {}", body.trim()))?;
            Ok((status, partitions))
        });
        match parsed {
            Ok((status, partitions)) => Self {
                url,
                ready: status == 200,
                error: None,
                partitions,
            },
            Err(error) => Self {
                url,
                ready: false,
                error: Some(error),
                partitions: Vec::new(),
            },
        }
    }

    /// A row for each of its partitions, or one for its silence.
    fn rows<const N: usize>(&self, fields: [&str; N]) -> Vec<[String; N]> {
        let mut row = [const { String::new() }; N];
        row[0].clone_from(&self.url);
        if let Some(error) = &self.error {
            row[N - 1] = format!("no answer: {error}");
            return vec![row];
        }
        let of = |partition: &Value| {
            let mut row = row.clone();
            for (cell, field) in row.iter_mut().zip(fields).skip(1) {
                *cell = shown(&partition[field]);
            }
            row
        };
        self.partitions.iter().map(of).collect()
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => other.to_string(),
    }
}

/// The columns of a conductor's partitions: heading and the page's field.
const CONDUCTOR: [(&str, &str); 9] = [
    ("conductor", "url"),
    ("partition", "partition"),
    ("role", "role"),
    ("state", "state"),
    ("epoch", "epoch"),
    ("sequence", "durableSequence"),
    ("orders", "orders"),
    ("commands waiting", "queueMessages"),
    ("not ready because", "why"),
];
/// The columns of an outbox's partitions.
const OUTBOX: [(&str, &str); 6] = [
    ("outbox", "url"),
    ("partition", "partition"),
    ("lease", "lease"),
    ("events waiting", "streamLength"),
    ("unconfirmed", "unconfirmed"),
    ("not ready because", "why"),
];

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (heads, fields) = (CONDUCTOR.map(|it| it.0), CONDUCTOR.map(|it| it.1));
        let rows = self
            .conductors
            .iter()
            .flat_map(|instance| instance.rows(fields));
        writeln!(out, "{}", table(heads, rows))?;
        let (heads, fields) = (OUTBOX.map(|it| it.0), OUTBOX.map(|it| it.1));
        let rows = self
            .outboxes
            .iter()
            .flat_map(|instance| instance.rows(fields));
        writeln!(out, "{}", table(heads, rows))
    }
}
