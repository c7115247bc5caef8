//! The decision: one command against the book.
//!
//! [`Matcher::apply`] cannot wait, has no clock and reads nothing but its arguments, so that a live
//! run, a run after a crash and a replay of the same commands give the same bytes. A command that
//! is refused half-way leaves nothing: no write, no event but its refusal, no priority, no id.

mod amend;
mod audit;
mod judge;
mod place;
mod scribe;
mod trade;

pub use audit::audit;
pub use trade::{Fill, Fills, Taker, TradeStop, trade};

use crate::book::Book;
use crate::command::{Body, Command, Incoming, Refusal, RefusedCommand};
use crate::event::{
    CloseReason, Closed, CommandResult, Event, Outcome, OutcomeKind, Payload, Reason, Status,
};
use crate::guards::{AllGuards, Guard, GuardSet};
use crate::ids::{OrderId, PairId, PartitionId, Timestamp};
use crate::limits::{BATCH_ENTRIES_MAX, DETAIL_BYTES_MAX, PRIORITY_PER_MILLISECOND};
use crate::staging::{Cursor, Write};
use crate::units::{Decimal, PairDecimals};
use crate::violation::Violation;
use hashbrown::HashSet;
use scribe::Scribe;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which partition this is, and what its pairs are configured to be.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The partition.
    pub partition: PartitionId,
    /// How many partitions there are; at least one.
    pub partition_count: u32,
    /// Pairs whose decimals are configured; all others are fixed by their first order.
    pub pairs: BTreeMap<PairId, PairDecimals>,
}

impl Cell {
    /// The only partition of a cell without configured pairs.
    pub const fn single() -> Self {
        Self {
            partition: PartitionId(0),
            partition_count: 1,
            pairs: BTreeMap::new(),
        }
    }
}

/// Order ids that are used up, as far as the commands at hand ask for them.
pub type AcceptedOrders = HashSet<OrderId>;

/// Decides commands against a book and keeps the partition's counters.
#[derive(Clone, Debug)]
pub struct Matcher<B, G = AllGuards> {
    guards: G,
    cell: Cell,
    book: B,
    cursor: Cursor,
}

/// Why a command stops half-way.
enum Stop {
    Refuse(Refusal, String),
    Break(Violation),
}

impl From<Violation> for Stop {
    fn from(violation: Violation) -> Self {
        Stop::Break(violation)
    }
}

/// One command on its way through the matcher.
struct Turn<'a, B, G> {
    guards: G,
    cell: &'a Cell,
    book: &'a mut B,
    accepted: &'a mut AcceptedOrders,
    let_in: Vec<OrderId>,
    scribe: Scribe<'a>,
}

impl<B: Book> Matcher<B> {
    /// A matcher over a book that stands where the cursor says.
    pub const fn new(cell: Cell, book: B, cursor: Cursor) -> Self {
        Self::with_guards(cell, book, cursor, AllGuards)
    }
}

impl<B: Book, G: GuardSet> Matcher<B, G> {
    /// [`Matcher::new`] with the guards that hold; for the simulator.
    pub const fn with_guards(cell: Cell, book: B, cursor: Cursor, guards: G) -> Self {
        Self {
            guards,
            cell,
            book,
            cursor,
        }
    }

    /// The book.
    pub const fn book(&self) -> &B {
        &self.book
    }

    /// Where the partition stands after the last command that was applied.
    pub const fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// The cell.
    pub const fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Whether the command is for this partition.
    ///
    /// # Errors
    /// A sentence for the rejection when the pair belongs elsewhere or the declaration differs.
    pub fn route(&self, command: &Command) -> Result<(), String> {
        let owner = command.pair.partition(self.cell.partition_count);
        let declared = command.partition.unwrap_or(owner);
        if declared != owner {
            return Err(format!(
                "the command declares partition {declared}, but pair {} belongs to partition \
                 {owner} of {}",
                command.pair, self.cell.partition_count
            ));
        }
        if owner != self.cell.partition {
            return Err(format!(
                "pair {} belongs to partition {owner} of {}, not to partition {}",
                command.pair, self.cell.partition_count, self.cell.partition
            ));
        }
        Ok(())
    }

    /// Decides a command, changes the book and appends what the store must be told.
    ///
    /// `accepted` must hold every order id of the command that was ever used, and gains those that
    /// the command uses up.
    ///
    /// # Errors
    /// [`Violation`] when an invariant breaks. The book is not to be used afterwards.
    pub fn apply(
        &mut self,
        command: &Command,
        accepted: &mut AcceptedOrders,
        writes: &mut Vec<Write>,
    ) -> Result<Arc<CommandResult>, Violation> {
        let routed = self.route(command);
        self.apply_routed(command, routed, accepted, writes)
    }

    /// [`Matcher::apply`] of a command that was routed already.
    ///
    /// # Errors
    /// As [`Matcher::apply`].
    pub fn apply_routed(
        &mut self,
        command: &Command,
        routed: Result<(), String>,
        accepted: &mut AcceptedOrders,
        writes: &mut Vec<Write>,
    ) -> Result<Arc<CommandResult>, Violation> {
        if let Err(detail) = routed {
            return Ok(self.refuse(
                &RefusedCommand {
                    id: command.id.clone(),
                    pair: Some(command.pair),
                    timestamp: Some(command.timestamp),
                    refusal: Refusal::WrongPartition,
                    detail,
                },
                writes,
            ));
        }
        let (mark, before) = (writes.len(), self.cursor.clone());
        self.book.begin();
        let mut turn = self.turn(command, accepted, writes);
        match turn.run(&command.body) {
            Ok(outcomes) => {
                turn.check_not_crossed(command.pair)?;
                let result = turn.finish(outcomes);
                self.book.keep();
                Ok(result)
            }
            Err(Stop::Break(violation)) => Err(violation),
            Err(Stop::Refuse(refusal, detail)) => {
                for order in turn.let_in {
                    accepted.remove(&order);
                }
                self.book.undo();
                self.book.keep();
                writes.truncate(mark);
                self.cursor = before;
                let (id, pair) = (command.id.clone(), Some(command.pair));
                let timestamp = Some(command.timestamp);
                Ok(self.refuse(
                    &RefusedCommand {
                        id,
                        pair,
                        timestamp,
                        refusal,
                        detail,
                    },
                    writes,
                ))
            }
        }
    }

    /// Records a refusal: one event and a result that answers every repeat.
    pub fn refuse(
        &mut self,
        refused: &RefusedCommand,
        writes: &mut Vec<Write>,
    ) -> Arc<CommandResult> {
        let first_sequence = self.cursor.sequence + 1;
        self.cursor.sequence = first_sequence;
        self.cursor.command = Some(refused.id.clone());
        let detail = Some(short(&refused.detail)).filter(|detail| !detail.is_empty());
        writes.push(Write::Event(Arc::new(Event {
            command: refused.id.clone(),
            index: 0,
            pair: refused.pair,
            sequence: first_sequence,
            timestamp: refused.timestamp,
            payload: Payload::CommandRejected {
                refusal: refused.refusal,
                detail,
            },
        })));
        let result = Arc::new(CommandResult {
            command: refused.id.clone(),
            status: Status::Rejected,
            reason: Some(Reason::Command(refused.refusal)),
            outcomes: Vec::new(),
            sequences: Some((first_sequence, first_sequence)),
        });
        writes.push(Write::Result(Arc::clone(&result)));
        result
    }

    /// [`Matcher::apply`] or [`Matcher::refuse`], whichever the message asks for; `None` for one
    /// that is no command.
    ///
    /// # Errors
    /// As [`Matcher::apply`].
    pub fn take(
        &mut self,
        incoming: &Incoming,
        accepted: &mut AcceptedOrders,
        writes: &mut Vec<Write>,
    ) -> Result<Option<Arc<CommandResult>>, Violation> {
        match incoming {
            Incoming::Command(command) => self.apply(command, accepted, writes).map(Some),
            Incoming::Refused(refused) => Ok(Some(self.refuse(refused, writes))),
            Incoming::Unusable(_) => Ok(None),
        }
    }

    fn turn<'a>(
        &'a mut self,
        command: &'a Command,
        accepted: &'a mut AcceptedOrders,
        writes: &'a mut Vec<Write>,
    ) -> Turn<'a, B, G> {
        Turn {
            guards: self.guards,
            cell: &self.cell,
            book: &mut self.book,
            accepted,
            let_in: Vec::new(),
            scribe: Scribe {
                first_sequence: self.cursor.sequence + 1,
                cursor: &mut self.cursor,
                writes,
                command: &command.id,
                pair: command.pair,
                timestamp: command.timestamp,
                traded: false,
            },
        }
    }
}

impl<B: Book, G: GuardSet> Turn<'_, B, G> {
    fn run(&mut self, body: &Body) -> Result<Vec<Outcome>, Stop> {
        match body {
            Body::Place(order) => Ok(vec![self.place(order)?]),
            Body::Cancel { order } => Ok(vec![self.cancel(order)]),
            Body::Amend {
                order,
                price,
                volume,
            } => Ok(vec![self.amend(order, price.as_ref(), volume.as_ref())?]),
            Body::Replace { cancel, place } => self.replace(cancel, place),
        }
    }

    fn replace(
        &mut self,
        cancel: &[OrderId],
        place: &[crate::command::NewOrder],
    ) -> Result<Vec<Outcome>, Stop> {
        let entries = cancel.len() + place.len();
        if entries > BATCH_ENTRIES_MAX {
            let detail = format!(
                "the batch has {entries} entries; send at most {BATCH_ENTRIES_MAX} in one command"
            );
            return Err(Stop::Refuse(Refusal::BatchTooLarge, detail));
        }
        let mut outcomes = Vec::with_capacity(entries);
        for order in cancel {
            outcomes.push(self.cancel(order));
        }
        for order in place {
            outcomes.push(self.place(order)?);
        }
        Ok(outcomes)
    }

    fn cancel(&mut self, id: &OrderId) -> Outcome {
        let pair = self.pair();
        let decimals = self.book.decimals(pair);
        let Some(order) = self.book.remove(pair, id) else {
            return self.not_resting(id);
        };
        let decimals = decimals.expect("a pair's decimals are fixed by its first order");
        let remaining = Decimal::of_quantity(order.remaining, decimals);
        self.scribe.write(Write::Remove {
            order: order.id.clone(),
            pair,
            side: order.side,
            priority: order.priority,
        });
        self.scribe.event(Payload::Closed(Closed {
            order: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            reason: CloseReason::Cancelled,
            remaining: remaining.clone(),
        }));
        outcome(id, OutcomeKind::Cancelled, Some(remaining))
    }

    /// What to say of an order that does not rest under this command's pair.
    fn not_resting(&self, id: &OrderId) -> Outcome {
        let elsewhere = self.book.order(id).is_some();
        let kind = if !elsewhere && self.accepted.contains(id) {
            OutcomeKind::AlreadyClosed
        } else {
            OutcomeKind::UnknownOrder
        };
        outcome(id, kind, None)
    }

    const fn pair(&self) -> PairId {
        self.scribe.pair
    }

    /// The decimals of a pair that has resting orders.
    fn fixed_decimals(&self) -> PairDecimals {
        self.book
            .decimals(self.pair())
            .expect("a pair's decimals are fixed by its first order")
    }

    fn next_priority(&mut self, timestamp: Timestamp) -> u64 {
        let by_time = timestamp.milliseconds() * PRIORITY_PER_MILLISECOND;
        let last = &mut self.scribe.cursor.priority;
        *last = match self.guards.holds(Guard::Priority) {
            true => by_time.max(*last + 1),
            false => by_time,
        };
        *last
    }

    fn check_not_crossed(&self, pair: PairId) -> Result<(), Violation> {
        audit::not_crossed(self.book, pair)
    }

    fn finish(mut self, outcomes: Vec<Outcome>) -> Arc<CommandResult> {
        let sequences = self.scribe.sequences();
        let status = status(&outcomes, self.scribe.traded, sequences.is_some());
        let single = match outcomes.as_slice() {
            [only] if status == Status::Rejected => only.reason,
            _ => None,
        };
        self.scribe.result(CommandResult {
            command: self.scribe.command.clone(),
            status,
            reason: single.map(Reason::Order),
            outcomes,
            sequences,
        })
    }
}

fn outcome(order: &OrderId, kind: OutcomeKind, remaining: Option<Decimal>) -> Outcome {
    Outcome {
        order: order.clone(),
        kind,
        remaining,
        reason: None,
    }
}

/// A detail of at most [`DETAIL_BYTES_MAX`], cut between characters.
fn short(detail: &str) -> String {
    detail[..detail.floor_char_boundary(DETAIL_BYTES_MAX)].to_owned()
}

/// Accepted when anything of it happened, rejected when something was refused and nothing else
/// happened, unchanged otherwise.
fn status(outcomes: &[Outcome], traded: bool, changed: bool) -> Status {
    let happened = |kind: OutcomeKind| match kind {
        OutcomeKind::Filled
        | OutcomeKind::Cancelled
        | OutcomeKind::Amended
        | OutcomeKind::IocRemainder => true,
        // An amend that changes nothing leaves its order resting, without an event.
        OutcomeKind::Rested => changed,
        OutcomeKind::Rejected
        | OutcomeKind::DuplicateOrder
        | OutcomeKind::AlreadyClosed
        | OutcomeKind::UnknownOrder => false,
    };
    if traded || outcomes.iter().any(|outcome| happened(outcome.kind)) {
        Status::Accepted
    } else if outcomes
        .iter()
        .any(|outcome| outcome.kind == OutcomeKind::Rejected)
    {
        Status::Rejected
    } else {
        Status::Unchanged
    }
}
