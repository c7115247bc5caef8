//! The admin pages of a conductor at work: what they say must be so, and they change nothing.
//!
//! What `/reconcile` says is in `admin_reconcile_cell.rs`.

mod listening;
mod live;
mod percentile_text;
mod raw_messages;
mod scrape;

use conductor_config::{Environment, Settings, Sources, keys};
use conductor_engine::Step;
use conductor_tools::testbed::{Instance, Layout};
use listening::listening;
use live::{LATER, LiveCell, Message, partition_of, wait_partition, workload};
use raw_messages::{place, replies};
use scrape::Scrape;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

const COMMANDS: usize = 2_000;

/// The status and the body of a page, as JSON.
fn asked(instance: &Instance, page: &str) -> (u16, Value) {
    let (status, body) = instance.page(page).expect("the page answers");
    (
        status,
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{page}: {error}: {body}")),
    )
}

#[test]
fn the_pages_of_a_working_cell_say_what_is_so() {
    let cell = LiveCell::start(&Layout {
        partitions: 2,
        ..Layout::default()
    });
    let first = cell.conductor("first", &[]);
    assert_eq!(
        asked(&first, "/health"),
        (200, serde_json::json!({"status": "ok"}))
    );
    let idle = partition_of(&first, 0).expect("it is there");
    assert_eq!(
        (&idle["state"], &idle["epoch"]),
        (&"standing-by".into(), &Value::Null)
    );

    let commands = workload(11, "", COMMANDS);
    let messages: Vec<_> = commands
        .iter()
        .map(|command| Message::of(command, 2))
        .collect();
    cell.send(&messages, LATER).finish();
    let owned = [0, 1].map(|partition| {
        wait_partition(&first, partition, LATER, |it| {
            it["role"] == "active" && it["ready"] == true
        })
    });
    for shown in &owned {
        assert_eq!(
            (&shown["state"], &shown["epoch"]),
            (&"owning".into(), &1.into()),
            "{shown}"
        );
        assert!(shown["durableSequence"].as_u64() > Some(100), "{shown}");
        assert_eq!(shown["brokerConnected"], true);
    }
    figures(&first, &messages);
    histograms(&first);
    depth(&first);
    only_reading_and_only_here(&first);
    a_standby_is_one(&cell, &first);
    a_frozen_replica_is_told(&cell, &first);
}

const COUNTERS: [&str; 18] = [
    "deliveries",
    "commands",
    "rejected_commands",
    "duplicate_commands",
    "duplicate_orders",
    "failures",
    "events",
    "deals",
    "groups",
    "claims",
    "doubts",
    "fenced",
    "waits_below_policy",
    "parked",
    "halts",
    "replies_sent",
    "replies_dropped",
    "redeliveries",
];
const GAUGES: [&str; 10] = [
    "ready",
    "broker_connected",
    "epoch",
    "durable_sequence",
    "orders",
    "event_stream_entries",
    "last_command_seconds",
    "mailbox_depth",
    "store_used_memory_bytes",
    "store_max_memory_bytes",
];

/// Every figure that an operator was promised, for each partition.
fn figures(conductor: &Instance, messages: &[Message]) {
    let (status, text) = conductor.page("/metrics").expect("the figures are shown");
    assert_eq!(status, 200);
    let scrape = Scrape::read(&text);
    scrape.assert_labelled();
    for partition in ["0", "1"] {
        let sent = messages
            .iter()
            .filter(|it| it.partition.to_string() == partition)
            .count();
        single_figures(&scrape, partition, sent as f64);
        distributions(&scrape, partition, sent as f64);
    }
}

/// What stands for itself, after so many commands of one healthy owner.
fn single_figures(scrape: &Scrape, partition: &str, sent: f64) {
    let labels = [("partition", partition)];
    let value = |name: &str| {
        let name = format!("conductor_{name}");
        scrape
            .value(&name, &labels)
            .unwrap_or_else(|| panic!("{name} of {partition}"))
    };
    let counted = |name: &str| value(&format!("{name}_total"));
    for name in COUNTERS {
        assert!(counted(name) >= 0.0);
    }
    for name in GAUGES {
        assert!(value(name) >= 0.0);
    }
    for name in ["deliveries", "commands", "replies_sent"] {
        assert_eq!(counted(name), sent, "{name}");
    }
    assert_eq!((counted("failures"), counted("claims")), (0.0, 1.0));
    assert!(counted("deals") > 100.0 && counted("events") > counted("deals"));
    assert_eq!(value("durable_sequence"), counted("events"));
    assert_eq!(
        value("event_stream_entries"),
        counted("events"),
        "no outbox runs"
    );
    assert!(value("last_command_seconds") > 0.0 && value("store_used_memory_bytes") > 1e5);
    assert_eq!((value("ready"), value("epoch")), (1.0, 1.0));
    for (name, wanted) in [("role", "active"), ("state", "owning")] {
        let labels = [("partition", partition), (name, wanted)];
        assert_eq!(
            scrape.value(&format!("conductor_{name}"), &labels),
            Some(1.0)
        );
    }
}

/// The nine steps, the sizes of groups and the two ages.
fn distributions(scrape: &Scrape, partition: &str, sent: f64) {
    for step in Step::ALL {
        let labels = [("partition", partition), ("step", step.name())];
        let times = scrape.histogram("conductor_step_seconds", &labels);
        assert!(times > 0.0, "{}", step.name());
    }
    let labels = [("partition", partition)];
    let groups = scrape.value("conductor_groups_total", &labels);
    assert_eq!(
        Some(scrape.histogram("conductor_group_commands", &labels)),
        groups
    );
    for age in ["delivery", "ack"] {
        let family = format!("conductor_command_age_at_{age}_seconds");
        assert_eq!(scrape.histogram(&family, &labels), sent, "{family}");
    }
}

/// Nine steps a partition as JSON, and each of them as the plotter's text.
fn histograms(conductor: &Instance) {
    let (status, shown) = asked(conductor, "/histogram");
    assert_eq!((status, &shown["unit"]), (200, &"nanoseconds".into()));
    let partitions = shown["partitions"].as_array().expect("a list");
    assert_eq!(partitions.len(), 2);
    for (number, partition) in partitions.iter().enumerate() {
        let steps = partition["steps"].as_object().expect("an object");
        let names: BTreeSet<&str> = steps.keys().map(String::as_str).collect();
        assert_eq!(names, Step::ALL.map(Step::name).into());
        for (name, step) in steps {
            let of = |field: &str| {
                step[field]
                    .as_u64()
                    .unwrap_or_else(|| panic!("{field}: {step}"))
            };
            let marks = ["p50", "p90", "p99", "p99.9", "max"].map(of);
            assert!(marks.is_sorted() && marks[0] > 0, "{name}: {step}");
            let page = format!("/histogram?format=hgrm&partition={number}&step={name}");
            let (status, text) = conductor.page(&page).expect("the page answers");
            assert_eq!(status, 200, "{text}");
            percentile_text::assert_read(&text, of("count"));
        }
    }
    for page in [
        "/histogram?format=csv",
        "/histogram?format=hgrm",
        "/histogram?step=ack",
    ] {
        assert_eq!(asked(conductor, page).0, 400, "{page}");
    }
}

/// The best levels, as many as were asked for.
fn depth(conductor: &Instance) {
    let levels = |page: &str, side: &str| -> Vec<f64> {
        let (status, shown) = asked(conductor, page);
        assert_eq!(status, 200, "{shown}");
        let levels = shown[side].as_array().expect("a list").iter();
        levels
            .map(|level| {
                level["price"]
                    .as_str()
                    .expect("text")
                    .parse()
                    .expect("price")
            })
            .collect()
    };
    let (bids, asks) = (
        levels("/depth?pairId=3", "bids"),
        levels("/depth?pairId=3", "asks"),
    );
    assert!(
        bids.is_sorted_by(|left, right| left > right) && !bids.is_empty(),
        "{bids:?}"
    );
    assert!(
        asks.is_sorted_by(|left, right| left < right) && !asks.is_empty(),
        "{asks:?}"
    );
    assert!(bids[0] < asks[0]);
    assert_eq!(levels("/depth?pairId=3&levels=1", "bids"), bids[..1]);
    assert_eq!(
        levels("/depth?pairId=4000000000", "bids"),
        Vec::<f64>::new()
    );
    for page in [
        "/depth",
        "/depth?pairId=x",
        "/depth?pairId=3&levels=0",
        "/depth?pair=3",
    ] {
        let (status, shown) = asked(conductor, page);
        assert_eq!(status, 400, "{page}");
        assert!(shown["error"].is_string(), "{page}");
    }
}

/// Every page refuses every other verb, and the process listens nowhere but there.
fn only_reading_and_only_here(conductor: &Instance) {
    let url = conductor.url("");
    let address: SocketAddr = url
        .strip_prefix("http://")
        .expect("a URL")
        .parse()
        .expect("one");
    for page in [
        "/health",
        "/ready",
        "/metrics",
        "/reconcile?pairId=0",
        "/depth",
        "/histogram",
    ] {
        for verb in ["POST", "PUT", "DELETE", "PATCH"] {
            let mut stream = TcpStream::connect(address).expect("the pages listen");
            let head = format!(
                "{verb} {page} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("it is sent");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).expect("it is answered");
            assert!(
                answer.starts_with("HTTP/1.1 405"),
                "{verb} {page}: {answer}"
            );
        }
    }
    assert_eq!(asked(conductor, "/nothing").0, 404);
    assert_eq!(listening(conductor.process().pid()), [address].into());

    let environment: Environment = [
        (keys::PARTITIONS.environment(), "0"),
        (keys::STORE_HOST.environment(), "127.0.0.1"),
    ]
    .into_iter()
    .collect();
    let settings = Settings::load(&Sources {
        file: None,
        environment,
    })
    .expect("few will do");
    assert!(
        settings.admin_address.ip().is_loopback(),
        "{}",
        settings.admin_address
    );
}

/// A second conductor is ready, is called a standby, and has no book to show.
fn a_standby_is_one(cell: &LiveCell, first: &Instance) {
    let second = cell.conductor("second", &[]);
    for partition in [0, 1] {
        let shown = wait_partition(&second, partition, LATER, |it| {
            it["ready"] == true && it["role"] == "standby"
        });
        assert_eq!(shown["state"], "standing-by", "{shown}");
        let active = partition_of(first, partition).expect("it is there");
        assert_eq!(active["role"], "active");
    }
    let (status, refusal) = asked(&second, "/depth?pairId=3");
    assert_eq!(status, 503);
    assert!(
        refusal["error"]
            .as_str()
            .is_some_and(|said| said.contains("ask the active one"))
    );
    let (_, text) = second.page("/metrics").expect("the figures are shown");
    let scrape = Scrape::read(&text);
    let roles = ["active", "standby", "unknown"].map(|role| {
        scrape
            .value("conductor_role", &[("partition", "0"), ("role", role)])
            .expect("a role")
    });
    assert_eq!(roles, [0.0, 1.0, 0.0]);
    assert!(second.terminate(LATER).expect("it ends").success());
}

/// While one partition's replica stands still, nothing of it is acknowledged and `/ready` is red
/// and says why; the other partition is fine.
fn a_frozen_replica_is_told(cell: &LiveCell, conductor: &Instance) {
    let replica = cell.servers.store(0).replicas[0].process();
    replica.pause().expect("the replica stops");
    let (settings, message) = (
        cell.settings.clone(),
        [place("o-frozen", 0, "bid", "1", "1")],
    );
    let answer = std::thread::spawn(move || replies(&settings, &message));
    let frozen = wait_partition(conductor, 0, LATER, |it| {
        let why = it["why"].as_str().unwrap_or_default();
        it["ready"] == false && why.contains("0 of 1 replicas confirmed on disk")
    });
    assert_eq!(
        (&frozen["state"], &frozen["role"]),
        (&"not-durable".into(), &"active".into())
    );
    assert_eq!(asked(conductor, "/ready").0, 503);
    let other = partition_of(conductor, 1).expect("it is there");
    assert_eq!(
        (&other["ready"], &other["why"]),
        (&true.into(), &Value::Null)
    );
    assert!(
        !answer.is_finished(),
        "nothing is answered before it is durable"
    );
    replica.resume().expect("the replica goes on");
    let answer = answer.join().expect("the reply came")[0]
        .clone()
        .expect("it is a command");
    assert!(answer.contains("\"status\":\"accepted\""), "{answer}");
    conductor.wait_ready(LATER).expect("it is green again");
}
