//! What grows is bounded, and what is full is waited out: the event stream, the store's memory, the
//! mailboxes under a flood, a broker that takes no messages, and a queue that delivers nothing. In
//! each case the cell stops in good order, says why, and goes on by itself.

mod live;
mod raw_messages;

use conductor_engine::PartitionId;
use conductor_io::amqp;
use conductor_io::keys::{COMMAND_EXCHANGE, command_queue};
use conductor_tools::client::{Subscription, block_on};
use conductor_tools::testbed::{Instance, Layout};
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use live::{
    EventLog, Expected, LATER, LiveCell, Message, metric, wait_metric, wait_partition, workload,
};
use raw_messages::place;
use std::fs;
use std::time::Duration;

/// Longer than everything that is waited out before the reply comes.
const PATIENT: Duration = Duration::from_secs(120);

fn orders(name: &str, count: usize) -> Vec<Message> {
    let prefix = format!("{name}-");
    let commands = workload(7, &prefix, count);
    commands
        .iter()
        .map(|command| Message::of(command, 1))
        .collect()
}

/// Waits until the conductor is not ready and says this.
#[track_caller]
fn says(conductor: &Instance, words: &str) {
    wait_partition(conductor, 0, LATER, |shown| {
        let why = shown["why"].as_str().unwrap_or_default();
        shown["ready"] == false && why.contains(words)
    });
}

fn store<T: redis::FromRedisValue>(live: &LiveCell, words: &[&str]) -> T {
    let answer = live.store(0).command(words);
    answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

#[test]
fn a_full_event_stream_and_a_full_store_stop_the_cell_until_there_is_room() {
    let mut layout = Layout::default();
    layout
        .rabbit
        .extra
        .push("max_message_size = 1048576".to_owned());
    let live = LiveCell::start(&layout);
    let bound = 100;
    let conductor = live.conductor(
        "conductor",
        &[
            ("MATCHING_EVENT_STREAM_ENTRIES_MAX", "100"),
            ("MATCHING_GROUP_COMMANDS_MAX", "8"),
        ],
    );
    let mut expected = Expected::new(1);
    let messages = orders("stream", 600);
    let replies = expected.feed_all(&messages);
    let sending = live.send(&messages, PATIENT);
    says(&conductor, "events wait for the outbox, more than 100");
    let keys = conductor_io::keys::Keys::new(PartitionId(0));
    let length: usize = store(&live, &["XLEN", keys.events()]);
    let done = sending.done();
    assert!(length > bound && length < replies.len() / 2, "{length}");
    assert!(done < messages.len(), "{done} are done already");

    let events = EventLog::start(&live);
    let outbox = live.outbox("outbox", &[]);
    assert_eq!(sending.finish().assert_replies(&replies), messages.len());
    let found = events.wait(0, expected.sequence(0), LATER);
    live::assert_same_events(&found, expected.events(0));
    conductor.wait_ready(LATER).expect("it goes on by itself");

    // A store that refuses every write that could grow it.
    let _: String = store(&live, &["CONFIG", "SET", "maxmemory", "1"]);
    let messages = orders("memory", 50);
    let replies = expected.feed_all(&messages);
    let sending = live.send(&messages, PATIENT);
    says(&conductor, "the store is out of memory");
    assert_eq!(sending.done(), 0, "nothing was answered");
    assert_eq!(metric(&conductor, "conductor_halts_total", 0), 0);
    let _: String = store(&live, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(sending.finish().assert_replies(&replies), messages.len());
    let found = events.wait(0, expected.sequence(0), LATER);
    live::assert_same_events(&found, expected.events(0));
    conductor.wait_ready(LATER).expect("it goes on by itself");
    let log = conductor.process().log();
    assert!(
        !log.contains("max_message_size"),
        "a broker with that bound needs no advice: {log}"
    );
    drop(outbox);
}

/// Publishes messages that all want their result in one queue, which is declared here.
fn publish_all(live: &LiveCell, messages: &[Message], reply_to: &str) {
    let sending = async {
        let connection = amqp::connect(&live.settings.broker, "test").await?;
        let channel = amqp::open_channel(&connection).await?;
        let durable = QueueDeclareOptions::durable();
        channel
            .queue_declare(reply_to.into(), durable, FieldTable::default())
            .await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        let queue = command_queue(PartitionId(0));
        let mut confirms = Vec::with_capacity(messages.len());
        for message in messages {
            let properties = BasicProperties::default().with_reply_to(reply_to.into());
            let publishing = channel.basic_publish(
                COMMAND_EXCHANGE.into(),
                queue.as_str().into(),
                BasicPublishOptions::default(),
                &message.body,
                properties,
            );
            confirms.push(publishing.await?);
        }
        for confirm in confirms {
            confirm.await?;
        }
        amqp::close_connection(&connection).await;
        Ok(())
    };
    block_on(sending).expect("the broker takes them");
}

/// The most memory that a process ever had, in bytes.
fn memory_peak(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes
        .and_then(|number| number.trim().parse().ok())
        .expect("the kernel counts it");
    kilobytes * 1_024
}

#[test]
fn a_flood_stays_in_the_broker_and_an_alarm_there_stops_no_acknowledgement() {
    let live = LiveCell::start(&Layout::default());
    let prefetch = u64::from(live.settings.prefetch);
    let flood = orders("flood", 12_000);
    publish_all(&live, &flood, "answers");
    // The broker takes no messages from now on; those that it has it delivers.
    let watermark = |share: &str| {
        let set = ["set_vm_memory_high_watermark", share];
        live.servers.rabbit().control(&set).expect("it is set");
    };
    watermark("0.00000001");
    let conductor = live.unready_conductor("conductor", &[]);
    let mut deepest = 0;
    let total = flood.len() as u64;
    let drained = conductor.wait_page("/metrics", PATIENT, |_, body| {
        let figure = |name: &str| {
            let begin = format!("{name}{{partition=\"0\"}} ");
            let found = body.lines().find_map(|line| line.strip_prefix(&begin));
            found
                .and_then(|value| value.parse::<u64>().ok())
                .unwrap_or(0)
        };
        deepest = deepest.max(figure("conductor_mailbox_depth"));
        figure("conductor_commands_total") >= total
    });
    drained.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        deepest <= prefetch,
        "{deepest} messages waited in the mailbox"
    );
    let peak = memory_peak(conductor.process().pid());
    assert!(peak < 200 << 20, "{peak} bytes of memory");
    live.wait_queue(&command_queue(PartitionId(0)), "messages", 0);
    let dropped = metric(&conductor, "conductor_replies_dropped_total", 0);
    let sent = metric(&conductor, "conductor_replies_sent_total", 0);
    assert!(dropped > 0, "the broker took no replies");
    assert_eq!(dropped + sent, total, "each is counted once");
    assert_eq!(metric(&conductor, "conductor_doubts_total", 0), 0);
    watermark("0.4");
    let again = live.ask(&flood[0]);
    assert!(
        again.contains(&flood[0].id),
        "who asks again is told: {again}"
    );
}

#[test]
fn a_queue_that_delivers_nothing_is_asked_again_over_a_new_connection() {
    let live = LiveCell::start(&Layout::default());
    let queue = command_queue(PartitionId(0));
    // Somebody who is no conductor is the queue's only active consumer, takes one and rests.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (begin, begun) = std::sync::mpsc::channel::<()>();
    let (broker, name) = (live.settings.broker.clone(), queue.clone());
    let prefetch = live.settings.prefetch;
    let resting = std::thread::spawn(move || {
        block_on(async {
            let connection = amqp::connect(&broker, "somebody").await?;
            let subscription = Subscription::open(&connection, &name, prefetch).await?;
            begin.send(())?;
            tokio::task::spawn_blocking(move || held.recv()).await?.ok();
            subscription.close().await;
            amqp::close_connection(&connection).await;
            Ok(())
        })
    });
    begun.recv().expect("it is registered");
    let conductor = live.conductor("conductor", &[("MATCHING_WATCHDOG_MS", "1000")]);
    let count = usize::from(prefetch) + 40;
    let bodies: Vec<Message> = (0..count)
        .map(|number| {
            let body = place(&format!("o-{number}"), 0, "bid", "1", "1");
            Message {
                partition: PartitionId(0),
                id: format!("c-o-{number}"),
                body,
            }
        })
        .collect();
    publish_all(&live, &bodies, "answers");
    let words = "messages wait and none arrived";
    let said = conductor.process().wait_for_log(words, LATER);
    assert!(said.expect("it notices").contains("connecting anew"));
    hold.send(()).expect("somebody rests");
    resting
        .join()
        .expect("it ends")
        .expect("it leaves in good order");
    let all = count as u64;
    wait_metric(&conductor, "conductor_commands_total", 0, all, PATIENT).expect("all are decided");
    live.wait_queue(&queue, "messages", 0);
    conductor.wait_ready(LATER).expect("it is ready");
}
