//! A market of a given shape, and commands of every kind in it.
//!
//! The market decides what it makes, with the conductor's own matcher, so that each command meets
//! what its kind says: a taker that crosses one level finds exactly that much there. What takers
//! and cancels take out is put back by passive orders, so that the shape lasts.

use conductor_engine::event::Payload;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{
    Body, Book, Command, CommandId, Decimal, FastBook, NewOrder, OrderId, OrderKind, PairDecimals,
    PairId, Price, Quantity, Side, TimeInForce, Timestamp, UserId,
};
use fastrand::Rng;
use serde::Serialize;
use std::collections::HashMap;

pub(crate) const PAIR: PairId = PairId(1);
pub(crate) const DECIMALS: PairDecimals = PairDecimals {
    price: 2,
    amount: 8,
    quote: 2,
};
const MID_TICKS: u64 = 50_000_000;
/// The start of 2026.
const START: u64 = 1_767_225_600_000;
/// Levels that a taker through many levels crosses.
const LEVELS_CROSSED: usize = 5;
/// Cancels, and places, of a replace burst.
const BURST: usize = 20;

/// How a side looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    /// Ticks from one price to the next.
    pub(crate) step: u64,
    /// Orders at each price; all of a side at one where it is zero.
    pub(crate) orders_a_level: usize,
}

/// The third article's shapes.
pub(crate) const SHAPES: [Shape; 4] = [
    Shape {
        name: "tight and dense",
        step: 1,
        orders_a_level: 100,
    },
    Shape {
        name: "wide and sparse",
        step: 997,
        orders_a_level: 4,
    },
    Shape {
        name: "all at one price",
        step: 1,
        orders_a_level: 0,
    },
    Shape {
        name: "many shallow levels",
        step: 1,
        orders_a_level: 1,
    },
];

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Passive,
    PartialFill,
    CrossOne,
    CrossMany,
    CancelTouch,
    CancelFar,
    Duplicate,
    ReplaceBurst,
}

impl Kind {
    /// Every kind, with how many of a hundred draws give it. What is drawn empties the book; the
    /// passive orders that fill it again come on top.
    pub(crate) const DRAWS: [(Kind, u8); 8] = [
        (Kind::Passive, 20),
        (Kind::PartialFill, 15),
        (Kind::CrossOne, 10),
        (Kind::CrossMany, 3),
        (Kind::CancelTouch, 20),
        (Kind::CancelFar, 20),
        (Kind::Duplicate, 7),
        (Kind::ReplaceBurst, 5),
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Kind::Passive => "passive limit",
            Kind::PartialFill => "part of the best order",
            Kind::CrossOne => "crosses one level",
            Kind::CrossMany => "crosses five levels",
            Kind::CancelTouch => "cancel at the touch",
            Kind::CancelFar => "cancel far from it",
            Kind::Duplicate => "duplicate id",
            Kind::ReplaceBurst => "replace 20 for 20",
        }
    }
}

/// The market.
pub(crate) struct Market {
    shape: Shape,
    levels: usize,
    target: usize,
    random: Rng,
    matcher: Matcher<FastBook>,
    /// Orders of each side by level, the best level first, in no order within one.
    resting: [Vec<Vec<OrderId>>; 2],
    places: HashMap<OrderId, (Side, usize)>,
    commands: u64,
    orders: u64,
}

impl Market {
    /// A market that is to hold so many orders, still empty.
    pub(crate) fn new(shape: Shape, orders: usize, seed: u64) -> Self {
        let a_side = orders / 2;
        let levels = match shape.orders_a_level {
            0 => 1,
            count => (a_side / count).max(1),
        };
        Self {
            shape,
            levels,
            target: orders,
            random: Rng::with_seed(seed),
            matcher: Matcher::new(Cell::single(), FastBook::default(), Cursor::default()),
            resting: [vec![Vec::new(); levels], vec![Vec::new(); levels]],
            places: HashMap::new(),
            commands: 0,
            orders: 0,
        }
    }

    /// Commands that fill it.
    pub(crate) fn fill(&mut self) -> Vec<Command> {
        let level = |number: usize, levels: usize| number / 2 % levels;
        (0..self.target)
            .map(|number| {
                let side = [Side::Ask, Side::Bid][number % 2];
                let order = self.passive(side, level(number, self.levels));
                self.decided(Body::Place(order))
            })
            .collect()
    }

    /// The next command: passive while the book is short of orders.
    pub(crate) fn next(&mut self) -> (Kind, Command) {
        let kind = if self.places.len() < self.target {
            Kind::Passive
        } else {
            self.draw()
        };
        let side = [Side::Ask, Side::Bid][self.random.usize(..2)];
        let body = match kind {
            Kind::Passive => {
                let level = self.random.usize(..self.levels);
                Body::Place(self.passive(side, level))
            }
            Kind::PartialFill => {
                let lots = self.best_lots(side);
                self.take(side, (lots / 2).max(1))
            }
            Kind::CrossOne => self.cross(side, 1),
            Kind::CrossMany => self.cross(side, LEVELS_CROSSED),
            Kind::CancelTouch => Body::Cancel {
                order: self.oldest(side),
            },
            Kind::CancelFar => Body::Cancel {
                order: self.farthest(side, 1).remove(0),
            },
            Kind::Duplicate => {
                let mut order = self.passive(side, 0);
                order.id = self.oldest(side);
                Body::Place(order)
            }
            Kind::ReplaceBurst => {
                let cancel = self.farthest(side, BURST);
                let levels = self.levels;
                let place = (0..cancel.len())
                    .map(|number| self.passive(side, levels - 1 - number % levels))
                    .collect();
                Body::Replace { cancel, place }
            }
        };
        (kind, self.decided(body))
    }

    /// What rests, for comparison.
    pub(crate) const fn book(&self) -> &FastBook {
        self.matcher.book()
    }

    fn draw(&mut self) -> Kind {
        let mut left = self.random.u8(..100);
        for (kind, share) in Kind::DRAWS {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return kind,
            }
        }
        Kind::Passive
    }

    fn passive(&mut self, side: Side, level: usize) -> NewOrder {
        let away = 1 + level as u64 * self.shape.step;
        let ticks = match side {
            Side::Ask => MID_TICKS + away,
            Side::Bid => MID_TICKS - away,
        };
        let lots = self.random.u64(1_000..100_000);
        self.order(side, ticks, lots, TimeInForce::GoodTillCancelled)
    }

    fn order(&mut self, side: Side, ticks: u64, lots: u64, time_in_force: TimeInForce) -> NewOrder {
        self.orders += 1;
        let price = Price::new(ticks).expect("near the mid");
        let volume = Quantity::new(lots).expect("far below the end");
        NewOrder {
            id: OrderId::new(&format!("o-{}", self.orders)).expect("letters and digits"),
            user: Some(UserId::new(&format!("u-{}", self.orders % 997)).expect("an id")),
            side,
            kind: OrderKind::Limit {
                price: Decimal::of_price(price, DECIMALS),
                time_in_force,
            },
            volume: Decimal::of_quantity(volume, DECIMALS),
            decimals: DECIMALS,
            timestamp: self.time(),
        }
    }

    /// An order that takes so much from a side, whatever it costs, and never rests.
    fn take(&mut self, from: Side, lots: u64) -> Body {
        let reach = 1 + self.levels as u64 * self.shape.step;
        let (side, ticks) = match from {
            Side::Ask => (Side::Bid, MID_TICKS + reach),
            Side::Bid => (Side::Ask, MID_TICKS - reach),
        };
        Body::Place(self.order(side, ticks, lots, TimeInForce::ImmediateOrCancel))
    }

    /// At most what a side's best levels hold.
    fn cross(&mut self, side: Side, levels: usize) -> Body {
        let best = self.matcher.book().levels(PAIR, side, levels);
        let lots: u128 = best.iter().map(|level| level.lots).sum();
        let lots = u64::try_from(lots).unwrap_or(u64::MAX);
        // A level that holds thousands is crossed in part only, or nothing would be left.
        let most = self.best_lots(side).saturating_mul(200);
        self.take(side, lots.min(most).max(1))
    }

    fn best_lots(&self, side: Side) -> u64 {
        let best = self.matcher.book().best(PAIR, side);
        best.map_or(1, |order| order.remaining.lots())
    }

    fn oldest(&self, side: Side) -> OrderId {
        let best = self.matcher.book().best(PAIR, side);
        best.map(|order| order.id.clone())
            .expect("a full market has two sides")
    }

    /// Some orders of the levels farthest from the touch.
    fn farthest(&self, side: Side, count: usize) -> Vec<OrderId> {
        let far = self.resting[place(side)].iter().rev().flatten();
        far.take(count).cloned().collect()
    }

    const fn time(&self) -> Timestamp {
        match Timestamp::new(START + self.commands) {
            Some(time) => time,
            None => panic!("before the year 2100"),
        }
    }

    fn decided(&mut self, body: Body) -> Command {
        self.commands += 1;
        let command = Command {
            id: CommandId::new(&format!("c-{}", self.commands)).expect("letters and digits"),
            pair: PAIR,
            partition: None,
            timestamp: self.time(),
            body,
        };
        let (mut accepted, mut writes) = (AcceptedOrders::default(), Vec::new());
        let decided = self.matcher.apply(&command, &mut accepted, &mut writes);
        decided.expect("the engine keeps its invariants");
        for write in &writes {
            match write {
                Write::Rest { order, .. } => self.rested(&order.id, order.side, order.price),
                Write::Remove { order, .. } => self.left(order),
                _ => {}
            }
        }
        command
    }

    fn rested(&mut self, id: &OrderId, side: Side, price: Price) {
        let level = (price.ticks().abs_diff(MID_TICKS) - 1) / self.shape.step;
        let level = usize::try_from(level).expect("there are fewer levels");
        self.resting[place(side)][level].push(id.clone());
        self.places.insert(id.clone(), (side, level));
    }

    fn left(&mut self, id: &OrderId) {
        if let Some((side, level)) = self.places.remove(id) {
            let orders = &mut self.resting[place(side)][level];
            if let Some(found) = orders.iter().position(|other| other == id) {
                orders.swap_remove(found);
            }
        }
    }
}

const fn place(side: Side) -> usize {
    match side {
        Side::Ask => 0,
        Side::Bid => 1,
    }
}

/// The deals of some writes: maker, and volume as it was told.
pub(crate) fn deals(writes: &[Write]) -> impl Iterator<Item = (&OrderId, &Decimal)> {
    writes.iter().filter_map(|write| match write {
        Write::Event(event) => match &event.payload {
            Payload::Deal(deal) => Some((&deal.maker, &deal.volume)),
            _ => None,
        },
        _ => None,
    })
}
