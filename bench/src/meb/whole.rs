//! The workload through the whole decision: commands as they come from the wire, routing, repeated
//! ids, the book, and the events, writes and results as the store's side takes them.
//!
//! Their modify always loses its place; our amend keeps it at the same price with no more volume.
//! Where that happens the message becomes a batch of a cancel and a place under a fresh name, made
//! before anything is timed: the old id, a point and a number, which the reports leave out again.

use super::drive::{PAIR, WHOLE};
use super::report::Report;
use super::workload::{Kind, Message};
use anyhow::Context;
use conductor_engine::event::{CloseReason, OutcomeKind};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::units::Price;
use conductor_engine::{
    Body, Book, Command, CommandId, Decimal, FastBook, NewOrder, OrderId, OrderKind, Payload,
    TimeInForce, Timestamp,
};
use std::collections::HashMap;

/// Commands that are decided before their writes are dropped: a full group of the conductor.
const GROUP: usize = 256;

/// The workload as commands.
pub(crate) fn commands(messages: &[Message], time: Timestamp) -> anyhow::Result<Vec<Command>> {
    let mut maker = Maker::new(time);
    let numbered = messages.iter().zip(0_u32..);
    numbered
        .map(|(message, number)| maker.command(message, number))
        .collect()
}

/// Decides everything once and tells what the benchmark wants to hear.
pub(crate) fn reports(
    messages: &[Message],
    commands: &[Command],
) -> anyhow::Result<(Vec<Report>, Counts)> {
    let (mut decider, mut counts) = (Decider::new(), Counts::default());
    let mut teller = Teller::default();
    for (sequence, (message, command)) in (0_u32..).zip(messages.iter().zip(commands)) {
        decider.writes.clear();
        decider.accepted.clear();
        decider.decide(command)?;
        counts.add(&decider.writes);
        teller.report(message, sequence, &decider.writes);
    }
    Ok((teller.reports, counts))
}

/// Decides everything as fast as it goes.
pub(crate) fn run(commands: &[Command]) -> anyhow::Result<Counts> {
    let (mut decider, mut counts) = (Decider::new(), Counts::default());
    for group in commands.chunks(GROUP) {
        decider.accepted.clear();
        for command in group {
            decider.decide(command)?;
        }
        counts.add(&decider.writes);
        decider.writes.clear();
    }
    Ok(counts)
}

/// How much came of it; the same in every run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) writes: usize,
    pub(crate) events: usize,
    pub(crate) deals: usize,
}

impl Counts {
    fn add(&mut self, writes: &[Write]) {
        self.writes += writes.len();
        for write in writes {
            if let Write::Event(event) = write {
                self.events += 1;
                self.deals += usize::from(matches!(event.payload, Payload::Deal(_)));
            }
        }
    }
}

struct Decider {
    matcher: Matcher<FastBook>,
    accepted: AcceptedOrders,
    writes: Vec<Write>,
}

impl Decider {
    fn new() -> Self {
        Self {
            matcher: Matcher::new(Cell::single(), FastBook::default(), Cursor::default()),
            accepted: AcceptedOrders::default(),
            writes: Vec::new(),
        }
    }

    fn decide(&mut self, command: &Command) -> anyhow::Result<()> {
        let Self {
            matcher,
            accepted,
            writes,
        } = self;
        matcher.apply(command, accepted, writes)?;
        Ok(())
    }
}

/// Makes commands of messages. It decides them too, to know what rests.
struct Maker {
    decider: Decider,
    time: Timestamp,
    /// What an order goes by now, where that is not its own id.
    names: HashMap<OrderId, (OrderId, u32)>,
}

impl Maker {
    fn new(time: Timestamp) -> Self {
        Self {
            decider: Decider::new(),
            time,
            names: HashMap::new(),
        }
    }

    fn command(&mut self, message: &Message, number: u32) -> anyhow::Result<Command> {
        let (id, renamed) = match self.names.get(&message.id) {
            Some((id, renamed)) => (id.clone(), *renamed),
            None => (message.id.clone(), 0),
        };
        let body = match message.kind {
            Kind::New => Body::Place(self.order(message, id, TimeInForce::GoodTillCancelled)?),
            Kind::Immediate => {
                Body::Place(self.order(message, id, TimeInForce::ImmediateOrCancel)?)
            }
            Kind::Cancel => Body::Cancel { order: id },
            Kind::Modify if self.would_keep_its_place(&id, message) => {
                let fresh = OrderId::new(&format!("{}.{}", message.id, renamed + 1))?;
                let known = (fresh.clone(), renamed + 1);
                self.names.insert(message.id.clone(), known);
                Body::Replace {
                    cancel: vec![id],
                    place: vec![self.order(message, fresh, TimeInForce::GoodTillCancelled)?],
                }
            }
            Kind::Modify => Body::Amend {
                order: id,
                price: Some(price(message)?),
                volume: Some(Decimal::of_quantity(message.volume, WHOLE)),
            },
        };
        let command = Command {
            id: CommandId::new(&format!("c-{number}"))?,
            pair: PAIR,
            partition: None,
            timestamp: self.time,
            body,
        };
        self.decider.decide(&command)?;
        self.decider.accepted.clear();
        self.decider.writes.clear();
        Ok(command)
    }

    fn would_keep_its_place(&self, id: &OrderId, message: &Message) -> bool {
        let resting = self.decider.matcher.book().order(id);
        resting.is_some_and(|order| {
            Some(order.price) == message.price && message.volume <= order.remaining
        })
    }

    fn order(
        &self,
        message: &Message,
        id: OrderId,
        time_in_force: TimeInForce,
    ) -> anyhow::Result<NewOrder> {
        Ok(NewOrder {
            id,
            user: Some(message.user.clone()),
            side: message.side,
            kind: OrderKind::Limit {
                price: price(message)?,
                time_in_force,
            },
            volume: Decimal::of_quantity(message.volume, WHOLE),
            decimals: WHOLE,
            timestamp: self.time,
        })
    }
}

fn price(message: &Message) -> anyhow::Result<Decimal> {
    let price = message.price.context("an order without a price")?;
    Ok(Decimal::of_price(price, WHOLE))
}

/// Tells the reports of each message, in order of their kind.
#[derive(Default)]
struct Teller {
    reports: Vec<Report>,
    /// The price of each order, which the event of its cancel does not tell.
    prices: HashMap<OrderId, Price>,
}

impl Teller {
    fn report(&mut self, message: &Message, sequence: u32, writes: &[Write]) {
        let known = found(writes);
        match message.kind {
            Kind::New | Kind::Immediate => self.reports.push(Report::Accepted { sequence }),
            Kind::Cancel if !known => self.reports.push(Report::CancelRefused { sequence }),
            Kind::Modify if !known => self.reports.push(Report::ModifyRefused { sequence }),
            _ => {}
        }
        if let Some(price) = message.price.filter(|_| known)
            && message.kind != Kind::Cancel
        {
            self.prices.insert(message.id.clone(), price);
        }
        for write in writes {
            if let Write::Event(event) = write {
                self.event(message.kind, sequence, &event.payload);
            }
        }
        if message.kind == Kind::Modify && known {
            self.reports.push(Report::Modified { sequence });
        }
    }

    fn event(&mut self, kind: Kind, sequence: u32, payload: &Payload) {
        match payload {
            Payload::Deal(deal) => {
                if let (Ok(price), Ok(volume)) =
                    (deal.price.price(WHOLE), deal.volume.quantity(WHOLE))
                {
                    self.reports.push(Report::Trade {
                        sequence,
                        price,
                        volume,
                        maker: own(&deal.maker),
                        taker: own(&deal.taker),
                    });
                }
            }
            // A modify's cancel is no report of its own.
            Payload::Closed(closed)
                if closed.reason != CloseReason::Filled && kind != Kind::Modify =>
            {
                let id = own(&closed.order);
                self.reports.push(Report::Cancelled {
                    sequence,
                    side: closed.side,
                    price: self.prices[&id],
                    id,
                });
            }
            _ => {}
        }
    }
}

/// Whether the order that a message names was there, or is new.
fn found(writes: &[Write]) -> bool {
    let result = writes.iter().rev().find_map(|write| match write {
        Write::Result(result) => Some(result),
        _ => None,
    });
    let missing = |kind| matches!(kind, OutcomeKind::UnknownOrder | OutcomeKind::AlreadyClosed);
    result.is_some_and(|result| !result.outcomes.iter().all(|outcome| missing(outcome.kind)))
}

/// The id that the benchmark knows.
fn own(id: &OrderId) -> OrderId {
    let name = id.as_str();
    let plain = name.split_once('.').map_or(name, |(plain, _)| plain);
    OrderId::new(plain).expect("a part of an id is one")
}
