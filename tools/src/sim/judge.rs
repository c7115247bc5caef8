//! What must hold, whatever happens.
//!
//! While a run goes on: nothing is replied to, acknowledged or published that enough disks do not
//! have; nothing acknowledged is missing in a store that becomes the primary; the consumer sees
//! sequences without a gap, and a repeat is the same event again. At the end: store, memory,
//! consumer and replies are what the oracle says.

use super::plan::Plan;
use super::script::Script;
use super::store::{Effect, Entry};
use super::tally::Count;
use super::world::World;
use conductor_engine::guards::GuardSet;
use conductor_engine::partition::Answer;
use conductor_engine::staging::Write;
use conductor_engine::{CommandId, Event, Incoming};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// A command was answered before enough disks had it.
    ReplyBeforeDurable(String),
    /// A command was acknowledged before enough disks had it.
    AckBeforeDurable(String),
    /// An event was published before enough disks had it.
    PublishedBeforeDurable(String),
    /// A store that becomes the primary lacks an acknowledged command.
    AcknowledgedMissing(String),
    /// A group changed what is not there, or broke a count.
    StoreDamaged(String),
    /// The consumer saw what it must not see.
    Consumer(String),
    /// The store's book, or its records, are not the oracle's.
    StoreDiffers(String),
    /// Memory is not the store's, or not the oracle's.
    MemoryDiffers(String),
    /// A producer was answered something else than the oracle says.
    ReplyDiffers(String),
    /// The partition halted without a reason.
    Halted(String),
    /// A process refused to start.
    Refused(String),
    /// A process owns a store that has forgotten what the process saw durable.
    ForgottenStore(String),
    /// A process owns a halted partition.
    HaltIgnored(String),
    /// Commands or events are never done.
    NeverSettles(String),
}

impl Wrong {
    /// The kind, in a few words.
    pub const fn kind(&self) -> &'static str {
        match self {
            Wrong::ReplyBeforeDurable(_) => "a reply before it was durable",
            Wrong::AckBeforeDurable(_) => "an acknowledgement before it was durable",
            Wrong::PublishedBeforeDurable(_) => "an event published before it was durable",
            Wrong::AcknowledgedMissing(_) => "an acknowledged command is missing",
            Wrong::StoreDamaged(_) => "the store was damaged",
            Wrong::Consumer(_) => "the consumer saw what it must not see",
            Wrong::StoreDiffers(_) => "the store is not what the same commands give once, in order",
            Wrong::MemoryDiffers(_) => "memory is not what it must be",
            Wrong::ReplyDiffers(_) => "a reply is not what the same commands give once, in order",
            Wrong::Halted(_) => "a halt without a reason",
            Wrong::Refused(_) => "a process that refuses to start",
            Wrong::ForgottenStore(_) => "work goes on over a store that has forgotten",
            Wrong::HaltIgnored(_) => "work goes on over a halt",
            Wrong::NeverSettles(_) => "the work is never done",
        }
    }

    fn sentence(&self) -> &str {
        match self {
            Wrong::ReplyBeforeDurable(it)
            | Wrong::AckBeforeDurable(it)
            | Wrong::PublishedBeforeDurable(it)
            | Wrong::AcknowledgedMissing(it)
            | Wrong::StoreDamaged(it)
            | Wrong::Consumer(it)
            | Wrong::StoreDiffers(it)
            | Wrong::MemoryDiffers(it)
            | Wrong::ReplyDiffers(it)
            | Wrong::Halted(it)
            | Wrong::Refused(it)
            | Wrong::ForgottenStore(it)
            | Wrong::HaltIgnored(it)
            | Wrong::NeverSettles(it) => it,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.kind(), self.sentence())
    }
}

/// What was seen so far.
#[derive(Debug)]
pub(super) struct Judge {
    pub(super) uncovered: bool,
    pub(super) durable_commands: HashSet<CommandId>,
    pub(super) durable_events: BTreeSet<u64>,
    pub(super) parked: BTreeSet<usize>,
    pub(super) acknowledged: BTreeSet<usize>,
    pub(super) replies: Vec<(usize, Answer)>,
    /// Sequences that the broker has refused and that may therefore leave a gap for a while.
    pub(super) refused: BTreeSet<u64>,
    /// First appearances on the wire, in their order.
    pub(super) wire: Vec<Arc<Event>>,
    /// Everything on the wire that a consumer with an inbox has not acknowledged.
    pub(super) unread: Vec<Arc<Event>>,
    pub(super) inbox: Vec<Arc<Event>>,
    pub(super) gone_back: bool,
}

impl Judge {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            uncovered: plan.uncovered,
            durable_commands: HashSet::new(),
            durable_events: BTreeSet::new(),
            parked: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            replies: Vec::new(),
            refused: BTreeSet::new(),
            wire: Vec::new(),
            unread: Vec::new(),
            inbox: Vec::new(),
            gone_back: false,
        }
    }

    /// Whether a halt may have its reason in a fault that the policy does not cover.
    pub(super) const fn may_halt(&self) -> bool {
        self.uncovered
    }

    /// Enough disks have this entry.
    pub(super) fn durable(&mut self, entry: &Entry) {
        let Effect::Group(writes) = &entry.effect else {
            return;
        };
        for write in writes {
            match write {
                Write::Result(result) => {
                    self.durable_commands.insert(result.command.clone());
                }
                Write::Event(event) => {
                    self.durable_events.insert(event.sequence);
                }
                _ => {}
            }
        }
    }

    pub(super) fn parked(&mut self, message: usize) {
        self.parked.insert(message);
    }

    fn is_settled(&self, message: usize, script: &Script) -> bool {
        match command_of(script.message(message)) {
            Some(command) => self.durable_commands.contains(command),
            None => self.parked.contains(&message),
        }
    }

    pub(super) fn replied(
        &mut self,
        message: usize,
        answer: &Answer,
        script: &Script,
    ) -> Result<(), String> {
        if !self.is_settled(message, script) {
            return Err(format!(
                "{} is answered, and too few disks have it yet",
                script.words(message)
            ));
        }
        self.replies.push((message, answer.clone()));
        Ok(())
    }

    pub(super) fn acknowledged(&mut self, message: usize, script: &Script) -> Result<(), String> {
        self.acknowledged.insert(message);
        if self.is_settled(message, script) {
            return Ok(());
        }
        let words = script.words(message);
        Err(format!(
            "the broker forgets {words}, and too few disks have it yet"
        ))
    }

    pub(super) fn published(&self, event: &Event) -> Result<(), String> {
        if self.durable_events.contains(&event.sequence) {
            return Ok(());
        }
        let sequence = event.sequence;
        Err(format!(
            "event {sequence} is published, and too few disks have it yet"
        ))
    }

    pub(super) fn refused(&mut self, event: &Event) {
        self.refused.insert(event.sequence);
    }

    /// What the consumers saw, as a number.
    pub(super) fn digest(&self) -> u64 {
        let mut digest = self.acknowledged.len() as u64;
        let mut bytes = Vec::new();
        for event in &self.wire {
            bytes.clear();
            conductor_io::wire::encode_event(event, PARTITION, &mut bytes);
            for byte in &bytes {
                digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
            }
        }
        digest
    }

    /// The consumer that judges by the wire alone. Whether the event came before.
    fn see(&mut self, event: &Arc<Event>) -> Result<bool, String> {
        let last = self.wire.len() as u64;
        let sequence = event.sequence;
        if sequence == last + 1 {
            self.wire.push(Arc::clone(event));
            return Ok(false);
        }
        if sequence > last {
            // What is missing was refused by the broker, and comes again with what follows it.
            if self.refused.contains(&(last + 1)) {
                return Ok(false);
            }
            let expected = last + 1;
            return Err(format!(
                "it sees event {sequence} where {expected} comes next"
            ));
        }
        let place = usize::try_from(sequence)
            .unwrap_or(usize::MAX)
            .wrapping_sub(1);
        match self.wire.get(place) {
            Some(before) if before == event => Ok(true),
            _ => Err(format!(
                "it sees event {sequence} again, and it is another one than before"
            )),
        }
    }

    /// The consumer with an inbox: it drops what it has, waits where something is missing.
    fn take_in(&mut self, event: &Arc<Event>) {
        if event.sequence == self.inbox.len() as u64 + 1 {
            self.inbox.push(Arc::clone(event));
        }
        self.unread.push(Arc::clone(event));
        if self.unread.len() > UNACKNOWLEDGED_MAX {
            self.unread.remove(0);
        }
    }

    /// The consumer with an inbox dies before its acknowledgement: all that comes again.
    pub(super) fn redeliver_to_inbox(&mut self) {
        for event in std::mem::take(&mut self.unread) {
            self.take_in(&event);
        }
    }
}

/// The partition of all runs.
const PARTITION: conductor_engine::PartitionId = conductor_engine::PartitionId(0);
/// What the consumer with an inbox is given ahead of its acknowledgement.
const UNACKNOWLEDGED_MAX: usize = 8;

pub(super) fn command_of(incoming: &Incoming) -> Option<&CommandId> {
    match incoming {
        Incoming::Command(command) => Some(&command.id),
        Incoming::Refused(refused) => Some(&refused.id),
        Incoming::Unusable(_) => None,
    }
}

impl<G: GuardSet> World<'_, G> {
    /// An event is on the wire.
    pub(super) fn wire(&mut self, event: &Arc<Event>) {
        let seen = self.judge.see(event);
        if seen.is_err() {
            self.check_gone_back();
        }
        match seen {
            Ok(again) => {
                if again {
                    self.tally.count(Count::LateEvent);
                }
            }
            // A store that went back may give a number twice; the consumer stops there.
            Err(_) if self.judge.gone_back => return,
            Err(sentence) => self.wrong(Wrong::Consumer(sentence)),
        }
        self.judge.take_in(event);
        self.last_progress = self.now();
    }

    /// Everything that was acknowledged is in the store that becomes, or is again, the primary.
    pub(super) fn check_nothing_missing(&mut self, node: usize) {
        let results = &self.nodes[node].data.results;
        let missing = self.judge.acknowledged.iter().find(|message| {
            let command = command_of(self.script.message(**message));
            command.is_some_and(|command| !results.contains_key(command))
        });
        if self.plan.uncovered {
            return self.check_gone_back();
        }
        if let Some(missing) = missing {
            let words = self.script.words(*missing);
            let sentence = format!("{words} was acknowledged, and node {} lacks it", node + 1);
            self.wrong(Wrong::AcknowledgedMissing(sentence));
        }
    }

    /// A fault that the policy does not cover may take from the store what was durable. From then
    /// on only this is asked: whoever knows of it must not go on.
    pub(super) fn check_gone_back(&mut self) {
        if !self.plan.uncovered || self.judge.gone_back {
            return;
        }
        let results = &self.nodes[self.primary].data.results;
        if self
            .judge
            .durable_commands
            .iter()
            .any(|command| !results.contains_key(command))
        {
            self.judge.gone_back = true;
            self.tally.count(Count::StoreWentBack);
        }
    }
}
