//! `/reconcile` of a conductor at work: silent about a healthy book however fast it moves, exact
//! about a broken one, and never at the cost of the fence.
//!
//! The page reads what looks wrong again on the partition's own connection, in a transaction of its
//! own, and every `EXEC` ends the watch of its connection. So the last test here lets a deposed
//! owner's packet arrive after such a reading: the store must still refuse it.

mod live;
mod raw_messages;

use conductor_engine::{OrderId, PairId, PartitionId, Side};
use conductor_io::keys::Keys;
use conductor_tools::testbed::{HoldProxy, Instance, Layout, StoreAddresses, Valkey};
use live::{
    LATER, LiveCell, Message, Sending, metric, partition_of, wait_metric, wait_partition, workload,
};
use raw_messages::{order_json, place, replies};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a book is watched while it moves.
const MOVING: Duration = Duration::from_secs(10);
/// Commands of one piece of the load.
const PIECE: usize = 2_000;
/// Members of a side that one reconcile reads.
const MEMBERS_MAX: usize = 10_000;

fn keys() -> Keys {
    Keys::new(PartitionId(0))
}

fn reconcile(conductor: &Instance, pair: u32) -> Value {
    let page = format!("/reconcile?pairId={pair}");
    let (status, body) = conductor.page(&page).expect("the page answers");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

fn issues(answer: &Value) -> Vec<String> {
    let issues = answer["issues"].as_array().expect("a list").iter();
    let mut issues: Vec<String> = issues
        .map(|issue| issue.as_str().expect("text").to_owned())
        .collect();
    issues.sort_unstable();
    issues
}

#[test]
fn a_healthy_book_is_healthy_however_fast_it_moves() {
    let cell = LiveCell::start(&Layout::default());
    let conductor = cell.conductor("conductor", &[]);
    let commands = workload(5, "", 60 * PIECE);
    let messages: Vec<_> = commands
        .iter()
        .map(|command| Message::of(command, 1))
        .collect();
    let mut pieces = messages.chunks(PIECE);
    let mut next = || cell.send(pieces.next().expect("the load is long enough"), LATER);
    let mut sending: Sending = next();
    sending.wait_done(PIECE / 2, LATER);

    let (began, mut polls, mut orders) = (Instant::now(), 0_u32, 0);
    while began.elapsed() < MOVING {
        let answer = reconcile(&conductor, polls % 8);
        assert_eq!(answer["healthy"], true, "poll {polls}: {answer}");
        assert_eq!(answer["issues"], json!([]));
        assert_eq!(answer["scannedOrders"], answer["indexedOrders"]);
        orders += answer["indexedOrders"].as_u64().expect("a number");
        polls += 1;
        if sending.done() == PIECE {
            sending.finish();
            sending = next();
        }
    }
    sending.finish();
    assert!(
        polls > 50 && orders > u64::from(polls) * 20,
        "{orders} orders in {polls} polls"
    );
    assert_eq!(metric(&conductor, "conductor_claims_total", 0), 1);
    assert_eq!(metric(&conductor, "conductor_doubts_total", 0), 0);
}

/// Some orders at rest, whose indexes and records a test breaks by hand and mends again.
struct Broken<'a> {
    store: &'a Valkey,
    conductor: &'a Instance,
}

impl Broken<'_> {
    fn write(&self, words: &[&str]) {
        let written: i64 = self.store.command(words).expect("the store obeys");
        assert!(written >= 0, "{words:?}");
    }

    /// The member and the score of an order of pair 12.
    fn member(&self, side: Side, order: &str) -> (String, String) {
        let key = keys().book(PairId(12), side);
        let members: BTreeMap<String, String> = self
            .store
            .command(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])
            .expect("it answers");
        let own = format!(":{order}");
        members
            .into_iter()
            .find(|(member, _)| member.ends_with(&own))
            .expect("it rests")
    }

    fn record(order: &str) -> String {
        keys().order(&OrderId::new(order).expect("an id"))
    }

    /// The page names exactly these, each time that it is asked.
    #[track_caller]
    fn names(&self, expected: &[&str]) {
        for _ in 0..3 {
            let answer = reconcile(self.conductor, 12);
            assert_eq!(issues(&answer), expected, "{answer}");
            assert_eq!(answer["healthy"], expected.is_empty());
            assert_eq!(answer["truncated"], false);
        }
    }
}

#[test]
fn what_is_wrong_is_named_exactly_and_a_long_book_is_never_healthy() {
    let cell = LiveCell::start(&Layout::default());
    let conductor = cell.conductor("conductor", &[]);
    let resting = [
        place("o-1", 12, "bid", "99.00", "2"),
        place("o-2", 12, "bid", "98.00", "2"),
        place("o-3", 12, "ask", "101.00", "2"),
        place("o-4", 12, "ask", "102.00", "2"),
        place("o-5", 12, "bid", "97.00", "2"),
    ];
    replies(&cell.settings, &resting);
    let broken = Broken {
        store: cell.store(0),
        conductor: &conductor,
    };
    broken.names(&[]);

    indexes_and_records(&broken);
    memory(&broken);
    a_long_book(&cell, &conductor);
    assert_eq!(metric(&conductor, "conductor_doubts_total", 0), 0);
    replies(&cell.settings, &[place("o-after", 12, "bid", "1.00", "1")]);
    broken.names(&[]);
}

/// An index and its records disagree.
fn indexes_and_records(broken: &Broken<'_>) {
    let (asks, bids) = (
        keys().book(PairId(12), Side::Ask),
        keys().book(PairId(12), Side::Bid),
    );
    let ghost = "1767225600000999:ghost";
    broken.write(&["ZADD", &asks, "100", ghost]);
    broken.names(&["ask:ghost:missing-order"]);
    broken.write(&["ZREM", &asks, ghost]);
    broken.names(&[]);

    // A second member of an order that rests on the other side.
    let (member, _) = broken.member(Side::Ask, "o-3");
    broken.write(&["ZADD", &bids, "101", &member]);
    broken.names(&["bid:o-3:index-mismatch"]);
    broken.write(&["ZREM", &bids, &member]);

    for (field, wrong, right) in [("side", "bid", "ask"), ("pairId", "13", "12")] {
        broken.write(&["HSET", &Broken::record("o-3"), field, wrong]);
        broken.names(&["ask:o-3:index-mismatch"]);
        broken.write(&["HSET", &Broken::record("o-3"), field, right]);
    }
    let (member, score) = broken.member(Side::Bid, "o-2");
    broken.write(&["ZADD", &bids, "98.5", &member]);
    broken.names(&["bid:o-2:index-mismatch"]);
    broken.write(&["ZADD", &bids, &score, &member]);
    broken.names(&[]);

    let saved: BTreeMap<String, String> = broken
        .store
        .command(&["HGETALL", &Broken::record("o-1")])
        .expect("it answers");
    broken.write(&["DEL", &Broken::record("o-1")]);
    broken.names(&["bid:o-1:missing-order"]);
    for (field, value) in &saved {
        broken.write(&["HSET", &Broken::record("o-1"), field, value]);
    }
    broken.names(&[]);
}

/// The book in memory and a store that is sound in itself disagree.
fn memory(broken: &Broken<'_>) {
    let bids = keys().book(PairId(12), Side::Bid);
    broken.write(&["HSET", &Broken::record("o-5"), "remaining", "1.5"]);
    broken.names(&["bid:o-5:memory-mismatch"]);
    broken.write(&["HSET", &Broken::record("o-5"), "remaining", "2"]);

    let (member, score) = broken.member(Side::Bid, "o-5");
    broken.write(&["ZREM", &bids, &member]);
    broken.names(&["bid:o-5:memory-mismatch"]);
    broken.write(&["ZADD", &bids, &score, &member]);

    // An order that only the store has.
    let stranger = "o-stranger";
    let digits = &broken.member(Side::Ask, "o-4").0[..16];
    let priority = (digits.parse::<u64>().expect("digits") + 7).to_string();
    let saved: BTreeMap<String, String> = broken
        .store
        .command(&["HGETALL", &Broken::record("o-4")])
        .expect("it answers");
    for (field, value) in &saved {
        let value = match field.as_str() {
            "id" => stranger,
            "priority" => &priority,
            _ => value,
        };
        broken.write(&["HSET", &Broken::record(stranger), field, value]);
    }
    let asks = keys().book(PairId(12), Side::Ask);
    let member = format!("{priority}:{stranger}");
    broken.write(&["ZADD", &asks, "102", &member]);
    broken.names(&["ask:o-stranger:memory-mismatch"]);
    broken.write(&["ZREM", &asks, &member]);
    broken.write(&["DEL", &Broken::record(stranger)]);
    broken.names(&[]);
}

/// One order more than is read: nothing is wrong with any of them, and still nobody has looked at
/// the whole book.
fn a_long_book(cell: &LiveCell, conductor: &Instance) {
    let ids: Vec<String> = (0..=MEMBERS_MAX)
        .map(|number| format!("long-{number}"))
        .collect();
    let batch = |(number, ids): (usize, &[String])| {
        let place: Vec<Value> = ids
            .iter()
            .map(|id| order_json(id, "ask", "50", "1"))
            .collect();
        let command = json!({
            "type": "orders.replace-batch", "commandId": format!("c-long-{number}"), "pairId": 14,
            "timestamp": 1_767_225_600_000_u64, "cancel": [], "place": place,
        });
        command.to_string().into_bytes()
    };
    let (most, last) = ids.split_at(MEMBERS_MAX);
    let full: Vec<Vec<u8>> = most.chunks(500).enumerate().map(batch).collect();
    replies(&cell.settings, &full);
    let told = |answer: &Value| {
        [
            "indexedOrders",
            "scannedOrders",
            "truncated",
            "healthy",
            "issues",
        ]
        .map(|name| answer[name].clone())
    };
    let full = told(&reconcile(conductor, 14));
    assert_eq!(
        full,
        [
            json!(10_000),
            json!(10_000),
            json!(false),
            json!(true),
            json!([])
        ]
    );
    replies(&cell.settings, &[batch((999, last))]);
    let longer = told(&reconcile(conductor, 14));
    assert_eq!(
        longer,
        [
            json!(10_001),
            json!(10_000),
            json!(true),
            json!(false),
            json!([])
        ]
    );
}

#[test]
fn a_reconcile_that_looked_twice_leaves_the_fence_as_it_was() {
    let cell = LiveCell::start(&Layout::default());
    let proxy = HoldProxy::start(cell.store(0).address()).expect("the proxy starts");
    let mut settings = cell.servers.settings();
    settings.stores = StoreAddresses::Direct(vec![proxy.address()]);
    let config = settings.write("through-the-proxy.toml").expect("written");
    let config = config.display().to_string();
    let conductor = cell.conductor("conductor", &[("CONDUCTOR_CONFIG", &config)]);
    replies(&cell.settings, &[place("o-1", 12, "bid", "99.00", "2")]);
    let owned = partition_of(&conductor, 0).expect("it is there");
    assert_eq!(owned["epoch"], 1, "{owned}");

    // Something that looks wrong, so that the partition's own connection is used to look again.
    let broken = Broken {
        store: cell.store(0),
        conductor: &conductor,
    };
    broken.write(&["HSET", &Broken::record("o-1"), "remaining", "1.5"]);
    broken.names(&["bid:o-1:memory-mismatch"]);
    broken.write(&["HSET", &Broken::record("o-1"), "remaining", "2"]);

    // The next packet of commands is on its way when another owner raises the epoch.
    proxy.hold_when(b"XADD");
    let clients = cell.settings.clone();
    let message = [place("o-2", 12, "bid", "98.00", "2")];
    let answer = std::thread::spawn(move || replies(&clients, &message));
    proxy.wait_holding(LATER).expect("the packet is held");
    let epoch: u64 = cell
        .store(0)
        .command(&["INCR", keys().epoch()])
        .expect("the store obeys");
    assert_eq!(epoch, 2);
    proxy.release();

    let log = conductor
        .process()
        .wait_for_log("the fence held a transaction back", LATER);
    assert!(log.expect("the log says so").contains("doubt"));
    wait_metric(&conductor, "conductor_fenced_total", 0, 1, LATER).expect("it was counted");
    // It takes the partition again, because nobody else is there, and decides the command once.
    let answer = answer.join().expect("the reply came")[0]
        .clone()
        .expect("it is a command");
    assert!(answer.contains("\"outcome\":\"rested\""), "{answer}");
    wait_partition(&conductor, 0, LATER, |it| {
        it["epoch"] == 3 && it["ready"] == true
    });
    let events = String::from_utf8(cell.stream(cell.store(0), 0)).expect("events are text");
    assert_eq!(
        events.matches("\"causationId\":\"c-o-2\"").count(),
        1,
        "{events}"
    );
    assert_eq!(metric(&conductor, "conductor_fenced_total", 0), 1);
    broken.names(&[]);
}
