//! Letting an order in, trading it, and what becomes of its rest.

use super::judge::{Judged, judge};
use super::trade::{Taker, TradeStop, trade};
use super::{Stop, Turn, outcome};
use crate::book::Book;
use crate::command::{NewOrder, OrderKind, Refusal, TimeInForce};
use crate::event::{CloseReason, OrderRejected, Outcome, OutcomeKind, Payload, RejectReason};
use crate::guards::GuardSet;
use crate::staging::Write;
use crate::units::{Decimal, Price, QuoteAmount};
use crate::violation::Violation;
use std::sync::Arc;

impl<B: Book, G: GuardSet> Turn<'_, B, G> {
    pub(super) fn place(&mut self, order: &NewOrder) -> Result<Outcome, Stop> {
        // A resting order has used its id even where the store, filled before ids were recorded,
        // does not say so.
        if self.accepted.contains(&order.id) || self.book.order(&order.id).is_some() {
            return Ok(outcome(&order.id, OutcomeKind::DuplicateOrder, None));
        }
        let pair = self.pair();
        let fixed = self.book.decimals(pair);
        let expected = fixed.or_else(|| self.cell.pairs.get(&pair).copied());
        match judge(order, expected) {
            Err(reason) => Ok(self.reject(order, reason, order.volume.clone())),
            Ok(judged) => {
                if fixed.is_none() {
                    self.book.fix_decimals(pair, order.decimals);
                    self.scribe.write(Write::Pair {
                        pair,
                        decimals: order.decimals,
                    });
                }
                let mut taker = self.let_in(order, &judged);
                self.trade(&mut taker)?;
                self.conclude(order, &judged, taker).map_err(Stop::Break)
            }
        }
    }

    fn let_in(&mut self, order: &NewOrder, judged: &Judged) -> Taker {
        let priority = self.next_priority(order.timestamp);
        self.accepted.insert(order.id.clone());
        self.let_in.push(order.id.clone());
        let (id, command) = (order.id.clone(), self.scribe.command.clone());
        self.scribe.write(Write::Accepted { order: id, command });
        Taker {
            id: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            limit: judged.price,
            volume: judged.volume,
            remaining: judged.volume,
            quote_volume: QuoteAmount::default(),
            priority,
            timestamp: order.timestamp,
            decimals: order.decimals,
        }
    }

    /// Trades an order that was let in. Orders of the house may not meet.
    pub(super) fn trade(&mut self, taker: &mut Taker) -> Result<(), Stop> {
        let pair = self.pair();
        trade(self.book, pair, taker, &mut self.scribe).map_err(|stop| match stop {
            TradeStop::Broken(violation) => Stop::Break(violation),
            TradeStop::HouseMeetsHouse { maker } => {
                let detail = format!(
                    "orders {maker} and {} both have no user and would trade with each other",
                    taker.id
                );
                Stop::Refuse(Refusal::BotAgainstBot, detail)
            }
        })
    }

    fn conclude(
        &mut self,
        order: &NewOrder,
        judged: &Judged,
        taker: Taker,
    ) -> Result<Outcome, Violation> {
        if taker.remaining.is_zero() {
            return Ok(self.filled(&taker));
        }
        let remaining = taker.left();
        match (&order.kind, judged.price) {
            (
                OrderKind::Limit {
                    time_in_force: TimeInForce::GoodTillCancelled,
                    ..
                },
                Some(price),
            ) => self.rest(taker, price),
            (OrderKind::Limit { .. }, _) => {
                self.scribe.event(taker.closed(CloseReason::IocRemainder));
                Ok(outcome(
                    &taker.id,
                    OutcomeKind::IocRemainder,
                    Some(remaining),
                ))
            }
            (OrderKind::Market, _) => {
                Ok(self.reject(order, RejectReason::InsufficientLiquidity, remaining))
            }
        }
    }

    pub(super) fn filled(&mut self, taker: &Taker) -> Outcome {
        self.scribe.event(taker.closed(CloseReason::Filled));
        outcome(&taker.id, OutcomeKind::Filled, Some(taker.left()))
    }

    pub(super) fn rest(&mut self, taker: Taker, price: Price) -> Result<Outcome, Violation> {
        let (standing, remaining) = (taker.standing(price), taker.left());
        let decimals = taker.decimals;
        let resting = taker.resting(self.pair(), price);
        self.book.insert(resting.clone())?;
        self.scribe.write(Write::Rest {
            order: Arc::new(resting),
            decimals,
        });
        let result = outcome(&standing.order, OutcomeKind::Rested, Some(remaining));
        self.scribe.event(Payload::Rested(standing));
        Ok(result)
    }

    fn reject(&mut self, order: &NewOrder, reason: RejectReason, remaining: Decimal) -> Outcome {
        self.scribe.event(Payload::OrderRejected(OrderRejected {
            order: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            reason,
            remaining: remaining.clone(),
        }));
        let (kind, reason) = (OutcomeKind::Rejected, Some(reason));
        Outcome {
            order: order.id.clone(),
            kind,
            remaining: Some(remaining),
            reason,
        }
    }
}
