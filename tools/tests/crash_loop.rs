//! A conductor that dies again and again on one command: nothing of what it held is gone, nothing is
//! parked, and the one that lives does everything in order.
//!
//! RabbitMQ 4 drops a message at its twenty-first delivery unless a queue says otherwise, and with
//! it everything else that the same consumer held. Ours says otherwise; this proves it for a
//! prefetch above one on the version that the test runs on.

mod live;
mod raw_messages;
mod second_versions;

use conductor_engine::Side;
use conductor_tools::testbed::{HoldProxy, Instance, Layout, StoreAddresses};
use live::{Expected, LATER, LiveCell, Message, assert_same_events, limit, wait_metric};
use raw_messages::wait_queued;
use second_versions::second_set;
use std::time::Duration;

/// More than a queue of RabbitMQ 4 allows by default, which is twenty.
const CRASHES: usize = 25;
/// Longer than all crashes take.
const PATIENT: Duration = Duration::from_secs(280);

/// A maker and those who trade with it, all held by the consumer at every crash.
fn messages() -> Vec<Message> {
    let maker = limit(1, 1, "maker", Side::Ask, (100, 10));
    let takers = (1..8).map(|each| {
        let name = format!("taker-{each}");
        limit(1, 1, &name, Side::Bid, (100 + each, 1))
    });
    std::iter::once(maker).chain(takers).collect()
}

#[test]
fn twenty_five_crashes_on_one_command_lose_nothing() {
    dies_again_and_again(&Layout::default());
}

/// On a Debian 12 host, RabbitMQ 4.0 of the second set; a Debian 13 host has it itself.
#[test]
fn on_rabbitmq_4_they_lose_nothing_either() {
    let Some(versions) = second_set() else {
        return;
    };
    let cell = dies_again_and_again(&Layout {
        versions: Some(versions),
        ..Layout::default()
    });
    let version = cell.servers.rabbit().control(&["version"]);
    let version = version.expect("rabbitmqctl works");
    assert!(version.starts_with("4."), "{version}");
}

fn dies_again_and_again(layout: &Layout) -> LiveCell {
    let cell = LiveCell::start(layout);
    let store = HoldProxy::start(cell.store(0).address()).expect("a proxy");
    let mut settings = cell.servers.settings();
    settings.stores = StoreAddresses::Direct(vec![store.address()]);
    let config = settings.write("proxy.toml").expect("it is written");
    let config = config.display().to_string();
    // It waits for the transaction that never arrives for longer than it lives.
    let variables = [
        ("CONDUCTOR_CONFIG", config.as_str()),
        ("MATCHING_DURABILITY_TIMEOUT_MS", "20000"),
        ("MATCHING_OUTBOX_LEASE_MS", "60000"),
    ];
    let messages = messages();
    let sending = cell.send(&messages, PATIENT);
    cell.wait_queue("matching:commands.p0", "messages_ready", messages.len());

    store.hold_when(b"MULTI");
    let conductor = cell.unready_conductor("conductor", &variables);
    for crash in 1..=CRASHES {
        holds_everything(&conductor, &store, messages.len(), crash);
        conductor.process().kill().expect("it is killed");
        // The transaction goes with the connection, as one does that never left the machine.
        store.cut();
        store.wait_empty(LATER).expect("it is gone");
        if crash < CRASHES {
            store.hold_when(b"MULTI");
        }
        conductor.restart().expect("it starts again");
    }

    let mut expected = Expected::new(1);
    let replies = expected.feed_all(&messages);
    assert_eq!(sending.finish().assert_replies(&replies), messages.len());
    assert_same_events(&cell.stream(cell.store(0), 0), expected.events(0));
    wait_queued(&cell.servers, 0, 0);
    cell
}

/// Waits until it holds every command, unacknowledged, and the transaction of them is on its way.
fn holds_everything(conductor: &Instance, store: &HoldProxy, commands: usize, crash: usize) {
    let held = store.wait_holding(LATER);
    held.unwrap_or_else(|error| panic!("crash {crash}: {error}\n{}", conductor.process().log()));
    let kind = if crash == 1 {
        "deliveries"
    } else {
        "redeliveries"
    };
    let name = format!("conductor_{kind}_total");
    let delivered = wait_metric(conductor, &name, 0, commands as u64, LATER);
    delivered.unwrap_or_else(|error| panic!("crash {crash}: {error}"));
}
