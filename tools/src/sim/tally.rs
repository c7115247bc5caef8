//! What a run had of everything: a kind that hardly occurs proves nothing.

use std::ops::AddAssign;

macro_rules! counts {
    ($($variant:ident = $word:literal;)*) => {
        /// Something that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Count {
            $(#[doc = $word] $variant,)*
        }

        impl Count {
            /// Everything that is counted, in the order in which it is reported.
            pub const ALL: &[Count] = &[$(Count::$variant,)*];

            /// The words of the report.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Count::$variant => $word,)*
                }
            }
        }
    };
}

counts! {
    ConductorCrash = "conductor killed";
    ConductorPause = "conductor paused";
    ConductorStop = "conductor ended and started";
    OutboxCrash = "outbox killed";
    OutboxPause = "outbox paused";
    OutboxStop = "outbox ended and started";
    PrimaryCrash = "primary killed";
    PrimaryPause = "primary paused";
    ReplicaCrash = "replica killed";
    ReplicaPause = "replica paused";
    ReplicationCut = "replication cut";
    SlowDisk = "disk slow";
    PlannedFailover = "failover by command";
    StaleSentinel = "sentinel stale";
    StoreFull = "store out of memory";
    StoreCut = "store connection cut";
    ReplyCut = "store connection cut behind a reply";
    LatePacket = "packet kept and delivered late";
    BrokerCut = "broker connection cut";
    ChannelKilled = "channel ended by the broker alone";
    BrokerRestart = "broker restarted";
    Refusals = "publications refused";
    LostConfirm = "producer's confirm lost, published again";
    InboxCrash = "consumer killed before its acknowledgement";
    Inspection = "memory compared with the store";
    DiskSetBack = "every disk set back";
    LaggardPromoted = "replica promoted that lags behind the policy";
    Failover = "failovers";
    FullResync = "full resyncs";
    Takeover = "takeovers";
    PreparedBook = "takeovers with a book read before";
    Redelivery = "redeliveries";
    LostReply = "lost replies to a transaction";
    NilExec = "transactions held back";
    ReadOnly = "writes to a replica refused";
    WaitBelowPolicy = "waits below the policy";
    StaleAnswer = "old primaries named";
    Refusal = "events refused";
    LateEvent = "events published again";
    Halt = "halts";
    StoreWentBack = "stores that went back";
}

/// Kinds that are faults; the rest is what came of them.
const FAULTS: usize = Count::Failover as usize;

impl Count {
    /// Whether it is a fault of the plan.
    pub const fn is_fault(self) -> bool {
        (self as usize) < FAULTS && !matches!(self, Count::Inspection)
    }
}

/// How often everything happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages that were published, repeats among them.
    pub messages: u64,
    /// Commands that the oracle decided.
    pub commands: u64,
    /// Events of the market.
    pub market_events: u64,
    /// Deals among them.
    pub deals: u64,
    /// Things that the scheduler made happen.
    pub events: u64,
    counts: Vec<u64>,
}

impl Tally {
    /// One more of a kind.
    pub(super) fn count(&mut self, kind: Count) {
        self.counts.resize(Count::ALL.len(), 0);
        self.counts[kind as usize] += 1;
    }

    /// How many there were of a kind.
    pub fn of(&self, kind: Count) -> u64 {
        self.counts.get(kind as usize).copied().unwrap_or(0)
    }

    /// How many faults there were, of all kinds.
    pub fn faults(&self) -> u64 {
        let faults = Count::ALL.iter().filter(|kind| kind.is_fault());
        faults.map(|kind| self.of(*kind)).sum()
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.messages += other.messages;
        self.commands += other.commands;
        self.market_events += other.market_events;
        self.deals += other.deals;
        self.events += other.events;
        self.counts.resize(Count::ALL.len(), 0);
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }
}
