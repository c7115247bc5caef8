//! The command line against a private cell, as an operator uses it from a second terminal.

mod cell_support;

use cell_support::Line;
use conductor_config::{Settings, Sources};
use conductor_io::amqp;
use conductor_tools::client::Subscription;
use conductor_tools::private_cell::{EVENT_QUEUE, Plan, PrivateCell};
use serde_json::Value;
use std::fs;
use std::time::Duration;
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_secs(30);

fn start(partitions: u32) -> PrivateCell {
    let plan = Plan {
        partitions,
        replicas: 1,
        sentinels: false,
    };
    PrivateCell::start(&plan).expect("the cell starts")
}

#[test]
fn orders_by_hand_and_a_trace_twice() {
    let cell = start(2);
    let line = Line::new(cell.config());
    orders_by_hand(&line);
    another_reader(&line);
    the_pages_as_tables(&line);
    a_trace_twice(&cell, &line);
    no_queue_no_silence(&line);
    cell.stop().expect("it ends in good order");
}

fn orders_by_hand(line: &Line<'_>) {
    let ask = [
        "--json", "place", "--pair", "3", "--side", "ask", "--user", "u-1",
    ];
    let placed = line.run(&[&ask[..], &["--price", "100.25", "--volume", "2"]].concat());
    let placed = placed.json(0);
    assert_eq!(placed["status"], "accepted");
    assert_eq!(placed["outcomes"][0]["outcome"], "rested");
    let order = placed["outcomes"][0]["orderId"]
        .as_str()
        .expect("it has an id");

    let again = [
        "--command-id",
        placed["commandId"].as_str().expect("it has an id"),
    ];
    let again = line.run(&[&ask[..], &["--price", "1", "--volume", "1"], &again].concat());
    assert_eq!(
        again.json(0),
        placed,
        "a command that was decided is answered from its record"
    );

    let amended = line.run(&["amend", order, "--pair", "3", "--volume", "1.5"]);
    assert_eq!(amended.code, 0, "{amended:?}");
    assert!(amended.out.contains("amended"), "{amended:?}");
    let bid = [
        "--json", "place", "--pair", "3", "--side", "bid", "--user", "u-2", "--market",
    ];
    let traded = line.run(&[&bid[..], &["--volume", "0.5"]].concat()).json(0);
    assert_eq!(traded["outcomes"][0]["outcome"], "filled");

    let replaced = line.run(&[
        "--json",
        "replace",
        "--pair",
        "3",
        "--cancel",
        order,
        "--place",
        "bid:2@99:b-1",
        "--place",
        r#"{"id":"a-1","side":"ask","price":"101","volume":"1"}"#,
        "--user",
        "u-3",
    ]);
    let outcomes: Vec<Value> = replaced.json(0)["outcomes"]
        .as_array()
        .expect("a list")
        .clone();
    let each: Vec<&str> = outcomes
        .iter()
        .filter_map(|it| it["outcome"].as_str())
        .collect();
    assert_eq!(each, ["cancelled", "rested", "rested"]);
    let cancelled = line
        .run(&["--json", "cancel", "nobody", "--pair", "3"])
        .json(0);
    assert_eq!(cancelled["outcomes"][0]["outcome"], "unknown-order");

    let fine = line.run(&[&ask[..], &["--price", "100.123", "--volume", "2"]].concat());
    assert_eq!(
        fine.json(1)["reason"],
        "price-precision",
        "a rejection is exit code 1"
    );
    assert_eq!(
        line.run(&[&ask[..], &["--price", "1e3", "--volume", "2"]].concat())
            .code,
        2
    );
}

fn the_pages_as_tables(line: &Line<'_>) {
    let depth = line.run(&["--json", "depth", "--pair", "3"]).json(0);
    assert_eq!(depth["bids"][0]["price"], "99");
    assert_eq!(depth["asks"][0]["price"], "101");
    let shown = line.run(&["depth", "--pair", "3", "--levels", "1"]);
    assert!(
        shown.out.contains("99") && shown.out.contains("101"),
        "{shown:?}"
    );
    let reconciled = line.run(&["--json", "reconcile", "--pair", "3"]).json(0);
    assert_eq!(
        (&reconciled["healthy"], &reconciled["indexedOrders"]),
        (&true.into(), &2.into())
    );
    let status = line.run(&["--json", "status"]).json(0);
    let partitions = status["conductors"][0]["partitions"]
        .as_array()
        .expect("a list");
    assert_eq!(partitions.len(), 2);
    assert_eq!(partitions[1]["role"], "active");
    let nobody = line.run(&["depth", "--pair", "3", "--admin", "127.0.0.1:1"]);
    assert!(
        nobody.refusal().contains("no admin page answered"),
        "{nobody:?}"
    );
    let broken = line.run(&["status", "--admin", "127.0.0.1:1"]);
    assert_eq!(
        broken.code, 1,
        "an instance that does not answer is not ready: {broken:?}"
    );
}

fn a_trace_twice(cell: &PrivateCell, line: &Line<'_>) {
    let at = |name: &str| {
        cell.servers()
            .folder()
            .path()
            .join(name)
            .display()
            .to_string()
    };
    let (trace, first, second) = (at("trace.jsonl"), at("first.jsonl"), at("second.jsonl"));
    let made = [
        "workload",
        "--seed",
        "5",
        "--commands",
        "2000",
        "--prefix",
        "w-",
        "--out",
        &trace,
    ];
    assert_eq!(line.run(&made).code, 0);
    assert_eq!(
        line.run(&["events"]).code,
        0,
        "what the orders by hand gave is out of the way"
    );

    let sent = line
        .run(&["--json", "send", &trace, "--replies", &first])
        .json(0);
    assert_eq!(
        (&sent["sent"], &sent["confirmed"]),
        (&2000.into(), &2000.into())
    );
    let again = line.run(&[
        "--json",
        "send",
        &trace,
        "--replies",
        &second,
        "--window",
        "7",
    ]);
    assert_eq!(again.json(0)["replies"]["missing"], 0);
    let (first, second) = (fs::read(first), fs::read(second));
    assert!(
        first.expect("replies") == second.expect("replies"),
        "every reply is the first one"
    );

    let fresh = fs::read_to_string(&trace).expect("the trace");
    let fresh = fresh.replace("\"commandId\":\"w-", "\"commandId\":\"x-");
    let third = line
        .feed(&["--json", "send", "-"], fresh.as_bytes())
        .json(0);
    assert_eq!(third["replies"]["missing"], 0, "{third}");
    let events = line.run(&["events", "--quiet-ms", "3000"]);
    assert_eq!(events.code, 0, "no gap and nothing twice: {}", events.err);
    let (mut deals, mut late_deals) = (0, 0);
    for event in events.out.lines() {
        let event: Value = serde_json::from_str(event).expect("events are JSON");
        let is_deal = event["type"] == "deal.executed.v1";
        let late = event["causationId"]
            .as_str()
            .is_some_and(|id| id.starts_with("x-"));
        deals += u32::from(is_deal && !late);
        late_deals += u32::from(is_deal && late);
    }
    assert!(deals > 300, "{deals} deals");
    assert_eq!(
        late_deals, 0,
        "the same orders under other commands trade nothing"
    );
}

/// A queue of events serves one reader at a time, and the other one is told why it gets nothing.
fn another_reader(line: &Line<'_>) {
    let sources = Sources {
        file: Some(line.config.to_owned()),
        ..Sources::default()
    };
    let settings = Settings::load(&sources).expect("the settings are good");
    let runtime = Runtime::new().expect("a runtime");
    let reader = runtime.block_on(async {
        // It has taken one and acknowledged nothing; its prefetch leaves the rest where it is.
        let connection = amqp::connect(&settings.broker, "another reader").await;
        let connection = connection.expect("the broker is there");
        let reader = Subscription::open(&connection, EVENT_QUEUE, 1).await;
        let mut reader = reader.expect("it may subscribe");
        reader.next().await.expect("there is an event");
        (connection, reader)
    });
    let other = line.run(&["events"]);
    assert!(other.refusal().contains("another reader"), "{other:?}");
    runtime.block_on(async {
        reader.1.close().await;
        amqp::close_connection(&reader.0).await;
    });
}

/// A partition that nobody set up is no place where a command may vanish.
fn no_queue_no_silence(line: &Line<'_>) {
    let wrong = Line {
        config: line.config,
        environment: vec![("MATCHING_PARTITION_COUNT".to_owned(), "3".to_owned())],
    };
    let returned = wrong.run(&["cancel", "o", "--pair", "2"]);
    assert!(returned.refusal().contains("cell init"), "{returned:?}");
    let sent = wrong.feed(
        &["send", "-"],
        br#"{"type":"order.cancel","commandId":"z","pairId":2,"timestamp":5,"orderId":"o"}"#,
    );
    assert_eq!(sent.code, 1, "{sent:?}");
    assert!(sent.err.contains("no queue is bound"), "{sent:?}");
}

#[test]
fn parking_and_a_halt_that_a_person_lifts() {
    let cell = start(1);
    let line = Line::new(cell.config());
    what_is_no_command(&line);
    let refused = line.run(&["resume", "--partition", "0"]);
    assert!(refused.refusal().contains("is not halted"), "{refused:?}");
    a_halt(&cell, &line);
    cell.stop().expect("it ends in good order");
}

fn parked(line: &Line<'_>) -> Vec<Value> {
    let list = line
        .run(&["--json", "parked", "list", "--partition", "0"])
        .json(0);
    list["parked"].as_array().expect("a list").clone()
}

fn parked_ids(line: &Line<'_>) -> Vec<String> {
    let id = |message: &Value| message["id"].as_str().expect("it has an id").to_owned();
    parked(line).iter().map(id).collect()
}

fn what_is_no_command(line: &Line<'_>) {
    let sent = line
        .feed(&["--json", "send", "-"], b"first\nsecond\nfirst again\n")
        .json(0);
    assert_eq!(
        (&sent["confirmed"], &sent["replies"]["accepted"]),
        (&3.into(), &0.into())
    );
    // A command behind them is answered only after they were parked.
    assert_eq!(line.run(&["cancel", "o", "--pair", "0"]).code, 0);
    let bodies: Vec<Value> = parked(line).iter().map(|it| it["body"].clone()).collect();
    assert_eq!(
        bodies,
        ["first", "second", "first again"],
        "in their order, however often looked at"
    );
    let ids = parked_ids(line);
    let shown = line.run(&["parked", "show", &ids[1], "--partition", "0"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.out.contains("not JSON") && shown.out.contains("second"),
        "{shown:?}"
    );
    let nothing = line.run(&["parked", "show", "nothing", "--partition", "0"]);
    assert!(
        nothing.refusal().contains("no message nothing"),
        "{nothing:?}"
    );

    let redriven = ["--json", "parked", "redrive", &ids[1], "--partition", "0"];
    let redriven = line.run(&redriven).json(0);
    assert_eq!(redriven["redriven"].as_array().map(Vec::len), Some(1));
    assert_eq!(line.run(&["cancel", "o", "--pair", "0"]).code, 0);
    let after = [ids[0].clone(), ids[2].clone(), ids[1].clone()];
    assert_eq!(
        parked_ids(line),
        after,
        "it is no command still, and is parked again"
    );
    let all = line
        .run(&["--json", "parked", "redrive", "--all", "--partition", "0"])
        .json(0);
    assert_eq!(all["redriven"].as_array().map(Vec::len), Some(3));
}

/// A halt as a conductor records it; it comes up, sees it and stays down.
fn a_halt(cell: &PrivateCell, line: &Line<'_>) {
    let key = "matching:{matching-p0}:halted";
    let primary = &cell.servers().store(0).primary;
    let record = [
        "HSET", key, "reason", "a test", "command", "c-2", "epoch", "1",
    ];
    primary.command::<i64>(&record).expect("it is recorded");
    cell.conductor()
        .restart()
        .expect("the conductor starts again");
    let halted = |_: u16, body: &str| body.contains("halted: a test");
    cell.conductor()
        .wait_page("/ready", SOON, halted)
        .expect("it stays down");

    let cancel = |id: &str| {
        format!(
            r#"{{"type":"order.cancel","commandId":"{id}","pairId":0,"timestamp":5,"orderId":"o"}}"#
        )
    };
    let three = ["c-1", "c-2", "c-3"].map(cancel).join("\n");
    assert_eq!(
        line.feed(&["send", "-", "--no-replies"], three.as_bytes())
            .code,
        0
    );
    let waiting = line.run(&["cancel", "o", "--pair", "0", "--wait-ms", "300"]);
    assert!(waiting.refusal().contains("cell status"), "{waiting:?}");
    let unknown = line.run(&["resume", "--partition", "0", "--park", "c-9"]);
    assert!(
        unknown.refusal().contains("c-9 is not among the"),
        "{unknown:?}"
    );
    let still: i64 = primary
        .command(&["EXISTS", key])
        .expect("the store answers");
    assert_eq!(still, 1, "a resume that fails lifts nothing");

    let resumed = line
        .run(&["--json", "resume", "--partition", "0", "--park", "c-2"])
        .json(0);
    assert_eq!(
        (&resumed["reason"], &resumed["command"]),
        (&"a test".into(), &"c-2".into())
    );
    cell.conductor()
        .wait_ready(SOON)
        .expect("it takes the partition");
    for id in ["c-1", "c-3"] {
        let answer = line.run(&["--json", "cancel", "o", "--pair", "0", "--command-id", id]);
        assert_eq!(answer.json(0)["status"], "unchanged", "it was decided");
    }
    let record = "matching:{matching-p0}:processed-command:c-2";
    let decided: i64 = primary
        .command(&["EXISTS", record])
        .expect("the store answers");
    assert_eq!(decided, 0, "the parked one was not");
    let found = line.run(&["parked", "show", "c-2", "--partition", "0"]);
    assert!(
        found.out.contains("parked by cell resume: a test"),
        "{found:?}"
    );
    assert_eq!(
        line.run(&["parked", "redrive", "c-2", "--partition", "0"])
            .code,
        0
    );
    let answer = line.run(&[
        "--json",
        "cancel",
        "o",
        "--pair",
        "0",
        "--command-id",
        "c-2",
    ]);
    assert_eq!(answer.json(0)["outcomes"][0]["outcome"], "unknown-order");
}
