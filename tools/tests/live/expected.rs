//! What the engine alone makes of the messages of a test.

use super::Message;
use conductor_engine::{PairId, PartitionId, Side};
use conductor_io::wire::encode_result;
use conductor_tools::replay::{FastReplay, QueueView, Verdict};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use std::fmt::Write;

/// A replay, with the events of every partition and the reply to every message.
pub(crate) struct Expected {
    pub(crate) replay: FastReplay,
    events: Vec<Vec<u8>>,
}

impl Expected {
    pub(crate) fn new(partition_count: u32) -> Self {
        Self {
            replay: FastReplay::new(partition_count),
            events: vec![Vec::new(); partition_count as usize],
        }
    }

    /// Decides a message; gives its reply.
    pub(crate) fn feed(&mut self, message: &Message) -> Vec<u8> {
        let decided = self.replay.feed(message.partition, &message.incoming());
        let decided = decided.expect("the engine goes on");
        let events = &mut self.events[message.partition.0 as usize];
        events.extend_from_slice(decided.canonical);
        let (Verdict::New(result) | Verdict::Repeat(result)) = decided.verdict else {
            panic!("{} is no command", message.id);
        };
        let mut reply = Vec::new();
        encode_result(&result, &mut reply);
        reply
    }

    /// Decides messages; gives their replies.
    pub(crate) fn feed_all(&mut self, messages: &[Message]) -> Vec<Vec<u8>> {
        messages.iter().map(|message| self.feed(message)).collect()
    }

    /// A partition's events, one a line.
    pub(crate) fn events(&self, partition: u32) -> &[u8] {
        &self.events[partition as usize]
    }

    /// How many events a partition has.
    pub(crate) fn sequence(&self, partition: u32) -> u64 {
        self.replay.cursor(PartitionId(partition)).sequence
    }

    /// What the page `/depth` must show of a pair.
    pub(crate) fn depth(&self, pair: u32) -> Value {
        let view = self.replay.view();
        let sides = view.pairs.get(&PairId(pair));
        let levels = |side: Side| -> Vec<Value> {
            let queues = sides.map(|sides| match side {
                Side::Bid => &sides.bids,
                Side::Ask => &sides.asks,
            });
            queues.into_iter().flatten().map(level).collect()
        };
        json!({ "bids": levels(Side::Bid), "asks": levels(Side::Ask) })
    }
}

fn level(queue: &QueueView) -> Value {
    let remaining = queue
        .orders
        .iter()
        .map(|order| -> Decimal { order.remaining.parse().expect("a decimal") });
    let volume = remaining.sum::<Decimal>().normalize().to_string();
    json!({ "price": queue.price, "volume": volume, "orders": queue.orders.len() })
}

/// Compares events byte for byte; a difference is shown where it begins.
pub(crate) fn assert_same_events(found: &[u8], expected: &[u8]) {
    if found == expected {
        return;
    }
    let lines = |bytes: &[u8]| -> Vec<String> {
        String::from_utf8_lossy(bytes)
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let (found, expected) = (lines(found), lines(expected));
    let same = found
        .iter()
        .zip(&expected)
        .take_while(|(left, right)| left == right);
    let first = same.count();
    let mut shown = String::new();
    for (name, events) in [("found", &found), ("expected", &expected)] {
        let _ = writeln!(
            shown,
            "{name} {} events; from event {}:",
            events.len(),
            first + 1
        );
        for event in events.iter().skip(first).take(3) {
            let _ = writeln!(shown, "  {event}");
        }
    }
    panic!("the events differ\n{shown}");
}
