//! From a kill to the first acknowledged command, with many orders at rest.
//!
//! The store is filled as a long life leaves it. A conductor owns the partition and has answered a
//! command; it is killed (SIGKILL), and the next command is sent at that moment. The clock stops at
//! its reply, which is never given before the disks have the result. Two ways: the process is
//! started again by its supervisor at once, or a standby takes over that has read the book in
//! advance, which it can where nobody has traded since.

mod fill;

use crate::bed::{Bed, END_WITHIN, READY_WITHIN};
use crate::connection::Connection;
use crate::figures::scraped;
use crate::record::{Keep, Run, table, value};
use anyhow::{Context, ensure};
use conductor_engine::{
    Body, Command, CommandId, Decimal, NewOrder, OrderId, OrderKind, PairId, PartitionId, Price,
    Side, TimeInForce, Timestamp, UserId,
};
use conductor_io::wire::{decode_result, encode_command};
use conductor_tools::client::{Producer, Request, block_on};
use conductor_tools::testbed::{Instance, Layout};
use fill::{DECIMALS, fill};
use serde::Serialize;
use serde_json::json;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A million orders on a machine that does everything at once, in a debug build.
const ANSWER_WITHIN: Duration = Duration::from_secs(300);
/// What the log says when ownership is taken.
const CLAIMED: &str = "ownership taken";
/// What the log says when a standby has the book in memory.
const LOADED: &str = "the book is loaded while standing by";

/// From a kill to the first acknowledged command
///
/// Example: conductor-bench recover --orders 10000,100000,1000000 --records 10000000
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Orders at rest, a row of the table for each
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    orders: Vec<u64>,
    /// Records of commands and orders that the store holds, at least two for each order at rest
    #[arg(long, default_value_t = 0)]
    records: u64,
    /// Kills of each way
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
}

/// One kill.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    orders: u64,
    records: u64,
    way: &'static str,
    run: u32,
    /// Until ownership was taken, by the time of that line of the log.
    claimed_ms: Option<u64>,
    answered_ms: u128,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    block_on(async {
        let (mut rows, mut versions) = (Vec::new(), json!(null));
        for orders in &arguments.orders {
            let bed = Bed::start(&Layout::default()).await?;
            versions = bed.versions()?;
            let mut killing = Killing::prepare(&bed, *orders, arguments.records).await?;
            for run in 0..arguments.runs {
                rows.push(killing.restarted(run).await?);
                rows.push(killing.taken_over(run).await?);
            }
            killing.end()?;
        }
        print(&rows);
        keep.run(&Run {
            boundary: "recover",
            settings: json!({
                "orders": arguments.orders, "records": arguments.records, "runs": arguments.runs,
            }),
            servers: versions,
            figures: value(&rows),
        })
    })
}

struct Killing<'a> {
    bed: &'a Bed,
    owner: Instance,
    orders: u64,
    records: u64,
    sent: u64,
    started: u32,
}

impl<'a> Killing<'a> {
    async fn prepare(bed: &'a Bed, orders: u64, records: u64) -> anyhow::Result<Self> {
        let primary = &bed.servers.store(0).primary;
        fill(
            &mut Connection::open(&crate::stores::at(primary))?,
            orders,
            records,
        )?;
        primary.wait_durable(1, READY_WITHIN)?;
        let owner = bed.servers.conductor("conductor-0", &[0], &[])?;
        owner.wait_ready(READY_WITHIN)?;
        let mut killing = Self {
            bed,
            owner,
            orders,
            records: records.max(2 * orders),
            sent: 0,
            started: 1,
        };
        let mut producer = killing.producer().await?;
        killing.ask(&mut producer).await?;
        producer.close().await;
        Ok(killing)
    }

    /// The process is started again at once.
    async fn restarted(&mut self, run: u32) -> anyhow::Result<Row> {
        let (killed, answered_ms) = self.answered(|this| Ok(this.owner.restart()?)).await?;
        Ok(self.row("started again", run, killed, answered_ms))
    }

    /// A standby takes over.
    async fn taken_over(&mut self, run: u32) -> anyhow::Result<Row> {
        let name = format!("conductor-{}", self.started);
        self.started += 1;
        let standby = self.bed.servers.conductor(&name, &[0], &[])?;
        standby.process().wait_for_log(LOADED, READY_WITHIN)?;
        let (killed, answered_ms) = self
            .answered(|this| Ok(this.owner.process().kill()?))
            .await?;
        self.owner = standby;
        Ok(self.row("taken over by a standby", run, killed, answered_ms))
    }

    /// Kills, and asks at that moment; when that was, and milliseconds to the answer. The producer
    /// is new each time: what is waited for between two kills may outlast its heartbeats.
    async fn answered(
        &mut self,
        kill: impl FnOnce(&Self) -> anyhow::Result<()>,
    ) -> anyhow::Result<(SystemTime, u128)> {
        let mut producer = self.producer().await?;
        let (began, killed) = (Instant::now(), SystemTime::now());
        kill(self)?;
        self.ask(&mut producer).await?;
        let answered_ms = began.elapsed().as_millis();
        producer.close().await;
        Ok((killed, answered_ms))
    }

    async fn producer(&self) -> anyhow::Result<Producer> {
        Ok(Producer::connect(&self.bed.settings.broker, "conductor-bench").await?)
    }

    /// Sends an order that comes to rest; its reply must say so.
    async fn ask(&mut self, producer: &mut Producer) -> anyhow::Result<()> {
        self.sent += 1;
        let command = order(self.sent);
        let request = Request {
            partition: PartitionId(0),
            body: encode_command(&command),
            message_id: Some(command.id.to_string()),
            answered: true,
        };
        let done = producer.ask(request, ANSWER_WITHIN).await?;
        let reply = done
            .reply
            .context("there was no reply: there is no time to print")?;
        let result = decode_result(&reply)?;
        ensure!(
            result.status == "accepted",
            "an order was {}: there is no time to print",
            result.status
        );
        Ok(())
    }

    fn row(&self, way: &'static str, run: u32, killed: SystemTime, answered_ms: u128) -> Row {
        Row {
            orders: self.orders,
            records: self.records,
            way,
            run,
            claimed_ms: claimed(&self.owner.process().log(), killed),
            answered_ms,
        }
    }

    /// The book must be whole: everything that was there, and what was sent.
    fn end(self) -> anyhow::Result<()> {
        let (_, text) = self.owner.page("/metrics")?;
        let (found, expected) = (scraped(&text, "conductor_orders"), self.orders + self.sent);
        ensure!(
            found == Some(expected),
            "{found:?} orders rest, not {expected}: the times above are of a wrong book"
        );
        self.owner.terminate(END_WITHIN)?;
        Ok(())
    }
}

const DAY_MS: u64 = 86_400_000;

/// Milliseconds from a moment to the last time that the log says that ownership was taken. A line
/// begins like `2026-01-31T23:59:59.123456Z`.
fn claimed(log: &str, since: SystemTime) -> Option<u64> {
    let line = log.lines().rev().find(|line| line.contains(CLAIMED))?;
    let (_, time) = line
        .split_whitespace()
        .find_map(|word| word.split_once('T'))?;
    let mut parts = time.trim_end_matches('Z').split(':');
    let (hours, minutes) = (
        parts.next()?.parse::<u64>().ok()?,
        parts.next()?.parse::<u64>().ok()?,
    );
    let (seconds, fraction) = parts.next()?.split_once('.')?;
    let milliseconds: u64 = fraction.get(..3)?.parse().ok()?;
    let seconds = seconds.parse::<u64>().ok()?;
    let of_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + milliseconds;
    let since = since.duration_since(UNIX_EPOCH).ok()?;
    let since = u64::try_from(since.as_millis()).ok()? % DAY_MS;
    Some((of_day + DAY_MS - since) % DAY_MS)
}

/// An order far from the touch.
fn order(number: u64) -> Command {
    let timestamp = Timestamp::new(1_800_000_000_000 + number).expect("before the year 2100");
    let id = format!("r-{number}");
    Command {
        id: CommandId::new(&id).expect("letters and digits"),
        pair: PairId(0),
        partition: None,
        timestamp,
        body: Body::Place(NewOrder {
            id: OrderId::new(&id).expect("letters and digits"),
            user: UserId::new("u-1").ok(),
            side: Side::Bid,
            kind: OrderKind::Limit {
                price: Decimal::of_price(Price::new(100).expect("a price"), DECIMALS),
                time_in_force: TimeInForce::GoodTillCancelled,
            },
            volume: Decimal::exact(1, 0),
            decimals: DECIMALS,
            timestamp,
        }),
    }
}

fn print(rows: &[Row]) {
    let head = [
        "resting",
        "records",
        "way",
        "run",
        "owned after ms",
        "answered after ms",
    ];
    let shown = rows.iter().map(|row| {
        let claimed = row.claimed_ms.map_or("?".to_owned(), |it| it.to_string());
        [
            row.orders.to_string(),
            row.records.to_string(),
            row.way.to_owned(),
            (row.run + 1).to_string(),
            claimed,
            row.answered_ms.to_string(),
        ]
    });
    println!("{}", table(head, shown));
    println!("after all kills the book held every order that it must, in number");
}
