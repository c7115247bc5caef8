//! The faults: what they are, how often each is drawn, and when it comes.

use super::clock::{MILLISECOND, SECOND, Time};
use super::plan::Plan;
use super::tally::Count;
use fastrand::Rng;
use std::fmt;

/// When a fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Right behind this step, of all that are taken by anybody.
    Step(u32),
    /// At this time.
    Time(Time),
}

/// Whom a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The active one.
    Active,
    /// The other one.
    Other,
}

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    pub(super) when: When,
    pub(super) kind: Count,
    pub(super) whom: Whom,
    pub(super) length: Time,
    pub(super) extra: Time,
    /// What else is left to chance.
    pub(super) choice: usize,
}

/// How often each kind is drawn, of all that the policy covers.
const SHARES: [(Count, u32); 25] = [
    (Count::ConductorCrash, 10),
    (Count::ConductorPause, 12),
    (Count::ConductorStop, 3),
    (Count::OutboxCrash, 6),
    (Count::OutboxPause, 8),
    (Count::OutboxStop, 2),
    (Count::PrimaryCrash, 6),
    (Count::PrimaryPause, 6),
    (Count::ReplicaCrash, 3),
    (Count::ReplicaPause, 3),
    (Count::ReplicationCut, 4),
    (Count::SlowDisk, 4),
    (Count::PlannedFailover, 4),
    (Count::StaleSentinel, 3),
    (Count::StoreFull, 2),
    (Count::StoreCut, 6),
    (Count::ReplyCut, 5),
    (Count::LatePacket, 6),
    (Count::BrokerCut, 5),
    (Count::ChannelKilled, 8),
    (Count::BrokerRestart, 3),
    (Count::Refusals, 4),
    (Count::LostConfirm, 3),
    (Count::InboxCrash, 3),
    (Count::Inspection, 3),
];

impl Fault {
    pub(super) fn draw(random: &mut Rng, plan: &Plan) -> Self {
        let sum: u32 = SHARES.iter().map(|(_, share)| share).sum();
        let mut left = random.u32(..sum);
        let mut drawn = Count::ConductorCrash;
        for (kind, share) in SHARES {
            if left < share {
                drawn = kind;
                break;
            }
            left -= share;
        }
        Self::of(drawn, random, plan)
    }

    pub(super) fn draw_uncovered(random: &mut Rng, plan: &Plan) -> Self {
        let laggard = plan.needed < 2 && plan.replicas > 1 && random.bool();
        let kind = if laggard {
            Count::LaggardPromoted
        } else {
            Count::DiskSetBack
        };
        Self::of(kind, random, plan)
    }

    fn of(kind: Count, random: &mut Rng, plan: &Plan) -> Self {
        // Short pauses are as telling as long ones: a lease lasts ten seconds.
        let length = match random.u8(..3) {
            0 => random.u64(1..50) * MILLISECOND,
            1 => random.u64(50..3_000) * MILLISECOND,
            _ => random.u64(3..14) * SECOND,
        };
        Self {
            when: plan.draw_when(random),
            kind,
            whom: if random.u8(..4) == 0 {
                Whom::Other
            } else {
                Whom::Active
            },
            length,
            extra: random.u64(..6 * SECOND) * u64::from(random.bool()),
            choice: random.usize(..1_000),
        }
    }

    /// The step that it waits for.
    pub(super) const fn step(&self) -> u32 {
        match self.when {
            When::Step(step) => step,
            When::Time(_) => u32::MAX,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.length / MILLISECOND;
        write!(out, "{} ({milliseconds} ms) ", self.kind.words())?;
        match self.when {
            When::Step(step) => write!(out, "right behind step {step}"),
            When::Time(time) => write!(out, "at {} ms", time / MILLISECOND),
        }
    }
}
