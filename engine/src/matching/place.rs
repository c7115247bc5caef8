//! Letting an order in, trading it, and what becomes of its rest.

use super::judge::{Judged, judge};
use super::{Stop, Turn, outcome};
use crate::book::{Book, Maker, RestingOrder};
use crate::command::{NewOrder, OrderKind, Refusal, Side, TimeInForce};
use crate::event::{
    CloseReason, Closed, Deal, OrderRejected, Outcome, OutcomeKind, Payload, RejectReason, Standing,
};
use crate::guards::GuardSet;
use crate::ids::{OrderId, Timestamp, UserId};
use crate::staging::Write;
use crate::units::{Decimal, PairDecimals, Price, Quantity, QuoteAmount, quote_amount};
use crate::violation::Violation;
use std::sync::Arc;

/// An order while it trades.
pub(super) struct Taker {
    pub(super) id: OrderId,
    pub(super) user: Option<UserId>,
    pub(super) side: Side,
    /// The worst price it takes; `None` takes any.
    pub(super) limit: Option<Price>,
    pub(super) volume: Quantity,
    pub(super) remaining: Quantity,
    pub(super) quote_volume: QuoteAmount,
    pub(super) priority: u64,
    pub(super) timestamp: Timestamp,
    pub(super) decimals: PairDecimals,
}

impl Taker {
    fn takes(&self, price: Price) -> bool {
        match (self.limit, self.side) {
            (None, _) => true,
            (Some(limit), Side::Bid) => price <= limit,
            (Some(limit), Side::Ask) => price >= limit,
        }
    }

    pub(super) fn remaining(&self) -> Decimal {
        Decimal::of_quantity(self.remaining, self.decimals)
    }

    fn closed(&self, reason: CloseReason) -> Payload {
        Payload::Closed(Closed {
            order: self.id.clone(),
            user: self.user.clone(),
            side: self.side,
            reason,
            remaining: self.remaining(),
        })
    }

    pub(super) fn standing(&self, price: Price) -> Standing {
        Standing {
            order: self.id.clone(),
            user: self.user.clone(),
            side: self.side,
            price: Decimal::of_price(price, self.decimals),
            remaining: self.remaining(),
            priority: self.priority,
        }
    }
}

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
                    self.writes.push(Write::Pair {
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
        let (id, command) = (order.id.clone(), self.command.clone());
        self.writes.push(Write::Accepted { order: id, command });
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

    /// Trades against the best orders of the other side while price and volume allow.
    pub(super) fn trade(&mut self, taker: &mut Taker) -> Result<(), Stop> {
        while !taker.remaining.is_zero() {
            let best = self.book.best(self.pair(), taker.side.opposite());
            let Some(maker) = best.filter(|maker| taker.takes(maker.price)) else {
                break;
            };
            if taker.user.is_none() && maker.user.is_none() {
                let detail = format!(
                    "orders {} and {} both have no user and would trade with each other",
                    maker.id, taker.id
                );
                return Err(Stop::Refuse(Refusal::BotAgainstBot, detail));
            }
            self.fill(&maker, taker)?;
        }
        Ok(())
    }

    fn fill(&mut self, maker: &Maker, taker: &mut Taker) -> Result<(), Violation> {
        let side = taker.side.opposite();
        let volume = maker.remaining.min(taker.remaining);
        let quote = quote_amount(volume, maker.price, taker.decimals, side);
        let too_large = |order: &OrderId| Violation::NegativeRemainder {
            order: order.clone(),
        };
        let maker_left = maker
            .remaining
            .minus(volume)
            .ok_or_else(|| too_large(&maker.id))?;
        let taker_left = taker
            .remaining
            .minus(volume)
            .ok_or_else(|| too_large(&taker.id))?;
        let maker_moved = maker.remaining.lots() - maker_left.lots();
        if volume.is_zero() || maker_moved != taker.remaining.lots() - taker_left.lots() {
            let (maker, taker) = (maker.id.clone(), taker.id.clone());
            return Err(Violation::UnequalLegs { maker, taker });
        }
        self.traded = true;
        taker.remaining = taker_left;
        taker.quote_volume.0 += quote.0;
        self.event(Payload::Deal(deal(maker, taker, volume, quote, maker_left)));
        if maker_left.is_zero() {
            self.close_maker(maker, side, taker.decimals)
        } else {
            let quote_volume = QuoteAmount(maker.quote_volume.0 + quote.0);
            self.book
                .reduce_best(self.pair(), side, maker_left, quote_volume)?;
            self.writes.push(Write::Reduce {
                order: maker.id.clone(),
                remaining: maker_left,
                quote_volume,
                decimals: taker.decimals,
            });
            Ok(())
        }
    }

    fn close_maker(
        &mut self,
        maker: &Maker,
        side: Side,
        decimals: PairDecimals,
    ) -> Result<(), Violation> {
        self.book.remove_best(self.pair(), side)?;
        self.writes.push(Write::Remove {
            order: maker.id.clone(),
            pair: self.pair(),
            side,
            priority: maker.priority,
        });
        self.event(Payload::Closed(Closed {
            order: maker.id.clone(),
            user: maker.user.clone(),
            side,
            reason: CloseReason::Filled,
            remaining: Decimal::of_quantity(Quantity::ZERO, decimals),
        }));
        Ok(())
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
        let remaining = taker.remaining();
        match (&order.kind, judged.price) {
            (
                OrderKind::Limit {
                    time_in_force: TimeInForce::GoodTillCancelled,
                    ..
                },
                Some(price),
            ) => self.rest(taker, price),
            (OrderKind::Limit { .. }, _) => {
                self.event(taker.closed(CloseReason::IocRemainder));
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
        self.event(taker.closed(CloseReason::Filled));
        outcome(&taker.id, OutcomeKind::Filled, Some(taker.remaining()))
    }

    pub(super) fn rest(&mut self, taker: Taker, price: Price) -> Result<Outcome, Violation> {
        let (standing, remaining) = (taker.standing(price), taker.remaining());
        let resting = RestingOrder {
            id: taker.id,
            user: taker.user,
            pair: self.pair(),
            side: taker.side,
            price,
            volume: taker.volume,
            remaining: taker.remaining,
            quote_volume: taker.quote_volume,
            priority: taker.priority,
            timestamp: taker.timestamp,
        };
        self.book.insert(resting.clone())?;
        self.writes.push(Write::Rest {
            order: Arc::new(resting),
            decimals: taker.decimals,
        });
        let result = outcome(&standing.order, OutcomeKind::Rested, Some(remaining));
        self.event(Payload::Rested(standing));
        Ok(result)
    }

    fn reject(&mut self, order: &NewOrder, reason: RejectReason, remaining: Decimal) -> Outcome {
        self.event(Payload::OrderRejected(OrderRejected {
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

fn deal(
    maker: &Maker,
    taker: &Taker,
    volume: Quantity,
    quote: QuoteAmount,
    maker_left: Quantity,
) -> Deal {
    let decimals = taker.decimals;
    Deal {
        maker: maker.id.clone(),
        taker: taker.id.clone(),
        maker_user: maker.user.clone(),
        taker_user: taker.user.clone(),
        taker_side: taker.side,
        price: Decimal::of_price(maker.price, decimals),
        volume: Decimal::of_quantity(volume, decimals),
        quote_volume: Decimal::of_quote(quote, decimals),
        maker_remaining: Decimal::of_quantity(maker_left, decimals),
        taker_remaining: taker.remaining(),
    }
}
