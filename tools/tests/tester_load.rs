//! `conductor-tester load` and what it stands on: traffic that no fault ends, and an audit that sees
//! a difference on whichever side it is.

use conductor_engine::PartitionId;
use conductor_io::amqp::{self, Outgoing, Publisher};
use conductor_io::keys::parking_queue;
use conductor_tools::client::{Pages, block_on};
use conductor_tools::private_cell::{Plan, PrivateCell};
use conductor_tools::tester::audit::{Audit, audit};
use conductor_tools::tester::traffic::{Finished, Traffic, TrafficOptions};
use lapin::BasicProperties;
use rusqlite::Connection;
use serde_json::Value;
use std::process::Command;
use std::time::{Duration, Instant};

const LATER: Duration = Duration::from_secs(120);

#[test]
fn a_load_on_a_private_cell_ends_with_a_clean_audit() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record.sqlite");
    let words = [
        "--json",
        "load",
        "--rate",
        "300",
        "--seconds",
        "5",
        "--partitions",
        "2",
        "--seed",
        "3",
        "--poison-permille",
        "40",
        "--record",
    ];
    let said = Command::new(env!("CARGO_BIN_EXE_conductor-tester"))
        .args(words)
        .arg(&record)
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success(), "{said:?}");
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    let progress = &report["progress"];
    let count = |name: &str| progress[name].as_u64().unwrap_or_default();
    assert!(count("published") >= 1_200, "{report}");
    assert_eq!(count("published"), count("confirmed"), "{report}");
    assert!(count("poison") > 10 && count("repeats") > 10, "{report}");
    assert_eq!(count("repliesMissing"), 0, "{report}");
    assert!(
        report["dueToReplyMs"]["p999"].as_f64() > Some(0.0),
        "{report}"
    );
    let checks = report["audit"]["checks"].as_array().expect("a list");
    assert!(checks.len() >= 12, "{report}");
    assert!(
        checks.iter().all(|check| check["holds"] == true),
        "{report}"
    );
    assert!(record.is_file(), "the record that was named stays");
}

/// A private cell with its pages.
struct Bed {
    cell: PrivateCell,
    pages: Pages,
    _folder: tempfile::TempDir,
    record: std::path::PathBuf,
}

impl Bed {
    fn start() -> Self {
        let plan = Plan {
            partitions: 2,
            replicas: 1,
            sentinels: false,
        };
        let cell = PrivateCell::start(&plan).expect("the cell starts");
        let pages = Pages::new([cell.conductor().url("")]);
        let folder = tempfile::tempdir().expect("a folder");
        let record = folder.path().join("record.sqlite");
        Self {
            cell,
            pages,
            _folder: folder,
            record,
        }
    }

    fn audit(&self) -> Audit {
        let within = Duration::from_secs(5);
        let found = audit(self.cell.settings(), &self.pages, &self.record, within);
        found.expect("every side can be read")
    }

    /// The audit must be clean.
    fn clean(&self) {
        let found = self.audit();
        assert!(found.is_clean(), "{found}");
    }

    /// The audit must see it, and say it with these words.
    fn sees(&self, what: &str) {
        let found = self.audit();
        let said: Vec<&String> = found
            .checks
            .iter()
            .filter_map(|check| check.difference.as_ref())
            .collect();
        assert!(!found.is_clean(), "{what} went unseen: {found}");
        assert!(
            said.iter().any(|said| said.contains(what)),
            "{what}: {found}"
        );
    }

    /// Asks the store of partition 0.
    fn ask<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let store = &self.cell.servers().store(0).primary;
        store.command(words).expect("the store answers")
    }

    /// Changes the store of partition 0.
    fn change(&self, words: &[&str]) {
        let _: redis::Value = self.ask(words);
    }

    /// The id of the first command of partition 0.
    fn first_command(&self) -> String {
        let file = Connection::open(&self.record).expect("the record opens");
        let query = "SELECT body FROM command WHERE partition = 0 ORDER BY number LIMIT 1";
        let body: Vec<u8> = file
            .query_row(query, [], |row| row.get(0))
            .expect("there is one");
        let body: Value = serde_json::from_slice(&body).expect("it is JSON");
        body["commandId"].as_str().expect("it has an id").to_owned()
    }

    fn file(&self, statement: &str) {
        let file = Connection::open(&self.record).expect("the record opens");
        let changed = file.execute(statement, []).expect("it is a statement");
        assert!(changed > 0, "{statement}");
    }
}

#[test]
fn traffic_survives_every_fault_and_the_audit_sees_every_side() {
    let bed = Bed::start();
    let options = TrafficOptions {
        seed: 5,
        rate: Some(250.0),
        poison_permille: 30,
        ..TrafficOptions::new(bed.record.clone())
    };
    let traffic = Traffic::start(bed.cell.settings(), options).expect("it starts");
    let acknowledged = |after| {
        let waited = traffic.wait_acknowledged(after, 50, LATER);
        waited.unwrap_or_else(|error| panic!("{error}"))
    };
    acknowledged(Instant::now());
    let cell = &bed.cell;
    let rabbit = cell.servers().rabbit();

    let struck = Instant::now();
    cell.conductor().process().kill().expect("it dies");
    cell.conductor().restart().expect("it starts again");
    let waited = acknowledged(struck);
    let silence = traffic.longest_silence(struck);
    assert!(silence <= struck.elapsed() && waited <= struck.elapsed());
    assert!(silence > Duration::from_millis(50), "{silence:?}");

    let struck = Instant::now();
    rabbit
        .control(&["close_all_connections", "test"])
        .expect("they are closed");
    acknowledged(struck);
    cell.outbox().process().kill().expect("it dies");
    cell.outbox().restart().expect("it starts again");
    rabbit.stop().expect("it stops");
    rabbit.restart().expect("it starts again");
    acknowledged(Instant::now());

    let finished: Finished = traffic
        .finish(LATER)
        .unwrap_or_else(|error| panic!("{error}"));
    let progress = &finished.progress;
    // Both of the producer, and at least one of the inbox, which may still have been on its way.
    assert!(progress.reconnects >= 3, "{progress:?}");
    assert!(progress.poison > 0 && progress.repeats > 0, "{progress:?}");
    assert_eq!(progress.published, progress.confirmed, "{progress:?}");
    bed.clean();
    store_side(&bed);
    inbox_side(&bed);
    bed.clean();
    parking_side(&bed);
    once_more(&bed);
}

/// A cell that has worked before can be tested again.
fn once_more(bed: &Bed) {
    let record = bed.record.with_extension("again");
    let options = TrafficOptions {
        rate: None,
        commands: Some(400),
        poison_permille: 30,
        ..TrafficOptions::new(record.clone())
    };
    let settings = bed.cell.settings();
    let traffic = Traffic::start(settings, options).expect("it starts");
    traffic
        .wait_offered(LATER)
        .unwrap_or_else(|error| panic!("{error}"));
    let finished = traffic
        .finish(LATER)
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(finished.progress.confirmed, 400);
    let found = audit(settings, &bed.pages, &record, LATER).expect("every side can be read");
    assert!(found.is_clean(), "{found}");
    let found = bed.audit();
    assert!(
        !found.is_clean(),
        "the first record knows nothing of it: {found}"
    );
}

fn key(name: &str) -> String {
    format!("matching:{{matching-p0}}:{name}")
}

/// Results, used order ids, records, indexes, cursor, streams.
fn store_side(bed: &Bed) {
    let command = bed.first_command();
    let words = format!("stored result of command {command}");
    let result = key(&format!("processed-command:{command}"));
    let before: String = bed.ask(&["GET", &result]);
    bed.change(&["SET", &result, &before.replace("accepted", "unchanged")]);
    bed.sees(&words);
    bed.change(&["DEL", &result]);
    bed.sees(&words);
    bed.change(&["SET", &result, &before]);

    let never = key("processed-command:never");
    bed.change(&["SET", &never, "{}"]);
    bed.sees("results, expected");
    bed.change(&["DEL", &never]);

    let book = key("book:0:ask:rates");
    let members: Vec<String> = bed.ask(&["ZRANGE", &book, "0", "0"]);
    let (_, order) = members[0].split_once(':').expect("digits and an order");
    let used = key(&format!("accepted-order:{order}"));
    let before: String = bed.ask(&["GET", &used]);
    bed.change(&["SET", &used, "c-0"]);
    bed.sees("the command that used up order id");
    bed.change(&["SET", &used, &before]);

    let record = key(&format!("order:{order}"));
    let before: String = bed.ask(&["HGET", &record, "remaining"]);
    bed.change(&["HSET", &record, "remaining", "0.00000001"]);
    bed.sees(&format!("record {record}"));
    // The owner's memory has it as it should be, and so the two disagree.
    bed.sees("does not reconcile");
    bed.change(&["HSET", &record, "remaining", &before]);

    let score: String = bed.ask(&["ZSCORE", &book, &members[0]]);
    bed.change(&["ZADD", &book, "1", &members[0]]);
    bed.sees("expected score");
    bed.change(&["ZADD", &book, &score, &members[0]]);
    bed.change(&["ZADD", &book, "9000", "0000000000000009:never"]);
    bed.sees("member 0000000000000009:never");
    bed.change(&["ZREM", &book, "0000000000000009:never"]);

    bed.change(&["HINCRBY", &key("cursor"), "sequence", "1"]);
    bed.sees("cursor of partition 0");
    bed.change(&["HINCRBY", &key("cursor"), "sequence", "-1"]);
    let dead = key("events:dead-letter");
    bed.change(&["XADD", &dead, "*", "event", "x"]);
    bed.sees("dead letters");
    bed.change(&["DEL", &dead]);
}

/// Events, what was made of them, and the record of what was sent.
fn inbox_side(bed: &Bed) {
    for (change, words, back) in [
        (
            "UPDATE event SET body = CAST(body || x'20' AS BLOB) WHERE partition = 1 AND sequence = 9",
            "inbox of partition 1, an event of message",
            "UPDATE event SET body = substr(body, 1, length(body) - 1)
             WHERE partition = 1 AND sequence = 9",
        ),
        (
            "UPDATE event SET partition = 7 WHERE partition = 1
             AND sequence = (SELECT max(sequence) FROM event WHERE partition = 1)",
            "found nothing",
            "UPDATE event SET partition = 1 WHERE partition = 7",
        ),
        (
            "UPDATE resting SET remaining = remaining || '1'
             WHERE order_id = (SELECT min(order_id) FROM resting)",
            "the inbox's order",
            "UPDATE resting SET remaining = substr(remaining, 1, length(remaining) - 1)
             WHERE order_id = (SELECT min(order_id) FROM resting)",
        ),
        (
            "UPDATE traded SET deals = deals + 1 WHERE pair = 3",
            "the inbox's trades of pair 3",
            "UPDATE traded SET deals = deals - 1 WHERE pair = 3",
        ),
        (
            "UPDATE command SET confirmed = 0 WHERE number = 10",
            "message 10 (partition",
            "UPDATE command SET confirmed = 1 WHERE number = 10",
        ),
    ] {
        bed.file(change);
        bed.sees(words);
        bed.file(back);
    }
}

/// A command among the parked messages; and none of those that must be there.
fn parking_side(bed: &Bed) {
    let queue = parking_queue(PartitionId(0));
    let message = Outgoing {
        exchange: String::new(),
        routing_key: queue.clone(),
        properties: BasicProperties::default(),
        body: b"somebody parked this".to_vec(),
        mandatory: true,
    };
    block_on(async {
        let connection = amqp::connect(&bed.cell.settings().broker, "test").await?;
        let publisher = Publisher::open(&connection, LATER).await?;
        publisher.publish(message).await?;
        publisher.close().await;
        amqp::close_connection(&connection).await;
        Ok(())
    })
    .expect("it is published");
    bed.sees("none of ours: somebody parked this");
    let rabbit = bed.cell.servers().rabbit();
    rabbit
        .control(&["purge_queue", &queue])
        .expect("it is purged");
    bed.sees("was parked 0 times");
}
