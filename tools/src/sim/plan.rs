//! What a run is made of: settings, commands and faults, all from one seed.
//!
//! The plan is drawn before the run and stands apart from the run's own chance, so that a schedule
//! can be made shorter by leaving faults out.

use super::clock::{MILLISECOND, SECOND, Time};
use super::fault::{Fault, When};
use fastrand::Rng;
use std::fmt;

/// What one run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The seed of everything that the plan leaves to chance.
    pub chance: u64,
    /// The seed of what the producers send.
    pub script: u64,
    /// How many messages the producers make up.
    pub commands: usize,
    /// The faults, in the order in which they were drawn.
    pub faults: Vec<Fault>,
    /// Whether the policy covers them all.
    pub uncovered: bool,
    /// Replicas of the primary.
    pub(super) replicas: usize,
    /// Replicas whose disks must confirm.
    pub(super) needed: u32,
    pub(super) prefetch: u16,
    pub(super) group_commands_max: usize,
    pub(super) event_stream_max: u64,
    pub(super) outbox_batch: usize,
    pub(super) outbox_window: usize,
    /// How long a wait for disks lasts.
    pub(super) wait_timeout: Time,
    /// Commands that the producers send without a pause between them.
    pub(super) burst: usize,
}

/// Fewest and most commands of a run.
const COMMANDS: std::ops::RangeInclusive<usize> = 40..=70;
/// Fewest and most faults of a run.
const FAULTS: std::ops::RangeInclusive<usize> = 5..=15;

impl Plan {
    /// The plan of a seed.
    pub fn of(seed: u64, uncovered: bool) -> Self {
        let mut random = Rng::with_seed(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x513D);
        let commands = random.usize(COMMANDS);
        let replicas = if random.u8(..10) < 6 { 1 } else { 2 };
        let mut plan = Self {
            seed,
            chance: seed,
            script: seed,
            commands,
            faults: Vec::new(),
            uncovered,
            replicas,
            needed: if replicas == 1 { 1 } else { 2 },
            prefetch: [1, 2, 4, 8, 16, 32][random.usize(..6)],
            group_commands_max: [1, 2, 3, 5, 8, 16][random.usize(..6)],
            event_stream_max: if random.u8(..5) == 0 { 12 } else { 100_000 },
            outbox_batch: [1, 3, 8, 32][random.usize(..4)],
            outbox_window: [1, 2, 4, 32][random.usize(..4)],
            wait_timeout: random.u64(300..1_200) * MILLISECOND,
            burst: [1, 4, 12, 40][random.usize(..4)],
        };
        if uncovered && random.bool() {
            plan.replicas = 2;
            plan.needed = 1;
        }
        let count = random.usize(FAULTS);
        let mut faults: Vec<Fault> = Vec::with_capacity(count);
        for _ in 0..count {
            let mut fault = Fault::draw(&mut random, &plan);
            // What goes wrong together is what hurts.
            let last = faults.last().map(|fault| fault.when);
            if let Some(When::Step(step)) = last
                && random.u8(..10) < 4
            {
                fault.when = When::Step(step + random.u32(..8));
            }
            faults.push(fault);
        }
        if uncovered {
            let worst = (0..random.usize(1..3)).map(|_| Fault::draw_uncovered(&mut random, &plan));
            faults.extend(worst);
        }
        plan.faults = faults;
        plan
    }

    /// The step or the time at which a fault of this plan is to come.
    pub(super) fn draw_when(&self, random: &mut Rng) -> When {
        if random.u8(..4) == 0 {
            return When::Time(random.u64(..8 * SECOND));
        }
        let steps = u32::try_from(self.commands * STEPS_PER_COMMAND).unwrap_or(u32::MAX);
        When::Step(random.u32(1..steps))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} on a primary with {} ({} must confirm), prefetch {}, groups of up to {}, {} read \
             at once and {} unconfirmed, chance {}",
            counted(self.commands, "message"),
            counted(self.replicas, "replica"),
            self.needed,
            self.prefetch,
            counted(self.group_commands_max, "command"),
            counted(self.outbox_batch, "event"),
            self.outbox_window,
            self.chance
        )
    }
}

/// So many things, with the ending that the number asks for.
fn counted(number: usize, thing: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

/// About how many steps are taken for each command.
const STEPS_PER_COMMAND: usize = 8;
