//! The partition as a state machine: inputs in, actions out, no waiting.
//!
//! It lives on the partition's core. Whoever drives it performs each [`Action`] and reports what
//! came of it as an [`Input`]; a reply that never comes is reported as [`StoreEvent::Lost`]. The
//! machine keeps three promises: the next transaction is sent only after the last one's epoch was
//! seen to be ours; nothing is replied to or acknowledged before it is durable; and on any doubt
//! everything in memory is dropped and ownership is taken anew.
//!
//! A phase says where a partition stands. `claim` takes ownership, `group` runs the command path,
//! `halt` stops for good, `load` rebuilds the book.

mod claim;
mod group;
mod halt;
mod load;
mod note;
mod prepare;
mod status;

pub use load::{LoadedMember, LoadedPage, Record, StoredOrder};
pub use note::Note;
pub use status::{Counters, Role, Status};

use crate::book::FastBook;
use crate::command::Incoming;
use crate::event::CommandResult;
use crate::guards::{AllGuards, Guard, GuardSet};
use crate::ids::{CommandId, OrderId};
use crate::limits::{HALT_POLL_MS, RECONNECT_BACKOFF_MS_MAX, RECONNECT_BACKOFF_MS_MIN};
use crate::matching::{Cell, Matcher};
use crate::staging::{Cursor, Write};
use crate::step::Step;
use group::{Group, Owner};
use halt::Halting;
use load::Loader;
use prepare::Preparation;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The number of an AMQP channel since the process began.
pub type Generation = u64;
/// The broker's number of a delivery on its channel.
pub type Tag = u64;
/// The fence: a number that only grows.
pub type Epoch = u64;

/// What a partition is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which partition of which cell.
    pub cell: Cell,
    /// The prefetch that every instance of the cell must use.
    pub prefetch: u16,
    /// Disks that must confirm; `None` in memory mode.
    pub durability: Option<Durability>,
    /// Commands that share one transaction at most.
    pub group_commands_max: usize,
    /// Writes after which no further command joins a transaction.
    pub group_writes_max: usize,
    /// Events in the stream above which the partition stops consuming.
    pub event_stream_max: u64,
    /// Whether results are kept for ever, so that the last one must be found again.
    pub results_kept: bool,
    /// Seed of the book's hash; changes nothing that can be observed.
    pub hash_seed: u64,
}

impl Settings {
    /// What the partition's store must say of itself.
    pub const fn topology(&self) -> Topology {
        Topology {
            partition: self.cell.partition.0,
            partition_count: self.cell.partition_count,
            prefetch: self.prefetch,
        }
    }
}

/// How many disks must confirm a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// Replicas whose disks must confirm, beside the primary's.
    pub replicas: u32,
}

impl Durability {
    /// Whether so many disks, and so many replicas in memory, are enough.
    pub const fn is_met_by(self, confirmed: Confirmed) -> bool {
        confirmed.primary_disk
            && confirmed.replica_disks >= self.replicas
            && confirmed.replicas_in_memory >= self.replicas
    }
}

/// How many have confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// Replicas that have the group in memory.
    pub replicas_in_memory: u32,
    /// Whether the primary's disk has it.
    pub primary_disk: bool,
    /// Replicas whose disks have it.
    pub replica_disks: u32,
}

/// What a store says of itself when a connection opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guards {
    /// Which cell the store is for; `None` when nobody has written it.
    pub topology: Option<Topology>,
    /// Why the partition is halted.
    pub halted: Option<HaltRecord>,
    /// Events that wait for the outbox.
    pub event_stream: u64,
    /// Which history the store has, in its own words: another one after every promotion. `None`
    /// where it does not say.
    pub history: Option<String>,
}

/// Which cell a store is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The partition.
    pub partition: u32,
    /// How many partitions there are.
    pub partition_count: u32,
    /// The prefetch of every instance.
    pub prefetch: u16,
}

impl Topology {
    /// What is wrong with a store that says this of itself, for a process that is configured as
    /// `self`; `None` when it is the right one.
    pub fn problem(self, found: Option<Topology>) -> Option<String> {
        match found {
            Some(found) if found == self => None,
            Some(found) => Some(format!(
                "the store's topology is {found}, but this process is configured as {self}; change \
                 the configuration, or connect to the right store"
            )),
            None => Some(format!(
                "the store has no topology: it was emptied or is the wrong one; restore it or \
                 connect to the right one, and only for a new cell run `cell init` ({self})"
            )),
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "partition {} of {} with prefetch {}",
            self.partition, self.partition_count, self.prefetch
        )
    }
}

/// Why a partition is halted; written under the fence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaltRecord {
    /// What was found.
    pub reason: String,
    /// The command that was being decided, if one was.
    pub command: Option<String>,
    /// The epoch of the owner that found it.
    pub epoch: Epoch,
}

/// What the machine is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// A consumer is registered on a new channel.
    ChannelOpened(Generation),
    /// A channel is gone, whoever closed it.
    ChannelLost(Generation, String),
    /// A message arrived.
    Delivery {
        /// The channel it came on.
        generation: Generation,
        /// Its number there.
        tag: Tag,
        /// What it turned out to be.
        incoming: Incoming,
    },
    /// Every message that had arrived was handed in: a group may be formed.
    CaughtUp,
    /// The parking queue has confirmed a message.
    Parked(Generation, Tag),
    /// Something came of the store.
    Store(StoreEvent),
    /// The pause that was asked for is over.
    PauseOver,
    /// Somebody wants the store read at a moment when memory and store must agree.
    Inspect(u64),
    /// The process is to end.
    Stop,
}

/// What came of the store.
#[derive(Clone, Debug)]
pub enum StoreEvent {
    /// A primary was found, checked and read.
    Connected(Guards),
    /// It will not do until somebody changes it.
    Misconfigured(String),
    /// It, or what it needs, is not there yet.
    Unavailable(String),
    /// It has no memory left for writes; nothing was applied.
    Full(String),
    /// The outcome is unknown, or the connection is no longer ours.
    Lost(String),
    /// The epoch after raising it.
    EpochRaised(Epoch),
    /// How many had confirmed when the wait ended.
    Confirmed(Confirmed),
    /// Members of one side of a pair, with their records.
    Page(LoadedPage),
    /// A record that the load needs is there and is not what it must be; it never will be.
    Unreadable {
        /// Which key.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The load is complete.
    LoadComplete {
        /// Where the store stands, or why that cannot be read.
        cursor: Result<Cursor, String>,
        /// Whether the command that was asked for is still recorded, with the result that was
        /// given.
        remembered: bool,
        /// Why the partition is halted, read again behind the raised epoch.
        halted: Option<HaltRecord>,
        /// What was read of the book.
        read: BookRead,
    },
    /// The epoch, watched from before it was read.
    EpochSeen(Option<Epoch>),
    /// Looked-up values, one a key.
    LookedUp(Vec<Option<Box<[u8]>>>),
    /// What came of a transaction.
    Executed(Executed),
    /// An inspection is over.
    Inspected,
    /// The connection was tried while nothing was asked of it.
    Probed {
        /// Replicas that follow the primary and answer it.
        replicas: u32,
        /// Where the store stands; `None` where that cannot be read.
        cursor: Option<Cursor>,
    },
}

/// What a load read of the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookRead {
    /// Nothing: the cursor is the one that was named as known.
    Known,
    /// All of it, and the cursor is as it was before the first page.
    Still,
    /// All of it or a part, while the cursor moved: somebody else was writing.
    Moving,
}

/// The last command that this process saw on enough disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The command.
    pub command: CommandId,
    /// What became of it, where this process decided it. A command whose record was lost is
    /// decided again when it is repeated, and then its record is there, but another one.
    pub result: Option<Arc<CommandResult>>,
}

/// What came of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Executed {
    /// Every write was applied.
    Committed {
        /// Events that wait for the outbox.
        event_stream: u64,
    },
    /// The fence held it back: nothing was applied.
    Fenced,
    /// It was refused whole: nothing was applied.
    Refused(String),
    /// A write failed after others were applied.
    HalfApplied(String),
}

/// One key to look up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LookUp {
    /// The stored result of a command.
    Command(CommandId),
    /// The command that accepted an order.
    Order(OrderId),
}

/// One transaction and what rides with it.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The group's writes, in order.
    pub writes: Vec<Write>,
    /// What the next group needs to know, looked up after the transaction.
    pub look_ups: Vec<LookUp>,
    /// How many commands share it.
    pub commands: usize,
}

/// An answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was decided just now.
    Fresh(Arc<CommandResult>),
    /// It was decided before; these are the stored bytes.
    Stored(Box<[u8]>),
}

/// What the machine asks for.
#[derive(Clone, Debug)]
pub enum Action {
    /// Find the primary, connect, check it, and read its guards. Replaces any connection.
    Connect {
        /// Whether this process has never been connected: then durability is tried out too.
        first: bool,
    },
    /// Drop the connection.
    Disconnect,
    /// Open a channel and register a consumer, unless one is open or on its way already: then that
    /// one is taken, and a second would hold deliveries that nobody acknowledges.
    OpenChannel,
    /// Close the channel, after what was acknowledged before.
    CloseChannel(Generation, String),
    /// Raise the epoch by one.
    RaiseEpoch,
    /// Wait until enough disks have confirmed this connection's writes, or a time is over.
    AwaitDisks,
    /// Read the whole book in advance, and give up once the cursor has moved. Looks at the
    /// connection are reported meanwhile too.
    Prepare,
    /// Read the cursor, and then the whole book unless the cursor is known.
    Load {
        /// A command whose record must still be there.
        remember: Option<Remembered>,
        /// The cursor of a book that was read before.
        known: Option<Cursor>,
    },
    /// Watch the epoch, then read it.
    WatchEpoch,
    /// Look up keys.
    LookUp(Vec<LookUp>),
    /// Send one transaction with its look-ups, wait and fence, as one packet.
    Commit(Packet),
    /// Write the halt under the fence, and wait for disks.
    WriteHalt(HaltRecord),
    /// Read the store now: memory and store must agree until this is reported done.
    Inspect(u64),
    /// Nothing can be inspected: this process does not own the partition.
    InspectRefused(u64),
    /// Answer a delivery's producer; best effort.
    Reply(Generation, Tag, Answer),
    /// Put a delivery into the parking queue and report its confirmation.
    Park(Generation, Tag, String),
    /// Acknowledge every delivery up to this one.
    Acknowledge(Generation, Tag),
    /// Report when this many milliseconds are over.
    Pause(u64),
    /// Tell the operator.
    Note(Note),
    /// The process cannot start as it is configured.
    RefuseToStart(String),
    /// The machine has ended; nothing of it is under way.
    Stopped,
}

/// What is told the time a step took. The engine has no clock; whoever drives it may have one.
pub trait Stopwatch {
    /// A command's turn begins.
    fn begin(&mut self);
    /// A step of that turn has ended.
    fn lap(&mut self, step: Step);
}

impl Stopwatch for () {
    fn begin(&mut self) {}
    fn lap(&mut self, _step: Step) {}
}

/// A delivery that was not looked up yet.
#[derive(Clone, Debug)]
struct Collected {
    tag: Tag,
    incoming: Incoming,
}

/// A delivery that the broker waits for.
#[derive(Clone, Copy, Debug)]
struct Outstanding {
    tag: Tag,
    settled: bool,
}

/// Where a partition stands.
#[derive(Debug)]
enum Phase<G> {
    /// Nothing was asked for yet.
    New,
    /// Finding and checking the store, with no channel open.
    Connecting,
    /// Waiting before the next try, with the reason.
    Pausing(String),
    /// The store is fine; a channel was asked for.
    Opening,
    /// A consumer is registered; no delivery yet.
    Standby,
    /// The first delivery came; ownership is being taken.
    Claiming(claim::Claim),
    /// The only writer.
    Owner(Box<Owner<G>>),
    /// An invariant broke; the halt is being written.
    Halting(Halting),
    /// Down until a person lifts the halt.
    Halted(HaltRecord),
    /// Ended.
    Stopped,
}

/// The machine. Its book is the fast one.
#[derive(Debug)]
pub struct Partition<G = AllGuards> {
    guards: G,
    settings: Settings,
    phase: Phase<G>,
    actions: Vec<Action>,
    generation: Option<Generation>,
    collected: VecDeque<Collected>,
    outstanding: VecDeque<Outstanding>,
    seen_durable: Cursor,
    /// What became of the command of `seen_durable`, where this process decided it.
    seen_result: Option<Arc<CommandResult>>,
    epoch: Option<Epoch>,
    /// What a doubt has left in memory: nothing, while the guard against that holds.
    kept: Option<Matcher<FastBook, G>>,
    /// A book that was read while standing by.
    preparation: Preparation,
    /// Replicas that followed the primary when the idle connection was last tried.
    replicas_seen: Option<u32>,
    connected_before: bool,
    stopping: bool,
    tries: u32,
    counters: Counters,
}

impl Partition {
    /// A partition that has done nothing yet; [`Partition::start`] sets it going.
    pub fn new(settings: Settings) -> Self {
        Self::with_guards(settings, AllGuards)
    }
}

impl<G: GuardSet> Partition<G> {
    /// [`Partition::new`] with the guards that hold; for the simulator.
    pub fn with_guards(settings: Settings, guards: G) -> Self {
        Self {
            guards,
            settings,
            phase: Phase::New,
            actions: Vec::new(),
            generation: None,
            collected: VecDeque::new(),
            outstanding: VecDeque::new(),
            seen_durable: Cursor::default(),
            seen_result: None,
            epoch: None,
            kept: None,
            preparation: Preparation::default(),
            replicas_seen: None,
            connected_before: false,
            stopping: false,
            tries: 0,
            counters: Counters::default(),
        }
    }

    /// Starts connecting.
    pub fn start(&mut self) {
        self.connect();
    }

    /// What is to be done now, in order. Empty when the machine waits for an input.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// The book, while this process owns the partition.
    pub fn book(&self) -> Option<&FastBook> {
        match &self.phase {
            Phase::Owner(owner) => Some(owner.matcher.book()),
            _ => None,
        }
    }

    /// Tells the machine what happened. The stopwatch is lapped for each command that is decided.
    pub fn input(&mut self, input: Input, stopwatch: &mut impl Stopwatch) {
        match input {
            Input::ChannelOpened(generation) => self.channel_opened(generation),
            Input::ChannelLost(generation, reason) => self.channel_lost(generation, reason),
            Input::Delivery {
                generation,
                tag,
                incoming,
            } => {
                self.delivery(generation, tag, incoming);
            }
            Input::CaughtUp => self.proceed(),
            Input::Parked(generation, tag) => {
                if self.is_current(generation) {
                    self.settle(tag);
                    self.acknowledge();
                }
            }
            Input::Store(event) => self.store_event(event, stopwatch),
            Input::PauseOver => self.pause_over(),
            Input::Inspect(ticket) => self.inspect(ticket),
            Input::Stop => self.stop(),
        }
    }

    fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    fn note(&mut self, note: Note) {
        self.actions.push(Action::Note(note));
    }

    fn connect(&mut self) {
        self.phase = Phase::Connecting;
        self.act(Action::Connect {
            first: !self.connected_before,
        });
    }

    fn channel_opened(&mut self, generation: Generation) {
        if matches!(self.phase, Phase::Opening) {
            self.generation = Some(generation);
            self.phase = Phase::Standby;
            self.note(Note::StandingBy { generation });
        } else {
            let reason = "the partition no longer waits for a channel".to_owned();
            self.act(Action::CloseChannel(generation, reason));
        }
    }

    fn channel_lost(&mut self, generation: Generation, reason: String) {
        if self.generation != Some(generation) {
            return;
        }
        self.generation = None;
        if matches!(self.phase, Phase::Halting(_) | Phase::Halted(_)) {
            self.forget_deliveries();
            return;
        }
        self.doubt(format!("the channel to the broker is gone: {reason}"));
    }

    /// Whether something belongs to the channel that is open.
    fn is_current(&self, generation: Generation) -> bool {
        self.generation == Some(generation) || !self.guards.holds(Guard::Generation)
    }

    fn delivery(&mut self, generation: Generation, tag: Tag, incoming: Incoming) {
        if !self.is_current(generation) || self.stopping {
            return;
        }
        self.counters.deliveries += 1;
        self.outstanding.push_back(Outstanding {
            tag,
            settled: false,
        });
        if let Incoming::Unusable(reason) = incoming {
            self.counters.parked += 1;
            self.act(Action::Park(generation, tag, reason));
        } else {
            self.collected.push_back(Collected { tag, incoming });
        }
        if let Phase::Standby = self.phase {
            self.begin_claim();
        }
    }

    fn store_event(&mut self, event: StoreEvent, stopwatch: &mut impl Stopwatch) {
        match &self.phase {
            Phase::Connecting => self.connecting(event),
            Phase::Claiming(_) => self.claiming(event),
            Phase::Owner(_) => self.owner_event(event, stopwatch),
            Phase::Halting(_) => self.halting(event),
            Phase::Halted(_) => self.halted_event(event),
            Phase::Standby | Phase::Opening => self.idle_event(event),
            Phase::New | Phase::Pausing(_) | Phase::Stopped => {}
        }
    }

    /// While nothing is asked of the store it can still be lost. Then the channel is closed too: a
    /// standby that could not take the next delivery must not be handed it.
    fn idle_event(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Lost(reason) => self.pause(reason),
            StoreEvent::Probed { replicas, cursor } => {
                self.replicas_seen = Some(replicas);
                if matches!(self.phase, Phase::Standby) {
                    self.looked_at(cursor);
                }
            }
            event => self.preparing(event),
        }
    }

    fn connecting(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Connected(guards) => {
                if let Some(guards) = self.accept_guards(guards) {
                    self.open_unless_backlogged(&guards);
                }
            }
            StoreEvent::Misconfigured(line) => self.refuse(line),
            StoreEvent::Unavailable(reason)
            | StoreEvent::Full(reason)
            | StoreEvent::Lost(reason) => self.pause(reason),
            _ => {}
        }
    }

    fn open_unless_backlogged(&mut self, guards: &Guards) {
        if guards.event_stream > self.settings.event_stream_max {
            let reason = self.backlog(guards.event_stream);
            return self.pause(reason);
        }
        self.phase = Phase::Opening;
        self.act(Action::OpenChannel);
    }

    fn backlog(&self, event_stream: u64) -> String {
        format!(
            "{event_stream} events wait for the outbox, more than {}; bring the outbox and its \
             broker back",
            self.settings.event_stream_max
        )
    }

    /// Judges a store's topology and halt. `None` when the partition may not go on.
    fn accept_guards(&mut self, guards: Guards) -> Option<Guards> {
        if let Some(line) = self.settings.topology().problem(guards.topology) {
            self.refuse(line);
            return None;
        }
        self.connected_before = true;
        self.preparation.connected(&guards);
        if let Some(record) = guards.halted.clone()
            && self.guards.holds(Guard::StickyHalt)
        {
            self.halted(record);
            return None;
        }
        Some(guards)
    }

    /// A store that will not do: fatal before the first connection, a pause afterwards.
    fn refuse(&mut self, line: String) {
        if self.connected_before {
            self.pause(line);
        } else {
            self.phase = Phase::Stopped;
            self.act(Action::Disconnect);
            self.act(Action::RefuseToStart(line));
        }
    }

    /// Drops the channel and everything in memory, and tries again after a while.
    fn pause(&mut self, reason: String) {
        self.abandon(&reason);
        if self.stopping {
            self.phase = Phase::Stopped;
            return self.act(Action::Stopped);
        }
        let longest = RECONNECT_BACKOFF_MS_MAX;
        let pause = RECONNECT_BACKOFF_MS_MIN
            .saturating_mul(1 << self.tries.min(16))
            .min(longest);
        self.tries = self.tries.saturating_add(1);
        self.note(Note::Waiting {
            reason: reason.clone(),
        });
        self.phase = Phase::Pausing(reason);
        self.act(Action::Pause(pause));
    }

    /// Unknown outcome, lost ownership, lost channel: everything in memory is dropped.
    fn doubt(&mut self, reason: String) {
        self.counters.doubts += 1;
        self.note(Note::Doubt {
            reason: reason.clone(),
        });
        self.pause(reason);
    }

    fn abandon(&mut self, reason: &str) {
        self.forget_deliveries();
        if let Some(generation) = self.generation.take() {
            self.act(Action::CloseChannel(generation, reason.to_owned()));
        }
        self.act(Action::Disconnect);
        self.epoch = None;
        self.replicas_seen = None;
        self.preparation.doubted();
        if !self.guards.holds(Guard::ReloadOnDoubt) {
            self.keep_memory();
        }
    }

    /// What must never be done on a doubt.
    fn keep_memory(&mut self) {
        if let Phase::Owner(owner) = &self.phase {
            self.kept = Some(owner.matcher.clone());
        }
    }

    fn forget_deliveries(&mut self) {
        self.collected.clear();
        self.outstanding.clear();
    }

    fn pause_over(&mut self) {
        match &self.phase {
            Phase::Pausing(_) => self.connect(),
            Phase::Halted(_) => self.act(Action::Connect { first: false }),
            Phase::Halting(_) => self.halt_again(),
            _ => {}
        }
    }

    fn halted(&mut self, record: HaltRecord) {
        self.abandon("the partition is halted");
        if self.stopping {
            self.phase = Phase::Stopped;
            return self.act(Action::Stopped);
        }
        self.note(Note::Halted {
            record: record.clone(),
        });
        self.phase = Phase::Halted(record);
        self.act(Action::Pause(HALT_POLL_MS));
    }

    /// A halted partition looks at the store now and then, until the halt is lifted.
    fn halted_event(&mut self, event: StoreEvent) {
        match event {
            StoreEvent::Connected(Guards {
                halted: Some(record),
                ..
            }) if self.guards.holds(Guard::StickyHalt) => {
                self.phase = Phase::Halted(record);
            }
            StoreEvent::Connected(guards) => {
                self.note(Note::Resumed);
                if let Some(guards) = self.accept_guards(guards) {
                    self.open_unless_backlogged(&guards);
                }
                return;
            }
            _ => {}
        }
        self.act(Action::Disconnect);
        self.act(Action::Pause(HALT_POLL_MS));
    }

    fn settle(&mut self, tag: Tag) {
        if let Ok(place) = self
            .outstanding
            .binary_search_by_key(&tag, |entry| entry.tag)
        {
            self.outstanding[place].settled = true;
        }
    }

    /// Acknowledges the longest run of settled deliveries, oldest first, and nothing behind a
    /// delivery that is still open.
    fn acknowledge(&mut self) {
        let mut last = None;
        while self
            .outstanding
            .front()
            .is_some_and(|oldest| oldest.settled)
        {
            last = self.outstanding.pop_front().map(|entry| entry.tag);
        }
        if let (Some(generation), Some(tag)) = (self.generation, last) {
            self.act(Action::Acknowledge(generation, tag));
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        match &self.phase {
            Phase::Owner(owner) if owner.flight.is_some() => {}
            Phase::Halting(_) | Phase::Stopped => {}
            _ => self.end(),
        }
    }

    fn end(&mut self) {
        self.abandon("the process is ending");
        self.phase = Phase::Stopped;
        self.act(Action::Stopped);
    }
}
