//! Where a partition stands, for the admin pages.

use super::claim::Claim;
use super::{Confirmed, Epoch, Partition, Phase};
use crate::book::Book;
use crate::guards::GuardSet;

/// What this process is to the partition, as far as it can know. The broker does not tell a
/// consumer that it became the active one; its first delivery does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It holds the newest epoch that it knows of.
    Active,
    /// It is registered behind another consumer, or may be.
    Standby,
    /// It is not registered.
    Unknown,
}

impl Role {
    /// The word on the pages.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Active => "active",
            Role::Standby => "standby",
            Role::Unknown => "unknown",
        }
    }
}

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// What this process is to it.
    pub role: Role,
    /// One word for the state.
    pub state: &'static str,
    /// Why this process cannot take the next delivery; `None` when it can.
    pub not_ready: Option<String>,
    /// The epoch that this process holds.
    pub epoch: Option<Epoch>,
    /// The last sequence that this process saw on disks.
    pub durable_sequence: u64,
    /// Orders at rest in memory: the owner's, or what a standby has read in advance.
    pub orders: usize,
    /// Events that wait for the outbox, when last seen.
    pub event_stream: u64,
}

/// What a partition has counted since its process began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages that arrived.
    pub deliveries: u64,
    /// Commands that were decided, repeats not among them.
    pub commands: u64,
    /// Commands that were refused whole.
    pub rejected_commands: u64,
    /// Commands that were answered from their record.
    pub duplicate_commands: u64,
    /// Orders whose id was used before.
    pub duplicate_orders: u64,
    /// Events that were committed.
    pub events: u64,
    /// Deals that were committed.
    pub deals: u64,
    /// Transactions that were committed.
    pub groups: u64,
    /// Times that ownership was taken.
    pub claims: u64,
    /// Times that memory was dropped.
    pub doubts: u64,
    /// Transactions that the fence held back.
    pub fenced: u64,
    /// Waits that ended with too few disks.
    pub waits_below_policy: u64,
    /// Messages that went to the parking queue.
    pub parked: u64,
    /// Times that the partition halted.
    pub halts: u64,
    /// Index members that the last load skipped.
    pub skipped_members: u64,
}

impl<G: GuardSet> Partition<G> {
    /// What the partition has counted.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Where the partition stands.
    pub fn status(&self) -> Status {
        let (role, state, not_ready) = self.standing();
        let owner = match &self.phase {
            Phase::Owner(owner) => Some(owner),
            _ => None,
        };
        Status {
            role,
            state,
            not_ready,
            epoch: self.epoch,
            durable_sequence: self.seen_durable.sequence,
            orders: owner.map_or_else(
                || self.preparation.orders().unwrap_or(0),
                |owner| owner.matcher.book().len(),
            ),
            event_stream: owner.map_or(0, |owner| owner.event_stream),
        }
    }

    fn standing(&self) -> (Role, &'static str, Option<String>) {
        let not_yet = |what: &str| Some(what.to_owned());
        match &self.phase {
            Phase::New => (Role::Unknown, "starting", not_yet("starting")),
            Phase::Connecting => (
                Role::Unknown,
                "connecting",
                not_yet("connecting to the store"),
            ),
            Phase::Pausing(reason) => (Role::Unknown, "waiting", Some(reason.clone())),
            Phase::Opening => (Role::Unknown, "opening", not_yet("waiting for the broker")),
            Phase::Standby => (Role::Standby, "standing-by", self.missing_replicas()),
            Phase::Claiming(claim) => (Role::Active, "claiming", Some(claim.problem())),
            Phase::Owner(owner) => match &owner.not_durable {
                Some(problem) => (Role::Active, "not-durable", Some(problem.clone())),
                None => (Role::Active, "owning", self.missing_replicas()),
            },
            Phase::Halting(_) => (Role::Unknown, "halting", not_yet("an invariant broke")),
            Phase::Halted(record) => {
                let command = record.command.as_ref();
                let command = command
                    .map(|id| format!(" (command {id})"))
                    .unwrap_or_default();
                let why = format!("halted: {}{command}", record.reason);
                (Role::Unknown, "halted", Some(why))
            }
            Phase::Stopped => (Role::Unknown, "stopped", not_yet("the process is ending")),
        }
    }
}

impl<G: GuardSet> Partition<G> {
    /// Replicas that would be missed by the next command, as far as the idle connection showed.
    fn missing_replicas(&self) -> Option<String> {
        let (needed, seen) = (self.settings.durability?.replicas, self.replicas_seen?);
        (seen < needed).then(|| {
            format!(
                "{seen} of {needed} replicas follow the primary and answer it; bring the missing \
                 ones back"
            )
        })
    }
}

impl Claim {
    fn problem(&self) -> String {
        match self {
            Claim::Waiting {
                problem: Some(problem),
                ..
            } => problem.clone(),
            Claim::Loading { .. } => "loading the book".to_owned(),
            _ => "taking ownership".to_owned(),
        }
    }
}

/// What of a policy was not met, for the log.
impl std::fmt::Display for Confirmed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "primary disk {}, replica disks {}, replicas in memory {}",
            u8::from(self.primary_disk),
            self.replica_disks,
            self.replicas_in_memory
        )
    }
}
