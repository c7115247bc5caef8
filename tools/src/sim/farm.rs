//! Many seeds on several threads. What comes of them does not depend on how many threads there are.

use super::shrink::shrink;
use super::{Plan, Tally, Wrong, run};
use conductor_engine::guards::Guard;
use sha2::{Digest, Sha256};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

/// What is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// The first seed.
    pub from: u64,
    /// How many seeds.
    pub seeds: u64,
    /// Threads that share them; at least one.
    pub threads: usize,
    /// A guard that is switched off. The batch then ends with the first seed that goes wrong.
    pub broken: Option<Guard>,
    /// Whether runs have faults that the policy does not cover.
    pub uncovered: bool,
}

/// What came of a batch.
#[derive(Clone, Debug)]
pub struct Yield {
    /// Seeds that were run.
    pub seeds: u64,
    /// Runs that went wrong.
    pub violations: u64,
    /// The first of them, made as short as could be.
    pub failure: Option<Failure>,
    /// What all runs had of everything.
    pub tally: Tally,
    /// A digest of everything that happened in all runs.
    pub digest: String,
}

/// A run that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was wrong in it.
    pub wrong: Wrong,
    /// The shortest schedule that goes wrong in the same way.
    pub plan: Plan,
    /// What is wrong in that.
    pub shortest: Wrong,
    /// Its story.
    pub story: Vec<String>,
}

/// Seeds that a thread takes at once.
const CHUNK: u64 = 50;

/// One thread's share of the results.
#[derive(Default)]
struct Share {
    seeds: u64,
    violations: u64,
    first: Option<u64>,
    tally: Tally,
    digests: Vec<(u64, u64)>,
}

/// Runs a batch. `done` is told how many seeds are done, as they are.
pub fn run_batch(batch: &Batch, mut done: impl FnMut(u64)) -> Yield {
    let next = AtomicU64::new(0);
    // The lowest seed that went wrong; where one is enough, none above it needs to be run.
    let lowest = AtomicU64::new(u64::MAX);
    let shares = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (told, heard) = channel();
        for _ in 0..batch.threads.max(1) {
            let told = told.clone();
            let (next, lowest, shares) = (&next, &lowest, &shares);
            scope.spawn(move || {
                let share = work(batch, next, lowest, &told);
                shares.lock().expect("no thread panics with it").push(share);
            });
        }
        drop(told);
        for seeds in heard {
            done(seeds);
        }
    });
    gather(
        batch,
        shares.into_inner().expect("no thread panics with it"),
    )
}

fn work(batch: &Batch, next: &AtomicU64, lowest: &AtomicU64, told: &Sender<u64>) -> Share {
    let mut share = Share::default();
    loop {
        let first = next.fetch_add(CHUNK, Ordering::Relaxed);
        if first >= batch.seeds {
            return share;
        }
        let last = (first + CHUNK).min(batch.seeds);
        for seed in (first..last).map(|place| batch.from + place) {
            if batch.broken.is_some() && seed > lowest.load(Ordering::Relaxed) {
                return share;
            }
            let outcome = run(&Plan::of(seed, batch.uncovered), batch.broken, false);
            share.seeds += 1;
            share.tally += &outcome.tally;
            share.digests.push((seed, outcome.digest));
            if outcome.wrong.is_some() {
                share.violations += 1;
                share.first = Some(share.first.map_or(seed, |first| first.min(seed)));
                lowest.fetch_min(seed, Ordering::Relaxed);
            }
        }
        // Nobody may be listening any more.
        let _ = told.send(last - first);
    }
}

fn gather(batch: &Batch, shares: Vec<Share>) -> Yield {
    let mut digests: Vec<(u64, u64)> = Vec::new();
    let mut sum = Share::default();
    for share in shares {
        sum.seeds += share.seeds;
        sum.violations += share.violations;
        sum.tally += &share.tally;
        sum.first = [sum.first, share.first].into_iter().flatten().min();
        digests.extend(share.digests);
    }
    digests.sort_unstable();
    let mut digest = Sha256::new();
    for (seed, of_seed) in digests {
        digest.update(seed.to_le_bytes());
        digest.update(of_seed.to_le_bytes());
    }
    let digest = digest
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Yield {
        seeds: sum.seeds,
        violations: sum.violations,
        failure: sum.first.and_then(|seed| failure(batch, seed)),
        tally: sum.tally,
        digest,
    }
}

fn failure(batch: &Batch, seed: u64) -> Option<Failure> {
    let plan = Plan::of(seed, batch.uncovered);
    let wrong = run(&plan, batch.broken, false).wrong?;
    let plan = shrink(plan, batch.broken, &wrong);
    let outcome = run(&plan, batch.broken, true);
    Some(Failure {
        seed,
        wrong,
        plan,
        shortest: outcome.wrong?,
        story: outcome.story,
    })
}
