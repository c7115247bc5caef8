//! The command path of an owner: collect, look up, match, commit, durable, reply, acknowledge.
//!
//! Three groups can be alive at once: one in flight, one matched and waiting for it, and one whose
//! look-ups ride behind the transaction in flight. Only one transaction is ever in flight, and the
//! next is sent when the last one's epoch was seen to be ours. A group that has nothing to write, all
//! repeats, needs the same proof: its records are on enough disks only if no later owner wrote them.

use super::{
    Action, Answer, Collected, Confirmed, Epoch, Executed, HaltRecord, LookUp, Note, Packet,
    Partition, Phase, Stopwatch, StoreEvent, Tag,
};
use crate::book::{Book, FastBook};
use crate::command::{Body, Command, Incoming};
use crate::event::{CommandResult, OutcomeKind, Payload};
use crate::guards::{Guard, GuardSet};
use crate::ids::{CommandId, OrderId};
use crate::matching::{AcceptedOrders, Matcher};
use crate::staging::{Cursor, Write};
use crate::step::Step;
use hashbrown::HashMap;
use std::collections::VecDeque;
use std::sync::Arc;

/// What an owner holds.
#[derive(Debug)]
pub(super) struct Owner<G> {
    pub(super) epoch: Epoch,
    pub(super) matcher: Matcher<FastBook, G>,
    pub(super) flight: Option<Flight>,
    prepared: Option<Group>,
    looking_up: Option<LookingUp>,
    /// An invariant broke while the flight was out.
    breaking: Option<HaltRecord>,
    /// Somebody waits for a moment when memory and store agree.
    inspecting: Option<u64>,
    inspection: bool,
    pub(super) not_durable: Option<String>,
    pub(super) event_stream: u64,
}

/// Commands that were decided and share one transaction.
#[derive(Debug, Default)]
pub(super) struct Group {
    answers: Vec<(Tag, Answer)>,
    writes: Vec<Write>,
    decided: usize,
    /// Where the partition stands behind it; `None` while it has written nothing.
    cursor: Option<Cursor>,
    /// What became of the last command that was decided in it.
    last: Option<Arc<CommandResult>>,
    /// Whether its look-ups were sent alone, so that no epoch was seen behind them.
    looked_up_alone: bool,
    deals: u64,
    events: u64,
}

/// A transaction that was sent, and what is known of it.
#[derive(Debug)]
pub(super) struct Flight {
    group: Group,
    executed: bool,
    durable: bool,
    epoch_seen: bool,
}

/// Commands whose look-ups are under way.
#[derive(Debug)]
struct LookingUp {
    deliveries: Vec<Collected>,
    keys: Vec<LookUp>,
    /// Orders that rest, so that their ids are known to be used.
    resting: AcceptedOrders,
}

impl<G: GuardSet> Owner<G> {
    pub(super) const fn new(
        epoch: Epoch,
        matcher: Matcher<FastBook, G>,
        prepared: Option<Group>,
    ) -> Self {
        Self {
            epoch,
            matcher,
            flight: None,
            prepared,
            looking_up: None,
            breaking: None,
            inspecting: None,
            inspection: false,
            not_durable: None,
            event_stream: 0,
        }
    }

    /// Takes up to a group's worth of deliveries and names the keys that they need.
    fn next_look_ups(
        &self,
        collected: &mut VecDeque<Collected>,
        commands_max: usize,
    ) -> Option<LookingUp> {
        if collected.is_empty() {
            return None;
        }
        let deliveries: Vec<Collected> = collected
            .drain(..collected.len().min(commands_max))
            .collect();
        let mut looking_up = LookingUp {
            keys: Vec::new(),
            resting: AcceptedOrders::default(),
            deliveries,
        };
        for Collected { incoming, .. } in &looking_up.deliveries {
            match incoming {
                Incoming::Command(command) => {
                    looking_up.keys.push(LookUp::Command(command.id.clone()));
                    for order in orders_of(command) {
                        if self.matcher.book().order(order).is_some() {
                            looking_up.resting.insert(order.clone());
                        } else {
                            looking_up.keys.push(LookUp::Order(order.clone()));
                        }
                    }
                }
                Incoming::Refused(refused) => {
                    looking_up.keys.push(LookUp::Command(refused.id.clone()));
                }
                Incoming::Unusable(_) => {}
            }
        }
        Some(looking_up)
    }
}

impl Group {
    /// Brings older members into today's form before anything else is committed.
    pub(super) fn of_rewrites(mut writes: Vec<Write>, cursor: &Cursor) -> Self {
        writes.push(Write::Cursor(cursor.clone()));
        Self {
            writes,
            cursor: Some(cursor.clone()),
            ..Self::default()
        }
    }

    fn count(&mut self, from: usize) {
        for write in &self.writes[from..] {
            if let Write::Event(event) = write {
                self.events += 1;
                self.deals += u64::from(matches!(event.payload, Payload::Deal(_)));
            }
        }
    }
}

impl Flight {
    const fn is_over(&self, one_packet: bool) -> bool {
        self.executed && self.durable && (self.epoch_seen || !one_packet)
    }
}

impl<G: GuardSet> Partition<G> {
    pub(super) fn owner_event(&mut self, event: StoreEvent, stopwatch: &mut impl Stopwatch) {
        match event {
            StoreEvent::Lost(reason) | StoreEvent::Unavailable(reason) => self.doubt(reason),
            StoreEvent::Full(reason) => self.pause(reason),
            StoreEvent::LookedUp(values) => self.looked_up(values, stopwatch),
            StoreEvent::Executed(executed) => self.executed(executed),
            StoreEvent::Confirmed(confirmed) => self.confirmed(confirmed),
            StoreEvent::EpochSeen(seen) => self.epoch_seen(seen),
            StoreEvent::Inspected => {
                if let Phase::Owner(owner) = &mut self.phase {
                    owner.inspection = false;
                }
                self.proceed();
            }
            StoreEvent::Probed { replicas, .. } => self.replicas_seen = Some(replicas),
            _ => self.doubt("the store answered something that was not asked".into()),
        }
    }

    /// Sends whatever can be sent now.
    pub(super) fn proceed(&mut self) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        if owner.flight.is_some() || owner.inspection {
            return;
        }
        if let Some(record) = owner.breaking.take() {
            return self.begin_halt(record);
        }
        if self.stopping {
            return self.end();
        }
        if owner.event_stream > self.settings.event_stream_max {
            let reason = self.backlog_reason();
            return self.pause(reason);
        }
        if let Some(group) = owner.prepared.take() {
            return self.send(group);
        }
        if owner.looking_up.is_some() {
            return;
        }
        if let Some(ticket) = owner.inspecting.take() {
            owner.inspection = true;
            return self.act(Action::Inspect(ticket));
        }
        owner.looking_up =
            owner.next_look_ups(&mut self.collected, self.settings.group_commands_max);
        if let Some(looking_up) = &owner.looking_up {
            let keys = looking_up.keys.clone();
            self.act(Action::LookUp(keys));
        }
    }

    fn backlog_reason(&self) -> String {
        match &self.phase {
            Phase::Owner(owner) => self.backlog(owner.event_stream),
            _ => String::new(),
        }
    }

    fn send(&mut self, mut group: Group) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        if group.writes.is_empty() {
            if !group.looked_up_alone {
                return self.answer(group);
            }
            owner.flight = Some(Flight {
                group,
                executed: true,
                durable: true,
                epoch_seen: false,
            });
            return self.act(Action::WatchEpoch);
        }
        if owner.looking_up.is_none() && owner.inspecting.is_none() {
            owner.looking_up =
                owner.next_look_ups(&mut self.collected, self.settings.group_commands_max);
        }
        let look_ups = owner
            .looking_up
            .as_ref()
            .map(|next| next.keys.clone())
            .unwrap_or_default();
        let packet = Packet {
            writes: std::mem::take(&mut group.writes),
            look_ups,
            commands: group.answers.len(),
        };
        let durable = self.settings.durability.is_none();
        owner.flight = Some(Flight {
            group,
            executed: false,
            durable,
            epoch_seen: false,
        });
        self.act(Action::Commit(packet));
    }

    fn looked_up(&mut self, values: Vec<Option<Box<[u8]>>>, stopwatch: &mut impl Stopwatch) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        let Some(looking_up) = owner.looking_up.take() else {
            return self.doubt("the store answered a look-up that was not asked".into());
        };
        if values.len() != looking_up.keys.len() {
            return self.doubt("the store answered a look-up with another count".into());
        }
        if owner.breaking.is_none() {
            self.prepare(looking_up, values, stopwatch);
        }
        self.proceed();
    }

    /// Decides a group. Deliveries that no longer fit go back to be looked up again.
    fn prepare(
        &mut self,
        looking_up: LookingUp,
        values: Vec<Option<Box<[u8]>>>,
        stopwatch: &mut impl Stopwatch,
    ) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        let mut known = Known::new(looking_up.keys, values, looking_up.resting);
        if !self.guards.holds(Guard::Dedup) {
            known.stored.clear();
        }
        if !self.guards.holds(Guard::AcceptedOrder) {
            known.accepted.clear();
        }
        let mut group = Group {
            looked_up_alone: owner.flight.is_none(),
            ..Group::default()
        };
        let mut deliveries = looking_up.deliveries.into_iter();
        for Collected { tag, incoming } in deliveries.by_ref() {
            let Some(id) = command_of(&incoming) else {
                continue;
            };
            if let Some(answer) = known.answer(id)
                && self.guards.holds(Guard::Dedup)
            {
                self.counters.duplicate_commands += 1;
                group.answers.push((tag, answer));
                continue;
            }
            stopwatch.begin();
            let mark = group.writes.len();
            let (matcher, accepted) = (&mut owner.matcher, &mut known.accepted);
            let decided = if let Incoming::Command(command) = &incoming {
                let routed = matcher.route(command);
                stopwatch.lap(Step::Route);
                let decided = matcher.apply_routed(command, routed, accepted, &mut group.writes);
                decided.map(Some)
            } else {
                stopwatch.lap(Step::Route);
                matcher.take(&incoming, accepted, &mut group.writes)
            };
            match decided {
                Err(violation) => {
                    owner.breaking = Some(HaltRecord {
                        reason: violation.to_string(),
                        command: Some(id.to_string()),
                        epoch: owner.epoch,
                    });
                    return;
                }
                Ok(None) => {}
                Ok(Some(result)) => {
                    group.count(mark);
                    group.decided += 1;
                    self.counters.duplicate_orders += duplicates(&result);
                    self.counters.rejected_commands += u64::from(result.outcomes.is_empty());
                    known.decided.insert(id.clone(), Arc::clone(&result));
                    group.last = Some(Arc::clone(&result));
                    group.answers.push((tag, Answer::Fresh(result)));
                }
            }
            stopwatch.lap(Step::Match);
            if group.writes.len() >= self.settings.group_writes_max {
                break;
            }
        }
        for delivery in deliveries.rev() {
            self.collected.push_front(delivery);
        }
        if !group.writes.is_empty() {
            let cursor = owner.matcher.cursor().clone();
            group.writes.push(Write::Cursor(cursor.clone()));
            group.cursor = Some(cursor);
        }
        owner.prepared = Some(group);
    }

    fn executed(&mut self, executed: Executed) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        let epoch = owner.epoch;
        let Some(flight) = owner.flight.as_mut() else {
            return self.doubt("the store answered a transaction that was not sent".into());
        };
        match executed {
            Executed::Committed { event_stream } => {
                flight.executed = true;
                owner.event_stream = event_stream;
                if !self.guards.holds(Guard::DurableBeforeAck) {
                    let answers = std::mem::take(&mut flight.group.answers);
                    self.settle_all(answers);
                }
                self.land();
            }
            Executed::Fenced => {
                self.counters.fenced += 1;
                self.doubt(
                    "the fence held a transaction back: another instance owns the partition".into(),
                );
            }
            Executed::Refused(reason) => {
                self.doubt(format!("the store refused a transaction: {reason}"));
            }
            Executed::HalfApplied(detail) => {
                let reason = crate::Violation::HalfApplied { detail }.to_string();
                self.force_halt(HaltRecord {
                    reason,
                    command: None,
                    epoch,
                });
            }
        }
    }

    fn confirmed(&mut self, confirmed: Confirmed) {
        let problem = self.shortfall(confirmed);
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        let Some(flight) = owner.flight.as_mut() else {
            return;
        };
        match problem {
            Some(reason) => {
                self.counters.waits_below_policy += 1;
                let news = owner.not_durable.is_none();
                owner.not_durable = Some(reason.clone());
                if news {
                    self.note(Note::NotDurable { reason });
                }
                self.act(Action::AwaitDisks);
            }
            None => {
                flight.durable = true;
                if owner.not_durable.take().is_some() {
                    self.note(Note::DurableAgain);
                }
                self.land();
            }
        }
    }

    fn epoch_seen(&mut self, seen: Option<Epoch>) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        if seen != Some(owner.epoch) {
            self.counters.fenced += 1;
            return self.doubt("another instance raised the epoch and owns the partition".into());
        }
        if let Some(flight) = owner.flight.as_mut() {
            flight.epoch_seen = true;
        }
        self.land();
    }

    /// Ends the flight once everything about it is known and good.
    fn land(&mut self) {
        let Phase::Owner(owner) = &mut self.phase else {
            return;
        };
        let one_packet = self.guards.holds(Guard::OnePacket);
        let is_over = |flight: &Flight| flight.is_over(one_packet);
        if !owner.flight.as_ref().is_some_and(is_over) {
            return;
        }
        if let Some(mut flight) = owner.flight.take() {
            self.replicas_seen = None;
            self.counters.groups += u64::from(flight.group.cursor.is_some());
            self.counters.commands += flight.group.decided as u64;
            self.counters.events += flight.group.events;
            self.counters.deals += flight.group.deals;
            if let Some(cursor) = &flight.group.cursor {
                self.seen_durable = cursor.clone();
                self.seen_result = flight.group.last.take();
            }
            self.answer(flight.group);
        }
    }

    /// Replies and acknowledges a group that is durable, then goes on.
    fn answer(&mut self, group: Group) {
        self.settle_all(group.answers);
        self.proceed();
    }

    fn settle_all(&mut self, answers: Vec<(Tag, Answer)>) {
        let Some(generation) = self.generation else {
            return;
        };
        for (tag, answer) in answers {
            self.act(Action::Reply(generation, tag, answer));
            self.settle(tag);
        }
        self.acknowledge();
    }

    pub(super) fn inspect(&mut self, ticket: u64) {
        match &mut self.phase {
            Phase::Owner(owner) if owner.inspecting.is_none() && !owner.inspection => {
                owner.inspecting = Some(ticket);
                self.proceed();
            }
            _ => self.act(Action::InspectRefused(ticket)),
        }
    }
}

/// What is known of the commands at hand: by look-up, and by what was decided before them in the
/// same group.
struct Known {
    stored: HashMap<CommandId, Box<[u8]>>,
    decided: HashMap<CommandId, Arc<CommandResult>>,
    accepted: AcceptedOrders,
}

impl Known {
    fn new(
        keys: Vec<LookUp>,
        values: Vec<Option<Box<[u8]>>>,
        mut accepted: AcceptedOrders,
    ) -> Self {
        let mut stored = HashMap::new();
        for (key, value) in keys.into_iter().zip(values) {
            match (key, value) {
                (LookUp::Command(id), Some(result)) => {
                    stored.insert(id, result);
                }
                (LookUp::Order(id), Some(_)) => {
                    accepted.insert(id);
                }
                (_, None) => {}
            }
        }
        Self {
            stored,
            decided: HashMap::new(),
            accepted,
        }
    }

    fn answer(&self, id: &CommandId) -> Option<Answer> {
        let decided = self
            .decided
            .get(id)
            .map(|result| Answer::Fresh(Arc::clone(result)));
        decided.or_else(|| {
            self.stored
                .get(id)
                .map(|bytes| Answer::Stored(bytes.clone()))
        })
    }
}

fn command_of(incoming: &Incoming) -> Option<&CommandId> {
    match incoming {
        Incoming::Command(command) => Some(&command.id),
        Incoming::Refused(refused) => Some(&refused.id),
        Incoming::Unusable(_) => None,
    }
}

/// Every order that a command names.
fn orders_of(command: &Command) -> impl Iterator<Item = &OrderId> {
    let (one, cancelled, placed) = match &command.body {
        Body::Place(order) => (Some(&order.id), [].as_slice(), [].as_slice()),
        Body::Cancel { order } | Body::Amend { order, .. } => {
            (Some(order), [].as_slice(), [].as_slice())
        }
        Body::Replace { cancel, place } => (None, cancel.as_slice(), place.as_slice()),
    };
    one.into_iter()
        .chain(cancelled)
        .chain(placed.iter().map(|order| &order.id))
}

fn duplicates(result: &CommandResult) -> u64 {
    let skipped = |kind: OutcomeKind| kind == OutcomeKind::DuplicateOrder;
    result
        .outcomes
        .iter()
        .filter(|outcome| skipped(outcome.kind))
        .count() as u64
}
