//! One fault: whom it strikes, how it strikes, and how it is undone.

use super::kind::FaultKind;
use super::schedule::{Hold, Planned};
use super::site::{Site, shown};
use crate::testbed::{Instance, Process, Rabbit, Valkey};
use anyhow::Context;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long Sentinel may take to promote a replica, with a second try in it.
const FAILOVER_WITHIN: Duration = Duration::from_secs(60);
/// How long a server may take to notice that its disk is full.
const FULL_WITHIN: Duration = Duration::from_secs(20);

/// A fault that has struck.
pub(super) struct Struck<'a> {
    /// What was planned.
    pub(super) planned: Planned,
    /// Whom it struck.
    pub(super) target: String,
    /// When.
    pub(super) at: Instant,
    /// How long it lasted, once it is undone.
    pub(super) held: Option<Duration>,
    /// Whether Sentinel named another primary before it was undone.
    pub(super) failed_over: bool,
    undo: Undo<'a>,
    /// The partition whose primary was struck, and where that was.
    primary: Option<(usize, SocketAddr)>,
    /// When another primary was first seen.
    promoted: Option<Instant>,
}

enum Undo<'a> {
    Nothing,
    Start(&'a Process),
    StartNode(&'a Rabbit),
    Resume(&'a Process),
    FreeDisk(&'a Valkey),
    LiftAlarm(usize),
}

impl<'a> Struck<'a> {
    /// Strikes.
    pub(super) fn strike(site: &'a Site, planned: Planned) -> anyhow::Result<Self> {
        let partition = one_of(planned.choice, site.servers().partitions());
        let aim = Aim {
            site,
            partition,
            choice: planned.choice,
        };
        let blow = aim.strike(planned.kind);
        let blow = blow.with_context(|| format!("{} could not be brought about", planned.kind))?;
        Ok(Self {
            planned,
            target: blow.target,
            at: blow.at,
            held: None,
            failed_over: false,
            undo: blow.undo,
            primary: blow.primary.map(|address| (partition, address)),
            promoted: None,
        })
    }

    /// Undoes it if it has lasted as long as it should. Gives whether it is over.
    pub(super) fn end_when_due(&mut self, site: &Site) -> anyhow::Result<bool> {
        if self.held.is_some() {
            return Ok(true);
        }
        if !self.is_due(site)? {
            return Ok(false);
        }
        match &self.undo {
            Undo::Nothing => {}
            Undo::Start(process) => process.restart()?,
            Undo::StartNode(node) => node.begin_restart()?,
            Undo::Resume(process) => process.resume()?,
            Undo::FreeDisk(store) => {
                store.free_disk()?;
                store.process().restart()?;
            }
            Undo::LiftAlarm(node) => site.servers().brokers().lift_memory_alarm(*node)?,
        }
        self.held = Some(self.at.elapsed());
        Ok(true)
    }

    fn is_due(&mut self, site: &Site) -> anyhow::Result<bool> {
        let Hold::PastFailover(further) = self.planned.hold else {
            let Hold::For(length) = self.planned.hold else {
                return Ok(true);
            };
            return Ok(self.at.elapsed() >= length);
        };
        let (partition, from) = self.primary.context("only a primary fails over")?;
        if self.promoted.is_none() {
            let now = site.servers().current_primary(partition);
            let switched = now.is_ok_and(|primary| primary.address() != from);
            self.promoted = switched.then(Instant::now);
            self.failed_over = switched;
        }
        anyhow::ensure!(
            self.promoted.is_some() || self.at.elapsed() < FAILOVER_WITHIN,
            "no replica of partition {partition} was promoted within {} s of {} on {}",
            FAILOVER_WITHIN.as_secs(),
            self.planned.kind,
            self.target
        );
        Ok(self.promoted.is_some_and(|when| when.elapsed() >= further))
    }
}

/// What a strike came to.
struct Blow<'a> {
    target: String,
    at: Instant,
    undo: Undo<'a>,
    primary: Option<SocketAddr>,
}

/// Where a strike is aimed.
struct Aim<'a> {
    site: &'a Site,
    partition: usize,
    choice: u64,
}

impl<'a> Aim<'a> {
    fn strike(&self, kind: FaultKind) -> anyhow::Result<Blow<'a>> {
        use FaultKind as K;
        let pause = kind.is_pause();
        match kind {
            K::ConductorKill | K::ConductorPause => process(self.conductor(true), pause),
            K::StandbyKill | K::StandbyPause => process(self.conductor(false), pause),
            K::OutboxKill | K::OutboxPause => process(self.outbox(), pause),
            K::PrimaryKill | K::PrimaryPause => {
                let primary = self.primary()?;
                let mut blow = process(primary.process(), pause)?;
                blow.primary = Some(primary.address());
                Ok(blow)
            }
            K::ReplicaKill | K::ReplicaPause => process(self.replica()?.process(), pause),
            K::SentinelKill | K::SentinelPause => {
                let all = self.site.sentinels();
                process(all[one_of(self.choice, all.len())], pause)
            }
            K::BrokerLeaderKill => broken(self.node(self.leader()?), pause),
            K::BrokerNodeKill => {
                let (leader, count) = (self.leader()?, self.site.servers().brokers().count());
                anyhow::ensure!(
                    count > 1,
                    "the broker has one node; --nodes 3 gives it more"
                );
                let other = (leader + 1 + one_of(self.choice, count - 1)) % count;
                broken(self.node(other), pause)
            }
            K::BrokerPause => {
                let count = self.site.servers().brokers().count();
                broken(self.node(one_of(self.choice, count)), pause)
            }
            K::BrokerConnectionsCut => self.cut_broker(),
            K::StoreConnectionsCut => self.cut_store(),
            K::DiskFull => self.fill_disk(),
            K::MemoryAlarm => self.raise_alarm(),
        }
    }

    /// The conductor that works, or one that does not. Where nobody says, the seed does.
    fn conductor(&self, active: bool) -> &'a Process {
        let all = self.site.conductors();
        let works = |it: &Instance| {
            shown(it, self.partition).is_some_and(|shown| shown["role"] == "active")
        };
        pick(all, self.choice, |it| works(it) == active)
    }

    fn outbox(&self) -> &'a Process {
        let works =
            |it: &Instance| shown(it, self.partition).is_some_and(|shown| shown["lease"] == true);
        pick(self.site.outboxes(), self.choice, works)
    }

    fn primary(&self) -> anyhow::Result<&'a Valkey> {
        Ok(self.site.servers().current_primary(self.partition)?)
    }

    fn replica(&self) -> anyhow::Result<&'a Valkey> {
        let primary = self.primary()?.address();
        let all = self.site.servers().store(self.partition).servers();
        let replicas: Vec<&Valkey> = all.filter(|it| it.address() != primary).collect();
        anyhow::ensure!(!replicas.is_empty(), "there is no replica");
        Ok(replicas[one_of(self.choice, replicas.len())])
    }

    fn leader(&self) -> anyhow::Result<usize> {
        let brokers = self.site.servers().brokers();
        if brokers.count() == 1 {
            return Ok(0);
        }
        Ok(brokers.leader(&Site::queue(self.partition))?)
    }

    fn node(&self, number: usize) -> &'a Rabbit {
        self.site.servers().brokers().node(number)
    }

    fn cut_broker(&self) -> anyhow::Result<Blow<'a>> {
        let at = Instant::now();
        let brokers = self.site.servers().brokers();
        brokers.close_all_connections("the tester cuts every connection")?;
        Ok(moment("every AMQP connection".to_owned(), at))
    }

    fn cut_store(&self) -> anyhow::Result<Blow<'a>> {
        let primary = self.primary()?;
        let at = Instant::now();
        let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        let cut: u64 = primary.command(&words)?;
        let name = primary.process().name();
        Ok(moment(format!("{cut} connections of {name}"), at))
    }

    /// The load goes on, so the server writes, fails and ends itself.
    fn fill_disk(&self) -> anyhow::Result<Blow<'a>> {
        let primary = self.primary()?;
        let at = Instant::now();
        primary.fill_disk()?;
        primary.process().wait_exit(FULL_WITHIN)?;
        Ok(Blow {
            target: primary.process().name().to_owned(),
            at,
            undo: Undo::FreeDisk(primary),
            primary: Some(primary.address()),
        })
    }

    fn raise_alarm(&self) -> anyhow::Result<Blow<'a>> {
        let brokers = self.site.servers().brokers();
        let node = one_of(self.choice, brokers.count());
        let at = Instant::now();
        brokers.raise_memory_alarm(node)?;
        Ok(Blow {
            target: self.node(node).process().name().to_owned(),
            at,
            undo: Undo::LiftAlarm(node),
            primary: None,
        })
    }
}

fn moment<'a>(target: String, at: Instant) -> Blow<'a> {
    Blow {
        target,
        at,
        undo: Undo::Nothing,
        primary: None,
    }
}

/// Kills or stops a process.
fn process(struck: &Process, pause: bool) -> anyhow::Result<Blow<'_>> {
    let at = Instant::now();
    let undo = if pause {
        struck.pause()?;
        Undo::Resume(struck)
    } else {
        struck.kill()?;
        Undo::Start(struck)
    };
    Ok(Blow {
        target: struck.name().to_owned(),
        at,
        undo,
        primary: None,
    })
}

/// Kills or stops a node of the broker.
fn broken(node: &Rabbit, pause: bool) -> anyhow::Result<Blow<'_>> {
    let mut blow = process(node.process(), pause)?;
    if !pause {
        blow.undo = Undo::StartNode(node);
    }
    Ok(blow)
}

/// The first of two or more that is as wanted, and where none is, any that can still be struck.
fn pick(all: &[Instance], choice: u64, wanted: impl Fn(&Instance) -> bool) -> &Process {
    let any = one_of(choice, all.len());
    let alive = |it: &&Instance| it.process().is_running() && !it.process().is_paused();
    let found = all.iter().filter(alive).find(|it| wanted(it));
    found.unwrap_or(&all[any]).process()
}

fn one_of(choice: u64, count: usize) -> usize {
    let count = u64::try_from(count.max(1)).unwrap_or(1);
    usize::try_from(choice % count).unwrap_or(0)
}
