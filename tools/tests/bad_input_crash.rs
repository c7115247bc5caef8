//! Everything that somebody can get wrong, in the middle of a burst of good commands, while the
//! conductor is killed again and again: each is parked or rejected all the same, a crash in between
//! can park one twice, and the next command is decided as if nothing had been.
//!
//! What the burst gives is held against the engine alone, byte for byte. No outbox runs, so the
//! stream of the store holds every event that was ever committed.

mod bad_input_support;
mod live;
mod raw_messages;

use bad_input_support::{Case, Cases, burst, order, parked_of};
use conductor_config::Settings;
use conductor_tools::client::ProducerOptions;
use conductor_tools::testbed::{HoldProxy, Instance, Layout, wait_for};
use live::{LATER, LiveCell, assert_same_events, metric, wait_metric};
use raw_messages::{
    SOON, parked, parked_while, replay, replies, send_counted, stored_book, text, wait_queued,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const KILLS: usize = 6;
/// How many of them must have met messages that were delivered and not acknowledged.
const REDELIVERED_LEAST: usize = 4;
/// Few messages under way, so that every kill comes in the middle of the burst.
const WINDOW: usize = 48;
/// A reply is lost with its conductor when it was acknowledged before and not yet handed over.
const IMPATIENT: Duration = Duration::from_secs(5);
/// The begin of an acknowledgement in AMQP: class 60, method 80.
const ACKNOWLEDGEMENT: &[u8] = &[0, 60, 0, 80];

#[test]
fn each_goes_where_it_must_however_often_the_conductor_dies() {
    let cases = Cases::every().all;
    let burst = burst(&cases);
    let cell = LiveCell::start(&Layout::default());
    let conductor = cell.conductor("conductor", &[]);

    let done = AtomicUsize::new(0);
    let (sent, redelivered) = std::thread::scope(|scope| {
        let sending = scope.spawn(|| sent(&cell.settings, &burst, &done));
        let redelivered = kill_in_the_middle(&conductor, &done, burst.len());
        (sending.join().expect("everything is sent"), redelivered)
    });
    assert!(redelivered >= REDELIVERED_LEAST, "{redelivered} of {KILLS}");
    let last = order("last").to_string().into_bytes();
    let answered = replies(&cell.settings, std::slice::from_ref(&last));

    // Every reply that came is the one that the engine gives, and what was missed was decided.
    let messages = [&burst[..], &[last]].concat();
    let alone = replay(&messages, 1);
    let results = alone.results.iter();
    let replies = sent.iter().chain(&answered);
    for ((reply, result), message) in replies.zip(results).zip(&messages) {
        let shown = String::from_utf8_lossy(&message[..message.len().min(200)]);
        assert!(reply.is_none() || reply == result, "{reply:?}: {shown}");
    }
    assert!(answered[0].is_some(), "the next command is answered");
    assert_same_events(&cell.stream(cell.store(0), 0), &alone.events[&0]);
    assert_eq!(stored_book(cell.store(0), 0), alone.book);
    assert_parked(&cell, &cases);
}

/// The replies to messages, where they came.
fn sent(settings: &Settings, messages: &[Vec<u8>], done: &AtomicUsize) -> Vec<Option<String>> {
    let options = ProducerOptions {
        window: WINDOW,
        reply_within: Some(IMPATIENT),
    };
    let (summary, sent) = send_counted(settings, messages, options, done);
    assert_eq!(summary.confirmed, messages.len() as u64, "{summary}");
    let replies = sent.into_iter().map(|done| done.reply);
    replies.map(|reply| reply.as_deref().map(text)).collect()
}

/// Kills and starts the conductor at even distances; gives how often anything was delivered again.
fn kill_in_the_middle(conductor: &Instance, done: &AtomicUsize, messages: usize) -> usize {
    let mut redelivered = 0;
    for kill in 1..=KILLS {
        let wanted = messages * kill / (KILLS + 1);
        wait_for(&format!("{wanted} messages that are done"), LATER, || {
            let done = done.load(Ordering::Relaxed);
            if done >= wanted {
                Ok(())
            } else {
                Err(format!("{done} are"))
            }
        })
        .expect("the cell goes on");
        conductor.restart().expect("it is killed and starts again");
        let working = wait_metric(conductor, "conductor_deliveries_total", 0, 1, LATER);
        working.unwrap_or_else(|error| panic!("{error}"));
        redelivered += usize::from(metric(conductor, "conductor_redeliveries_total", 0) > 0);
    }
    redelivered
}

/// Everything that is no command is parked in its order, from an earlier one on again behind a kill.
fn assert_parked(cell: &LiveCell, cases: &[Case]) {
    let expected = parked_of(cases);
    // The last kill comes long before the last of them, which is therefore there once.
    let (last, _) = expected.last().expect("something is parked");
    let found = parked_while(&cell.settings, 0, |found| {
        found.last().is_none_or(|(body, _)| body != last)
    });
    wait_queued(&cell.servers, 0, found.len() as u64);
    let (mut next, mut again) = (0, 0);
    for (body, reason) in &found {
        if expected.get(next).is_none_or(|(due, _)| due != body) {
            let before = expected[..next].iter().rposition(|(due, _)| due == body);
            next = before.unwrap_or_else(|| {
                let shown = String::from_utf8_lossy(&body[..body.len().min(100)]);
                panic!("after {next} comes {shown}")
            });
            again += 1;
        }
        let part = expected[next].1;
        assert!(!reason.is_empty() && reason.contains(part), "{reason:?}");
        next += 1;
    }
    assert_eq!(next, expected.len(), "the last one is there");
    assert!(again <= KILLS, "{again} times from an earlier one on");
}

/// A crash at the worst moment: the message is parked, and the acknowledgement is still on its way.
#[test]
fn a_crash_between_parking_and_acknowledging_parks_it_twice_and_stops_nothing() {
    let cell = LiveCell::start(&Layout::default());
    let broker = HoldProxy::start(cell.servers.rabbit().address()).expect("a proxy");
    let mut settings = cell.servers.settings();
    settings.brokers = vec![broker.address()];
    let config = settings.write("proxy.toml").expect("it is written");
    let config = config.display().to_string();
    let conductor = cell.conductor("conductor", &[("CONDUCTOR_CONFIG", &config)]);
    let good = |name: &str| order(name).to_string().into_bytes();
    let messages = [
        good("first"),
        b"not json".to_vec(),
        order("b d").to_string().into_bytes(),
        good("behind"),
    ];
    let (before, poison) = messages.split_at(1);
    let first = replies(&cell.settings, before);
    wait_queued(&cell.servers, 0, 0);

    broker.hold_when(ACKNOWLEDGEMENT);
    let rest = std::thread::scope(|scope| {
        let sending = scope.spawn(|| replies(&cell.settings, poison));
        broker
            .wait_holding(SOON)
            .expect("an acknowledgement is on its way");
        cell.wait_queue("matching:commands.p0.parked", "messages", 2);
        conductor.process().kill().expect("it is killed");
        // What is held is lost with the connection.
        broker.cut();
        broker.wait_empty(SOON).expect("it is gone");
        conductor.restart().expect("it starts again");
        sending.join().expect("everything is sent")
    });
    wait_queued(&cell.servers, 0, 4);

    let alone = replay(&messages, 1);
    assert_eq!([first, rest].concat(), alone.results);
    assert_same_events(&cell.stream(cell.store(0), 0), &alone.events[&0]);
    let bodies = parked(&cell.settings, 0, 4)
        .into_iter()
        .map(|(body, _)| body);
    let bodies: Vec<Vec<u8>> = bodies.collect();
    assert_eq!(bodies, [&poison[..2], &poison[..2]].concat());
    let counted = |name: &str| metric(&conductor, &format!("conductor_{name}_total"), 0);
    assert_eq!((counted("parked"), counted("redeliveries")), (2, 3));
    assert_eq!((counted("doubts"), counted("halts")), (0, 0));
}
