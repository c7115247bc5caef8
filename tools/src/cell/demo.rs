//! `cell demo`: a private cell under load, and a report of what came of it.
//!
//! Nothing in the report is taken on trust: the same commands are decided here by the engine alone,
//! and each reply, each event and each book is compared with that.

use super::depth::{Depth, Level};
use super::reconcile::Reconciled;
use super::up::Shape;
use super::{EXIT_DONE, EXIT_FAILED, Output, table};
use crate::client::{Pages, Producer, ProducerOptions, Summary, block_on};
use crate::consumer::{Beginning, EventConsumer};
use crate::expectation::{Expectation, ExpectedLoad};
use crate::private_cell::{EVENT_QUEUE, PrivateCell};
use crate::replay::{PairView, QueueView};
use crate::workload::{Workload, WorkloadOptions};
use conductor_engine::PairId;
use serde::Serialize;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

/// How long a reply may take on a machine that does everything at once.
const REPLY_WITHIN: Duration = Duration::from_secs(60);
/// How long the events may stay away while some are due.
const EVENTS_WITHIN: Duration = Duration::from_secs(30);
/// Levels that are compared, as many as the page shows.
const LEVELS: u32 = 1_000;
const AFTER_HELP: &str = "\
Examples:
  cell demo
  cell demo --commands 200000 --seed 7 --partitions 2
  cell demo --commands 5000 --json

Of a hundred commands sixty place an order, half of which trade, thirty cancel one, five amend one
and five replace up to ten at once; the same seed gives the same commands and the same digests. Exit
code 0 only if everything is equal and healthy.";

/// Run a private cell under load, and report what came of it
///
/// Starts RabbitMQ, Valkey with a replica, a conductor and an outbox as private processes; sends a
/// seeded workload, each command one message with a reply; consumes every event meanwhile; compares
/// replies, events and books with the engine alone on the same commands; reconciles every pair; and
/// ends everything that it started.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// How many commands to send
    #[arg(long, value_name = "COUNT", default_value_t = 60_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    commands: u64,
    /// Decides everything about the commands that is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Commands under way at once
    #[arg(long, value_name = "COUNT", default_value_t = 512,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    window: u32,
    #[command(flatten)]
    shape: Shape,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let cell = args.shape.start(output)?;
    output.note(format_args!("sending {} commands ...", args.commands));
    let (summary, expectation) = block_on(drive(args, &cell, output))?;
    output.note("comparing the books ...");
    let books = books(&cell, &expectation)?;
    let troubles = Troubles::read(&cell)?;
    cell.stop()?;
    let report = Report::of(args, &summary, &expectation, books, troubles);
    output.result(&report)?;
    let holds = report.verdicts.iter().all(|verdict| verdict.holds);
    Ok(ExitCode::from(if holds { EXIT_DONE } else { EXIT_FAILED }))
}

/// Sends the workload and consumes the events until both are complete.
async fn drive(
    args: &Args,
    cell: &PrivateCell,
    output: &Output,
) -> anyhow::Result<(Summary, Expectation)> {
    let options = WorkloadOptions {
        seed: args.seed,
        ..WorkloadOptions::default()
    };
    let commands = Workload::new(options)?.take(usize::try_from(args.commands)?);
    let broker = &cell.settings().broker;
    let expectation = Expectation::new(args.shape.partitions);
    let mut consumer = EventConsumer::attach(broker, EVENT_QUEUE, Beginning::First).await?;
    let mut producer = Producer::connect(broker, "cell demo").await?;
    let mut progress = output.progress("commands", Some(args.commands));
    let mut load = ExpectedLoad::new(commands, expectation.clone(), |_| progress.advance(1));
    let options = ProducerOptions {
        window: args.window as usize,
        reply_within: Some(REPLY_WITHIN),
    };
    let mut sent = None;
    {
        let sending = producer.run(&mut load, options);
        tokio::pin!(sending);
        while sent.is_none() || expectation.events_due() > 0 {
            tokio::select! {
                summary = &mut sending, if sent.is_none() => sent = Some(summary?),
                arrived = consumer.next() => expectation.arrived(&arrived?),
                () = tokio::time::sleep(EVENTS_WITHIN), if sent.is_some() => break,
            }
        }
    }
    producer.close().await;
    consumer.close().await?;
    Ok((sent.expect("the loop ends behind it"), expectation))
}

/// What the conductor met on the way. None of it changes a result; all of it takes time.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Troubles {
    doubts: f64,
    waits_below_policy: f64,
}

impl Troubles {
    fn read(cell: &PrivateCell) -> anyhow::Result<Self> {
        let (_, figures) = cell.conductor().page("/metrics")?;
        let sum = |name: &str| {
            let start = format!("{name}{{");
            let lines = figures.lines().filter(|line| line.starts_with(&start));
            lines
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum()
        };
        Ok(Self {
            doubts: sum("conductor_doubts_total"),
            waits_below_policy: sum("conductor_waits_below_policy_total"),
        })
    }
}

/// A pair's book: what the cell shows, and whether it is what it should be.
struct Book {
    depth: Depth,
    reconciled: Reconciled,
    equal: bool,
}

fn books(cell: &PrivateCell, expectation: &Expectation) -> anyhow::Result<Vec<Book>> {
    let pages = Pages::new([cell.conductor().url("")]);
    let view = expectation.replay(|replay| replay.view());
    let book = |(pair, expected): (&PairId, &PairView)| {
        let depth = pages.first(&format!("/depth?pairId={pair}&levels={LEVELS}"))?;
        let reconciled = pages.first(&format!("/reconcile?pairId={pair}"))?;
        let depth = Depth::read(depth)?;
        let equal = same(&depth.bids, &expected.bids) && same(&depth.asks, &expected.asks);
        Ok(Book {
            depth,
            reconciled: Reconciled::read(reconciled)?,
            equal,
        })
    };
    view.pairs.iter().map(book).collect()
}

/// Whether the levels have the prices and the number of orders that they should have.
fn same(found: &[Level], expected: &[QueueView]) -> bool {
    let expected = expected
        .iter()
        .map(|queue| (&queue.price, queue.orders.len() as u64));
    found
        .iter()
        .map(|level| (&level.price, level.orders))
        .eq(expected.take(LEVELS as usize))
}

/// What the demo came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    seed: u64,
    partitions: u32,
    commands: u64,
    trading_commands: u64,
    deals: u64,
    events: u64,
    #[serde(flatten)]
    summary: Summary,
    #[serde(flatten)]
    troubles: Troubles,
    best_levels: Vec<Best>,
    digests: Vec<String>,
    verdicts: Vec<Judgement>,
}

/// The best level of each side of a pair.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Best {
    pair: u32,
    orders: u64,
    bid: Option<Level>,
    ask: Option<Level>,
}

/// One thing that must hold.
#[derive(Debug, Serialize)]
struct Judgement {
    holds: bool,
    what: String,
}

impl Report {
    fn of(
        args: &Args,
        summary: &Summary,
        expectation: &Expectation,
        books: Vec<Book>,
        troubles: Troubles,
    ) -> Self {
        let counts = expectation.replay(|replay| replay.counts().clone());
        let verdicts = verdicts(summary, expectation, &books);
        let best = |book: Book| Best {
            pair: book.depth.pair_id,
            orders: book.reconciled.indexed_orders,
            bid: book.depth.bids.into_iter().next(),
            ask: book.depth.asks.into_iter().next(),
        };
        Self {
            seed: args.seed,
            partitions: args.shape.partitions,
            commands: counts.messages,
            trading_commands: counts.trading_commands,
            deals: counts.deals,
            events: expectation.found().events,
            summary: summary.clone(),
            troubles,
            best_levels: books.into_iter().map(best).collect(),
            digests: expectation.arrived_digests(),
            verdicts,
        }
    }
}

fn verdicts(summary: &Summary, expectation: &Expectation, books: &[Book]) -> Vec<Judgement> {
    let found = expectation.found();
    let counts = expectation.replay(|replay| replay.counts().clone());
    let digests = expectation.replay(|replay| replay.digests());
    let (messages, events) = (counts.messages, counts.events_in_all());
    let pairs = books.len();
    let healthy = books.iter().filter(|book| book.reconciled.healthy).count();
    let equal = books.iter().filter(|book| book.equal).count();
    let unhealthy = books.iter().flat_map(|book| &book.reconciled.issues).next();
    let mut verdicts = Vec::new();
    let mut say = |holds: bool, what: String| verdicts.push(Judgement { holds, what });
    say(
        summary.is_complete(),
        format!(
            "{} of {messages} commands confirmed by the broker, {} answered",
            summary.confirmed,
            summary.replies.in_all()
        ),
    );
    say(
        found.replies_equal == messages,
        format!(
            "{} of {messages} replies equal to the replay's",
            found.replies_equal
        ),
    );
    say(
        found.events == events,
        format!(
            "{} of {events} events reached the consumer, each taken once and in sequence ({} came \
             again and were dropped)",
            found.events, found.events_repeated
        ),
    );
    say(
        found.events_differing == 0 && expectation.arrived_digests() == digests,
        format!(
            "{} events differ from the replay's, digests compared",
            found.events_differing
        ),
    );
    say(
        equal == pairs,
        format!("{equal} of {pairs} books equal to the replay's"),
    );
    let issue = unhealthy
        .map(|issue| format!(", first issue {issue}"))
        .unwrap_or_default();
    say(
        healthy == pairs,
        format!("{healthy} of {pairs} pairs reconcile as healthy{issue}"),
    );
    if let Some(difference) = found.first_difference {
        say(false, format!("the first difference: {difference}"));
    }
    verdicts
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.summary)?;
        writeln!(
            out,
            "{:<26}{:>12}",
            "commands that traded", self.trading_commands
        )?;
        writeln!(out, "{:<26}{:>12}", "deals", self.deals)?;
        writeln!(out, "{:<26}{:>12}", "events", self.events)?;
        for (name, count) in [
            ("memory dropped", self.troubles.doubts),
            ("waits below the policy", self.troubles.waits_below_policy),
        ] {
            if count > 0.0 {
                writeln!(out, "{name:<26}{count:>12}")?;
            }
        }
        let shown = |level: &Option<Level>| match level {
            Some(level) => [level.volume.clone(), level.price.clone()],
            None => [const { String::new() }; 2],
        };
        let rows = self.best_levels.iter().map(|best| {
            let ([bid_volume, bid], [ask_volume, ask]) = (shown(&best.bid), shown(&best.ask));
            [
                best.pair.to_string(),
                best.orders.to_string(),
                bid_volume,
                bid,
                ask,
                ask_volume,
            ]
        });
        let head = ["pair", "orders", "volume", "best bid", "best ask", "volume"];
        writeln!(out, "\n{}\n", table(head, rows))?;
        for (partition, digest) in self.digests.iter().enumerate() {
            writeln!(out, "digest of partition {partition}: {digest}")?;
        }
        for verdict in &self.verdicts {
            let mark = if verdict.holds { "ok    " } else { "FAILED" };
            writeln!(out, "{mark} {}", verdict.what)?;
        }
        Ok(())
    }
}
