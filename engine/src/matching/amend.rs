//! Amending a resting order. The same price and less volume keep its place; anything else takes a
//! new place behind all others and may trade at once. A refused amend leaves the order as it was.

use super::trade::Taker;
use super::{Stop, Turn, outcome};
use crate::book::{Book, RestingOrder};
use crate::command::Refusal;
use crate::event::{Outcome, OutcomeKind, Payload, Standing};
use crate::guards::GuardSet;
use crate::ids::OrderId;
use crate::staging::Write;
use crate::units::{Decimal, PairDecimals, Price, Quantity, UnfitDecimal};
use crate::violation::Violation;

/// More characters than any number that fits its pair has.
const DIGITS_SHOWN_MAX: usize = 64;

impl<B: Book, G: GuardSet> Turn<'_, B, G> {
    pub(super) fn amend(
        &mut self,
        id: &OrderId,
        price: Option<&Decimal>,
        volume: Option<&Decimal>,
    ) -> Result<Outcome, Stop> {
        let pair = self.pair();
        let Some(order) = self
            .book
            .order(id)
            .filter(|order| order.pair == pair)
            .cloned()
        else {
            return Ok(self.not_resting(id));
        };
        let decimals = self.fixed_decimals();
        let price = match price {
            Some(price) => price
                .price(decimals)
                .map_err(|why| unfit("price", price, why))?,
            None => order.price,
        };
        let remaining = match volume {
            Some(volume) => volume
                .quantity(decimals)
                .map_err(|why| unfit("volume", volume, why))?,
            None => order.remaining,
        };
        if price == order.price && remaining == order.remaining {
            let remaining = Some(Decimal::of_quantity(remaining, decimals));
            return Ok(outcome(id, OutcomeKind::Rested, remaining));
        }
        if price == order.price && remaining < order.remaining {
            return Ok(self.shrink(&order, remaining, decimals)?);
        }
        self.move_order(order, price, remaining, decimals)
    }

    fn shrink(
        &mut self,
        order: &RestingOrder,
        remaining: Quantity,
        decimals: PairDecimals,
    ) -> Result<Outcome, Violation> {
        self.book.shrink(&order.id, remaining)?;
        self.scribe.write(Write::Shrink {
            order: order.id.clone(),
            remaining,
            decimals,
        });
        let left = Decimal::of_quantity(remaining, decimals);
        self.scribe.event(Payload::Amended(Standing {
            order: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            price: Decimal::of_price(order.price, decimals),
            remaining: left.clone(),
            priority: order.priority,
        }));
        Ok(outcome(&order.id, OutcomeKind::Amended, Some(left)))
    }

    fn move_order(
        &mut self,
        order: RestingOrder,
        price: Price,
        remaining: Quantity,
        decimals: PairDecimals,
    ) -> Result<Outcome, Stop> {
        self.book.remove(order.pair, &order.id);
        self.scribe.write(Write::Remove {
            order: order.id.clone(),
            pair: order.pair,
            side: order.side,
            priority: order.priority,
        });
        let mut taker = Taker {
            priority: self.next_priority(self.scribe.timestamp),
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
        self.scribe.event(Payload::Amended(taker.standing(price)));
        self.trade(&mut taker)?;
        if taker.remaining.is_zero() {
            return Ok(self.filled(&taker));
        }
        self.rest(taker, price).map_err(Stop::Break)
    }
}

/// The number is shown as far as a sentence can bear it: somebody may write a million digits.
fn unfit(what: &str, written: &Decimal, why: UnfitDecimal) -> Stop {
    let mut shown = written.to_string();
    if shown.len() > DIGITS_SHOWN_MAX {
        shown.truncate(DIGITS_SHOWN_MAX);
        shown.push_str("...");
    }
    let detail = match why {
        UnfitDecimal::Precision => format!("the {what} {shown} has more decimals than the pair"),
        UnfitDecimal::Range => format!("the {what} {shown} is out of the pair's range"),
    };
    Stop::Refuse(Refusal::Malformed, detail)
}
