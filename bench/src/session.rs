//! A whole path under load: producer, broker, something that decides, stores with their disks, an
//! outbox and a consumer; and what must come of it.
//!
//! What decides is the conductor with its outbox, or the articles' loop. The same commands are
//! decided here by the engine alone, and every reply, every event and the book at the end are
//! compared with that; a speed is asked for only after [`Session::end`] has found them equal.

use crate::bare;
use crate::baseline::Articles;
use crate::bed::{Bed, END_WITHIN, EVENT_QUEUE, READY_WITHIN};
use crate::connection::Connection;
use crate::cpu;
use crate::figures::scraped;
use crate::path::{Offered, OpenLoop, Watcher};
use anyhow::{Context, ensure};
use conductor_engine::{Command, Decimal, PairId, PartitionId, Side};
use conductor_io::keys::{Keys, field};
use conductor_tools::client::{Producer, ProducerOptions, Summary};
use conductor_tools::consumer::{Beginning, EventConsumer};
use conductor_tools::expectation::{Expectation, ExpectedLoad};
use conductor_tools::replay::{BookView, OrderView, PairView, QueueView};
use conductor_tools::testbed::{Instance, Layout, Process, Valkey};
use conductor_tools::workload::{Workload, WorkloadOptions};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A reply that does not come in this time is missing.
const REPLY_WITHIN: Duration = Duration::from_secs(60);
/// Events may stay away so long while some are due.
const EVENTS_WITHIN: Duration = Duration::from_secs(60);

/// What decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum System {
    /// The conductor and its outbox.
    Conductor,
    /// The articles' loop as they wrote it.
    Baseline,
    /// The articles' loop with its one-second stall mended.
    BaselineMended,
    /// The same traffic, moved by a process that decides nothing.
    Bare,
}

impl System {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            System::Conductor => "conductor",
            System::Baseline => "baseline, as the articles have it",
            System::BaselineMended => "baseline, stall mended",
            System::Bare => "bare traffic",
        }
    }
}

enum Running {
    Conductor {
        conductor: Box<Instance>,
        outbox: Box<Instance>,
    },
    Articles(Articles),
    Bare {
        conductor: Box<Process>,
        outbox: Box<Instance>,
    },
}

/// What a session is to run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Replicas whose disks are waited for; none means the policy memory.
    pub(crate) replicas: usize,
    /// Seed of the workload.
    pub(crate) seed: u64,
    /// Commands that it will be sent in all.
    pub(crate) commands: usize,
    /// A setting of the conductor and the outbox, as the environment spells it.
    pub(crate) setting: Option<(String, String)>,
}

/// One system with servers of its own.
pub(crate) struct Session {
    pub(crate) system: System,
    running: Running,
    expectation: Expectation,
    workload: Workload,
    consumer: EventConsumer,
    producer: Producer,
    sent: u64,
    // The servers end last.
    bed: Bed,
}

/// What an open loop came to.
#[derive(Debug)]
pub(crate) struct Offer {
    pub(crate) offered: Offered,
    /// When the primary's file was rewritten.
    pub(crate) rewritten: Vec<Duration>,
    /// Transactions of the conductor meanwhile.
    pub(crate) groups: u64,
}

/// What one run came to.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) commands: usize,
    /// From the first command sent to the last event taken and the last reply.
    pub(crate) elapsed: Duration,
    pub(crate) summary: Summary,
    /// Processor seconds of each process.
    pub(crate) cpu: Vec<(String, f64)>,
    /// Seconds of each step of a command's life, where the system tells them.
    pub(crate) steps: Vec<(String, f64)>,
}

impl Session {
    /// Starts everything.
    pub(crate) async fn start(system: System, plan: Plan) -> anyhow::Result<Self> {
        let setting = plan.setting.as_ref();
        let variables: Vec<(&str, &str)> = setting
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .into_iter()
            .collect();
        let layout = Layout {
            replicas: plan.replicas,
            ..Layout::default()
        };
        let bed = Bed::start_with(&layout, &variables).await?;
        let workload = || {
            Workload::new(WorkloadOptions {
                seed: plan.seed,
                ..WorkloadOptions::default()
            })
        };
        let running = match system {
            System::Conductor => {
                let conductor = bed.servers.conductor("conductor", &[0], &variables)?;
                let (conductor, outbox) = (Box::new(conductor), outbox(&bed, &variables)?);
                conductor.wait_ready(READY_WITHIN)?;
                Running::Conductor { conductor, outbox }
            }
            System::Bare => Running::Bare {
                conductor: Box::new(bare::start(
                    &bed,
                    plan.replicas,
                    workload()?.take(plan.commands).map(to_the_only_partition),
                )?),
                outbox: outbox(&bed, &[])?,
            },
            System::Baseline | System::BaselineMended => {
                let mended = system == System::BaselineMended;
                Running::Articles(Articles::start(&bed, plan.replicas, mended)?)
            }
        };
        let broker = &bed.settings.broker;
        Ok(Self {
            system,
            running,
            expectation: Expectation::new(1),
            workload: workload()?,
            consumer: EventConsumer::attach(broker, EVENT_QUEUE, Beginning::First).await?,
            producer: Producer::connect(broker, "conductor-bench").await?,
            sent: 0,
            bed,
        })
    }

    /// Sends the next commands of the workload, at most a window at once, and waits for all their
    /// replies and events.
    pub(crate) async fn run(&mut self, count: usize, window: usize) -> anyhow::Result<Measured> {
        let (cpu, steps) = (self.cpu(), self.steps());
        let expectation = self.expectation.clone();
        let commands = self.workload.by_ref().take(count);
        let mut load = ExpectedLoad::new(commands, expectation.clone(), |_| {});
        let options = ProducerOptions {
            window,
            reply_within: Some(REPLY_WITHIN),
        };
        let (began, mut sent) = (Instant::now(), None);
        {
            let sending = self.producer.run(&mut load, options);
            tokio::pin!(sending);
            while sent.is_none() || expectation.events_due() > 0 {
                tokio::select! {
                    summary = &mut sending, if sent.is_none() => sent = Some(summary?),
                    arrived = self.consumer.next() => expectation.arrived(&arrived?),
                    () = tokio::time::sleep(EVENTS_WITHIN), if sent.is_some() => break,
                }
            }
        }
        let elapsed = began.elapsed();
        self.sent += count as u64;
        let summary = sent.context("the loop ends behind it")?;
        ensure!(
            expectation.events_due() == 0 && summary.is_complete(),
            "{}: {} events did not come: there is no speed to print",
            self.system.name(),
            expectation.events_due()
        );
        let spent = |(name, after): (String, f64), before: f64| (name, after - before);
        let cpu = self
            .cpu()
            .into_iter()
            .zip(cpu)
            .map(|(after, (_, before))| spent(after, before));
        let steps = self.steps().into_iter().map(|(name, after)| {
            let before = steps.iter().find(|(step, _)| *step == name);
            spent((name, after), before.map_or(0.0, |(_, seconds)| *seconds))
        });
        Ok(Measured {
            commands: count,
            elapsed,
            summary,
            cpu: cpu.collect(),
            steps: steps.collect(),
        })
    }

    /// Sends the next commands of the workload at a rate, each when it is due. The primary's file
    /// is rewritten so many times meanwhile, at even distances.
    pub(crate) async fn offer(
        &mut self,
        count: usize,
        per_second: f64,
        rewrites: u32,
    ) -> anyhow::Result<Offer> {
        let groups = self.groups()?;
        let (expectation, mut store) = (self.expectation.clone(), self.store()?);
        let commands = self.workload.by_ref().take(count);
        let mut load = ExpectedLoad::new(commands, expectation.clone(), |_| {});
        let mut sender = OpenLoop::connect(&self.bed.settings.broker).await?;
        let began = Instant::now();
        let length = Duration::from_secs_f64(count as f64 / per_second);
        let mut rewritten = Vec::new();
        let mut offered = None;
        {
            let sending = sender.offer(&mut load, per_second);
            tokio::pin!(sending);
            while offered.is_none() || expectation.events_due() > 0 {
                let number = u32::try_from(rewritten.len())?;
                let next = began + length * (number + 1) / (rewrites + 1);
                tokio::select! {
                    done = &mut sending, if offered.is_none() => offered = Some(done?),
                    arrived = self.consumer.next() => expectation.arrived(&arrived?),
                    () = tokio::time::sleep_until(next.into()), if number < rewrites => {
                        store.ask(&["BGREWRITEAOF"])?;
                        rewritten.push(began.elapsed());
                    }
                    () = tokio::time::sleep(EVENTS_WITHIN), if offered.is_some() => break,
                }
            }
        }
        sender.close().await;
        self.sent += count as u64;
        let offered = offered.context("the loop ends behind it")?;
        ensure!(
            expectation.events_due() == 0,
            "{} events did not come: there is no time to print",
            expectation.events_due()
        );
        Ok(Offer {
            offered,
            rewritten,
            groups: self.groups()? - groups,
        })
    }

    /// Watches the stores and the machine from now on.
    pub(crate) fn watch(&self) -> Watcher {
        let store = self.bed.servers.store(0);
        let replica = store.replicas.first().map(crate::stores::at);
        Watcher::start(crate::stores::at(&store.primary), replica)
    }

    /// Transactions of the conductor so far.
    fn groups(&self) -> anyhow::Result<u64> {
        scraped(&self.metrics(), "conductor_groups_total").context(
            "the conductor's page does not tell its transactions: there is no time to print",
        )
    }

    /// The page of figures of the conductor; empty where something else runs.
    fn metrics(&self) -> String {
        let Running::Conductor { conductor, .. } = &self.running else {
            return String::new();
        };
        conductor
            .page("/metrics")
            .map_or(String::new(), |(_, text)| text)
    }

    fn store(&self) -> anyhow::Result<Connection> {
        Connection::open(&crate::stores::at(&self.bed.servers.store(0).primary))
    }

    pub(crate) fn versions(&self) -> anyhow::Result<Value> {
        self.bed.versions()
    }

    /// Insists that every reply, every event and the book were what the engine alone says, ends
    /// everything, and gives the digest of the events.
    pub(crate) async fn end(self) -> anyhow::Result<String> {
        let (found, name) = (self.expectation.found(), self.system.name());
        ensure!(
            found.replies_equal == self.sent && found.events_differing == 0,
            "{name}: {} of {} replies are equal, {} events differ; the first difference: {}",
            found.replies_equal,
            self.sent,
            found.events_differing,
            found.first_difference.unwrap_or_default()
        );
        let arrived = self.expectation.arrived_digests();
        let expected = self.expectation.replay(|replay| replay.digests());
        ensure!(
            arrived == expected,
            "{name}: the digests of the events differ"
        );
        let stored = stored_book(&self.bed.servers.store(0).primary, 0)?;
        let view = self.expectation.replay(|replay| replay.view());
        ensure!(
            stored == view,
            "{name}: the stored book is not the replay's"
        );
        self.producer.close().await;
        self.consumer.close().await?;
        match self.running {
            Running::Conductor { conductor, outbox } => {
                conductor.terminate(END_WITHIN)?;
                outbox.terminate(END_WITHIN)?;
            }
            Running::Articles(articles) => articles.stop()?,
            Running::Bare { conductor, outbox } => {
                conductor.kill()?;
                outbox.terminate(END_WITHIN)?;
            }
        }
        Ok(arrived.into_iter().next().unwrap_or_default())
    }

    /// Processor seconds of every process so far. The articles' loop runs in this one.
    fn cpu(&self) -> Vec<(String, f64)> {
        let store = self.bed.servers.store(0);
        let mut all = vec![("bench".to_owned(), cpu::seconds_alone(std::process::id()))];
        let mut add = |name: &str, process: &Process| {
            all.push((name.to_owned(), cpu::seconds(process.pid())));
        };
        match &self.running {
            Running::Conductor { conductor, outbox } => {
                add("conductor", conductor.process());
                add("outbox", outbox.process());
            }
            Running::Bare { conductor, outbox } => {
                add("conductor", conductor);
                add("outbox", outbox.process());
            }
            Running::Articles(_) => {}
        }
        add("store", store.primary.process());
        for replica in &store.replicas {
            add("replica", replica.process());
        }
        add("broker", self.bed.servers.rabbit().process());
        all
    }

    fn steps(&self) -> Vec<(String, f64)> {
        let text = self.metrics();
        let sums = text
            .lines()
            .filter(|line| line.starts_with("conductor_step_seconds_sum{"));
        sums.filter_map(|line| {
            let (_, rest) = line.split_once("step=\"")?;
            let (step, rest) = rest.split_once('"')?;
            let seconds = rest.rsplit(' ').next()?.parse().ok()?;
            Some((step.to_owned(), seconds))
        })
        .collect()
    }
}

fn outbox(bed: &Bed, variables: &[(&str, &str)]) -> anyhow::Result<Box<Instance>> {
    let outbox = bed.servers.outbox("outbox", &[0], variables)?;
    outbox.wait_ready(READY_WITHIN)?;
    Ok(Box::new(outbox))
}

/// A command as the producer sends it.
fn to_the_only_partition(mut command: Command) -> Command {
    command.partition = Some(PartitionId(0));
    command
}

/// The book as the store of a partition holds it.
pub(crate) fn stored_book(primary: &Valkey, partition: u32) -> anyhow::Result<BookView> {
    let mut store = Connection::open(&crate::stores::at(primary))?;
    let keys = Keys::new(PartitionId(partition));
    let pairs = store.ask(&["SMEMBERS", keys.pairs()])?;
    let pairs = pairs.elements().unwrap_or_default().iter();
    let numbers = pairs.filter_map(|pair| pair.text()?.parse().ok().map(PairId));
    let mut book = BTreeMap::new();
    for pair in numbers {
        let bids = queues(&mut store, &keys, pair, Side::Bid)?;
        let asks = queues(&mut store, &keys, pair, Side::Ask)?;
        book.insert(pair, PairView { bids, asks });
    }
    Ok(BookView { pairs: book })
}

fn queues(
    store: &mut Connection,
    keys: &Keys,
    pair: PairId,
    side: Side,
) -> anyhow::Result<Vec<QueueView>> {
    let range = match side {
        Side::Ask => "ZRANGE",
        Side::Bid => "ZREVRANGE",
    };
    let members = store.ask(&[range, &keys.book(pair, side), "0", "-1"])?;
    let mut queues: Vec<QueueView> = Vec::new();
    for member in members.elements().unwrap_or_default() {
        let member = member.text().context("a member is text")?;
        let found = Keys::parse_member(side, member).prefixed;
        let order = found
            .with_context(|| format!("{member} is no member of ours"))?
            .order;
        let record = store.ask(&["HGETALL", &keys.order(&order)])?;
        let value = |name: &str| {
            let parts = record.elements()?;
            let place = parts
                .iter()
                .step_by(2)
                .position(|part| part.text() == Some(name))?;
            let text = parts.get(2 * place + 1)?.text()?;
            Decimal::parse_or_zero(text)
                .ok()
                .map(|number| number.to_string())
        };
        let missing = || format!("the record of {order} is not whole");
        let price = value(field::PRICE).with_context(missing)?;
        let remaining = value(field::REMAINING).with_context(missing)?;
        let order = OrderView {
            id: order.to_string(),
            remaining,
        };
        match queues.last_mut().filter(|queue| queue.price == price) {
            Some(queue) => queue.orders.push(order),
            None => queues.push(QueueView {
                price,
                orders: vec![order],
            }),
        }
    }
    Ok(queues)
}
