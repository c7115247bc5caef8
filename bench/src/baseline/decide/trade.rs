//! The articles' loop over the makers: page after page of candidates, one deal after the other.

use super::super::reads::Candidates;
use super::{Deciding, Stop};
use conductor_engine::book::RestingOrder;
use conductor_engine::event::{CloseReason, Closed, Deal, Payload, Standing};
use conductor_engine::staging::Write;
use conductor_engine::units::{Quantity, QuoteAmount};
use conductor_engine::{Decimal, OrderId, PairDecimals, Price, Refusal, Side, Timestamp, UserId};

/// An order while it trades.
pub(super) struct Taker {
    pub(super) id: OrderId,
    pub(super) user: Option<UserId>,
    pub(super) side: Side,
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
        self.limit.is_none_or(|limit| match self.side {
            Side::Bid => price <= limit,
            Side::Ask => limit <= price,
        })
    }

    pub(super) fn left(&self) -> Decimal {
        Decimal::of_quantity(self.remaining, self.decimals)
    }

    pub(super) fn closed(&self, reason: CloseReason) -> Payload {
        Payload::Closed(Closed {
            order: self.id.clone(),
            user: self.user.clone(),
            side: self.side,
            reason,
            remaining: self.left(),
        })
    }

    pub(super) fn standing(&self, price: Price) -> Standing {
        Standing {
            order: self.id.clone(),
            user: self.user.clone(),
            side: self.side,
            price: Decimal::of_price(price, self.decimals),
            remaining: self.left(),
            priority: self.priority,
        }
    }
}

impl Deciding<'_> {
    pub(super) fn trade(&mut self, taker: &mut Taker) -> Result<(), Stop> {
        let side = taker.side.opposite();
        let mut candidates = Candidates::new(self.command.pair, side, taker.limit, taker.decimals);
        while !taker.remaining.is_zero() {
            let Some(maker) = self.next_maker(&mut candidates, taker)? else {
                break;
            };
            if maker.user.is_none() && taker.user.is_none() {
                let detail = format!(
                    "orders {} and {} both have no user and would trade with each other",
                    maker.id, taker.id
                );
                return Err(Stop::Refused(Refusal::BotAgainstBot, detail));
            }
            self.fill(maker, taker)?;
        }
        Ok(())
    }

    /// The best maker of the store's and of this command's own, as it stands now.
    fn next_maker(
        &mut self,
        candidates: &mut Candidates,
        taker: &Taker,
    ) -> anyhow::Result<Option<RestingOrder>> {
        let stored = loop {
            let Some(candidate) = candidates.peek(self.reads)? else {
                break None;
            };
            if self.removed.contains(&candidate.id) {
                candidates.take();
                continue;
            }
            break Some(candidate.clone());
        };
        let (pair, side) = (self.command.pair, taker.side.opposite());
        let own = self.rested.iter().filter(|order| {
            order.pair == pair && order.side == side && !self.removed.contains(&order.id)
        });
        let own = own.filter(|order| taker.takes(order.price)).cloned();
        let best = own.chain(stored).min_by(|one, other| {
            let by_price = match side {
                Side::Ask => one.price.cmp(&other.price),
                Side::Bid => other.price.cmp(&one.price),
            };
            by_price.then(one.priority.cmp(&other.priority))
        });
        Ok(best.map(|order| self.changed.get(&order.id).cloned().unwrap_or(order)))
    }

    /// The articles' calculateDeal, and what is staged of it.
    fn fill(&mut self, mut maker: RestingOrder, taker: &mut Taker) -> anyhow::Result<()> {
        let decimals = taker.decimals;
        let volume = maker.remaining.min(taker.remaining);
        let quote = quote(volume, maker.price, decimals, maker.side);
        let (Some(maker_left), Some(taker_left)) =
            (maker.remaining.minus(volume), taker.remaining.minus(volume))
        else {
            anyhow::bail!("a fill is larger than what is left");
        };
        maker.remaining = maker_left;
        maker.quote_volume.0 += quote.0;
        taker.remaining = taker_left;
        taker.quote_volume.0 += quote.0;
        self.traded = true;
        self.event(Payload::Deal(Deal {
            maker: maker.id.clone(),
            taker: taker.id.clone(),
            maker_user: maker.user.clone(),
            taker_user: taker.user.clone(),
            taker_side: taker.side,
            price: Decimal::of_price(maker.price, decimals),
            volume: Decimal::of_quantity(volume, decimals),
            quote_volume: Decimal::of_quote(quote, decimals),
            maker_remaining: Decimal::of_quantity(maker_left, decimals),
            taker_remaining: taker.left(),
        }));
        if maker_left.is_zero() {
            self.remove(&maker);
            self.event(Payload::Closed(Closed {
                order: maker.id,
                user: maker.user,
                side: maker.side,
                reason: CloseReason::Filled,
                remaining: Decimal::of_quantity(Quantity::ZERO, decimals),
            }));
        } else {
            self.writes.push(Write::Reduce {
                order: maker.id.clone(),
                remaining: maker_left,
                quote_volume: maker.quote_volume,
                decimals,
            });
            self.changed.insert(maker.id.clone(), maker);
        }
        Ok(())
    }
}

/// Volume times the maker's price, rounded towards the resting side: asks up, bids down.
fn quote(volume: Quantity, price: Price, decimals: PairDecimals, maker: Side) -> QuoteAmount {
    let product = u128::from(volume.lots()) * u128::from(price.ticks());
    let digits = u32::from(decimals.price) + u32::from(decimals.amount);
    let step = 10_u128.pow(digits.saturating_sub(u32::from(decimals.quote)));
    let (whole, rest) = (product / step, product % step);
    let up = maker == Side::Ask && rest > 0;
    QuoteAmount(whole + u128::from(up))
}
