//! The articles' decision, written anew: every maker is read from the store while the command
//! waits, and what the command has done so far is laid over what is read.
//!
//! It shares the rules' words with the engine (orders, events, results) and none of its code that
//! decides, so that it is a second implementation to hold the first one against.

mod trade;

use super::reads::Reads;
use conductor_engine::book::RestingOrder;
use conductor_engine::event::{
    CloseReason, Closed, CommandResult, Event, OrderRejected, Outcome, OutcomeKind, Payload,
    Reason, RejectReason, Standing, Status,
};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::units::{Quantity, QuoteAmount, UnfitDecimal};
use conductor_engine::{
    Body, Command, Decimal, NewOrder, OrderId, OrderKind, PairDecimals, Price, Refusal,
    TimeInForce, Timestamp,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use trade::Taker;

/// Why a command ends half-way.
pub(crate) enum Stop {
    /// It is refused, with this sentence.
    Refused(Refusal, String),
    /// The store, or something that cannot be.
    Failed(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Stop::Failed(error.into())
    }
}

/// One command on its way.
pub(crate) struct Deciding<'a> {
    reads: &'a mut Reads,
    command: &'a Command,
    cursor: Cursor,
    first_sequence: u64,
    writes: Vec<Write>,
    traded: bool,
    /// What the command itself has let in, changed and taken out, none of which is stored yet.
    accepted: HashSet<OrderId>,
    changed: HashMap<OrderId, RestingOrder>,
    removed: HashSet<OrderId>,
    rested: Vec<RestingOrder>,
    decimals: Option<PairDecimals>,
}

/// What a command came to.
pub(crate) struct Decided {
    pub(crate) writes: Vec<Write>,
    pub(crate) cursor: Cursor,
    pub(crate) result: Arc<CommandResult>,
}

/// Decides one command that stands where the cursor says.
pub(crate) fn decide(
    reads: &mut Reads,
    command: &Command,
    cursor: &Cursor,
) -> anyhow::Result<Decided> {
    let decimals = reads.decimals(command.pair)?;
    let mut deciding = Deciding {
        reads,
        command,
        cursor: cursor.clone(),
        first_sequence: cursor.sequence + 1,
        writes: Vec::new(),
        traded: false,
        accepted: HashSet::new(),
        changed: HashMap::new(),
        removed: HashSet::new(),
        rested: Vec::new(),
        decimals,
    };
    match deciding.run() {
        Ok(outcomes) => Ok(deciding.finish(outcomes)),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Refused(refusal, detail)) => {
            deciding.writes.clear();
            deciding.cursor = cursor.clone();
            deciding.event(Payload::CommandRejected {
                refusal,
                detail: Some(detail),
            });
            Ok(deciding.end(Status::Rejected, Some(Reason::Command(refusal)), Vec::new()))
        }
    }
}

impl Deciding<'_> {
    fn run(&mut self) -> Result<Vec<Outcome>, Stop> {
        match &self.command.body {
            Body::Place(order) => Ok(vec![self.place(order)?]),
            Body::Cancel { order } => Ok(vec![self.cancel(order)?]),
            Body::Amend {
                order,
                price,
                volume,
            } => Ok(vec![self.amend(order, price.as_ref(), volume.as_ref())?]),
            Body::Replace { cancel, place } => {
                let mut outcomes = Vec::new();
                for order in cancel {
                    outcomes.push(self.cancel(order)?);
                }
                for order in place {
                    outcomes.push(self.place(order)?);
                }
                Ok(outcomes)
            }
        }
    }

    fn place(&mut self, order: &NewOrder) -> Result<Outcome, Stop> {
        if self.accepted.contains(&order.id) || self.reads.is_accepted(&order.id)? {
            return Ok(outcome(&order.id, OutcomeKind::DuplicateOrder, None));
        }
        let (limit, volume) = match self.numbers(order) {
            Ok(numbers) => numbers,
            Err(reason) => return Ok(self.reject(order, reason, order.volume.clone())),
        };
        if self.decimals.is_none() {
            self.decimals = Some(order.decimals);
            let (pair, decimals) = (self.command.pair, order.decimals);
            self.writes.push(Write::Pair { pair, decimals });
        }
        self.accepted.insert(order.id.clone());
        self.writes.push(Write::Accepted {
            order: order.id.clone(),
            command: self.command.id.clone(),
        });
        let mut taker = Taker {
            priority: self.priority(order.timestamp),
            id: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            limit,
            volume,
            remaining: volume,
            quote_volume: QuoteAmount(0),
            timestamp: order.timestamp,
            decimals: order.decimals,
        };
        self.trade(&mut taker)?;
        if taker.remaining.is_zero() {
            return Ok(self.filled(&taker));
        }
        match (&order.kind, limit) {
            (OrderKind::Market, _) | (_, None) => {
                Ok(self.reject(order, RejectReason::InsufficientLiquidity, taker.left()))
            }
            (OrderKind::Limit { time_in_force, .. }, Some(price)) => match time_in_force {
                TimeInForce::GoodTillCancelled => Ok(self.rest(taker, price)),
                TimeInForce::ImmediateOrCancel => {
                    self.event(taker.closed(CloseReason::IocRemainder));
                    let left = Some(taker.left());
                    Ok(outcome(&taker.id, OutcomeKind::IocRemainder, left))
                }
            },
        }
    }

    /// Price and volume of an order, or why it is not let in: the first reason of the list.
    fn numbers(&self, order: &NewOrder) -> Result<(Option<Price>, Quantity), RejectReason> {
        if self.decimals.is_some_and(|fixed| fixed != order.decimals) {
            return Err(RejectReason::DecimalsMismatch);
        }
        let price = match &order.kind {
            OrderKind::Limit { price, .. } => Some(price.price(order.decimals)),
            OrderKind::Market => None,
        };
        let volume = order.volume.quantity(order.decimals);
        match (price, volume) {
            (Some(Err(UnfitDecimal::Precision)), _) => Err(RejectReason::PricePrecision),
            (_, Err(UnfitDecimal::Precision)) => Err(RejectReason::VolumePrecision),
            (Some(Err(UnfitDecimal::Range)), _) => Err(RejectReason::PriceOutOfRange),
            (_, Err(UnfitDecimal::Range)) => Err(RejectReason::VolumeOutOfRange),
            (Some(Ok(price)), Ok(volume)) => Ok((Some(price), volume)),
            (None, Ok(volume)) => Ok((None, volume)),
        }
    }

    fn cancel(&mut self, id: &OrderId) -> Result<Outcome, Stop> {
        let Some((order, decimals)) = self.resting(id)?.zip(self.decimals) else {
            return self.not_resting(id);
        };
        self.remove(&order);
        let left = Decimal::of_quantity(order.remaining, decimals);
        self.event(Payload::Closed(Closed {
            order: order.id,
            user: order.user,
            side: order.side,
            reason: CloseReason::Cancelled,
            remaining: left.clone(),
        }));
        Ok(outcome(id, OutcomeKind::Cancelled, Some(left)))
    }

    fn amend(
        &mut self,
        id: &OrderId,
        price: Option<&Decimal>,
        volume: Option<&Decimal>,
    ) -> Result<Outcome, Stop> {
        let Some((order, decimals)) = self.resting(id)?.zip(self.decimals) else {
            return self.not_resting(id);
        };
        let unfit = |what: &str| Stop::Failed(anyhow::anyhow!("an amend's {what} does not fit"));
        let price = match price {
            Some(price) => price.price(decimals).map_err(|_| unfit("price"))?,
            None => order.price,
        };
        let remaining = match volume {
            Some(volume) => volume.quantity(decimals).map_err(|_| unfit("volume"))?,
            None => order.remaining,
        };
        let left = Decimal::of_quantity(remaining, decimals);
        if price == order.price && remaining == order.remaining {
            return Ok(outcome(id, OutcomeKind::Rested, Some(left)));
        }
        if price == order.price && remaining < order.remaining {
            self.writes.push(Write::Shrink {
                order: id.clone(),
                remaining,
                decimals,
            });
            self.event(Payload::Amended(Standing {
                order: order.id,
                user: order.user,
                side: order.side,
                price: Decimal::of_price(price, decimals),
                remaining: left.clone(),
                priority: order.priority,
            }));
            return Ok(outcome(id, OutcomeKind::Amended, Some(left)));
        }
        self.remove(&order);
        let mut taker = Taker {
            priority: self.priority(self.command.timestamp),
            id: order.id,
            user: order.user,
            side: order.side,
            limit: Some(price),
            volume: remaining,
            remaining,
            quote_volume: order.quote_volume,
            timestamp: order.timestamp,
            decimals,
        };
        self.event(Payload::Amended(taker.standing(price)));
        self.trade(&mut taker)?;
        if taker.remaining.is_zero() {
            return Ok(self.filled(&taker));
        }
        Ok(self.rest(taker, price))
    }

    fn rest(&mut self, taker: Taker, price: Price) -> Outcome {
        let (standing, left, decimals) = (taker.standing(price), taker.left(), taker.decimals);
        let order = RestingOrder {
            id: taker.id,
            user: taker.user,
            pair: self.command.pair,
            side: taker.side,
            price,
            volume: taker.volume,
            remaining: taker.remaining,
            quote_volume: taker.quote_volume,
            priority: taker.priority,
            timestamp: taker.timestamp,
        };
        // An order that comes back to rest under its id, by an amend, is no longer taken out.
        self.removed.remove(&order.id);
        self.rested.push(order.clone());
        let order = Arc::new(order);
        self.writes.push(Write::Rest { order, decimals });
        let rested = outcome(&standing.order, OutcomeKind::Rested, Some(left));
        self.event(Payload::Rested(standing));
        rested
    }

    fn filled(&mut self, taker: &Taker) -> Outcome {
        self.event(taker.closed(CloseReason::Filled));
        outcome(&taker.id, OutcomeKind::Filled, Some(taker.left()))
    }

    fn reject(&mut self, order: &NewOrder, reason: RejectReason, left: Decimal) -> Outcome {
        self.event(Payload::OrderRejected(OrderRejected {
            order: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            reason,
            remaining: left.clone(),
        }));
        Outcome {
            reason: Some(reason),
            ..outcome(&order.id, OutcomeKind::Rejected, Some(left))
        }
    }

    fn remove(&mut self, order: &RestingOrder) {
        self.removed.insert(order.id.clone());
        self.writes.push(Write::Remove {
            order: order.id.clone(),
            pair: order.pair,
            side: order.side,
            priority: order.priority,
        });
    }

    /// An order of this command's pair that rests, in the store and after what the command did.
    fn resting(&mut self, id: &OrderId) -> anyhow::Result<Option<RestingOrder>> {
        if self.removed.contains(id) {
            return Ok(None);
        }
        let found = self.reads.order(id)?;
        Ok(found.filter(|order| order.pair == self.command.pair))
    }

    fn not_resting(&mut self, id: &OrderId) -> Result<Outcome, Stop> {
        let elsewhere = !self.removed.contains(id) && self.reads.order(id)?.is_some();
        let known = self.accepted.contains(id) || self.reads.is_accepted(id)?;
        let kind = match known && !elsewhere {
            true => OutcomeKind::AlreadyClosed,
            false => OutcomeKind::UnknownOrder,
        };
        Ok(outcome(id, kind, None))
    }

    fn priority(&mut self, time: Timestamp) -> u64 {
        let by_time = time.milliseconds() * 1_000;
        self.cursor.priority = by_time.max(self.cursor.priority + 1);
        self.cursor.priority
    }

    fn event(&mut self, payload: Payload) {
        self.cursor.sequence += 1;
        let index = self.cursor.sequence - self.first_sequence;
        self.writes.push(Write::Event(Arc::new(Event {
            command: self.command.id.clone(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            pair: Some(self.command.pair),
            sequence: self.cursor.sequence,
            timestamp: Some(self.command.timestamp),
            payload,
        })));
    }

    fn finish(self, outcomes: Vec<Outcome>) -> Decided {
        let has = |wanted: &[OutcomeKind]| outcomes.iter().any(|it| wanted.contains(&it.kind));
        let events = self.cursor.sequence >= self.first_sequence;
        let done = [
            OutcomeKind::Filled,
            OutcomeKind::Cancelled,
            OutcomeKind::Amended,
            OutcomeKind::IocRemainder,
        ];
        let rested = events && has(&[OutcomeKind::Rested]);
        let status = if self.traded || rested || has(&done) {
            Status::Accepted
        } else if has(&[OutcomeKind::Rejected]) {
            Status::Rejected
        } else {
            Status::Unchanged
        };
        let reason = match outcomes.as_slice() {
            [only] if status == Status::Rejected => only.reason.map(Reason::Order),
            _ => None,
        };
        self.end(status, reason, outcomes)
    }

    fn end(mut self, status: Status, reason: Option<Reason>, outcomes: Vec<Outcome>) -> Decided {
        let (first, last) = (self.first_sequence, self.cursor.sequence);
        self.cursor.command = Some(self.command.id.clone());
        let result = Arc::new(CommandResult {
            command: self.command.id.clone(),
            status,
            reason,
            outcomes,
            sequences: (last >= first).then_some((first, last)),
        });
        self.writes.push(Write::Result(Arc::clone(&result)));
        self.writes.push(Write::Cursor(self.cursor.clone()));
        Decided {
            writes: self.writes,
            cursor: self.cursor,
            result,
        }
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
