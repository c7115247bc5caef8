//! What a replay counts.

use super::Verdict;
use conductor_engine::event::{Event, OutcomeKind, Payload, Status};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counts over all messages of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Messages of any kind.
    pub messages: u64,
    /// Commands that were decided, each once; refused ones included.
    pub commands: u64,
    /// Commands that were decided before, and changed nothing.
    pub repeats: u64,
    /// Messages that are no command; a cell parks them.
    pub parked: u64,
    /// Decided commands of which something happened.
    pub accepted: u64,
    /// Decided commands that changed nothing, such as a cancel of a closed order.
    pub unchanged: u64,
    /// Decided commands that were refused, or whose every order was.
    pub rejected: u64,
    /// Orders that were skipped because their id was used up.
    pub duplicate_orders: u64,
    /// Trades.
    pub deals: u64,
    /// Decided commands that traded at least once.
    pub trading_commands: u64,
    /// Events of every type that occurred.
    pub events: BTreeMap<&'static str, u64>,
}

impl Counts {
    /// Events of all types.
    pub fn events_in_all(&self) -> u64 {
        self.events.values().sum()
    }

    pub(super) fn add(&mut self, verdict: &Verdict, events: &[Arc<Event>]) {
        self.messages += 1;
        match verdict {
            Verdict::Parked(_) => self.parked += 1,
            Verdict::Repeat(_) => self.repeats += 1,
            Verdict::New(result) => {
                self.commands += 1;
                match result.status {
                    Status::Accepted => self.accepted += 1,
                    Status::Unchanged => self.unchanged += 1,
                    Status::Rejected => self.rejected += 1,
                }
                let skipped = result
                    .outcomes
                    .iter()
                    .filter(|outcome| outcome.kind == OutcomeKind::DuplicateOrder);
                self.duplicate_orders += skipped.count() as u64;
            }
        }
        self.add_events(events);
    }

    fn add_events(&mut self, events: &[Arc<Event>]) {
        let mut deals = 0;
        for event in events {
            *self.events.entry(event.payload.kind()).or_default() += 1;
            deals += u64::from(matches!(event.payload, Payload::Deal(_)));
        }
        self.deals += deals;
        self.trading_commands += u64::from(deals > 0);
    }
}
