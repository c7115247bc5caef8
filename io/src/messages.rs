//! What crosses between the I/O core and a partition's core.
//!
//! Raw bytes go in and finished answers come out; nothing here is shared, everything is moved.

use conductor_engine::book::PriceLevel;
use conductor_engine::partition::{Counters, Generation, Status, Tag};
use conductor_engine::{OrderId, PairDecimals, PairId, PartitionId, Side, Step};
use hdrhistogram::Histogram;
use std::time::Instant;
use tokio::sync::oneshot;

/// Into a partition's core.
#[derive(Debug)]
pub enum ToPartition {
    /// A consumer is registered on a new channel.
    ChannelOpened(Generation),
    /// A channel is gone, or could not be opened.
    ChannelLost(Generation, String),
    /// A message arrived.
    Delivery(Delivery),
    /// The parking queue has confirmed a message.
    Parked(Generation, Tag),
    /// An admin page asks; never on the command path.
    Ask(Question),
    /// The process is to end.
    Stop,
}

/// One message of the command queue.
#[derive(Debug)]
pub struct Delivery {
    /// The channel it came on.
    pub generation: Generation,
    /// Its number there.
    pub tag: Tag,
    /// Its bytes as they came.
    pub body: Vec<u8>,
    /// Whether the broker has delivered it before.
    pub redelivered: bool,
    /// Where its producer wants the result, and under which name.
    pub reply_to: Option<ReplyAddress>,
    /// When it arrived at this process.
    pub arrived: Instant,
}

/// Where a producer wants a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyAddress {
    /// Its queue.
    pub queue: String,
    /// The name that it gave its request.
    pub correlation: Option<String>,
}

/// Out of a partition's core.
#[derive(Debug)]
pub enum FromPartition {
    /// Open a channel and register a consumer; retried until it works.
    OpenChannel,
    /// Close the channel, after every acknowledgement that came before this message.
    CloseChannel(Generation, String),
    /// Acknowledge every delivery up to this one.
    Acknowledge {
        /// The channel.
        generation: Generation,
        /// The last delivery that is settled.
        tag: Tag,
        /// When each of the settled ones became durable, and its command's own time.
        settled: Vec<Settled>,
    },
    /// Put a message into the parking queue, and report its confirmation.
    Park {
        /// The channel it came on.
        generation: Generation,
        /// Its number there.
        tag: Tag,
        /// Its bytes as they came.
        body: Vec<u8>,
        /// Why it is no command.
        reason: String,
    },
    /// Where the partition stands has changed.
    Standing(Status),
    /// The process cannot start as it is configured: exit with 78 and this line.
    RefuseToStart(String),
    /// Nothing of the partition is under way any more.
    Stopped,
}

/// A delivery that is about to be acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// When its group became durable.
    pub durable: Instant,
    /// Its command's own time in milliseconds, where it has one.
    pub timestamp_ms: Option<u64>,
}

/// A result on its way to its producer. Best effort: it is dropped and counted when its queue is
/// full.
#[derive(Debug)]
pub struct ReplyOut {
    /// Whose command it answers.
    pub partition: PartitionId,
    /// Where to.
    pub address: ReplyAddress,
    /// The canonical bytes.
    pub body: Vec<u8>,
    /// When its group became durable.
    pub durable: Instant,
}

/// What an admin page asks a partition's core. Each is answered at the end of a turn.
#[derive(Debug)]
pub enum Question {
    /// Where the partition stands; a few words, whatever was measured.
    Standing(oneshot::Sender<Standing>),
    /// Everything that is counted and measured: about two megabytes.
    Report(oneshot::Sender<PartitionReport>),
    /// The best levels of a pair; `None` unless this process owns the partition.
    Depth {
        /// The pair.
        pair: PairId,
        /// Levels per side.
        levels_max: usize,
        /// Where to answer.
        answer: oneshot::Sender<Option<DepthView>>,
    },
    /// Every order of a pair in memory, best first, bids then asks; `None` unless this process
    /// owns the partition.
    Orders {
        /// The pair.
        pair: PairId,
        /// Orders per side at most.
        orders_max: usize,
        /// Where to answer.
        answer: oneshot::Sender<Option<Vec<OrderView>>>,
    },
    /// Compare these orders with the store, in one MULTI on the partition's own connection, at a
    /// moment when memory and store must agree; `None` unless this process owns the partition.
    Verify {
        /// The pair.
        pair: PairId,
        /// What looks wrong.
        suspects: Vec<Suspect>,
        /// Where to answer.
        answer: oneshot::Sender<Option<Vec<Issue>>>,
    },
}

/// A book's best levels as memory has them.
#[derive(Clone, Debug)]
pub struct DepthView {
    /// The pair's decimals; `None` for a pair without orders so far.
    pub decimals: Option<PairDecimals>,
    /// Best bid first.
    pub bids: Vec<PriceLevel>,
    /// Best ask first.
    pub asks: Vec<PriceLevel>,
}

/// An order as memory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// The order.
    pub id: OrderId,
    /// Its side.
    pub side: Side,
    /// Its price, as its record spells it.
    pub price: String,
    /// What it has left, as its record spells it.
    pub remaining: String,
    /// Its place in time.
    pub priority: u64,
}

/// Something that looks wrong and is to be looked at again.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Suspect {
    /// The side on which it was found.
    pub side: Side,
    /// The member as it stands in the index, or as it should for an order that only memory has.
    pub member: Option<String>,
    /// The order's id, or the whole member where it has none.
    pub order: String,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The side.
    pub side: Side,
    /// The order's id, or the whole member where it has none.
    pub order: String,
    /// What is wrong.
    pub kind: IssueKind,
}

/// What can be wrong with a book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IssueKind {
    /// A member stands in the index without a record.
    MissingOrder,
    /// A record's pair, side or price disagrees with its index.
    IndexMismatch,
    /// The book in memory and the store differ.
    MemoryMismatch,
}

impl IssueKind {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            IssueKind::MissingOrder => "missing-order",
            IssueKind::IndexMismatch => "index-mismatch",
            IssueKind::MemoryMismatch => "memory-mismatch",
        }
    }
}

impl std::fmt::Display for Issue {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "{}:{}:{}",
            self.side.name(),
            self.order,
            self.kind.code()
        )
    }
}

/// Where a partition stands, as its core says it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Where it stands.
    pub status: Status,
    /// Transactions that the fence held back: somebody else has been at work.
    pub fenced: u64,
}

/// Everything that a partition's core counts and measures.
#[derive(Clone, Debug)]
pub struct PartitionReport {
    /// The partition.
    pub partition: PartitionId,
    /// Where it stands.
    pub status: Status,
    /// What it counted.
    pub counters: Counters,
    /// Nanoseconds per step, by [`Step::index`]; reply and ack are measured on the I/O core and
    /// are empty here.
    pub steps: StepTimes,
    /// Commands per transaction.
    pub group_commands: Histogram<u64>,
    /// Milliseconds from a command's own time to its delivery.
    pub age_at_delivery: Histogram<u64>,
    /// Nanoseconds that the last command took, from its arrival until it was durable.
    pub last_command_ns: u64,
    /// Messages that wait in the partition's mailbox.
    pub mailbox_depth: usize,
    /// Results that were dropped because the I/O core was too far behind.
    pub replies_dropped: u64,
}

/// One histogram of nanoseconds for each step.
#[derive(Clone, Debug)]
pub struct StepTimes(Vec<Histogram<u64>>);

/// Longest step that is told apart, in nanoseconds: a minute.
const STEP_NS_MAX: u64 = 60_000_000_000;

impl Default for StepTimes {
    fn default() -> Self {
        let empty =
            || Histogram::new_with_bounds(1, STEP_NS_MAX, 3).expect("the bounds are in order");
        Self(Step::ALL.iter().map(|_| empty()).collect())
    }
}

impl StepTimes {
    /// Adds a time, `count` times; one above a minute counts as a minute.
    pub fn record(&mut self, step: Step, elapsed: std::time::Duration, count: u64) {
        let nanoseconds = u64::try_from(elapsed.as_nanos()).unwrap_or(STEP_NS_MAX);
        self.0[step.index()].saturating_record_n(nanoseconds.max(1), count);
    }

    /// The times of one step.
    pub fn of(&self, step: Step) -> &Histogram<u64> {
        &self.0[step.index()]
    }

    /// Adds another core's times to these.
    ///
    /// # Panics
    /// Never: both have the same bounds.
    pub fn add(&mut self, other: &StepTimes) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            mine.add(theirs).expect("both have the same bounds");
        }
    }
}
