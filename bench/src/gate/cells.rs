//! Two cells on one broker, each a process of its own with its own stores, and the load on one or
//! both of them.

use super::budget::{Budget, Limits};
use crate::bed::{Bed, END_WITHIN, EVENT_QUEUE, READY_WITHIN};
use crate::session::stored_book;
use anyhow::{Context, ensure};
use conductor_engine::{Command, PairId};
use conductor_tools::client::{Done, Producer, ProducerOptions};
use conductor_tools::consumer::{Beginning, EventConsumer};
use conductor_tools::expectation::{Expectation, ExpectedLoad};
use conductor_tools::testbed::{CellServers, Instance, Layout, StoreGroup, Valkey};
use conductor_tools::workload::{Workload, WorkloadOptions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) const CELLS: u32 = 2;
const PAIRS: u32 = 8;
/// A failover, and the way back of what was killed, lie within.
const REPLY_WITHIN: Duration = Duration::from_secs(180);
const EVENTS_WITHIN: Duration = Duration::from_secs(180);
const SWITCHED_WITHIN: Duration = Duration::from_secs(120);

/// What is done to the servers while both cells work. A process that it starts joins its budget.
type Disturbance = fn(&CellServers, &[Budget]) -> anyhow::Result<()>;

/// Both cells at work.
pub(crate) struct Cells {
    lanes: Vec<Lane>,
    consumer: EventConsumer,
    // Processes end before the servers, and the budgets after both.
    processes: Vec<Instance>,
    pub(crate) bed: Bed,
    budgets: Arc<Vec<Budget>>,
}

/// One cell's load.
struct Lane {
    workload: Workload,
    expectation: Expectation,
    producer: Producer,
    sent: u64,
}

/// How partitions are spread over processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Each has a process, and a budget, of its own.
    Cells,
    /// One process serves both, with one I/O core; one budget of the same size in all.
    OneProcess,
}

impl Cells {
    pub(crate) async fn start(spread: Spread, limits: Limits, seed: u64) -> anyhow::Result<Self> {
        let bed = Bed::start(&Layout {
            partitions: CELLS,
            sentinels: 3,
            ..Layout::default()
        })
        .await?;
        let (mut lanes, mut processes, mut budgets) = (Vec::new(), Vec::new(), Vec::new());
        let all: Vec<u32> = (0..CELLS).collect();
        let together = match spread {
            Spread::Cells => all.chunks(1),
            Spread::OneProcess => all.chunks(all.len()),
        };
        for (number, partitions) in together.enumerate() {
            let folder = bed.servers.folder().path();
            let limits = limits.times(u32::try_from(partitions.len())?);
            let name = match spread {
                Spread::Cells => format!("cell-{number}"),
                Spread::OneProcess => format!("both-{number}"),
            };
            let budget = Budget::new(&name, limits, folder)?;
            let name = format!("conductor-{number}");
            let conductor = bed.servers.conductor(&name, partitions, &[])?;
            let name = format!("outbox-{number}");
            let outbox = bed.servers.outbox(&name, partitions, &[])?;
            for process in [&conductor, &outbox] {
                process.wait_ready(READY_WITHIN)?;
                budget.take(process.process().pid())?;
            }
            for partition in partitions {
                for store in stores(bed.servers.store(*partition as usize)) {
                    budget.take(store.process().pid())?;
                }
            }
            processes.extend([conductor, outbox]);
            budgets.push(budget);
        }
        for cell in 0..CELLS {
            lanes.push(Lane {
                workload: Workload::new(WorkloadOptions {
                    seed: seed + u64::from(cell),
                    pairs: (0..PAIRS)
                        .map(|place| PairId(cell + place * CELLS))
                        .collect(),
                    partition_count: Some(CELLS),
                    prefix: format!("{cell}:"),
                    ..WorkloadOptions::default()
                })?,
                expectation: Expectation::new(CELLS),
                producer: Producer::connect(&bed.settings.broker, "conductor-bench").await?,
                sent: 0,
            });
        }
        let broker = &bed.settings.broker;
        Ok(Self {
            lanes,
            consumer: EventConsumer::attach(broker, EVENT_QUEUE, Beginning::First).await?,
            processes,
            bed,
            budgets: Arc::new(budgets),
        })
    }

    /// Sends so many commands to each of the first cells and waits for all replies and events. When
    /// a third of a cell's are answered, `meanwhile` begins in a thread of its own.
    pub(crate) async fn run(
        &mut self,
        cells: usize,
        count: usize,
        window: usize,
        meanwhile: Option<Disturbance>,
    ) -> anyhow::Result<Duration> {
        let (third, reached) = std::sync::mpsc::channel();
        let expectations: Vec<Expectation> = self
            .lanes
            .iter()
            .map(|lane| lane.expectation.clone())
            .collect();
        let options = ProducerOptions {
            window,
            reply_within: Some(REPLY_WITHIN),
        };
        let began = Instant::now();
        let mut loads = Vec::new();
        for lane in &mut self.lanes[..cells] {
            lane.sent += count as u64;
            let third = third.clone();
            let each = move |done: &Done| {
                if done.number == (count / 3) as u64 {
                    // Nobody listens where nothing happens meanwhile.
                    let _ = third.send(());
                }
            };
            let commands: Vec<Command> = lane.workload.by_ref().take(count).collect();
            let load = ExpectedLoad::new(commands.into_iter(), lane.expectation.clone(), each);
            loads.push((&mut lane.producer, load));
        }
        drop(third);
        let (servers, budgets) = (Arc::clone(&self.bed.servers), Arc::clone(&self.budgets));
        let disturbing = meanwhile.map(|disturb| {
            std::thread::spawn(move || match reached.recv() {
                Ok(()) => disturb(&servers, &budgets),
                Err(_) => Ok(()),
            })
        });
        let mut sending: FuturesUnordered<_> = loads
            .iter_mut()
            .map(|(producer, load)| producer.run(load, options))
            .collect();
        let due = || {
            expectations
                .iter()
                .map(Expectation::events_due)
                .sum::<usize>()
        };
        while !sending.is_empty() || due() > 0 {
            tokio::select! {
                Some(summary) = sending.next() => {
                    ensure!(summary?.is_complete(), "a command was not answered");
                }
                arrived = self.consumer.next() => {
                    let event = arrived?;
                    expectations[event.partition.0 as usize].arrived(&event);
                }
                () = tokio::time::sleep(EVENTS_WITHIN) => break,
            }
        }
        ensure!(due() == 0, "{} events did not come", due());
        if let Some(disturbing) = disturbing {
            let ended = disturbing.join();
            ended.ok().context("the disturbing thread panicked")??;
        }
        Ok(began.elapsed())
    }

    /// Insists that each cell's replies, events and book are what the engine alone says; gives the
    /// digests.
    pub(crate) async fn end(self) -> anyhow::Result<Vec<String>> {
        let mut digests = Vec::new();
        for (number, lane) in self.lanes.into_iter().enumerate() {
            let found = lane.expectation.found();
            ensure!(
                found.replies_equal == lane.sent && found.events_differing == 0,
                "cell {number}: {} of {} replies are equal, {} events differ: {:?}",
                found.replies_equal,
                lane.sent,
                found.events_differing,
                found.first_difference
            );
            let arrived = lane.expectation.arrived_digests();
            let expected = lane.expectation.replay(|replay| replay.digests());
            ensure!(
                arrived == expected,
                "cell {number}: the digests of the events differ"
            );
            let store = primary(&self.bed.servers, number)?;
            let stored = stored_book(store, u32::try_from(number)?)?;
            let view = lane.expectation.replay(|replay| replay.view());
            ensure!(
                stored == view,
                "cell {number}: the stored book is not the replay's"
            );
            digests.extend(arrived.into_iter().nth(number));
            lane.producer.close().await;
        }
        self.consumer.close().await?;
        for process in &self.processes {
            process.terminate(END_WITHIN)?;
        }
        Ok(digests)
    }
}

fn stores(group: &StoreGroup) -> impl Iterator<Item = &Valkey> {
    std::iter::once(&group.primary).chain(&group.replicas)
}

/// A cell's primary as the Sentinels see it.
fn primary(servers: &CellServers, cell: usize) -> anyhow::Result<&Valkey> {
    let sentinels = servers.sentinels().context("Sentinels were asked for")?;
    let address = sentinels.primary(0, &CellServers::sentinel_group(cell))?;
    servers
        .store(cell)
        .server_at(address)
        .context("the primary is one of ours")
}

/// Kills the last cell's primary, waits for the replica's promotion, and brings the killed one back
/// as a replica: a pair acknowledges nothing before that.
pub(crate) fn fail_over(servers: &CellServers, budgets: &[Budget]) -> anyhow::Result<()> {
    let cell = CELLS as usize - 1;
    let old = primary(servers, cell)?;
    old.process().kill()?;
    let sentinels = servers.sentinels().context("Sentinels were asked for")?;
    let name = CellServers::sentinel_group(cell);
    sentinels.wait_switched(&name, old.address(), SWITCHED_WITHIN)?;
    old.restart()?;
    budgets[cell].take(old.process().pid())?;
    old.wait_following(SWITCHED_WITHIN)?;
    Ok(())
}
