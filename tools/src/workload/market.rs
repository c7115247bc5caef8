//! The workload's own market: the engine, the live orders of each pair, and a mid that moves.
//!
//! The engine is the real one, in a single partition whatever the cell has, because what trades in
//! a pair does not depend on other pairs. It forgets which ids are used up, since the workload
//! never uses one twice; so an endless workload takes no more memory than its book.

use conductor_engine::book::RestingOrder;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{Book, Command, FastBook, OrderId, PairId, Price, Side};
use fastrand::Rng;
use std::collections::HashMap;

/// The mid never goes below this many ticks, so that there is room for bids under it.
const MID_TICKS_MIN: u64 = 100;

/// A market that follows the commands of a workload.
#[derive(Debug)]
pub(super) struct Market {
    matcher: Matcher<FastBook>,
    accepted: AcceptedOrders,
    writes: Vec<Write>,
    pairs: Vec<PairMarket>,
    /// Where each live order is: the place of its pair, and its place there.
    live_places: HashMap<OrderId, (usize, usize)>,
    pair_places: HashMap<PairId, usize>,
}

#[derive(Debug)]
struct PairMarket {
    pair: PairId,
    mid_ticks: u64,
    live: Vec<OrderId>,
}

/// The best prices of a pair and its mid; kept up to date while a batch is put together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotes {
    pub(super) bid: Option<u64>,
    pub(super) ask: Option<u64>,
    pub(super) mid: u64,
}

impl Market {
    pub(super) fn new(pairs: &[PairId], mid_ticks: u64) -> Self {
        let market = |pair: &PairId| PairMarket {
            pair: *pair,
            mid_ticks,
            live: Vec::new(),
        };
        let places = pairs.iter().enumerate();
        Self {
            matcher: Matcher::new(Cell::single(), FastBook::default(), Cursor::default()),
            accepted: AcceptedOrders::default(),
            writes: Vec::new(),
            pairs: pairs.iter().map(market).collect(),
            live_places: HashMap::new(),
            pair_places: places.map(|(place, pair)| (*pair, place)).collect(),
        }
    }

    pub(super) fn resting(&self) -> usize {
        self.live_places.len()
    }

    pub(super) fn resting_in(&self, place: usize) -> usize {
        self.pairs[place].live.len()
    }

    pub(super) fn quotes(&self, place: usize) -> Quotes {
        let market = &self.pairs[place];
        let best = |side| self.matcher.book().best_price(market.pair, side);
        Quotes {
            bid: best(Side::Bid).map(Price::ticks),
            ask: best(Side::Ask).map(Price::ticks),
            mid: market.mid_ticks,
        }
    }

    /// Price in ticks and remainder in lots of the oldest order at a side's best price.
    pub(super) fn best(&self, place: usize, side: Side) -> Option<(u64, u64)> {
        let maker = self.matcher.book().best(self.pairs[place].pair, side)?;
        Some((maker.price.ticks(), maker.remaining.lots()))
    }

    pub(super) fn order(&self, id: &OrderId) -> Option<&RestingOrder> {
        self.matcher.book().order(id)
    }

    /// This pair, or the next one that has a live order.
    pub(super) fn pair_with_orders(&self, place: usize) -> Option<usize> {
        let count = self.pairs.len();
        let mut places = (0..count).map(|step| (place + step) % count);
        places.find(|place| !self.pairs[*place].live.is_empty())
    }

    /// Any live order of a pair that has some.
    pub(super) fn pick(&self, place: usize, random: &mut Rng) -> OrderId {
        let live = &self.pairs[place].live;
        live[random.usize(..live.len())].clone()
    }

    /// Up to this many different live orders of a pair.
    pub(super) fn pick_some(&self, place: usize, count: usize, random: &mut Rng) -> Vec<OrderId> {
        let live = &self.pairs[place].live;
        if live.is_empty() {
            return Vec::new();
        }
        let first = random.usize(..live.len());
        let picked = live.iter().cycle().skip(first).take(count.min(live.len()));
        picked.cloned().collect()
    }

    /// Moves a pair's mid by a tick now and then.
    pub(super) fn drift(&mut self, place: usize, random: &mut Rng) {
        let mid = &mut self.pairs[place].mid_ticks;
        match random.u8(..8) {
            0 => *mid += 1,
            1 => *mid = (*mid - 1).max(MID_TICKS_MIN),
            _ => {}
        }
    }

    /// Decides a command and follows what becomes of its orders.
    ///
    /// # Panics
    /// When the engine finds one of its invariants broken, which is a bug of the engine.
    pub(super) fn decide(&mut self, command: &Command) {
        self.accepted.clear();
        self.writes.clear();
        let decided = self
            .matcher
            .apply(command, &mut self.accepted, &mut self.writes);
        if let Err(violation) = decided {
            panic!(
                "the engine broke an invariant on command {}: {violation}",
                command.id
            );
        }
        let writes = std::mem::take(&mut self.writes);
        for write in &writes {
            match write {
                Write::Rest { order, .. } => self.rested(order.pair, &order.id),
                Write::Remove { order, .. } => self.left(order),
                _ => {}
            }
        }
        self.writes = writes;
    }

    fn rested(&mut self, pair: PairId, order: &OrderId) {
        let place = self.pair_places[&pair];
        let live = &mut self.pairs[place].live;
        self.live_places.insert(order.clone(), (place, live.len()));
        live.push(order.clone());
    }

    fn left(&mut self, order: &OrderId) {
        let Some((place, within)) = self.live_places.remove(order) else {
            return;
        };
        let live = &mut self.pairs[place].live;
        live.swap_remove(within);
        if let Some(moved) = live.get(within) {
            self.live_places.insert(moved.clone(), (place, within));
        }
    }
}
