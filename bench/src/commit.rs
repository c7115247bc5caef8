//! The write shape without a broker: what the conductor commits, in its packets, against real
//! stores.
//!
//! The articles' multi-cell test, with the conductor's own transactions: the seeded workload is
//! decided and spelled before the clock starts, so that only the packet, the store and its disks
//! are timed. Beside it the articles' way at one command a group: `EXEC`, and `WAITAOF` once that
//! was answered. After each row every stream is read back and its digest compared.

mod drive;
mod load;
mod paced;

pub(crate) use drive::stream;
pub(crate) use load::Wait;
pub(crate) use paced::{Pace, pace};

use crate::connection::{Connection, StoreAt};
use crate::figures::{Times, histogram, rate};
use crate::record::{Keep, Run, table, value};
use crate::stores::{self, Stores};
use anyhow::{Context, ensure};
use conductor_engine::{Command, PartitionId};
use drive::{Driven, Way, check, drive};
use hdrhistogram::Histogram;
use load::{commands, load};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The stall that a replica gives when it is asked for its disk too early lasts a second; half of
/// it is no disk's doing.
const STALL: Duration = Duration::from_millis(500);

/// What the conductor writes, against the store alone
///
/// Example: conductor-bench commit --partitions 2 --groups 1,16,256
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Partitions, each with a connection and a thread of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    partitions: u32,
    /// Commands in each transaction, a row for each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16, 64, 256, 512])]
    groups: Vec<usize>,
    /// Commands of each partition in each row
    #[arg(long, default_value_t = 20_000)]
    commands: usize,
    /// What is waited for: memory (nothing), aof-replicated (both disks)
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Policy::Memory, Policy::AofReplicated])]
    policies: Vec<Policy>,
    /// Primaries to use instead of private ones, each with a replica; partitions go round over
    /// them. They must be empty and are emptied again
    #[arg(long, value_name = "HOST:PORT")]
    store: Vec<SocketAddr>,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Commands of each partition of the articles' way; each of its stalls takes a second
    #[arg(long, default_value_t = 2_000)]
    naive_commands: usize,
    /// Leave out the articles' way
    #[arg(long)]
    without_naive: bool,
}

/// What a row waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Policy {
    /// Nothing.
    Memory,
    /// The primary's disk and a replica's.
    AofReplicated,
}

impl Policy {
    fn wait(self) -> Option<Wait> {
        match self {
            Policy::Memory => Wait::of(0),
            Policy::AofReplicated => Wait::of(1),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Policy::Memory => "memory",
            Policy::AofReplicated => "aof-replicated",
        }
    }
}

/// One row.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    policy: Policy,
    way: &'static str,
    group: usize,
    commands_per_second: u64,
    transactions: u64,
    times: Times,
    stalls: u64,
    waited_again: u64,
    events: usize,
    digests: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    ensure!(
        arguments.groups.iter().all(|group| *group > 0),
        "a group has at least one command"
    );
    let servers = Servers::new(arguments)?;
    let bench = Bench::new(arguments, &servers)?;
    let mut rows = Vec::new();
    for policy in &arguments.policies {
        for group in &arguments.groups {
            rows.push(bench.row(*policy, Way::OnePacket, *group, keep)?);
            let naive = *policy == Policy::AofReplicated && *group == 1;
            if naive && !arguments.without_naive {
                rows.push(bench.row(*policy, Way::ExecThenWait, *group, keep)?);
            }
        }
    }
    print(&rows);
    keep.run(&Run {
        boundary: "commit",
        settings: json!({
            "partitions": arguments.partitions, "commands": arguments.commands,
            "groups": arguments.groups, "policies": value(&arguments.policies),
            "naiveCommands": arguments.naive_commands, "seed": arguments.seed,
            "stores": servers.of(Policy::AofReplicated).len(),
            "private": arguments.store.is_empty(), "stallMs": STALL.as_millis(),
        }),
        servers: stores::versions(&servers.of(Policy::AofReplicated)[0])?,
        figures: value(&rows),
    })
}

fn given(addresses: &[SocketAddr]) -> anyhow::Result<Vec<StoreAt>> {
    let mut stores = Vec::new();
    for address in addresses {
        let store = StoreAt {
            address: *address,
            login: None,
        };
        let keys = Connection::open(&store)?.number(&["DBSIZE"])?;
        ensure!(
            keys == 0,
            "the store at {address} holds {keys} keys; give an empty one, since it is emptied"
        );
        stores.push(store);
    }
    Ok(stores)
}

/// The stores of each policy. Given ones serve both.
struct Servers {
    primaries: Vec<(Policy, Vec<StoreAt>)>,
    _private: Vec<Stores>,
}

impl Servers {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let policies = [Policy::Memory, Policy::AofReplicated];
        if !arguments.store.is_empty() {
            let given = given(&arguments.store)?;
            return Ok(Self {
                primaries: policies.map(|policy| (policy, given.clone())).into(),
                _private: Vec::new(),
            });
        }
        let groups = arguments.partitions as usize;
        let private = [Stores::in_memory(groups)?, Stores::start(groups, 1)?];
        let primaries = policies.into_iter().zip(&private);
        Ok(Self {
            primaries: primaries
                .map(|(policy, stores)| (policy, stores.primaries()))
                .collect(),
            _private: private.into(),
        })
    }

    fn of(&self, policy: Policy) -> &[StoreAt] {
        let found = self.primaries.iter().find(|(of, _)| *of == policy);
        found.map_or(&[], |(_, stores)| stores)
    }
}

struct Bench<'a> {
    servers: &'a Servers,
    partitions: u32,
    commands: Vec<Vec<Command>>,
    naive_commands: usize,
}

impl<'a> Bench<'a> {
    fn new(arguments: &Arguments, servers: &'a Servers) -> anyhow::Result<Self> {
        let partitions = arguments.partitions;
        let made = (0..partitions).map(|partition| {
            let partition = PartitionId(partition);
            commands(partition, partitions, arguments.seed, arguments.commands)
        });
        Ok(Self {
            servers,
            partitions,
            commands: made.collect::<anyhow::Result<_>>()?,
            naive_commands: arguments.naive_commands,
        })
    }

    fn row(&self, policy: Policy, way: Way, group: usize, keep: &Keep) -> anyhow::Result<Row> {
        let count = match way {
            Way::OnePacket => usize::MAX,
            Way::ExecThenWait => self.naive_commands,
        };
        let of_each = self.commands.iter();
        let commands: Vec<&[Command]> =
            of_each.map(|all| all.get(..count).unwrap_or(all)).collect();
        let numbered = commands.iter().zip(0..);
        let loads = numbered
            .map(|(commands, number)| load(PartitionId(number), self.partitions, commands, group))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let stores = self.servers.of(policy);
        for store in stores {
            Connection::open(store)?.ask(&["FLUSHALL", "SYNC"])?;
        }
        let store = |place: usize| &stores[place % stores.len()];
        let began = Instant::now();
        let (times, waited_again) = together(&loads, |place| {
            drive(store(place), &loads[place], policy.wait(), way)
        })?;
        let elapsed = began.elapsed();
        for (place, load) in loads.iter().enumerate() {
            let pairs: BTreeSet<_> = commands[place].iter().map(|it| it.pair).collect();
            check(store(place), load, &pairs.into_iter().collect::<Vec<_>>())?;
        }
        let name = match way {
            Way::OnePacket => "one packet",
            Way::ExecThenWait => "exec, then wait",
        };
        let file = format!(
            "commit-{}-{}-{group}",
            policy.name(),
            name.replace([' ', ','], "")
        );
        keep.histogram(&file, &times)?;
        let stall = u64::try_from(STALL.as_nanos()).unwrap_or(u64::MAX);
        Ok(Row {
            policy,
            way: name,
            group,
            commands_per_second: rate(loads.iter().map(|load| load.commands).sum(), elapsed),
            transactions: times.len(),
            stalls: times.count_between(stall, u64::MAX),
            times: Times::of(&times),
            waited_again,
            events: loads.iter().map(|load| load.due.events).sum(),
            digests: loads.into_iter().map(|load| load.due.digest).collect(),
        })
    }
}

/// Drives every partition at once, each in a thread of its own.
fn together(
    loads: &[load::Load],
    drive: impl Fn(usize) -> anyhow::Result<Driven> + Sync,
) -> anyhow::Result<(Histogram<u64>, u64)> {
    let driven: Vec<anyhow::Result<Driven>> = std::thread::scope(|scope| {
        let drive = &drive;
        let threads = (0..loads.len()).map(|place| scope.spawn(move || drive(place)));
        let running: Vec<_> = threads.collect();
        let joined = running.into_iter().map(ScopedJoinHandle::join);
        joined
            .map(|done| done.unwrap_or_else(|_| Err(anyhow::anyhow!("a partition's thread ended"))))
            .collect()
    });
    let (mut times, mut waited_again) = (histogram(), 0);
    for driven in driven {
        let driven = driven?;
        times.add(&driven.times).context("histograms are alike")?;
        waited_again += driven.waited_again;
    }
    Ok((times, waited_again))
}

fn print(rows: &[Row]) {
    let head = [
        "policy",
        "way",
        "group",
        "commands/s",
        "p50 us",
        "p90",
        "p99",
        "p99.9",
        "longest",
        "500 ms and over",
    ];
    let shown = rows.iter().map(|row| {
        let [p50, p90, p99, p999, longest] = row.times.cells();
        [
            row.policy.name().to_owned(),
            row.way.to_owned(),
            row.group.to_string(),
            row.commands_per_second.to_string(),
            p50,
            p90,
            p99,
            p999,
            longest,
            format!("{} of {}", row.stalls, row.transactions),
        ]
    });
    println!("{}", table(head, shown));
    println!(
        "the times are a transaction's; every stream read back has the digest that it must have"
    );
}
