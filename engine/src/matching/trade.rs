//! The trade: an arriving order against the best of the other side, while price and volume allow.
//!
//! This is the one place in which two orders meet. It changes the book and hands each fill to a
//! [`Fills`]; it builds no event itself, so that what a benchmark of it measures is what the
//! conductor runs. It never rests what is left.

use crate::book::{Book, RestingOrder};
use crate::command::Side;
use crate::ids::{OrderId, PairId, Timestamp, UserId};
use crate::units::{PairDecimals, Price, Quantity, QuoteAmount, quote_amount};
use crate::violation::Violation;

/// An order while it trades.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taker {
    /// The producer's name for it.
    pub id: OrderId,
    /// Whose it is; `None` for the house.
    pub user: Option<UserId>,
    /// Its side.
    pub side: Side,
    /// The worst price it takes; `None` takes any.
    pub limit: Option<Price>,
    /// What it came with.
    pub volume: Quantity,
    /// What it has left.
    pub remaining: Quantity,
    /// Quote volume that it has traded.
    pub quote_volume: QuoteAmount,
    /// Its place in time, should it rest.
    pub priority: u64,
    /// The producer's time.
    pub timestamp: Timestamp,
    /// The decimals of its pair.
    pub decimals: PairDecimals,
}

impl Taker {
    fn takes(&self, price: Price) -> bool {
        match (self.limit, self.side) {
            (None, _) => true,
            (Some(limit), Side::Bid) => price <= limit,
            (Some(limit), Side::Ask) => price >= limit,
        }
    }

    /// What is left of it, as an order at rest.
    pub fn resting(self, pair: PairId, price: Price) -> RestingOrder {
        RestingOrder {
            id: self.id,
            user: self.user,
            pair,
            side: self.side,
            price,
            volume: self.volume,
            remaining: self.remaining,
            quote_volume: self.quote_volume,
            priority: self.priority,
            timestamp: self.timestamp,
        }
    }
}

/// One deal, as it is about to be done.
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    /// The smaller remainder of the two.
    pub volume: Quantity,
    /// Volume times price, rounded in the maker's favour.
    pub quote: QuoteAmount,
    /// What the maker has left after it; nothing closes the maker.
    pub maker_remaining: Quantity,
    /// What the maker has traded after it.
    pub maker_quote_volume: QuoteAmount,
}

/// Who is told of fills.
pub trait Fills {
    /// One fill. The taker stands as after it, the maker as before it.
    fn fill(&mut self, maker: &RestingOrder, taker: &Taker, fill: &Fill);
}

/// Why a trade stops before price or volume end it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TradeStop {
    /// The taker and this maker both have no user and may not meet.
    HouseMeetsHouse {
        /// The resting order.
        maker: OrderId,
    },
    /// An invariant broke.
    Broken(Violation),
}

/// Trades against the best orders of the other side while price and volume allow.
///
/// # Errors
/// [`TradeStop`]; the book is then to be undone, or not to be used any more.
#[inline]
pub fn trade<B: Book>(
    book: &mut B,
    pair: PairId,
    taker: &mut Taker,
    fills: &mut impl Fills,
) -> Result<(), TradeStop> {
    let side = taker.side.opposite();
    while !taker.remaining.is_zero() {
        let best = book.best(pair, side);
        let Some(maker) = best.filter(|maker| taker.takes(maker.price)) else {
            break;
        };
        if taker.user.is_none() && maker.user.is_none() {
            let maker = maker.id.clone();
            return Err(TradeStop::HouseMeetsHouse { maker });
        }
        let fill = fill(maker, taker, side).map_err(TradeStop::Broken)?;
        fills.fill(maker, taker, &fill);
        let done = if fill.maker_remaining.is_zero() {
            book.remove_best(pair, side)
        } else {
            let (left, quote_volume) = (fill.maker_remaining, fill.maker_quote_volume);
            book.reduce_best(pair, side, left, quote_volume)
        };
        done.map_err(TradeStop::Broken)?;
    }
    Ok(())
}

/// What the two trade with each other. The taker is left as after it.
fn fill(maker: &RestingOrder, taker: &mut Taker, side: Side) -> Result<Fill, Violation> {
    let volume = maker.remaining.min(taker.remaining);
    let quote = quote_amount(volume, maker.price, taker.decimals, side);
    let too_large = |order: &OrderId| Violation::NegativeRemainder {
        order: order.clone(),
    };
    let maker_left = maker.remaining.minus(volume);
    let maker_left = maker_left.ok_or_else(|| too_large(&maker.id))?;
    let taker_left = taker.remaining.minus(volume);
    let taker_left = taker_left.ok_or_else(|| too_large(&taker.id))?;
    let maker_moved = maker.remaining.lots() - maker_left.lots();
    if volume.is_zero() || maker_moved != taker.remaining.lots() - taker_left.lots() {
        let (maker, taker) = (maker.id.clone(), taker.id.clone());
        return Err(Violation::UnequalLegs { maker, taker });
    }
    taker.remaining = taker_left;
    taker.quote_volume.0 += quote.0;
    Ok(Fill {
        volume,
        quote,
        maker_remaining: maker_left,
        maker_quote_volume: QuoteAmount(maker.quote_volume.0 + quote.0),
    })
}
