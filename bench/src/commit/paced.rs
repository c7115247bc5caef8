//! The write shape at a rate: groups leave when they are due, whatever became of those before, and
//! a group's time is counted from when it was due. One packet is in flight, as everywhere.
//!
//! A second connection takes the events away meanwhile, as an outbox does, so that the store holds
//! what it holds on the whole path, and has the primary's file rewritten at even distances.

use super::drive::{Core, Drained, check_resting};
use super::load::{Spelling, Wait, packet};
use crate::connection::{Connection, StoreAt};
use crate::figures::{histogram, record};
use anyhow::{Context, ensure};
use conductor_engine::{Command, PairId, PartitionId};
use conductor_io::keys::Keys;
use hdrhistogram::Histogram;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks of the second connection.
const DRAIN_EVERY: Duration = Duration::from_millis(50);

/// At which pace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) group: usize,
    pub(crate) commands_per_second: f64,
    pub(crate) length: Duration,
    pub(crate) rewrites: u32,
    pub(crate) wait: Option<Wait>,
}

/// Commits at this pace to an empty store; times from when a group was due to its last reply.
pub(crate) fn pace(
    store: &StoreAt,
    commands: impl Iterator<Item = Command>,
    pace: Pace,
) -> anyhow::Result<Histogram<u64>> {
    let mut pairs = BTreeSet::new();
    let commands = commands.inspect(|command| {
        pairs.insert(command.pair);
    });
    let mut spelling = Spelling::new(PartitionId(0), 1, commands);
    let (keys, ended) = (Keys::new(PartitionId(0)), AtomicBool::new(false));
    let (times, drained) = std::thread::scope(|scope| {
        let drain = scope.spawn(|| drain(store, &keys, pace, &ended));
        let times = {
            let _ended = Ended(&ended);
            commit(store, &keys, &mut spelling, pace)
        };
        (times, drain.join())
    });
    let drained = drained
        .ok()
        .context("the thread that takes events away has ended")??;
    let (times, due) = (times?, spelling.end());
    ensure!(
        (drained.events, &drained.digest()) == (due.events, &due.digest),
        "{} events ({}) came out of the stream, not {} ({}): there is no time to print",
        drained.events,
        drained.digest(),
        due.events,
        due.digest
    );
    let pairs: Vec<PairId> = pairs.into_iter().collect();
    check_resting(&mut Connection::open(store)?, &keys, &due, &pairs)?;
    Ok(times)
}

/// Says so however its scope is left.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn commit(
    store: &StoreAt,
    keys: &Keys,
    spelling: &mut Spelling<impl Iterator<Item = Command>>,
    pace: Pace,
) -> anyhow::Result<Histogram<u64>> {
    let mut core = Core::open(store, pace.wait)?;
    core.own(keys)?;
    let (mut times, mut bytes) = (histogram(), Vec::new());
    #[expect(
        clippy::cast_precision_loss,
        reason = "a group is far below 2^53 commands"
    )]
    let step = Duration::from_secs_f64(pace.group as f64 / pace.commands_per_second);
    let began = Instant::now();
    let mut due = began;
    while let Some(group) = spelling.next_group(pace.group)? {
        let replies = packet(keys, &group, pace.wait, &mut bytes);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        core.send(&bytes)?;
        core.one_packet(replies, group.writes)?;
        record(&mut times, due.elapsed());
        due += step;
    }
    Ok(times)
}

/// Takes events away until everything was committed and taken; rewrites the file meanwhile.
fn drain(store: &StoreAt, keys: &Keys, pace: Pace, ended: &AtomicBool) -> anyhow::Result<Drained> {
    let mut connection = Connection::open(store)?;
    let (began, mut rewritten) = (Instant::now(), 0);
    let mut drained = Drained::default();
    loop {
        let last = ended.load(Ordering::Acquire);
        drained.take(&mut connection, keys.events())?;
        if last {
            return Ok(drained);
        }
        let next = pace.length * (rewritten + 1) / (pace.rewrites + 1);
        if rewritten < pace.rewrites && began.elapsed() >= next {
            connection.ask(&["BGREWRITEAOF"])?;
            rewritten += 1;
        }
        std::thread::sleep(DRAIN_EVERY);
    }
}
