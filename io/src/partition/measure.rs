//! What a partition's core measures. It alone records here; the pages get copies.

use crate::messages::StepTimes;
use conductor_engine::Step;
use conductor_engine::limits::GROUP_COMMANDS_MAX;
use conductor_engine::partition::Stopwatch;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Oldest command that is told apart, in milliseconds: a day.
const AGE_MS_MAX: u64 = 86_400_000;

/// The core's own figures.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) steps: StepTimes,
    pub(super) group_commands: Histogram<u64>,
    pub(super) age_at_delivery: Histogram<u64>,
    pub(super) last_command: Duration,
    pub(super) replies_dropped: u64,
    lap_began: Instant,
}

impl Measures {
    pub(super) fn new() -> Self {
        let bounded = |highest: u64| {
            Histogram::new_with_bounds(1, highest, 3).expect("the bounds are in order")
        };
        Self {
            steps: StepTimes::default(),
            group_commands: bounded(GROUP_COMMANDS_MAX as u64),
            age_at_delivery: bounded(AGE_MS_MAX),
            last_command: Duration::ZERO,
            replies_dropped: 0,
            lap_began: Instant::now(),
        }
    }

    pub(super) fn group(&mut self, commands: usize) {
        self.group_commands
            .saturating_record(commands.max(1) as u64);
    }

    pub(super) fn age(&mut self, now_ms: u64, timestamp_ms: u64) {
        self.age_at_delivery
            .saturating_record(now_ms.saturating_sub(timestamp_ms).max(1));
    }
}

impl Stopwatch for Measures {
    fn begin(&mut self) {
        self.lap_began = Instant::now();
    }

    fn lap(&mut self, step: Step) {
        let now = Instant::now();
        self.steps.record(step, now - self.lap_began, 1);
        self.lap_began = now;
    }
}
