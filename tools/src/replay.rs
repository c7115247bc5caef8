//! The engine alone: messages in, results and events out, with no server and no clock.
//!
//! A [`Replay`] is every partition of a cell in one process and in one thread. It gives the bytes
//! that a cell gives for the same messages in the same order: the same matcher decides, a repeated
//! command changes nothing and gives back its first result, and order ids are used up for good. So
//! it is what a live run, a run after a crash and the other book are compared with.
//!
//! It must never know better than a cell: what is not in the store of one is not kept here.

mod book;
mod counts;

pub use book::{BookView, OrderView, PairView, QueueView};
pub use counts::Counts;

use conductor_engine::event::{CommandResult, Event};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher, audit};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{
    Book, CommandId, FastBook, Incoming, NaiveBook, PairDecimals, PairId, PartitionId, Violation,
};
use conductor_io::wire::{Digest, encode_event};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A replay on the book that conductors run.
pub type FastReplay = Replay<FastBook>;
/// A replay on the obvious twin of that book.
pub type NaiveReplay = Replay<NaiveBook>;

/// All partitions of a cell, decided one message after the other.
#[derive(Debug)]
pub struct Replay<B> {
    lanes: Vec<Lane<B>>,
    counts: Counts,
    writes: Vec<Write>,
    events: Vec<Arc<Event>>,
    canonical: Vec<u8>,
}

/// One partition, and what its store would keep.
#[derive(Debug)]
struct Lane<B> {
    matcher: Matcher<B>,
    processed: HashMap<CommandId, Arc<CommandResult>>,
    accepted: AcceptedOrders,
    digest: Digest,
}

/// What came of one message.
#[derive(Debug)]
pub struct Decided<'a> {
    /// The partition that decided it.
    pub partition: PartitionId,
    /// What it was.
    pub verdict: Verdict,
    /// Its events, in order; none for a repeat.
    pub events: &'a [Arc<Event>],
    /// The events' canonical form, each ended by a line feed.
    pub canonical: &'a [u8],
}

/// What a message was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A command that was decided now.
    New(Arc<CommandResult>),
    /// A command whose id was decided before, and its result from then.
    Repeat(Arc<CommandResult>),
    /// No command, for this reason; a cell puts it into the parking queue.
    Parked(String),
}

/// The engine found that it must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("partition {partition} must halt: {violation}")]
pub struct Halt {
    /// The partition.
    pub partition: PartitionId,
    /// What is broken.
    pub violation: Violation,
}

impl<B: Book + Default> Replay<B> {
    /// Empty partitions, this many and at least one, whose pairs take their decimals from their
    /// first order.
    pub fn new(partition_count: u32) -> Self {
        Self::with_pairs(partition_count, &BTreeMap::new())
    }

    /// Empty partitions whose pairs have these decimals configured.
    ///
    /// # Panics
    /// When there are no partitions at all.
    pub fn with_pairs(partition_count: u32, pairs: &BTreeMap<PairId, PairDecimals>) -> Self {
        assert!(partition_count > 0, "a cell has at least one partition");
        let lane = |partition| {
            let cell = Cell {
                partition: PartitionId(partition),
                partition_count,
                pairs: pairs.clone(),
            };
            Lane {
                matcher: Matcher::new(cell, B::default(), Cursor::default()),
                processed: HashMap::new(),
                accepted: AcceptedOrders::default(),
                digest: Digest::default(),
            }
        };
        Self {
            lanes: (0..partition_count).map(lane).collect(),
            counts: Counts::default(),
            writes: Vec::new(),
            events: Vec::new(),
            canonical: Vec::new(),
        }
    }
}

impl<B: Book> Replay<B> {
    /// How many partitions there are.
    pub fn partition_count(&self) -> u32 {
        u32::try_from(self.lanes.len()).expect("partitions were counted in 32 bits")
    }

    /// Hands a message to a partition. [`crate::trace::destination`] says which one a cell's
    /// producer would choose.
    ///
    /// # Errors
    /// [`Halt`] when an invariant breaks; the replay is not to be used afterwards.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn feed(
        &mut self,
        partition: PartitionId,
        incoming: &Incoming,
    ) -> Result<Decided<'_>, Halt> {
        self.writes.clear();
        self.events.clear();
        self.canonical.clear();
        let lane = &mut self.lanes[partition.0 as usize];
        let verdict = lane
            .take(incoming, &mut self.writes)
            .map_err(|violation| Halt {
                partition,
                violation,
            })?;
        for write in self.writes.drain(..) {
            if let Write::Event(event) = write {
                let begin = self.canonical.len();
                encode_event(&event, partition, &mut self.canonical);
                lane.digest.line(&self.canonical[begin..]);
                self.canonical.push(b'\n');
                self.events.push(event);
            }
        }
        self.counts.add(&verdict, &self.events);
        Ok(Decided {
            partition,
            verdict,
            events: &self.events,
            canonical: &self.canonical,
        })
    }

    /// What was counted so far, over all partitions.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The book of a partition.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn book(&self, partition: PartitionId) -> &B {
        self.lanes[partition.0 as usize].matcher.book()
    }

    /// Where a partition stands.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn cursor(&self, partition: PartitionId) -> &Cursor {
        self.lanes[partition.0 as usize].matcher.cursor()
    }

    /// The result of a command that a partition decided.
    ///
    /// # Panics
    /// When there is no such partition.
    pub fn result(
        &self,
        partition: PartitionId,
        command: &CommandId,
    ) -> Option<&Arc<CommandResult>> {
        self.lanes[partition.0 as usize].processed.get(command)
    }

    /// The digest of each partition's events, in the order of their numbers.
    pub fn digests(&self) -> Vec<String> {
        self.lanes.iter().map(|lane| lane.digest.hex()).collect()
    }

    /// All that rests, in every partition.
    pub fn view(&self) -> BookView {
        let books = self.lanes.iter().map(|lane| lane.matcher.book());
        BookView::of(books)
    }

    /// Checks everything that must hold of books at rest.
    ///
    /// # Errors
    /// [`Halt`] with the first thing that does not hold.
    pub fn audit(&self) -> Result<(), Halt> {
        for lane in &self.lanes {
            let matcher = &lane.matcher;
            audit(matcher.book(), matcher.cell(), matcher.cursor()).map_err(|violation| Halt {
                partition: matcher.cell().partition,
                violation,
            })?;
        }
        Ok(())
    }
}

impl<B: Book> Lane<B> {
    fn take(&mut self, incoming: &Incoming, writes: &mut Vec<Write>) -> Result<Verdict, Violation> {
        let id = match incoming {
            Incoming::Command(command) => &command.id,
            Incoming::Refused(refused) => &refused.id,
            Incoming::Unusable(reason) => return Ok(Verdict::Parked(reason.clone())),
        };
        if let Some(result) = self.processed.get(id) {
            return Ok(Verdict::Repeat(Arc::clone(result)));
        }
        let decided = self.matcher.take(incoming, &mut self.accepted, writes)?;
        let result = decided.expect("what has a command id has a result");
        self.processed.insert(id.clone(), Arc::clone(&result));
        Ok(Verdict::New(result))
    }
}
