//! The reply of a transaction is lost between the store and its owner: nobody knows then whether it
//! was executed, and it is never sent again. Ownership is taken anew, the command comes again, and
//! its record says what became of it.

mod live;

use conductor_engine::Side;
use conductor_tools::testbed::{Direction, HoldProxy, Layout, StoreAddresses};
use live::{Expected, LATER, LiveCell, assert_same_events, limit, metric, wait_metric};
use std::time::Duration;

/// Longer than the conductor waits for the reply, and its reload.
const PATIENT: Duration = Duration::from_secs(60);

#[test]
fn a_lost_reply_is_a_doubt_and_the_command_is_answered_from_its_record() {
    let live = LiveCell::start(&Layout::default());
    let mut expected = Expected::new(1);
    let proxy = HoldProxy::start(live.store(0).address()).expect("a proxy");
    let mut settings = live.servers.settings();
    settings.stores = StoreAddresses::Direct(vec![proxy.address()]);
    let config = settings.write("proxy.toml").expect("it is written");
    let config = config.display().to_string();
    let variables = [
        ("CONDUCTOR_CONFIG", config.as_str()),
        ("MATCHING_DURABILITY_TIMEOUT_MS", "500"),
    ];
    let conductor = live.conductor("conductor", &variables);
    let maker = limit(1, 1, "maker", Side::Ask, (100, 10));
    let rested = expected.feed(&maker);
    assert_eq!(live.ask(&maker).as_bytes(), rested);
    let doubts = metric(&conductor, "conductor_doubts_total", 0);

    // The transaction arrives and is executed; what the store says of it does not come back.
    proxy.hold_when_going(Direction::ToClient, b"QUEUED");
    let taker = limit(1, 1, "taker", Side::Bid, (100, 4));
    let reply = expected.feed(&taker);
    let sending = live.send(std::slice::from_ref(&taker), PATIENT);
    proxy.wait_holding(LATER).expect("the reply is held");
    let doubted = wait_metric(&conductor, "conductor_doubts_total", 0, doubts + 1, LATER);
    doubted.expect("a reply that does not come is a doubt");
    proxy.release();

    assert_eq!(sending.finish().assert_replies(&[reply]), 1);
    let (commands, repeats) = (
        metric(&conductor, "conductor_commands_total", 0),
        metric(&conductor, "conductor_duplicate_commands_total", 0),
    );
    assert_eq!(commands, 1, "the one whose reply was lost is not counted");
    assert_eq!(repeats, 1, "it was answered from its record");
    let found = live.stream(live.store(0), 0);
    assert_same_events(&found, expected.events(0));
}
