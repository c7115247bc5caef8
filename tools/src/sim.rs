//! The simulator: the engine's own steps over a world in memory, with every fault that can be drawn.
//!
//! One seed is one run: two conductors, two outboxes, a primary with its replicas, a broker, some
//! producers and two consumers, under one clock and one source of chance. The conductors and the
//! outboxes are the machines of the engine, unchanged; the rest is modelled on what the real
//! servers were seen to do. A run is judged while it goes on and at its end, against an oracle that
//! decides the same commands once, in the order of the queue, on the naive book.
//!
//! The same seed gives the same run. With a guard switched off the same runs must go wrong; a guard
//! that nobody misses is either untested or useless.

mod broker;
mod clock;
mod conductor;
mod course;
mod drain;
mod farm;
mod fault;
mod io_core;
mod judge;
mod moral;
mod node;
mod oracle;
mod plan;
mod replication;
mod script;
mod sentinel;
mod server;
mod session;
mod shrink;
mod store;
mod story;
mod stream;
mod strike;
mod tally;
mod verdict;
mod waits;
mod world;

pub use farm::{Batch, Failure, Yield, run_batch};
pub use fault::{Fault, When, Whom};
pub use judge::Wrong;
pub use moral::{Moral, WHO_IS_WHO};
pub use plan::Plan;
pub use tally::{Count, Tally};

use conductor_engine::guards::{AllGuards, Guard, GuardSet};
use story::Story;
use world::World;

/// How one run went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first thing that was wrong.
    pub wrong: Option<Wrong>,
    /// What the run had of everything.
    pub tally: Tally,
    /// A number that two runs share only when everything happened in both at the same time.
    pub digest: u64,
    /// What happened, line by line, where that was asked for.
    pub story: Vec<String>,
}

/// All guards but one.
#[derive(Clone, Copy, Debug)]
struct Without(Guard);

impl GuardSet for Without {
    fn holds(self, guard: Guard) -> bool {
        guard != self.0
    }
}

/// Runs a plan, with every guard or without one.
pub fn run(plan: &Plan, broken: Option<Guard>, told: bool) -> Outcome {
    match broken {
        None => run_with(plan, AllGuards, told),
        Some(guard) => run_with(plan, Without(guard), told),
    }
}

fn run_with<G: GuardSet>(plan: &Plan, guards: G, told: bool) -> Outcome {
    let story = if told {
        Story::told()
    } else {
        Story::default()
    };
    let ended = World::new(plan, guards, story).run();
    Outcome {
        wrong: ended.wrong,
        tally: ended.tally,
        digest: ended.digest,
        story: ended.story.lines(),
    }
}
