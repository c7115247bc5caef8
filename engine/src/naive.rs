//! The slow twin: the same book, written so that its rightness is plain to see.
//!
//! One unordered list, scanned for everything, copied whole at the start of each command. It is
//! the oracle for [`crate::FastBook`] and must never share code with it.

use crate::book::{Book, PriceLevel, RestingOrder};
use crate::command::Side;
use crate::ids::{OrderId, PairId};
use crate::units::{PairDecimals, Price, Quantity, QuoteAmount};
use crate::violation::Violation;
use std::cmp::Reverse;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
struct Content {
    orders: Vec<RestingOrder>,
    decimals: BTreeMap<PairId, PairDecimals>,
}

/// The naive book.
#[derive(Clone, Debug, Default)]
pub struct NaiveBook {
    now: Content,
    at_begin: Content,
    /// What was taken out last.
    removed: Option<RestingOrder>,
}

impl NaiveBook {
    fn on_side(&self, pair: PairId, side: Side) -> impl Iterator<Item = &RestingOrder> {
        self.now
            .orders
            .iter()
            .filter(move |order| order.pair == pair && order.side == side)
    }

    fn best_order(&self, pair: PairId, side: Side) -> Option<&RestingOrder> {
        match side {
            Side::Ask => self
                .on_side(pair, side)
                .min_by_key(|order| (order.price, order.priority)),
            Side::Bid => self
                .on_side(pair, side)
                .min_by_key(|order| (Reverse(order.price), order.priority)),
        }
    }

    fn order_mut(&mut self, id: &OrderId) -> Result<&mut RestingOrder, Violation> {
        let found = self.now.orders.iter_mut().find(|order| order.id == *id);
        found.ok_or(Violation::BrokenStructure {
            detail: "an order that must rest does not",
        })
    }

    fn best_id(&self, pair: PairId, side: Side) -> Result<OrderId, Violation> {
        let best = self.best_order(pair, side).map(|order| order.id.clone());
        best.ok_or(Violation::BrokenStructure {
            detail: "a side that must have orders has none",
        })
    }
}

impl Book for NaiveBook {
    fn begin(&mut self) {
        self.at_begin = self.now.clone();
    }

    fn keep(&mut self) {}

    fn undo(&mut self) {
        self.now = self.at_begin.clone();
    }

    fn decimals(&self, pair: PairId) -> Option<PairDecimals> {
        self.now.decimals.get(&pair).copied()
    }

    fn fix_decimals(&mut self, pair: PairId, decimals: PairDecimals) {
        self.now.decimals.insert(pair, decimals);
    }

    fn order(&self, id: &OrderId) -> Option<&RestingOrder> {
        self.now.orders.iter().find(|order| order.id == *id)
    }

    fn best(&self, pair: PairId, side: Side) -> Option<&RestingOrder> {
        self.best_order(pair, side)
    }

    fn best_price(&self, pair: PairId, side: Side) -> Option<Price> {
        self.best_order(pair, side).map(|order| order.price)
    }

    fn insert(&mut self, order: RestingOrder) -> Result<(), Violation> {
        if self.order(&order.id).is_some() {
            return Err(Violation::BrokenStructure {
                detail: "an order id rests twice",
            });
        }
        self.now.orders.push(order);
        Ok(())
    }

    fn reduce_best(
        &mut self,
        pair: PairId,
        side: Side,
        remaining: Quantity,
        quote_volume: QuoteAmount,
    ) -> Result<(), Violation> {
        let id = self.best_id(pair, side)?;
        let order = self.order_mut(&id)?;
        order.remaining = remaining;
        order.quote_volume = quote_volume;
        Ok(())
    }

    fn remove_best(&mut self, pair: PairId, side: Side) -> Result<(), Violation> {
        let id = self.best_id(pair, side)?;
        self.now.orders.retain(|order| order.id != id);
        Ok(())
    }

    fn shrink(&mut self, id: &OrderId, remaining: Quantity) -> Result<(), Violation> {
        let order = self.order_mut(id)?;
        order.volume = remaining;
        order.remaining = remaining;
        Ok(())
    }

    fn remove(&mut self, pair: PairId, id: &OrderId) -> Option<&RestingOrder> {
        let order = self.order(id).filter(|order| order.pair == pair)?.clone();
        self.now.orders.retain(|other| other.id != *id);
        self.removed = Some(order);
        self.removed.as_ref()
    }

    fn pairs(&self) -> Vec<PairId> {
        self.now.decimals.keys().copied().collect()
    }

    fn orders(&self, pair: PairId, side: Side) -> Vec<RestingOrder> {
        let mut orders: Vec<RestingOrder> = self.on_side(pair, side).cloned().collect();
        match side {
            Side::Ask => orders.sort_by_key(|order| (order.price, order.priority)),
            Side::Bid => orders.sort_by_key(|order| (Reverse(order.price), order.priority)),
        }
        orders
    }

    fn levels(&self, pair: PairId, side: Side, levels_max: usize) -> Vec<PriceLevel> {
        let mut levels: Vec<PriceLevel> = Vec::new();
        for order in self.orders(pair, side) {
            let lots = u128::from(order.remaining.lots());
            match levels.last_mut().filter(|level| level.price == order.price) {
                Some(level) => {
                    level.lots += lots;
                    level.orders += 1;
                }
                None => levels.push(PriceLevel {
                    price: order.price,
                    lots,
                    orders: 1,
                }),
            }
        }
        levels.truncate(levels_max);
        levels
    }

    fn len(&self) -> usize {
        self.now.orders.len()
    }
}
