//! The counters and gauges, one line each: name, help, and where the figure comes from.
//!
//! A figure that is not known at the moment is left out rather than shown as zero. Counters get
//! their `_total` from the encoder.

use super::Shown;
use crate::messages::PartitionReport;
use conductor_engine::partition::{Counters, Status};

/// A figure and how it is read.
pub(super) struct Figure<T> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) read: fn(&Shown) -> Option<T>,
}

/// What a gauge may be.
pub(super) enum Value {
    Whole(u64),
    Seconds(f64),
}

const fn figure<T>(
    name: &'static str,
    help: &'static str,
    read: fn(&Shown) -> Option<T>,
) -> Figure<T> {
    Figure { name, help, read }
}

macro_rules! counted {
    ($name:literal, $help:literal, $field:ident) => {
        figure($name, $help, |shown| {
            counters(shown).map(|counters| counters.$field)
        })
    };
}

macro_rules! status {
    ($name:literal, $help:literal, $read:expr) => {
        figure($name, $help, |shown| {
            shown.look.status().and_then($read).map(Value::Whole)
        })
    };
}

/// Everything that only grows while the process runs.
pub(super) const COUNTERS: &[Figure<u64>] = &[
    counted!("conductor_deliveries", "Messages that arrived.", deliveries),
    counted!(
        "conductor_commands",
        "Commands that were decided, repeats not among them.",
        commands
    ),
    counted!(
        "conductor_rejected_commands",
        "Commands that were refused whole, for the record.",
        rejected_commands
    ),
    counted!(
        "conductor_duplicate_commands",
        "Commands that were answered from their record.",
        duplicate_commands
    ),
    counted!(
        "conductor_duplicate_orders",
        "Orders whose id had been used before.",
        duplicate_orders
    ),
    figure(
        "conductor_failures",
        "Refused commands, doubts and halts together.",
        |shown| counters(shown).map(|it| it.rejected_commands + it.doubts + it.halts),
    ),
    counted!(
        "conductor_events",
        "Events that were created and committed.",
        events
    ),
    counted!("conductor_deals", "Deals that were committed.", deals),
    counted!(
        "conductor_groups",
        "Transactions that were committed.",
        groups
    ),
    counted!(
        "conductor_claims",
        "Times that ownership was taken.",
        claims
    ),
    counted!(
        "conductor_doubts",
        "Times that memory was dropped to be read again.",
        doubts
    ),
    counted!(
        "conductor_fenced",
        "Transactions that a newer owner's epoch held back.",
        fenced
    ),
    counted!(
        "conductor_waits_below_policy",
        "Waits that ended with fewer disks than the policy asks for.",
        waits_below_policy
    ),
    counted!(
        "conductor_parked",
        "Messages that went to the parking queue.",
        parked
    ),
    counted!("conductor_halts", "Times that the partition halted.", halts),
    figure(
        "conductor_replies_sent",
        "Results that were handed to the broker.",
        |shown| Some(shown.look.io.replies_sent),
    ),
    figure(
        "conductor_replies_dropped",
        "Results that were dropped because their queue was full or the broker blocked.",
        |shown| {
            let full = report(shown).map_or(0, |it| it.replies_dropped);
            Some(shown.look.io.replies_dropped + full)
        },
    ),
    figure(
        "conductor_replies_refused",
        "Results whose address is malformed or a queue of the cell's own; they were not sent.",
        |shown| Some(shown.look.io.replies_refused),
    ),
    figure(
        "conductor_redeliveries",
        "Messages that the broker had delivered before.",
        |shown| Some(shown.look.io.redeliveries),
    ),
];

/// Everything that rises and falls.
pub(super) const GAUGES: &[Figure<Value>] = &[
    figure(
        "conductor_ready",
        "1 when this process can take the partition's next delivery.",
        |shown| Some(Value::Whole(u64::from(shown.look.not_ready().is_none()))),
    ),
    figure(
        "conductor_broker_connected",
        "1 while the broker's connection stands.",
        |shown| Some(Value::Whole(u64::from(shown.look.io.broker_connected))),
    ),
    status!(
        "conductor_epoch",
        "The epoch that this process holds.",
        |status: &Status| status.epoch
    ),
    status!(
        "conductor_durable_sequence",
        "The last event's sequence that this process saw on disks.",
        |status: &Status| Some(status.durable_sequence)
    ),
    status!(
        "conductor_orders",
        "Orders at rest in memory.",
        |status: &Status| { u64::try_from(status.orders).ok() }
    ),
    status!(
        "conductor_event_stream_entries",
        "Events that wait for the outbox, when last seen.",
        |status: &Status| Some(status.event_stream)
    ),
    figure(
        "conductor_last_command_seconds",
        "How long the last command took from its arrival until it was durable.",
        |shown| report(shown).map(|it| Value::Seconds(it.last_command_ns as f64 / 1e9)),
    ),
    figure(
        "conductor_mailbox_depth",
        "Messages that wait in the partition's mailbox.",
        |shown| {
            let depth = report(shown)?.mailbox_depth;
            u64::try_from(depth).ok().map(Value::Whole)
        },
    ),
    figure(
        "conductor_skipped_members",
        "Members of the index that the last load skipped.",
        |shown| counters(shown).map(|counters| Value::Whole(counters.skipped_members)),
    ),
    figure(
        "conductor_queue_messages",
        "Messages that wait in the command queue, as the broker last said.",
        |shown| {
            shown
                .look
                .io
                .queue
                .map(|queue| Value::Whole(queue.messages))
        },
    ),
    figure(
        "conductor_queue_consumers",
        "Consumers of the command queue, this process among them, as the broker last said.",
        |shown| {
            shown
                .look
                .io
                .queue
                .map(|queue| Value::Whole(queue.consumers))
        },
    ),
    figure(
        "conductor_store_used_memory_bytes",
        "Memory that the partition's store uses.",
        |shown| shown.store.map(|store| Value::Whole(store.used_bytes)),
    ),
    figure(
        "conductor_store_max_memory_bytes",
        "Memory that the partition's store may use; 0 where it has no bound.",
        |shown| shown.store.map(|store| Value::Whole(store.max_bytes)),
    ),
];

fn report(shown: &Shown) -> Option<&PartitionReport> {
    shown.look.report.as_ref().ok()
}

fn counters(shown: &Shown) -> Option<&Counters> {
    report(shown).map(|report| &report.counters)
}
