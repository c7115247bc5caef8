//! Orders that the file touches but never places: how large they were, and when they came.
//!
//! Such an order stood in the book before the file begins, or was placed later beyond the levels
//! that the file shows. Its size is what the messages take from it, which is the least that it
//! can have had. When it came is told by the rows: one that would show the order, and has no room
//! for it at its price, rules out that it was there. The order is placed at the first moment
//! after the last row that rules it out, and before the file's first message when none does.

use super::read::{BookRow, Kind, Message, Recording};
use conductor_engine::{OrderId, Price, Side};
use std::collections::{BTreeMap, HashMap};

/// An order that the file never places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Untold {
    pub(super) id: OrderId,
    pub(super) side: Side,
    pub(super) price: Price,
    pub(super) size: u64,
    /// The first message that touches it.
    touched_at: usize,
    /// The first message that trades it, if any does.
    pub(super) executed_at: Option<usize>,
    /// It comes directly before this message; `None` if it was there before the file begins.
    pub(super) comes_before: Option<usize>,
}

/// The book before the first message: its first row without what that message did to it.
pub(super) fn opening(recording: &Recording) -> BookRow {
    let mut row = recording.rows[0].clone();
    let message = &recording.messages[0];
    let Some(price) = message.price else {
        return row;
    };
    let levels = row.side_mut(message.side);
    let size = levels.get(&price).copied().unwrap_or(0);
    match message.kind {
        Kind::Place => match size.saturating_sub(message.size) {
            0 => {
                levels.remove(&price);
                // What the first message pushed off the row is not known.
                let shown = levels.len();
                row.levels_max = row.levels_max.min(shown);
            }
            left => {
                levels.insert(price, left);
            }
        },
        Kind::Reduce | Kind::Delete | Kind::Execute => {
            levels.insert(price, size + message.size);
        }
        Kind::ExecuteHidden | Kind::Cross | Kind::Halt => {}
    }
    row
}

/// Every untold order, in the order in which the file first touches them.
pub(super) fn untold(recording: &Recording, opening: &BookRow) -> Vec<Untold> {
    let mut orders = touched(&recording.messages);
    Sweep::new(&orders).run(recording, opening, &mut orders);
    orders
}

/// The untold orders with their sizes.
fn touched(messages: &[Message]) -> Vec<Untold> {
    let mut orders: Vec<Untold> = Vec::new();
    // The place of an untold order in the list; `None` for one that the file places.
    let mut known: HashMap<&OrderId, Option<usize>> = HashMap::new();
    let mut last_kinds: Vec<Kind> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let Some(price) = touches(message) else {
            if message.kind == Kind::Place {
                known.entry(&message.order).or_insert(None);
            }
            continue;
        };
        let place = known.entry(&message.order).or_insert_with(|| {
            orders.push(Untold {
                id: message.order.clone(),
                side: message.side,
                price,
                size: 0,
                touched_at: at,
                executed_at: None,
                comes_before: None,
            });
            last_kinds.push(message.kind);
            Some(orders.len() - 1)
        });
        if let Some(place) = *place {
            let order = &mut orders[place];
            order.size += message.size;
            last_kinds[place] = message.kind;
            if message.kind == Kind::Execute {
                order.executed_at.get_or_insert(at);
            }
        }
    }
    for (order, kind) in orders.iter_mut().zip(last_kinds) {
        // A reduction leaves something, or the file would call it a deletion.
        order.size += u64::from(kind == Kind::Reduce);
    }
    orders
}

/// The price of an order that a message takes from.
fn touches(message: &Message) -> Option<Price> {
    match message.kind {
        Kind::Reduce | Kind::Delete | Kind::Execute => message.price,
        Kind::Place | Kind::ExecuteHidden | Kind::Cross | Kind::Halt => None,
    }
}

type Level = (Side, Price);

/// One walk over the file, which holds every row against the untold orders that are still to be
/// touched.
struct Sweep {
    /// What is still to be touched, by side and price, in the order of the first touch.
    pending: BTreeMap<Level, Vec<usize>>,
    /// What each order that has been named has left, with its level.
    left: HashMap<OrderId, (Level, u64)>,
    /// What the orders that have been named have left at each level.
    explained: HashMap<Level, u64>,
}

impl Sweep {
    fn new(orders: &[Untold]) -> Self {
        let mut pending: BTreeMap<Level, Vec<usize>> = BTreeMap::new();
        for (place, order) in orders.iter().enumerate() {
            pending
                .entry((order.side, order.price))
                .or_default()
                .push(place);
        }
        Self {
            pending,
            left: HashMap::new(),
            explained: HashMap::new(),
        }
    }

    fn run(mut self, recording: &Recording, opening: &BookRow, orders: &mut [Untold]) {
        self.rule_out(opening, 0, orders);
        let mut next = 0;
        for (at, (message, row)) in recording.messages.iter().zip(&recording.rows).enumerate() {
            while let Some(order) = orders.get(next).filter(|order| order.touched_at == at) {
                self.first_touch(order, next);
                next += 1;
            }
            self.follow(message);
            self.rule_out(row, at + 1, orders);
        }
    }

    /// An order that has been touched is known from then on.
    fn first_touch(&mut self, order: &Untold, place: usize) {
        let level = (order.side, order.price);
        if let Some(places) = self.pending.get_mut(&level) {
            places.retain(|each| *each != place);
        }
        self.add(&order.id, level, order.size);
    }

    fn add(&mut self, id: &OrderId, level: Level, size: u64) {
        self.left.insert(id.clone(), (level, size));
        *self.explained.entry(level).or_default() += size;
    }

    fn follow(&mut self, message: &Message) {
        let Some(price) = message.price else {
            return;
        };
        match message.kind {
            Kind::Place => self.add(&message.order, (message.side, price), message.size),
            Kind::Reduce | Kind::Execute => self.take(&message.order, message.size),
            Kind::Delete => self.take(&message.order, u64::MAX),
            Kind::ExecuteHidden | Kind::Cross | Kind::Halt => {}
        }
    }

    fn take(&mut self, id: &OrderId, size: u64) {
        if let Some((level, left)) = self.left.get_mut(id) {
            let taken = size.min(*left);
            *left -= taken;
            let explained = self.explained.entry(*level).or_default();
            *explained = explained.saturating_sub(taken);
        }
    }

    /// Marks the pending orders that this row would show and has no room for. They come before
    /// the message `next` at the earliest.
    fn rule_out(&self, row: &BookRow, next: usize, orders: &mut [Untold]) {
        for side in [Side::Ask, Side::Bid] {
            let (lowest, highest) = shown(row, side);
            for (level, places) in self.pending.range((side, lowest)..=(side, highest)) {
                let size = row.side(side).get(&level.1).copied().unwrap_or(0);
                let explained = self.explained.get(level).copied().unwrap_or(0);
                let mut room = size.saturating_sub(explained);
                for place in places {
                    let order = &mut orders[*place];
                    match room.checked_sub(order.size) {
                        Some(rest) => room = rest,
                        None => order.comes_before = Some(next),
                    }
                }
            }
        }
    }
}

/// The prices of a side at which a row shows whatever stands there.
fn shown(row: &BookRow, side: Side) -> (Price, Price) {
    const LOWEST: Price = Price::new(1).expect("one tick is a price");
    const HIGHEST: Price =
        Price::new(conductor_engine::limits::PRICE_TICKS_END - 1).expect("below the end");
    match side {
        Side::Ask => (LOWEST, row.worst_shown(side).unwrap_or(HIGHEST)),
        Side::Bid => (row.worst_shown(side).unwrap_or(LOWEST), HIGHEST),
    }
}
