//! Every name outside the process, spelled in one file: the store's keys and fields, and the
//! broker's queues, exchanges and headers.
//!
//! All keys of a partition share the hash tag `{matching-pN}`, so that one transaction stays on
//! one server. Two spellings of one key would be two truths, so nothing outside this file may
//! spell one. The keys that are built for every command can be appended to a buffer without an
//! allocation; this runs on the partition's core, and in the tools.

pub mod field;
mod member;

pub use member::{Member, Prefixed};

use conductor_engine::{CommandId, OrderId, PairId, PartitionId, Side};
use std::io::Write;

/// The direct exchange that commands are published to; the routing key is the queue's name.
pub const COMMAND_EXCHANGE: &str = "matching.commands";
/// The topic exchange that events are published to; the routing key is the event's type.
pub const EVENT_EXCHANGE: &str = "matching.events";
/// Header of a published event: the command that caused it.
pub const HEADER_CAUSATION_ID: &str = "x-causation-id";
/// Header of a published event: its partition.
pub const HEADER_PARTITION: &str = "x-partition";
/// Header of a published event: its id in the stream, which a failover may change.
pub const HEADER_PARTITION_OFFSET: &str = "x-partition-offset";
/// Header of a published event: its sequence, which consumers count on.
pub const HEADER_PARTITION_SEQUENCE: &str = "x-partition-sequence";
/// The header that says why a message was parked.
pub const HEADER_PARKED_REASON: &str = "x-parked-reason";
/// Header of a parked message: where its producer wanted a result.
pub const HEADER_ORIGINAL_REPLY_TO: &str = "x-original-reply-to";
/// Header of a parked message: the name that its producer gave the request.
pub const HEADER_ORIGINAL_CORRELATION_ID: &str = "x-original-correlation-id";
/// Header of a parked message: the message id that it came with.
pub const HEADER_ORIGINAL_MESSAGE_ID: &str = "x-original-message-id";
/// Header of a parked message: the table of headers that it came with.
pub const HEADER_ORIGINAL_HEADERS: &str = "x-original-headers";

/// The queue of a partition's commands, which is also their routing key.
pub fn command_queue(partition: PartitionId) -> String {
    format!("matching:commands.p{partition}")
}

/// The queue of what could not be read as a command of the partition.
pub fn parking_queue(partition: PartitionId) -> String {
    format!("matching:commands.p{partition}.parked")
}

/// The keys of one partition.
#[derive(Clone, Debug)]
pub struct Keys {
    partition: PartitionId,
    order: String,
    book: String,
    pair: String,
    processed_command: String,
    accepted_order: String,
    pairs: String,
    events: String,
    dead_letter: String,
    outbox_lease: String,
    outbox_attempts: String,
    epoch: String,
    cursor: String,
    topology: String,
    halted: String,
    boot_check: String,
}

impl Keys {
    /// The keys of this partition, with everything that does not vary spelled once.
    pub fn new(partition: PartitionId) -> Self {
        let key = |name: &str| format!("matching:{{matching-p{partition}}}:{name}");
        Self {
            partition,
            order: key("order:"),
            book: key("book:"),
            pair: key("pair:"),
            processed_command: key("processed-command:"),
            accepted_order: key("accepted-order:"),
            pairs: key("pairs"),
            events: key("events"),
            dead_letter: key("events:dead-letter"),
            outbox_lease: key("outbox-lease"),
            outbox_attempts: key("outbox-attempts"),
            epoch: key("epoch"),
            cursor: key("cursor"),
            topology: key("topology"),
            halted: key("halted"),
            boot_check: key("boot-check"),
        }
    }

    /// Whose keys these are.
    pub const fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Hash: the record of a resting order.
    pub fn order(&self, order: &OrderId) -> String {
        joined(&self.order, order.as_str())
    }

    /// Appends [`Keys::order`].
    pub fn write_order(&self, order: &OrderId, out: &mut Vec<u8>) {
        append(&self.order, order.as_str(), out);
    }

    /// Sorted set: one side's price index.
    pub fn book(&self, pair: PairId, side: Side) -> String {
        format!("{}{pair}:{}:rates", self.book, side.name())
    }

    /// Appends [`Keys::book`].
    pub fn write_book(&self, pair: PairId, side: Side, out: &mut Vec<u8>) {
        write!(out, "{}{pair}:{}:rates", self.book, side.name()).expect("a vector takes all bytes");
    }

    /// Set: the pairs that this cell has ever held.
    pub fn pairs(&self) -> &str {
        &self.pairs
    }

    /// Hash: a pair's three decimals.
    pub fn pair(&self, pair: PairId) -> String {
        format!("{}{pair}", self.pair)
    }

    /// String: the result of a command.
    pub fn processed_command(&self, command: &CommandId) -> String {
        joined(&self.processed_command, command.as_str())
    }

    /// Appends [`Keys::processed_command`].
    pub fn write_processed_command(&self, command: &CommandId, out: &mut Vec<u8>) {
        append(&self.processed_command, command.as_str(), out);
    }

    /// String: the command that accepted an order.
    pub fn accepted_order(&self, order: &OrderId) -> String {
        joined(&self.accepted_order, order.as_str())
    }

    /// Appends [`Keys::accepted_order`].
    pub fn write_accepted_order(&self, order: &OrderId, out: &mut Vec<u8>) {
        append(&self.accepted_order, order.as_str(), out);
    }

    /// Stream: events that wait for the outbox.
    pub fn events(&self) -> &str {
        &self.events
    }

    /// Stream: entries that are no event.
    pub fn dead_letter(&self) -> &str {
        &self.dead_letter
    }

    /// String: which outbox is active.
    pub fn outbox_lease(&self) -> &str {
        &self.outbox_lease
    }

    /// Hash: how often each event was tried.
    pub fn outbox_attempts(&self) -> &str {
        &self.outbox_attempts
    }

    /// String: the fence.
    pub fn epoch(&self) -> &str {
        &self.epoch
    }

    /// Hash: where the partition stands.
    pub fn cursor(&self) -> &str {
        &self.cursor
    }

    /// Hash: partition, count and prefetch, as the cell was set up.
    pub fn topology(&self) -> &str {
        &self.topology
    }

    /// Hash: why the partition stopped.
    pub fn halted(&self) -> &str {
        &self.halted
    }

    /// String: what the boot check writes; nothing else reads it.
    pub fn boot_check(&self) -> &str {
        &self.boot_check
    }
}

fn joined(prefix: &str, id: &str) -> String {
    let mut key = String::with_capacity(prefix.len() + id.len());
    key.push_str(prefix);
    key.push_str(id);
    key
}

fn append(prefix: &str, id: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(prefix.as_bytes());
    out.extend_from_slice(id.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_carries_the_partitions_hash_tag() {
        let keys = Keys::new(PartitionId(3));
        let order = OrderId::new("o-1").expect("an id");
        let command = CommandId::new("c-1").expect("an id");
        let pair = PairId(12);
        let spelled = [
            (keys.order(&order), "order:o-1"),
            (keys.book(pair, Side::Ask), "book:12:ask:rates"),
            (keys.book(pair, Side::Bid), "book:12:bid:rates"),
            (keys.pairs().into(), "pairs"),
            (keys.pair(pair), "pair:12"),
            (keys.processed_command(&command), "processed-command:c-1"),
            (keys.accepted_order(&order), "accepted-order:o-1"),
            (keys.events().into(), "events"),
            (keys.dead_letter().into(), "events:dead-letter"),
            (keys.outbox_lease().into(), "outbox-lease"),
            (keys.outbox_attempts().into(), "outbox-attempts"),
            (keys.epoch().into(), "epoch"),
            (keys.cursor().into(), "cursor"),
            (keys.topology().into(), "topology"),
            (keys.halted().into(), "halted"),
            (keys.boot_check().into(), "boot-check"),
        ];
        for (key, name) in spelled {
            assert_eq!(key, format!("matching:{{matching-p3}}:{name}"));
        }
    }

    #[test]
    fn appending_a_key_spells_the_same_as_building_it() {
        let keys = Keys::new(PartitionId(0));
        let order = OrderId::new("o-1").expect("an id");
        let command = CommandId::new("c-1").expect("an id");
        let appended = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).expect("keys are text")
        };
        assert_eq!(
            appended(&|out| keys.write_order(&order, out)),
            keys.order(&order)
        );
        assert_eq!(
            appended(&|out| keys.write_book(PairId(7), Side::Bid, out)),
            keys.book(PairId(7), Side::Bid)
        );
        assert_eq!(
            appended(&|out| keys.write_processed_command(&command, out)),
            keys.processed_command(&command)
        );
        assert_eq!(
            appended(&|out| keys.write_accepted_order(&order, out)),
            keys.accepted_order(&order)
        );
    }

    #[test]
    fn queues_are_named_after_their_partition() {
        assert_eq!(command_queue(PartitionId(3)), "matching:commands.p3");
        assert_eq!(parking_queue(PartitionId(3)), "matching:commands.p3.parked");
    }
}
