//! The audit: oracle, store, memory and inbox must be equal, and nothing may be left over.
//!
//! It rests on the record alone: it decides every message of it again, on the naive book, and lays
//! beside that what the cell keeps (results, used order ids, indexes, records, cursor), what the owner
//! has in memory, what the inbox took and made of it, and what was parked. It reads and changes
//! nothing. It is to be run while nothing is offered; what a cell finishes by itself, such as the last
//! events, it waits for.

mod findings;
mod inbox;
mod memory;
mod parking;
mod pass;
pub(super) mod store;

use super::oracle::{Broken, Oracle, Shape, resting};
use super::record::{Record, RecordError};
use super::site::SiteArgs;
use super::start::Start;
use crate::cell::{EXIT_DONE, EXIT_FAILED, Output};
use crate::client::{Pages, PagesError, Store, StoreError, block_on};
use conductor_config::Settings;
use conductor_io::amqp::{self, AmqpError};
use conductor_io::keys::command_queue;
use findings::Findings;
use pass::Pass;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks at a cell that still works.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const AFTER_HELP: &str = "\
Examples:
  conductor-tester audit --record run.sqlite --config conductor.toml
  conductor-tester audit --record run.sqlite --config conductor.toml \\
      --admin http://127.0.0.1:9601 --admin http://127.0.0.1:9611

The record alone says what should be: every message is decided again by the engine, on its slow and
obvious book. Run it while nothing is sent. It changes nothing, and may be run as often as wanted.
Exit code 1: something differs, and the first difference is shown.";

/// Compare a cell with the record of everything that was sent to it
///
/// Four sides must be equal: the oracle, the store (results, used order ids, indexes, records, where
/// it stands), the owner's memory, and the inbox with what it made of the events. Besides, every
/// message that is no command must be parked, and nothing may wait in a stream.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The record that `load`, `chaos` or `soak` wrote
    #[arg(long, value_name = "FILE")]
    record: PathBuf,
    /// How long the cell may take for what it still has under way, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,
    #[command(flatten)]
    site: SiteArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let (settings, pages) = args.site.open()?;
    let wait = Duration::from_secs(args.wait);
    let found = audit(&settings, &pages, &args.record, wait)?;
    output.result(&found)?;
    Ok(ExitCode::from(if found.is_clean() {
        EXIT_DONE
    } else {
        EXIT_FAILED
    }))
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The record.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The broker.
    #[error(transparent)]
    Broker(#[from] AmqpError),
    /// The admin pages.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// The engine itself.
    #[error("{0}")]
    Engine(String),
    /// The record is of another cell.
    #[error("the record is of a cell of {recorded} partitions, and the settings say {configured}")]
    OtherCell {
        /// As the record has it.
        recorded: u32,
        /// As the settings have it.
        configured: u32,
    },
    /// Something of the system.
    #[error("{0}")]
    System(String),
}

impl From<Broken> for AuditError {
    fn from(broken: Broken) -> Self {
        AuditError::Engine(broken.to_string())
    }
}

/// One thing that must hold.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    /// Whether it does.
    pub holds: bool,
    /// What it is, with figures.
    pub what: String,
    /// The first difference in it.
    pub difference: Option<String>,
}

/// What the audit found.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Audit {
    /// Everything that was looked at.
    pub checks: Vec<Check>,
    /// The digest of each partition's events.
    pub digests: Vec<String>,
    /// The first difference of all.
    pub first_difference: Option<String>,
}

impl Audit {
    /// Whether all sides are equal.
    pub fn is_clean(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    fn add(&mut self, check: Check) {
        if self.first_difference.is_none() {
            self.first_difference.clone_from(&check.difference);
        }
        self.checks.push(check);
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (partition, digest) in self.digests.iter().enumerate() {
            writeln!(out, "digest of partition {partition}: {digest}")?;
        }
        for check in &self.checks {
            let mark = if check.holds { "ok    " } else { "FAILED" };
            writeln!(out, "{mark} {}", check.what)?;
        }
        if let Some(difference) = &self.first_difference {
            writeln!(out, "the first difference: {difference}")?;
        }
        Ok(())
    }
}

/// Compares the cell with the record. What may still be under way (the last events, a parked
/// message) is waited for, at most this long.
///
/// `settings` must name every partition, `pages` all conductors.
///
/// # Errors
/// [`AuditError`] when a side cannot be read at all.
pub fn audit(
    settings: &Settings,
    pages: &Pages,
    record: &Path,
    within: Duration,
) -> Result<Audit, AuditError> {
    let (record, about) = Record::open(record)?;
    if about.partition_count != settings.partition_count {
        return Err(AuditError::OtherCell {
            recorded: about.partition_count,
            configured: settings.partition_count,
        });
    }
    let give_up = Instant::now() + within;
    let auditing = async { Ok(compare(settings, pages, (&record, &about.start), give_up).await) };
    block_on(auditing).unwrap_or_else(|error| Err(AuditError::System(format!("{error:#}"))))
}

async fn compare(
    settings: &Settings,
    pages: &Pages,
    (record, start): (&Record, &Start),
    give_up: Instant,
) -> Result<Audit, AuditError> {
    let mut stores = Vec::new();
    for own in &settings.partitions {
        stores.push(Store::open(settings, own.id).await?);
    }
    let connection = amqp::connect(&settings.broker, "conductor-tester audit").await?;
    let waited = wait_until_idle(&connection, &mut stores, give_up).await;
    let expire = settings.result_retention.is_some();
    let mut pass = Pass::new(record, &Shape::of(settings), start, expire);
    let passed = async {
        waited?;
        pass.run(&mut stores).await
    };
    if let Err(error) = passed.await {
        amqp::close_connection(&connection).await;
        return Err(error);
    }
    let mut parked = Findings::default();
    for partition in pass.oracle.partitions() {
        let mut expected = pass.parked.remove(&partition).unwrap_or_default();
        for (id, count) in &start.of(partition).parked {
            *expected.entry(id.clone()).or_default() += count;
        }
        parking::compare(&connection, partition, &expected, &mut parked, give_up).await?;
    }
    amqp::close_connection(&connection).await;
    let mut audit = Audit::default();
    let oracle = rest(&mut audit, pass, (record, start), &mut stores, expire).await?;
    let mut memory = Findings::default();
    memory::compare(pages, &oracle, &mut memory, give_up).await?;
    audit.add(memory.check("books in memory equal the oracle's and reconcile"));
    audit.add(parked.check("messages that are no command are parked, and nothing else is"));
    Ok(audit)
}

/// Everything but memory and the parking queues, from the commands' side on.
async fn rest(
    audit: &mut Audit,
    pass: Pass<'_>,
    (record, start): (&Record, &Start),
    stores: &mut [Store],
    expire: bool,
) -> Result<Oracle, AuditError> {
    let mut digests = Findings::default();
    for (partition, (expected, found)) in pass.digests().into_iter().enumerate() {
        digests.compare(expected == found, || {
            format!("digest of partition {partition}: expected {expected}, found {found}")
        });
        audit.digests.push(expected);
    }
    let deals = pass.traded.deals();
    let (oracle, commands, orders) = (pass.oracle, pass.commands, pass.orders);
    audit.add(pass.messages.check("messages are confirmed"));
    audit.add(
        pass.repeats
            .check("repeats are an earlier message once more"),
    );
    audit.add(pass.results.check("stored results equal the oracle's"));
    audit.add(
        pass.accepted
            .check("used order ids name the command that used them"),
    );
    audit.add(
        pass.events
            .check("events of the inbox equal the oracle's, in sequence"),
    );
    audit.add(digests.check("digests of events equal the oracle's"));
    let mut standing = Findings::default();
    let mut book = Findings::default();
    let mut keys = Findings::default();
    for store in stores {
        let partition = store.keys().partition();
        store::standing(store, &oracle, &mut standing).await?;
        let before = start.of(partition);
        store::book(store, &oracle, before, &mut book).await?;
        let count = |of: &std::collections::BTreeMap<_, u64>| {
            of.get(&partition).copied().unwrap_or_default()
        };
        let mut expected = before.keys.clone();
        expected.results += count(&commands);
        expected.accepted += count(&orders);
        expected.records += resting(oracle.book(partition)) as u64;
        store::keys(store, &expected, expire, &mut keys).await?;
    }
    audit.add(standing.check("cursors, halts and streams stand where they must"));
    audit.add(book.check("pairs, index members and records of the store equal the oracle's"));
    audit.add(keys.check("counts of the store's keys are right"));
    let resting = inbox::resting(record, &oracle)?;
    audit.add(resting.check("orders of the inbox's projection equal the oracle's"));
    let what = format!("pairs traded in the inbox as in the oracle, {deals} deals in all");
    audit.add(inbox::traded(record, &pass.traded)?.check(&what));
    Ok(oracle)
}

/// Waits until no command and no event is under way, as far as that shows; a cell that is never idle
/// is compared as it is.
async fn wait_until_idle(
    connection: &lapin::Connection,
    stores: &mut [Store],
    give_up: Instant,
) -> Result<(), AuditError> {
    let channel = amqp::open_channel(connection).await?;
    for store in stores {
        let queue = command_queue(store.keys().partition());
        loop {
            let waiting = amqp::queue_counts(&channel, &queue).await?.messages;
            let events = store.guards().await?.event_stream;
            if (waiting == 0 && events == 0) || Instant::now() >= give_up {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
    amqp::close_channel(&channel).await;
    Ok(())
}
