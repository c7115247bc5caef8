//! Ten kills of the conductor and ten of the outbox under load, on real servers, and the same
//! commands again: a consumer sees what the engine alone gives for the same messages, byte for
//! byte, and nothing else.

mod live;

use conductor_engine::{Command, CommandId};
use conductor_tools::testbed::{Instance, Layout};
use live::{
    EventLog, Expected, LATER, LiveCell, Message, assert_same_events, metric, wait_metric, workload,
};
use serde_json::Value;
use std::time::Duration;

const ROUNDS: usize = 10;
/// Commands of a round; several windows, so that commands are under way at both kills.
const ROUND: usize = 1_200;
const CONDUCTOR_DIES_AFTER: usize = 300;
const OUTBOX_DIES_AFTER: usize = 800;
/// How many conductor kills must have met commands that were delivered and not acknowledged.
const REDELIVERED_LEAST: usize = 8;
/// A reply is lost with its conductor when it was acknowledged before and not yet handed over.
const IMPATIENT: Duration = Duration::from_secs(3);
/// A killed outbox's lease is waited out, so it is short, and so is what it must be longer than.
const OUTBOX: [(&str, &str); 2] = [
    ("MATCHING_OUTBOX_LEASE_MS", "1500"),
    ("MATCHING_DURABILITY_TIMEOUT_MS", "700"),
];
const SEED: u64 = 11;

fn messages(commands: &[Command]) -> Vec<Message> {
    commands
        .iter()
        .map(|command| Message::of(command, 1))
        .collect()
}

/// The same commands under ids that nobody has seen.
fn renamed(commands: &[Command]) -> Vec<Message> {
    let rename = |command: &Command| {
        let id = CommandId::new(&format!("again-{}", command.id)).expect("letters and digits");
        Message::of(
            &Command {
                id,
                ..command.clone()
            },
            1,
        )
    };
    commands.iter().map(rename).collect()
}

#[test]
fn twenty_kills_change_nothing_and_neither_does_sending_again() {
    let cell = LiveCell::start(&Layout::default());
    let events = EventLog::start(&cell);
    let conductor = cell.conductor("conductor", &[]);
    let outbox = cell.outbox("outbox", &OUTBOX);
    let mut expected = Expected::new(1);
    let commands = workload(SEED, "", ROUNDS * ROUND);
    let trace = messages(&commands);
    let replies = expected.feed_all(&trace);

    let mut redelivered = 0;
    for (round, (messages, replies)) in trace.chunks(ROUND).zip(replies.chunks(ROUND)).enumerate() {
        redelivered += usize::from(kill_both(
            &cell, &conductor, &outbox, &events, messages, replies,
        ));
        println!(
            "round {round}: {redelivered} redelivered, {} repeats",
            events.repeats()
        );
    }
    assert!(
        redelivered >= REDELIVERED_LEAST,
        "{redelivered} of {ROUNDS} kills redelivered"
    );
    assert_whole(&cell, &conductor, &events, &expected);

    sent_again(&cell, &conductor, &trace, &replies);
    assert_whole(&cell, &conductor, &events, &expected);
    sent_under_new_ids(&cell, &conductor, &commands, &mut expected);
    assert_whole(&cell, &conductor, &events, &expected);
}

/// Sends a round and kills the conductor and then the outbox while it is under way; says whether
/// the broker delivered anything again.
fn kill_both(
    cell: &LiveCell,
    conductor: &Instance,
    outbox: &Instance,
    events: &EventLog,
    messages: &[Message],
    replies: &[Vec<u8>],
) -> bool {
    // The outbox is at work, and not still waiting for the lease of the one before it.
    let published = events.count(0);
    outbox
        .wait_ready(LATER)
        .expect("the outbox holds its lease");
    let sending = cell.send(messages, IMPATIENT);
    sending.wait_done(CONDUCTOR_DIES_AFTER, LATER);
    conductor
        .restart()
        .expect("the conductor is killed and starts again");
    sending.wait_done(OUTBOX_DIES_AFTER, LATER);
    let redelivered = metric(conductor, "conductor_redeliveries_total", 0) > 0;
    events.wait(0, published as u64 + 1, LATER);
    outbox
        .restart()
        .expect("the outbox is killed and starts again");
    let came = sending.finish().assert_replies(replies);
    assert!(came > OUTBOX_DIES_AFTER, "only {came} replies came");
    redelivered
}

/// The consumer's events, the book in memory and the one in the store are those of the engine alone.
fn assert_whole(cell: &LiveCell, conductor: &Instance, events: &EventLog, expected: &Expected) {
    let found = events.wait(0, expected.sequence(0), LATER);
    assert_same_events(&found, expected.events(0));
    for pair in 0..8 {
        let page = format!("/reconcile?pairId={pair}");
        let (status, body) = conductor.page(&page).expect("the pages answer");
        let reconciled: Value = serde_json::from_str(&body).expect("it is JSON");
        assert_eq!(
            (status, &reconciled["healthy"]),
            (200, &Value::Bool(true)),
            "{body}"
        );
        let page = format!("/depth?pairId={pair}&levels=1000");
        let (_, body) = conductor.page(&page).expect("the pages answer");
        let depth: Value = serde_json::from_str(&body).expect("it is JSON");
        let shown = expected.depth(pair);
        assert_eq!(
            (&depth["bids"], &depth["asks"]),
            (&shown["bids"], &shown["asks"]),
            "{pair}"
        );
    }
    // What was published is deleted, and nothing else was ever written.
    let drained = cell.store(0).process().wait_for("empty stream", LATER, || {
        match cell.stream(cell.store(0), 0).len() {
            0 => Ok(()),
            bytes => Err(format!("{bytes} bytes of events")),
        }
    });
    drained.unwrap_or_else(|error| panic!("{error}"));
}

/// Every command has its id, so nothing happens, and the first reply comes again.
fn sent_again(cell: &LiveCell, conductor: &Instance, trace: &[Message], replies: &[Vec<u8>]) {
    let figures = [
        "conductor_commands_total",
        "conductor_events_total",
        "conductor_deals_total",
    ];
    let before = figures.map(|name| metric(conductor, name, 0));
    let repeats = metric(conductor, "conductor_duplicate_commands_total", 0);
    let came = cell.send(trace, LATER).finish().assert_replies(replies);
    assert_eq!(came, trace.len());
    wait_metric(
        conductor,
        "conductor_duplicate_commands_total",
        0,
        repeats + trace.len() as u64,
        LATER,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(figures.map(|name| metric(conductor, name, 0)), before);
}

/// The orders have been used, so nothing trades, and each of them is counted.
fn sent_under_new_ids(
    cell: &LiveCell,
    conductor: &Instance,
    commands: &[Command],
    expected: &mut Expected,
) {
    let trace = renamed(commands);
    let counted = expected.replay.counts().clone();
    let replies = expected.feed_all(&trace);
    let counts = expected.replay.counts();
    let duplicates = counts.duplicate_orders - counted.duplicate_orders;
    assert!(
        duplicates > 0 && counts.deals == counted.deals,
        "{counts:?}"
    );

    let figures = ["conductor_deals_total", "conductor_duplicate_orders_total"];
    let [deals, skipped] = figures.map(|name| metric(conductor, name, 0));
    let came = cell.send(&trace, LATER).finish().assert_replies(&replies);
    assert_eq!(came, trace.len());
    let after = figures.map(|name| metric(conductor, name, 0));
    assert_eq!(after, [deals, skipped + duplicates]);
}
