//! Commands that are decided here as well as by the cell, so that everything that comes of them can
//! be compared: each reply and each event, byte for byte, as it arrives.
//!
//! The replay decides a command at the moment at which it is sent. One producer sends them in one
//! order, so the cell decides them in the same; what is held in memory is what the cell has not yet
//! answered or published.

use crate::client::{Done, Load, Request};
use crate::consumer::Arrived;
use crate::replay::{FastReplay, Verdict};
use conductor_engine::{Command, PartitionId};
use conductor_io::wire::{Digest, decode, encode_command, encode_result};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What a cell should say and publish. Clones are the same expectation.
#[derive(Clone, Debug)]
pub struct Expectation(Rc<RefCell<Inner>>);

#[derive(Debug)]
struct Inner {
    replay: FastReplay,
    /// Of commands that are not done; `None` for what is never answered.
    replies: VecDeque<Option<Vec<u8>>>,
    lanes: Vec<Lane>,
    found: Found,
}

/// One partition.
#[derive(Debug, Default)]
struct Lane {
    /// Events that have not arrived.
    due: VecDeque<Box<[u8]>>,
    arrived: Digest,
}

/// What the comparison found so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Replies that are equal.
    pub replies_equal: u64,
    /// Replies that differ or did not come.
    pub replies_differing: u64,
    /// Events that arrived, each counted once.
    pub events: u64,
    /// Events that differ, or that should not be.
    pub events_differing: u64,
    /// Events that came again.
    pub events_repeated: u64,
    /// The first difference.
    pub first_difference: Option<String>,
}

impl Found {
    fn differs(&mut self, what: &str, expected: &[u8], found: &[u8]) {
        if self.first_difference.is_none() {
            let (expected, found) = (
                String::from_utf8_lossy(expected),
                String::from_utf8_lossy(found),
            );
            self.first_difference = Some(format!("{what}: expected {expected}, found {found}"));
        }
    }
}

impl Expectation {
    /// Of a cell that is empty and has so many partitions.
    pub fn new(partition_count: u32) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            replay: FastReplay::new(partition_count),
            replies: VecDeque::new(),
            lanes: (0..partition_count).map(|_| Lane::default()).collect(),
            found: Found::default(),
        })))
    }

    /// Compares an event that arrived.
    pub fn arrived(&self, event: &Arrived) {
        let inner = &mut *self.0.borrow_mut();
        if !event.fresh {
            inner.found.events_repeated += 1;
            return;
        }
        inner.found.events += 1;
        let lane = inner.lanes.get_mut(event.partition.0 as usize);
        let due = lane.and_then(|lane| {
            lane.arrived.line(&event.body);
            lane.due.pop_front()
        });
        let due = due.unwrap_or_default();
        if *due != *event.body {
            inner.found.events_differing += 1;
            inner.found.differs("event", &due, &event.body);
        }
    }

    /// How many events are due.
    pub fn events_due(&self) -> usize {
        self.0
            .borrow()
            .lanes
            .iter()
            .map(|lane| lane.due.len())
            .sum()
    }

    /// What the comparison found so far.
    pub fn found(&self) -> Found {
        self.0.borrow().found.clone()
    }

    /// The digest of each partition's events as they arrived.
    pub fn arrived_digests(&self) -> Vec<String> {
        self.0
            .borrow()
            .lanes
            .iter()
            .map(|lane| lane.arrived.hex())
            .collect()
    }

    /// Looks at the replay.
    pub fn replay<T>(&self, look: impl FnOnce(&FastReplay) -> T) -> T {
        look(&self.0.borrow().replay)
    }

    /// Decides a message and remembers what should come of it.
    fn decide(&self, partition: PartitionId, message: &[u8]) -> anyhow::Result<bool> {
        let inner = &mut *self.0.borrow_mut();
        let decided = inner.replay.feed(partition, &decode(message))?;
        let reply = match &decided.verdict {
            Verdict::New(result) | Verdict::Repeat(result) => {
                let mut bytes = Vec::new();
                encode_result(result, &mut bytes);
                Some(bytes)
            }
            Verdict::Parked(_) => None,
        };
        let answered = reply.is_some();
        inner.replies.push_back(reply);
        let lines = decided.canonical.split_inclusive(|byte| *byte == b'\n');
        let events = lines.map(|line| Box::from(line.strip_suffix(b"\n").unwrap_or(line)));
        inner.lanes[partition.0 as usize].due.extend(events);
        Ok(answered)
    }

    fn done(&self, done: &Done) {
        let inner = &mut *self.0.borrow_mut();
        let Some(Some(expected)) = inner.replies.pop_front() else {
            return;
        };
        let found = done.reply.as_deref().unwrap_or_default();
        if *expected == *found {
            inner.found.replies_equal += 1;
        } else {
            inner.found.replies_differing += 1;
            inner.found.differs("reply", &expected, found);
        }
    }
}

/// Commands on their way to a cell, with an expectation of what comes of them.
#[derive(Debug)]
pub struct ExpectedLoad<I, F> {
    commands: I,
    expectation: Expectation,
    /// Called for every command that is done.
    each: F,
}

impl<I: Iterator<Item = Command>, F: FnMut(&Done)> ExpectedLoad<I, F> {
    /// These commands; `each` is called as each of them is done.
    pub const fn new(commands: I, expectation: Expectation, each: F) -> Self {
        Self {
            commands,
            expectation,
            each,
        }
    }
}

impl<I: Iterator<Item = Command>, F: FnMut(&Done)> Load for ExpectedLoad<I, F> {
    fn next(&mut self) -> anyhow::Result<Option<Request>> {
        let Some(mut command) = self.commands.next() else {
            return Ok(None);
        };
        let count = self.expectation.replay(|replay| replay.partition_count());
        let partition = command.pair.partition(count);
        command.partition = Some(partition);
        let body = encode_command(&command);
        let answered = self.expectation.decide(partition, &body)?;
        Ok(Some(Request {
            partition,
            body,
            message_id: Some(command.id.to_string()),
            answered,
        }))
    }

    fn done(&mut self, done: Done) -> anyhow::Result<()> {
        self.expectation.done(&done);
        (self.each)(&done);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Workload, WorkloadOptions};
    use conductor_io::wire::decode_event;

    /// A cell that answers and publishes exactly as it should, but for one byte of one of each.
    #[test]
    fn what_is_equal_is_counted_and_what_differs_is_shown() {
        let expectation = Expectation::new(1);
        let commands = Workload::new(WorkloadOptions::default()).expect("the options are right");
        let mut seen = 0;
        let mut load = ExpectedLoad::new(commands.take(50), expectation.clone(), |_| seen += 1);
        let mut twin = FastReplay::new(1);
        let mut number = 0;
        while let Some(request) = load.next().expect("the replay goes on") {
            let decided = twin
                .feed(PartitionId(0), &decode(&request.body))
                .expect("it goes on");
            let Verdict::New(result) = &decided.verdict else {
                panic!("every id is new")
            };
            let mut reply = Vec::new();
            encode_result(result, &mut reply);
            if number == 0 {
                reply.push(b' ');
            }
            for line in decided
                .canonical
                .split(|byte| *byte == b'\n')
                .filter(|it| !it.is_empty())
            {
                let sequence = decode_event(line).expect("it is an event").sequence;
                let mut body = line.to_vec();
                if sequence == 9 {
                    body.push(b' ');
                }
                let (partition, fresh) = (PartitionId(0), true);
                expectation.arrived(&Arrived {
                    partition,
                    sequence,
                    fresh,
                    body,
                });
            }
            let (published, waited) = (Ok(()), None);
            let done = Done {
                number,
                published,
                reply: Some(reply),
                waited,
            };
            load.done(done).expect("it is taken");
            number += 1;
        }
        let found = expectation.found();
        assert_eq!(
            (found.replies_equal, found.replies_differing, seen),
            (49, 1, 50)
        );
        assert_eq!((found.events_differing, expectation.events_due()), (1, 0));
        assert_eq!(found.events, twin.counts().events_in_all());
        assert!(
            found
                .first_difference
                .is_some_and(|first| first.starts_with("reply: expected"))
        );
        assert_ne!(expectation.arrived_digests(), twin.digests());
    }
}
