//! Commands against the book alone: the conductor's own book and trade, and nothing of what stands
//! between them and the store.

use super::market::{DECIMALS, PAIR};
use conductor_engine::book::RestingOrder;
use conductor_engine::matching::{Fill, Fills, Taker, TradeStop, trade};
use conductor_engine::units::{Price, Quantity, QuoteAmount};
use conductor_engine::{Body, Book, Command, NewOrder, OrderId, OrderKind, TimeInForce};

/// A command in whole numbers, as it is once it has been judged.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    cancel: Vec<OrderId>,
    place: Vec<Place>,
}

#[derive(Clone, Debug)]
struct Place {
    taker: Taker,
    rests: Option<Price>,
}

/// Makes steps of commands, and gives each order its place in time.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    priority: u64,
}

impl Steps {
    pub(crate) fn step(&mut self, command: &Command) -> Step {
        let (mut cancel, mut place) = (Vec::new(), Vec::new());
        match &command.body {
            Body::Place(order) => place.extend(self.place(order)),
            Body::Cancel { order } => cancel.push(order.clone()),
            Body::Replace {
                cancel: old,
                place: new,
            } => {
                cancel.extend(old.iter().cloned());
                place.extend(new.iter().filter_map(|order| self.place(order)));
            }
            Body::Amend { .. } => {}
        }
        Step { cancel, place }
    }

    fn place(&mut self, order: &NewOrder) -> Option<Place> {
        self.priority += 1;
        let volume = order.volume.quantity(DECIMALS).ok()?;
        let (limit, time) = match &order.kind {
            OrderKind::Limit {
                price,
                time_in_force,
            } => (price.price(DECIMALS).ok(), *time_in_force),
            OrderKind::Market => (None, TimeInForce::ImmediateOrCancel),
        };
        let taker = Taker {
            id: order.id.clone(),
            user: order.user.clone(),
            side: order.side,
            limit,
            volume,
            remaining: volume,
            quote_volume: QuoteAmount::default(),
            priority: self.priority,
            timestamp: order.timestamp,
            decimals: DECIMALS,
        };
        Some(Place {
            taker,
            rests: limit.filter(|_| time == TimeInForce::GoodTillCancelled),
        })
    }
}

/// Who traded how much, in order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traded(pub(crate) Vec<(OrderId, Quantity)>);

impl Fills for Traded {
    #[inline]
    fn fill(&mut self, maker: &RestingOrder, _taker: &Taker, fill: &Fill) {
        self.0.push((maker.id.clone(), fill.volume));
    }
}

/// Does one step.
pub(crate) fn apply<B: Book>(
    book: &mut B,
    step: Step,
    traded: &mut Traded,
) -> Result<(), TradeStop> {
    book.begin();
    for order in &step.cancel {
        book.remove(PAIR, order);
    }
    for Place { mut taker, rests } in step.place {
        // What is used up is asked first, as the decision does.
        if book.order(&taker.id).is_some() {
            continue;
        }
        trade(book, PAIR, &mut taker, traded)?;
        if let Some(price) = rests.filter(|_| !taker.remaining.is_zero()) {
            book.insert(taker.resting(PAIR, price))
                .map_err(TradeStop::Broken)?;
        }
    }
    book.keep();
    Ok(())
}
