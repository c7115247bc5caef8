//! The kinds of fault: what each is called, what it does, how it is undone, and how long it lasts.
//!
//! Everything about a kind stands in one row of one table, so that the help, the schedule and the
//! report cannot disagree. How long a fault lasts is drawn from the spans of its row, which lie on
//! both sides of the bounds that matter: the outbox's lease and the broker's heartbeat of ten
//! seconds, Sentinel's three seconds, and the few seconds that a conductor waits for its store.

use std::fmt;
use std::str::FromStr;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The conductor that works is killed.
    ConductorKill,
    /// The conductor that works is stopped for a while.
    ConductorPause,
    /// The conductor that stands by is killed.
    StandbyKill,
    /// The conductor that stands by is stopped for a while.
    StandbyPause,
    /// The outbox that publishes is killed.
    OutboxKill,
    /// The outbox that publishes is stopped for a while.
    OutboxPause,
    /// A primary is killed.
    PrimaryKill,
    /// A primary is stopped for a while.
    PrimaryPause,
    /// A replica is killed.
    ReplicaKill,
    /// A replica is stopped for a while.
    ReplicaPause,
    /// A Sentinel is killed.
    SentinelKill,
    /// A Sentinel is stopped for a while.
    SentinelPause,
    /// The broker's node that leads a command queue is killed.
    BrokerLeaderKill,
    /// Another node of the broker is killed.
    BrokerNodeKill,
    /// A node of the broker is stopped for a while.
    BrokerPause,
    /// Every connection to the broker is closed.
    BrokerConnectionsCut,
    /// Every connection to a primary is closed.
    StoreConnectionsCut,
    /// The disk of a primary is full.
    DiskFull,
    /// The broker is short of memory.
    MemoryAlarm,
}

/// What a fault strikes. Two faults at once never strike the same part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The conductors.
    Conductor,
    /// The outboxes.
    Outbox,
    /// A partition's primary and replicas.
    Store,
    /// The Sentinels.
    Sentinel,
    /// The broker.
    Broker,
}

impl Part {
    /// When the site is whole again after a fault of this part.
    pub const fn whole(self) -> &'static str {
        match self {
            Part::Conductor => "one conductor works, the other stands by and is ready",
            Part::Outbox => "one outbox holds the lease and publishes, the other stands by",
            Part::Store => {
                "every Sentinel names the same primary, and all replicas are in step with it"
            }
            Part::Sentinel => "all Sentinels answer, know each other and name the same primary",
            Part::Broker => "every node runs, and every member of the command queues is in step",
        }
    }
}

/// How long a fault of some kind lasts, before a length is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// From and to, in milliseconds.
    Between(u64, u64),
    /// Until Sentinel names another primary, and then so many milliseconds at most.
    PastFailover(u64),
    /// It is over as soon as it has happened.
    Moment,
}

/// Everything about a kind.
#[derive(Debug)]
pub struct Facts {
    /// Which kind.
    pub kind: FaultKind,
    /// What it is called, here and on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub meaning: &'static str,
    /// How it strikes.
    pub strikes: &'static str,
    /// How it is undone.
    pub undone: &'static str,
    /// What it strikes.
    pub part: Part,
    /// Within how many seconds of the strike the cell should acknowledge again, over what a pause
    /// itself lasts; none where a fault should hold nothing up at all beyond a moment.
    pub aim_seconds: u64,
    /// How long it lasts: each span comes as often as any other.
    pub spans: &'static [Span],
}

use FaultKind as K;
use Span::{Between, Moment, PastFailover};

/// A process that died should be replaced within this.
const PROCESS: u64 = 5;
/// A store that died, within this: Sentinel waits three seconds, and the policy asks for the disk
/// of the server that is only coming back.
const STORE: u64 = 30;

const KILLED: &[Span] = &[Between(50, 500), Between(500, 2_500)];
/// A node of the broker is not started again at once: its peers must have noticed that it was gone.
/// One that was back within a tenth of a second hung for good as it started (RabbitMQ 3.10.8).
const KILLED_NODE: &[Span] = &[Between(1_000, 3_000), Between(3_000, 6_000)];
const SILENT: &[Span] = &[
    Between(50, 900),
    Between(900, 3_000),
    Between(900, 3_000),
    Between(4_500, 6_500),
    Between(24_000, 31_000),
];

/// One row a kind, in the order of [`FaultKind::ALL`].
static FACTS: [Facts; 19] = [
    Facts {
        kind: K::ConductorKill,
        name: "conductor-kill",
        meaning: "the conductor that works dies at any step; the standby takes over",
        strikes: "SIGKILL to the conductor whose page says active",
        undone: "it is started again and stands by",
        part: Part::Conductor,
        aim_seconds: PROCESS,
        spans: KILLED,
    },
    Facts {
        kind: K::ConductorPause,
        name: "conductor-pause",
        meaning: "the conductor that works stands still and comes back, replaced or not",
        strikes: "SIGSTOP to the conductor whose page says active",
        undone: "SIGCONT; some pauses outlast two heartbeats, so that the standby takes over",
        part: Part::Conductor,
        aim_seconds: PROCESS,
        spans: SILENT,
    },
    Facts {
        kind: K::StandbyKill,
        name: "standby-kill",
        meaning: "the conductor that stands by dies; nobody should notice",
        strikes: "SIGKILL to a conductor whose page does not say active",
        undone: "it is started again",
        part: Part::Conductor,
        aim_seconds: PROCESS,
        spans: KILLED,
    },
    Facts {
        kind: K::StandbyPause,
        name: "standby-pause",
        meaning: "the conductor that stands by stands still; nobody should notice",
        strikes: "SIGSTOP to a conductor whose page does not say active",
        undone: "SIGCONT",
        part: Part::Conductor,
        aim_seconds: PROCESS,
        spans: SILENT,
    },
    Facts {
        kind: K::OutboxKill,
        name: "outbox-kill",
        meaning: "the outbox that publishes dies anywhere, between confirm and delete too",
        strikes: "SIGKILL to the outbox that holds the lease",
        undone: "it is started again; whoever takes the lease publishes on from the head",
        part: Part::Outbox,
        aim_seconds: PROCESS,
        spans: &[
            Between(50, 500),
            Between(500, 2_500),
            Between(10_200, 12_000),
        ],
    },
    Facts {
        kind: K::OutboxPause,
        name: "outbox-pause",
        meaning: "the outbox that publishes stands still, longer than its lease or not",
        strikes: "SIGSTOP to the outbox that holds the lease",
        undone: "SIGCONT; it may publish what another has published since",
        part: Part::Outbox,
        aim_seconds: PROCESS,
        spans: &[
            Between(50, 900),
            Between(900, 3_000),
            Between(4_500, 6_500),
            Between(10_200, 12_500),
        ],
    },
    Facts {
        kind: K::PrimaryKill,
        name: "primary-kill",
        meaning: "a primary dies under load; Sentinel promotes a replica, or it is back before",
        strikes: "SIGKILL to the primary that Sentinel names",
        undone: "it is started again on the same disk",
        part: Part::Store,
        aim_seconds: STORE,
        spans: &[
            PastFailover(500),
            PastFailover(2_000),
            PastFailover(0),
            Between(100, 1_500),
        ],
    },
    Facts {
        kind: K::PrimaryPause,
        name: "primary-pause",
        meaning: "a primary stands still, and may come back believing that it still is one",
        strikes: "SIGSTOP to the primary that Sentinel names",
        undone: "SIGCONT, before or after another was promoted",
        part: Part::Store,
        aim_seconds: STORE,
        spans: &[
            Between(50, 900),
            Between(900, 2_500),
            Between(2_700, 3_600),
            PastFailover(3_000),
        ],
    },
    Facts {
        kind: K::ReplicaKill,
        name: "replica-kill",
        meaning: "a replica dies; the cell waits until enough disks are there again",
        strikes: "SIGKILL to a replica",
        undone: "it is started again and catches up",
        part: Part::Store,
        aim_seconds: STORE,
        spans: &[Between(50, 500), Between(500, 3_000), Between(3_500, 6_000)],
    },
    Facts {
        kind: K::ReplicaPause,
        name: "replica-pause",
        meaning: "a replica stands still; the cell waits and says why",
        strikes: "SIGSTOP to a replica",
        undone: "SIGCONT",
        part: Part::Store,
        aim_seconds: PROCESS,
        spans: &[Between(50, 900), Between(900, 3_000), Between(4_500, 6_500)],
    },
    Facts {
        kind: K::SentinelKill,
        name: "sentinel-kill",
        meaning: "a Sentinel dies; the others are a majority, and nobody should notice",
        strikes: "SIGKILL to one of the Sentinels",
        undone: "it is started again on the file that it wrote",
        part: Part::Sentinel,
        aim_seconds: PROCESS,
        spans: &[Between(100, 2_000), Between(2_000, 5_000)],
    },
    Facts {
        kind: K::SentinelPause,
        name: "sentinel-pause",
        meaning: "a Sentinel stands still and wakes with an old view",
        strikes: "SIGSTOP to one of the Sentinels",
        undone: "SIGCONT",
        part: Part::Sentinel,
        aim_seconds: PROCESS,
        spans: &[Between(100, 2_000), Between(2_000, 6_000)],
    },
    Facts {
        kind: K::BrokerLeaderKill,
        name: "broker-leader-kill",
        meaning: "the broker's node that leads the command queue dies; another leads it",
        strikes: "SIGKILL to the leader of the command queue (with one node, to that one)",
        undone: "the node is started again and joins",
        part: Part::Broker,
        aim_seconds: PROCESS,
        spans: KILLED_NODE,
    },
    Facts {
        kind: K::BrokerNodeKill,
        name: "broker-node-kill",
        meaning: "a node of the broker dies that does not lead the command queue",
        strikes: "SIGKILL to such a node; needs --nodes 3",
        undone: "the node is started again and joins",
        part: Part::Broker,
        aim_seconds: PROCESS,
        spans: KILLED_NODE,
    },
    Facts {
        kind: K::BrokerPause,
        name: "broker-pause",
        meaning: "a node of the broker stands still with its connections open",
        strikes: "SIGSTOP to any node",
        undone: "SIGCONT",
        part: Part::Broker,
        aim_seconds: PROCESS,
        spans: &[Between(50, 900), Between(900, 3_000), Between(4_500, 6_500)],
    },
    Facts {
        kind: K::BrokerConnectionsCut,
        name: "broker-connections-cut",
        meaning: "every AMQP connection breaks, those of producers and consumers too",
        strikes: "rabbitmqctl close_all_connections",
        undone: "by itself: everybody connects again",
        part: Part::Broker,
        aim_seconds: PROCESS,
        spans: &[Moment],
    },
    Facts {
        kind: K::StoreConnectionsCut,
        name: "store-connections-cut",
        meaning: "every client's connection to a primary breaks, an EXEC's reply may be lost",
        strikes: "CLIENT KILL TYPE normal on the primary that Sentinel names",
        undone: "by itself: everybody connects again",
        part: Part::Store,
        aim_seconds: PROCESS,
        spans: &[Moment],
    },
    Facts {
        kind: K::DiskFull,
        name: "disk-full",
        meaning: "the primary's disk is full; the server ends itself, and a replica is promoted",
        strikes: "all room on the primary's small disk is taken",
        undone: "the room is given back and the server started again",
        part: Part::Store,
        aim_seconds: STORE,
        spans: &[PastFailover(1_000)],
    },
    Facts {
        kind: K::MemoryAlarm,
        name: "memory-alarm",
        meaning: "the broker is short of memory and reads nothing from publishers",
        strikes: "the broker's memory limit is set far below what it uses",
        undone: "the limit is set back",
        part: Part::Broker,
        aim_seconds: PROCESS,
        spans: &[Between(200, 3_000), Between(3_000, 6_000)],
    },
];

impl FaultKind {
    /// Every kind, in the order in which they are listed.
    pub fn all() -> impl Iterator<Item = Self> {
        FACTS.iter().map(|facts| facts.kind)
    }

    /// Everything about it.
    pub fn facts(self) -> &'static Facts {
        // The table has the order of the declaration; a test holds it to that.
        &FACTS[self as usize]
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether a process is stopped by it and goes on later, so that the pause itself is no fault
    /// of the cell's.
    pub fn is_pause(self) -> bool {
        self.facts().strikes.starts_with("SIGSTOP")
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// A word that names no kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no fault {0:?}; `conductor-tester chaos --list` shows them all")]
pub struct UnknownKind(String);

impl FromStr for FaultKind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, UnknownKind> {
        Self::all()
            .find(|kind| kind.name() == word)
            .ok_or_else(|| UnknownKind(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_finds_its_own_row_and_its_name() {
        for (place, facts) in FACTS.iter().enumerate() {
            assert_eq!(facts.kind as usize, place, "{}", facts.name);
            assert_eq!(facts.name.parse(), Ok(facts.kind));
            assert!(!facts.spans.is_empty(), "{}", facts.name);
        }
        assert!("conductor".parse::<FaultKind>().is_err());
    }
}
