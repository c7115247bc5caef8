//! The oracle: every command once, in the order of the queue, on the naive book.

use super::script::Script;
use conductor_engine::event::CommandResult;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{CommandId, Event, Incoming, NaiveBook, OrderId, Payload};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is right.
#[derive(Debug)]
pub(super) struct Oracle {
    matcher: Matcher<NaiveBook>,
    pub(super) results: BTreeMap<CommandId, Arc<CommandResult>>,
    pub(super) accepted: BTreeMap<OrderId, CommandId>,
    pub(super) events: Vec<Arc<Event>>,
}

impl Oracle {
    /// Decides everything that was published, in the order in which the broker has it.
    pub(super) fn of(script: &Script) -> Self {
        let cell = Cell::single();
        let matcher = Matcher::new(cell, NaiveBook::default(), Cursor::default());
        let mut oracle = Self {
            matcher,
            results: BTreeMap::new(),
            accepted: BTreeMap::new(),
            events: Vec::new(),
        };
        let mut accepted = AcceptedOrders::default();
        for published in 0..script.published() {
            oracle.decide(script.message(published), &mut accepted);
        }
        oracle
    }

    fn decide(&mut self, incoming: &Incoming, accepted: &mut AcceptedOrders) {
        let id = match incoming {
            Incoming::Command(command) => &command.id,
            Incoming::Refused(refused) => &refused.id,
            Incoming::Unusable(_) => return,
        };
        if self.results.contains_key(id) {
            return;
        }
        let mut writes = Vec::new();
        self.matcher
            .take(incoming, accepted, &mut writes)
            .expect("the naive book breaks no invariant");
        for write in writes {
            match write {
                Write::Result(result) => {
                    self.results.insert(result.command.clone(), result);
                }
                Write::Accepted { order, command } => {
                    self.accepted.insert(order, command);
                }
                Write::Event(event) => self.events.push(event),
                _ => {}
            }
        }
    }

    pub(super) const fn book(&self) -> &NaiveBook {
        self.matcher.book()
    }

    pub(super) const fn cursor(&self) -> &Cursor {
        self.matcher.cursor()
    }

    pub(super) fn deals(&self) -> u64 {
        let deal = |event: &&Arc<Event>| matches!(event.payload, Payload::Deal(_));
        self.events.iter().filter(deal).count() as u64
    }
}
