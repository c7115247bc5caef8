//! What is published, message by message: the workload, and in between earlier commands once more
//! and what somebody gets wrong.
//!
//! The oracle decides each message as it is made, so a message carries the answer that must come.
//! The same seed makes the same script. Memory is level: for repeats it keeps the newest commands
//! and a few old ones from all over the run.

use super::oracle::{Broken, Decision, Oracle};
use super::poison::{KINDS, Slip};
use crate::workload::{Workload, WorkloadError, WorkloadOptions};
use conductor_engine::{Body, Command, OrderId, PairId, PartitionId};
use conductor_io::wire::encode_command;
use fastrand::Rng;
use std::collections::VecDeque;
use std::sync::Arc;

/// Newest commands that may be repeated.
const RECENT: usize = 2_000;
/// Commands from all over the run that may be repeated.
const ELDERS: usize = 500;
/// Of a hundred repeats, how many are of an old command.
const OLD_PERCENT: u8 = 25;
/// Keeps the script's chance apart from the workload's.
const SEED_MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a message is to its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A command for the first time; a refused one too.
    Command,
    /// An earlier message once more: its number.
    Repeat(u64),
    /// No command.
    Parked,
}

/// One message, and what must come of it.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Its number in the run, from zero.
    pub(super) number: u64,
    pub(super) partition: PartitionId,
    pub(super) kind: Kind,
    /// How somebody got it wrong.
    pub(super) slip: Option<&'static str>,
    pub(super) message_id: String,
    pub(super) body: Arc<[u8]>,
    /// The answer; `None` for what is never answered.
    pub(super) answer: Option<Arc<[u8]>>,
}

/// What a script is made of.
#[derive(Clone, Debug)]
pub(super) struct ScriptOptions {
    pub(super) seed: u64,
    pub(super) pairs: Vec<PairId>,
    pub(super) poison_permille: u16,
    pub(super) repeat_permille: u16,
    /// What every id begins with.
    pub(super) prefix: String,
}

/// An endless stream of messages.
#[derive(Debug)]
pub(super) struct Script {
    options: ScriptOptions,
    oracle: Oracle,
    random: Rng,
    workload: Workload,
    partition_count: u32,
    number: u64,
    recent: VecDeque<Message>,
    elders: Vec<Message>,
    /// Commands that could have become elders.
    passed: u64,
    /// The newest order that was placed, and its pair.
    placed: Option<(PairId, OrderId)>,
}

impl Script {
    /// The script of these options for a cell of so many partitions.
    ///
    /// # Errors
    /// [`WorkloadError`] says which option to change.
    pub(super) fn new(
        options: ScriptOptions,
        oracle: Oracle,
        partition_count: u32,
    ) -> Result<Self, WorkloadError> {
        let workload = Workload::new(WorkloadOptions {
            seed: options.seed,
            pairs: options.pairs.clone(),
            partition_count: Some(partition_count),
            prefix: options.prefix.clone(),
            ..WorkloadOptions::default()
        })?;
        Ok(Self {
            random: Rng::with_seed(options.seed ^ SEED_MIX),
            options,
            oracle,
            workload,
            partition_count,
            number: 0,
            recent: VecDeque::new(),
            elders: Vec::new(),
            passed: 0,
            placed: None,
        })
    }

    /// The oracle, behind the last message that was made.
    pub(super) const fn oracle(&self) -> &Oracle {
        &self.oracle
    }

    /// The next message.
    ///
    /// # Errors
    /// [`Broken`] when the engine itself does.
    pub(super) fn next(&mut self) -> Result<Message, Broken> {
        let draw = self.random.u16(..1_000);
        let repeat = self.options.repeat_permille;
        let message = if draw < repeat
            && let Some(message) = self.repeat()
        {
            message
        } else if (repeat..repeat.saturating_add(self.options.poison_permille)).contains(&draw)
            && let Some((pair, used)) = self.placed.clone()
        {
            self.poison(pair, &used)?
        } else {
            self.command()?
        };
        self.number += 1;
        Ok(message)
    }

    fn command(&mut self) -> Result<Message, Broken> {
        let command = self.workload.next().expect("a workload has no end");
        self.follow(&command);
        let partition = command.pair.partition(self.partition_count);
        let message_id = command.id.to_string();
        let message = self.decided(partition, encode_command(&command).into(), message_id, None)?;
        self.remember(&message);
        Ok(message)
    }

    fn follow(&mut self, command: &Command) {
        if let Body::Place(order) = &command.body {
            self.placed = Some((command.pair, order.id.clone()));
        }
    }

    fn poison(&mut self, pair: PairId, used: &OrderId) -> Result<Message, Broken> {
        let (slip, spell) = KINDS[self.random.usize(..KINDS.len())];
        let partition = pair.partition(self.partition_count);
        let used = self.oracle.knows(partition, used).then_some(used);
        let elsewhere = PartitionId((partition.0 + 1) % self.partition_count.max(2));
        let name = format!("{}{}", self.options.prefix, self.number);
        let body = spell(&Slip {
            number: self.number,
            name: &name,
            pair,
            elsewhere,
            used,
        });
        let message_id = format!("poison-{name}");
        self.decided(partition, body.into(), message_id, Some(slip))
    }

    fn decided(
        &mut self,
        partition: PartitionId,
        body: Arc<[u8]>,
        message_id: String,
        slip: Option<&'static str>,
    ) -> Result<Message, Broken> {
        let (kind, answer) = match self.oracle.decide(partition, &body)? {
            Decision::Command { result, .. } => (Kind::Command, Some(result.into())),
            Decision::Parked => (Kind::Parked, None),
        };
        Ok(Message {
            number: self.number,
            partition,
            kind,
            slip,
            message_id,
            body,
            answer,
        })
    }

    /// An earlier command once more; `None` before there is one.
    fn repeat(&mut self) -> Option<Message> {
        let old = self.random.u8(..100) < OLD_PERCENT && !self.elders.is_empty();
        let original = if old {
            &self.elders[self.random.usize(..self.elders.len())]
        } else if self.recent.is_empty() {
            return None;
        } else {
            &self.recent[self.random.usize(..self.recent.len())]
        };
        Some(Message {
            number: self.number,
            kind: Kind::Repeat(original.number),
            ..original.clone()
        })
    }

    fn remember(&mut self, message: &Message) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(message.clone());
        self.passed += 1;
        if self.elders.len() < ELDERS {
            self.elders.push(message.clone());
        } else if self.random.u64(..self.passed) < ELDERS as u64 {
            let place = self.random.usize(..ELDERS);
            self.elders[place] = message.clone();
        }
    }
}
