//! What a single order, amend or batch of the workload looks like.

use super::Workload;
use super::market::Quotes;
use conductor_engine::limits::{PRICE_TICKS_END, VOLUME_LOTS_END};
use conductor_engine::{
    Body, Decimal, NewOrder, OrderId, OrderKind, Price, Quantity, Side, TimeInForce, Timestamp,
    UserId,
};

/// How far from the mid an order rests at most, in ticks.
const REACH_TICKS: u64 = 24;
/// How far through the best price a trading order goes at most, in ticks.
const THROUGH_TICKS: u64 = 3;
/// A volume is this many steps at most.
const VOLUME_STEPS_MAX: u64 = 5_000;
/// Decimals that volumes use, where the pair has as many.
const VOLUME_DECIMALS: u8 = 3;

impl Workload {
    /// An order that trades at once; `None` when nothing rests in its pair.
    pub(super) fn trading_order(&mut self, place: usize, timestamp: Timestamp) -> Option<NewOrder> {
        let side = self.side();
        let found = |side: Side| {
            let best = self.market.best(place, side.opposite())?;
            Some((side, best))
        };
        let (side, (best_ticks, maker_lots)) = found(side).or_else(|| found(side.opposite()))?;
        // From a tenth of the oldest maker to a little more than all of it.
        let step = self.volume_step();
        let tenths = u128::from(self.random.u64(1..=12));
        let lots = u128::from(maker_lots) * tenths / 10;
        let lots = u64::try_from(lots).unwrap_or(VOLUME_LOTS_END - 1);
        let lots = (lots / step * step).clamp(step, VOLUME_LOTS_END - 1);
        let through = self.random.u64(..=THROUGH_TICKS);
        let ticks = match side {
            Side::Bid => (best_ticks + through).min(PRICE_TICKS_END - 1),
            Side::Ask => best_ticks.saturating_sub(through).max(1),
        };
        let kind = match self.random.u8(..10) {
            0 => OrderKind::Market,
            1 | 2 => self.limit(ticks, TimeInForce::ImmediateOrCancel),
            _ => self.limit(ticks, TimeInForce::GoodTillCancelled),
        };
        let user = Some(self.user());
        Some(self.order(user, side, kind, lots, timestamp))
    }

    /// An order that comes to rest whole, as the quotes stand; it becomes part of them.
    pub(super) fn resting_order(&mut self, timestamp: Timestamp, quotes: &mut Quotes) -> NewOrder {
        let side = self.thinner_side(quotes);
        let ticks = self.resting_price(side, quotes);
        let kind = self.limit(ticks, TimeInForce::GoodTillCancelled);
        let house = side == Side::Ask && self.random.u16(..1_000) < self.options.house_permille;
        let user = if house { None } else { Some(self.user()) };
        let lots = self.lots();
        self.order(user, side, kind, lots, timestamp)
    }

    /// Another volume or another price of a live order of a pair that has some.
    pub(super) fn amend(&mut self, place: usize) -> Body {
        let id = self.market.pick(place, &mut self.random);
        let resting = self.market.order(&id).expect("a live order rests");
        let (side, lots) = (resting.side, resting.remaining.lots());
        let of_user = resting.user.is_some();
        let step = self.volume_step();
        let mut quotes = self.market.quotes(place);
        let steps = lots / step;
        let (mut price, mut volume) = (None, None);
        match self.random.u8(..10) {
            0..5 if steps > 1 => volume = Some(self.random.u64(1..steps) * step),
            5..8 => price = Some(self.resting_price(side, &mut quotes)),
            8 if of_user => {
                let best = self.market.best(place, side.opposite());
                price = best.map(|(ticks, _)| ticks);
                // With nothing to meet it is an amend of the volume.
                if price.is_none() {
                    volume = Some(self.lots());
                }
            }
            _ => volume = Some((lots + step).min(VOLUME_LOTS_END - 1)),
        }
        Body::Amend {
            order: id,
            price: price.map(|ticks| self.price(ticks)),
            volume: volume.map(|lots| self.volume(lots)),
        }
    }

    /// Cancels of live orders and new ones in their stead; more of the one or of the other, as the
    /// pair has too many orders or too few.
    pub(super) fn batch(&mut self, place: usize, timestamp: Timestamp) -> Body {
        let entries = self.random.usize(1..=self.options.batch_entries_max);
        let wanted = self.options.resting_per_pair;
        let cancels = match self.market.resting_in(place) {
            resting if resting < wanted => entries / 4,
            resting if resting < 2 * wanted => entries / 2,
            _ => entries - entries / 4,
        };
        let cancel = self.market.pick_some(place, cancels, &mut self.random);
        let mut quotes = self.market.quotes(place);
        let place = (cancel.len()..entries)
            .map(|_| self.resting_order(timestamp, &mut quotes))
            .collect();
        Body::Replace { cancel, place }
    }

    fn side(&mut self) -> Side {
        if self.random.bool() {
            Side::Ask
        } else {
            Side::Bid
        }
    }

    /// An empty side before all others.
    fn thinner_side(&mut self, quotes: &Quotes) -> Side {
        match (quotes.bid, quotes.ask) {
            (None, Some(_)) => Side::Bid,
            (Some(_), None) => Side::Ask,
            _ => self.side(),
        }
    }

    /// A price near the mid that meets nothing on the other side; it becomes part of the quotes.
    fn resting_price(&mut self, side: Side, quotes: &mut Quotes) -> u64 {
        // The smaller of two draws: most orders rest near the mid.
        let far = self.random.u64(1..=REACH_TICKS);
        let far = far.min(self.random.u64(1..=REACH_TICKS));
        match side {
            Side::Ask => {
                let free = quotes.bid.map_or(1, |bid| bid + 1);
                let ticks = (quotes.mid + far).max(free).min(PRICE_TICKS_END - 1);
                quotes.ask = Some(quotes.ask.map_or(ticks, |ask| ask.min(ticks)));
                ticks
            }
            Side::Bid => {
                let free = quotes.ask.map_or(PRICE_TICKS_END - 1, |ask| ask - 1);
                let ticks = quotes.mid.saturating_sub(far).min(free).max(1);
                quotes.bid = Some(quotes.bid.map_or(ticks, |bid| bid.max(ticks)));
                ticks
            }
        }
    }

    /// The smallest volume that is drawn, in lots.
    fn volume_step(&self) -> u64 {
        let unused = self.options.decimals.amount.saturating_sub(VOLUME_DECIMALS);
        10_u64.pow(u32::from(unused.min(14)))
    }

    fn lots(&mut self) -> u64 {
        self.random.u64(1..=VOLUME_STEPS_MAX) * self.volume_step()
    }

    fn price(&self, ticks: u64) -> Decimal {
        let price = Price::new(ticks).expect("a drawn price is in range");
        plain(&Decimal::of_price(price, self.options.decimals))
    }

    fn volume(&self, lots: u64) -> Decimal {
        let quantity = Quantity::new(lots).expect("a drawn volume is in range");
        plain(&Decimal::of_quantity(quantity, self.options.decimals))
    }

    fn limit(&self, ticks: u64, time_in_force: TimeInForce) -> OrderKind {
        OrderKind::Limit {
            price: self.price(ticks),
            time_in_force,
        }
    }

    fn order(
        &mut self,
        user: Option<UserId>,
        side: Side,
        kind: OrderKind,
        lots: u64,
        timestamp: Timestamp,
    ) -> NewOrder {
        self.orders += 1;
        let id = format!("{}o-{}", self.options.prefix, self.orders);
        NewOrder {
            id: OrderId::new(&id).expect("the prefix was checked"),
            user,
            side,
            kind,
            volume: self.volume(lots),
            decimals: self.options.decimals,
            timestamp,
        }
    }
}

/// The same number without trailing zeros, as a producer would write it.
fn plain(decimal: &Decimal) -> Decimal {
    Decimal::parse(&decimal.to_string()).expect("what is shown of a decimal is one")
}
