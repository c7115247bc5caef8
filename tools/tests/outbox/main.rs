//! The outbox on real servers: what is in the stream reaches the queue, in order and at least
//! once, whatever dies on the way.

mod bench;
mod failures;
mod publisher;

use bench::{Bench, END_WITHIN, QUEUE, SOON, counted, event, figure, header, kind};
use conductor_tools::testbed::{Folder, Launch, Process, binary, wait_for};
use lapin::types::AMQPValue;
use std::time::Instant;

/// More than two batches.
const EVENTS: u64 = 2_500;

#[test]
fn events_appear_once_and_in_order_with_all_that_names_them() {
    let bench = Bench::with_queue();
    bench.add(1..=EVENTS);
    let first: Vec<(String, Vec<(String, String)>)> =
        bench.store(&["XRANGE", bench.keys().events(), "-", "+", "COUNT", "1"]);
    let outbox = bench.outbox("outbox", &[]);
    let taken = bench.take_through(EVENTS);
    bench.wait_drained();
    assert_eq!(bench.waiting(), 0, "each event came once");
    assert_eq!(taken.len() as u64, EVENTS);
    for (got, sequence) in taken.iter().zip(1..) {
        assert_eq!(got.sequence, sequence);
        assert_eq!(got.routing_key, kind(sequence));
        assert_eq!(
            got.body,
            event(sequence, kind(sequence)).as_bytes(),
            "the bytes as they are"
        );
        let properties = &got.properties;
        assert_eq!(properties.content_type(), &Some("application/json".into()));
        assert_eq!(properties.delivery_mode(), &Some(2), "it is persistent");
        assert_eq!(
            header(properties, "x-partition"),
            Some(AMQPValue::LongLongInt(0))
        );
        let cause = AMQPValue::LongString(format!("c-{sequence}").into());
        assert_eq!(header(properties, "x-causation-id"), Some(cause));
    }
    let offset = AMQPValue::LongString(first[0].0.as_str().into());
    assert_eq!(
        header(&taken[0].properties, "x-partition-offset"),
        Some(offset)
    );

    let ready = outbox.wait_ready(SOON).expect("it is ready");
    assert!(
        ready.contains(r#""partition":0,"ready":true,"why":null,"lease":true"#),
        "{ready}"
    );
    assert_eq!(figure(&outbox, "published_total"), EVENTS);
    for (name, value) in [("retried_total", 0), ("lease", 1), ("stream_length", 0)] {
        assert_eq!(figure(&outbox, name), value, "{name}");
    }
    assert_eq!(outbox.page("/health").expect("it answers").0, 200);
    assert_eq!(outbox.page("/other").expect("it answers").0, 404);

    let asked = Instant::now();
    let ended = outbox.terminate(END_WITHIN).expect("it ends");
    assert_eq!(ended.code(), Some(0), "after {:?}", asked.elapsed());
    let lease: Option<String> = bench.store(&["GET", bench.keys().outbox_lease()]);
    assert_eq!(lease, None, "the lease is given up");
    let log = outbox.process().log();
    assert!(
        !log.contains(bench.cell.rabbit().password()),
        "the log holds a password"
    );
}

#[test]
fn what_nobody_takes_is_tried_again_and_what_is_no_event_goes_to_the_dead_letters() {
    let bench = Bench::new();
    bench.add(1..=5);
    let outbox = bench.outbox("outbox", &[]);
    let said = outbox
        .process()
        .wait_for_log("no queue is bound to matching.events", SOON);
    let said = said.expect("it says what is missing");
    assert!(said.contains("cell init --event-queue"), "{said}");
    assert!(
        said.contains("partition=0"),
        "each line names its partition: {said}"
    );
    let attempts = || -> u64 {
        let tried: Option<u64> = bench.store(&["HGET", bench.keys().outbox_attempts(), "c-1.0"]);
        tried.unwrap_or(0)
    };
    wait_for("two tries", SOON, || match attempts() {
        0 | 1 => Err("not yet".to_owned()),
        _ => Ok(()),
    })
    .expect("tries are counted");
    let (status, body) = outbox.page("/ready").expect("it answers");
    assert!(status == 503 && body.contains("c-1.0"), "{status} {body}");
    assert_eq!(bench.stream_length(), 5, "nothing is lost");

    bench.bind(QUEUE, &["#"]);
    let taken = bench.take_through(5);
    assert_eq!(taken.len(), 5, "after a failure one is tried alone");
    bench.wait_drained();
    wait_for("forgotten tries", SOON, || match attempts() {
        0 => Ok(()),
        tries => Err(format!("{tries}")),
    })
    .expect("tries are forgotten with the event");
    outbox.wait_ready(SOON).expect("it is ready");

    bench.add(6..=6);
    bench.add_entry(&[("event", "{no event")]);
    bench.add_entry(&[("other", "x"), ("more", "y")]);
    bench.add(7..=7);
    let taken = bench.take_until(|taken| taken.iter().any(|got| got.sequence == 7));
    let sequences: Vec<u64> = taken.iter().map(|got| got.sequence).collect();
    assert_eq!(sequences, [6, 7]);
    bench.wait_drained();
    dead_letters(&bench);
    assert_eq!(figure(&outbox, "dead_lettered_total"), 2);
}

/// What left the stream is kept with all its fields and the reason.
fn dead_letters(bench: &Bench) {
    type Letter = (String, Vec<(String, String)>);
    let letters: Vec<Letter> = bench.store(&["XRANGE", bench.keys().dead_letter(), "-", "+"]);
    let [(_, broken), (_, other)] = letters.as_slice() else {
        panic!("two dead letters, not {letters:?}")
    };
    assert_eq!(broken[0], ("event".to_owned(), "{no event".to_owned()));
    assert_eq!(broken[1].0, "reason");
    assert!(broken[1].1.contains("no event"), "{broken:?}");
    assert_eq!(other[..2], [pair("other", "x"), pair("more", "y")]);
    assert_eq!(other[2].0, "reason");
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_gap_in_the_sequence_is_said_and_published() {
    let bench = Bench::with_queue();
    bench.add(1..=3);
    bench.add(5..=6);
    let outbox = bench.outbox("outbox", &[]);
    let taken = bench.take_until(|taken| taken.len() == 5);
    assert_eq!(counted(&taken), 3, "a consumer that counts waits");
    let said = outbox
        .process()
        .wait_for_log("the event's sequence is 5 where 4", SOON);
    said.expect("it is said");
    assert_eq!(figure(&outbox, "sequence_gaps_total"), 1);
}

#[test]
fn the_wrong_store_is_refused_and_a_missing_one_waited_for() {
    let bench = Bench::with_queue();
    let refused = |name: &str| {
        let outbox = bench.outbox(name, &[]);
        let status = outbox.process().wait_exit(SOON).expect("it ends by itself");
        let log = outbox.process().log();
        assert_eq!(status.code(), Some(78), "{log}");
        let said = log
            .lines()
            .find(|line| line.starts_with("conductor-outbox: "));
        said.expect("one line says why").to_owned()
    };
    bench.write_topology("7");
    let line = refused("other-topology");
    assert!(
        line.contains("partition 0 of 1 with prefetch 7") && line.contains("512"),
        "{line}"
    );
    bench.store::<u32>(&["DEL", bench.keys().topology()]);
    let line = refused("no-topology");
    assert!(
        line.contains("no topology") && line.contains("cell init"),
        "{line}"
    );

    let primary = &bench.cell.store(0).primary;
    bench.write_topology("512");
    primary.process().kill().expect("it is killed");
    let outbox = bench.outbox("early", &[]);
    let absent = |status: u16, body: &str| status == 503 && body.contains("the store: ");
    outbox.wait_page("/ready", SOON, absent).expect("it waits");
    primary.restart().expect("it starts");
    outbox.wait_ready(SOON).expect("it goes on");
}

#[test]
fn bad_settings_end_it_with_one_line() {
    let folder = Folder::new().expect("a folder");
    let program = binary("conductor-outbox").expect("it is built");
    let cases = [
        (
            "unknown",
            "MATCHING_OUTBOX_WINDWO",
            "5",
            "MATCHING_OUTBOX_WINDWO",
        ),
        (
            "zero",
            "MATCHING_OUTBOX_BATCH",
            "0",
            "MATCHING_OUTBOX_BATCH",
        ),
        (
            "address",
            "MATCHING_OUTBOX_ADMIN_ADDRESS",
            "192.0.2.1:1",
            "admin_address",
        ),
    ];
    for (name, variable, value, wanted) in cases {
        let launch = Launch::new(&program).variable(variable, value);
        let outbox = Process::start(&folder, name, launch).expect("it starts");
        let status = outbox.wait_exit(SOON).expect("it ends by itself");
        let log = outbox.log();
        assert_eq!(status.code(), Some(78), "{log}");
        let lines: Vec<&str> = log.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains(wanted), "{log}");
    }
}
