//! Booting in front of a whole cell: queues that differ, instances that differ, and servers that
//! are not there yet.
//!
//! What differs is refused with 78 and one line. What is absent is waited for: `/ready` is red and
//! says why, and the first command goes through once it is there, with nobody's help.

mod boot_support;
mod live;
mod raw_messages;

use boot_support::refused;
use conductor_engine::PartitionId;
use conductor_io::amqp;
use conductor_io::keys::{Keys, command_queue, parking_queue};
use conductor_tools::client::{block_on, set_up};
use conductor_tools::testbed::{Instance, Layout};
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use live::LiveCell;
use raw_messages::{SOON, place, replies};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// Everything that a queue of commands must have, but for one thing that is changed.
fn arguments(changes: &[(&str, Option<AMQPValue>)]) -> FieldTable {
    let text = |value: &str| AMQPValue::LongString(value.into());
    let parking = parking_queue(PartitionId(0));
    let mut arguments = vec![
        ("x-queue-type", text("quorum")),
        ("x-single-active-consumer", AMQPValue::Boolean(true)),
        ("x-delivery-limit", AMQPValue::LongInt(1_000_000)),
        ("x-dead-letter-exchange", text("")),
        ("x-dead-letter-routing-key", text(&parking)),
    ];
    for (name, value) in changes {
        arguments.retain(|(known, _)| known != name);
        arguments.extend(value.clone().map(|value| (*name, value)));
    }
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert(name.into(), value);
    }
    table
}

/// Deletes a queue and declares it with these arguments.
fn declare(live: &LiveCell, queue: &str, arguments: FieldTable) {
    let declaring = async {
        let connection = amqp::connect(&live.settings.broker, "test").await?;
        let channel = amqp::open_channel(&connection).await?;
        channel
            .queue_delete(queue.into(), QueueDeleteOptions::default())
            .await?;
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(queue.into(), options, arguments)
            .await?;
        amqp::close_connection(&connection).await;
        Ok(())
    };
    block_on(declaring).expect("the broker takes it");
}

/// What `/ready` says of its first partition.
fn partition(ready: &str) -> Value {
    let body: Value = serde_json::from_str(ready).unwrap_or_default();
    body["partitions"][0].clone()
}

/// Waits until the conductor is not ready for a reason that holds these words.
#[track_caller]
fn wait_for_reason(conductor: &Instance, words: &[&str]) {
    let said = conductor.wait_page("/ready", SOON, |status, body| {
        let found = partition(body);
        let why = found["why"].as_str().unwrap_or_default();
        status == 503 && words.iter().all(|word| why.contains(word))
    });
    said.unwrap_or_else(|error| panic!("{words:?}: {error}"));
}

/// A command goes through.
#[track_caller]
fn works(live: &LiveCell, id: &str, pair: u32) {
    let replies = replies(&live.settings, &[place(id, pair, "bid", "100.25", "2")]);
    let reply = replies[0].as_deref().expect("a command has a reply");
    assert!(reply.contains("\"status\":\"accepted\""), "{reply}");
}

/// Neither a log nor the arguments of a process hold a password.
fn assert_no_password(live: &LiveCell, conductor: &Instance) {
    let arguments = fs::read(format!("/proc/{}/cmdline", conductor.process().pid()));
    let arguments = String::from_utf8_lossy(&arguments.expect("it runs")).into_owned();
    assert!(arguments.contains("conductor"), "{arguments:?}");
    let log = conductor.process().log();
    let secrets = [
        live.servers.rabbit().password(),
        live.servers.store_users().conductor.as_str(),
    ];
    for secret in secrets {
        assert!(
            !arguments.contains(secret),
            "a password is among the arguments"
        );
        assert!(!log.contains(secret), "a password is in the log");
    }
}

#[test]
fn queues_and_instances_that_differ_are_refused_and_both_policies_work() {
    let live = LiveCell::start(&Layout {
        partitions: 2,
        ..Layout::default()
    });
    refuses_queues_with_other_arguments(&live);

    let verbose = [("RUST_LOG", "trace")];
    let first = live
        .servers
        .conductor("first", &[0], &verbose)
        .expect("it starts");
    first.wait_ready(SOON).expect("the queues are ours again");
    works(&live, "o-durable", 0);

    let second = live
        .servers
        .conductor("second", &[0], &[("MATCHING_PREFETCH", "7")]);
    refused(second.expect("it starts").process()).names(&[
        "partition 0 of 2 with prefetch 512",
        "partition 0 of 2 with prefetch 7",
    ]);
    first
        .wait_ready(Duration::ZERO)
        .expect("the first one goes on");
    works(&live, "o-undisturbed", 0);

    // The other partition's store keeps nothing on its disk: that is for memory mode alone.
    let store = live.store(1);
    let _: String = store
        .command(&["CONFIG", "SET", "appendonly", "no"])
        .expect("it obeys");
    let durable = live
        .servers
        .conductor("durable", &[1], &[])
        .expect("it starts");
    refused(durable.process()).names(&["partition 1", "appendonly no: set appendonly yes"]);
    let memory = [("MATCHING_DURABILITY", "memory"), ("RUST_LOG", "trace")];
    let memory = live
        .servers
        .conductor("memory", &[1], &memory)
        .expect("it starts");
    memory.wait_ready(SOON).expect("nothing must be on a disk");
    works(&live, "o-memory", 1);

    for conductor in [&first, &memory] {
        assert_no_password(&live, conductor);
    }
}

fn refuses_queues_with_other_arguments(live: &LiveCell) {
    let (commands, parking) = (command_queue(PartitionId(0)), parking_queue(PartitionId(0)));
    let number = |value| Some(AMQPValue::LongInt(value));
    let cases = [
        (
            ("x-delivery-limit", number(20)),
            ["x-delivery-limit is 20", "must be 1000000"],
        ),
        (
            ("x-delivery-limit", None),
            ["x-delivery-limit is not set", "must be 1000000"],
        ),
        (
            ("x-max-length", number(5)),
            ["x-max-length is 5", "must be not set"],
        ),
        (
            ("x-single-active-consumer", None),
            ["x-single-active-consumer is not set", "must be true"],
        ),
        (
            ("x-dead-letter-routing-key", None),
            [
                "x-dead-letter-routing-key is not set",
                "must be matching:commands.p0.parked",
            ],
        ),
    ];
    for (number, (change, told)) in cases.into_iter().enumerate() {
        declare(live, &commands, arguments(&[change]));
        refuses_queue(live, &format!("other-{number}"), &commands, &told);
    }
    // One that has none of our arguments at all; it is the parking queue, to see that it is judged.
    declare(live, &commands, arguments(&[]));
    declare(live, &parking, FieldTable::default());
    refuses_queue(
        live,
        "other-parking",
        &parking,
        &["x-queue-type is ", "must be quorum"],
    );
    declare(
        live,
        &parking,
        arguments(&[
            ("x-single-active-consumer", None),
            ("x-dead-letter-exchange", None),
            ("x-dead-letter-routing-key", None),
        ]),
    );
    let again = async { Ok(set_up(&live.settings, &[]).await?) };
    block_on(again).expect("what stands now is ours, but for its binding");
}

fn refuses_queue(live: &LiveCell, name: &str, queue: &str, told: &[&str]) {
    let conductor = live.servers.conductor(name, &[0], &[]).expect("it starts");
    let refused = refused(conductor.process());
    refused.names(&[
        "partition 0",
        &format!("queue {queue} exists with other arguments"),
    ]);
    refused.names(told);
    refused.names(&["To move:", "delete it", "`cell init`"]);
}

#[test]
fn what_is_absent_is_waited_for_and_then_it_works() {
    let live = LiveCell::start(&Layout::default());
    let group = live.servers.store(0);
    let keys = Keys::new(PartitionId(0));

    group.replicas[0]
        .process()
        .kill()
        .expect("the replica ends");
    let conductor = live
        .servers
        .conductor("without-replica", &[0], &[])
        .expect("it starts");
    wait_for_reason(&conductor, &["too few disks", "start the missing replica"]);
    let epoch: Option<String> = group
        .primary
        .command(&["GET", keys.epoch()])
        .expect("it answers");
    assert_eq!(epoch, None, "who waits claims nothing");
    group.replicas[0].restart().expect("the replica is back");
    conductor.wait_ready(SOON).expect("it goes on by itself");
    works(&live, "o-1", 0);
    assert_no_password(&live, &conductor);
    assert!(conductor.terminate(SOON).expect("it ends").success());

    group.primary.process().kill().expect("the store ends");
    let conductor = live
        .servers
        .conductor("without-store", &[0], &[])
        .expect("it starts");
    wait_for_reason(
        &conductor,
        &[&group.primary.address().to_string(), "refused"],
    );
    group.primary.restart().expect("the store is back");
    conductor.wait_ready(SOON).expect("it goes on by itself");
    works(&live, "o-2", 0);
    assert!(conductor.terminate(SOON).expect("it ends").success());

    live.servers
        .rabbit()
        .process()
        .kill()
        .expect("the broker ends");
    let conductor = live
        .servers
        .conductor("without-broker", &[0], &[])
        .expect("it starts");
    wait_for_reason(&conductor, &["broker"]);
    let warned = conductor
        .process()
        .wait_for_log("cannot connect to the broker", SOON);
    assert!(warned.expect("the log says so").contains("trying again"));
    live.servers.rabbit().restart().expect("the broker is back");
    conductor.wait_ready(SOON).expect("it goes on by itself");
    works(&live, "o-3", 0);
    assert_no_password(&live, &conductor);
}
