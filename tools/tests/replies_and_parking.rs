//! What one producer gets wrong costs no other one anything: addresses that no result can be sent
//! to, and messages whose parking queue the broker refuses.

mod live;
mod raw_messages;

use conductor_engine::PartitionId;
use conductor_io::amqp;
use conductor_io::keys::{
    COMMAND_EXCHANGE, HEADER_ORIGINAL_CORRELATION_ID, HEADER_ORIGINAL_HEADERS,
    HEADER_ORIGINAL_MESSAGE_ID, HEADER_ORIGINAL_REPLY_TO, command_queue, parking_queue,
};
use conductor_tools::client::{Parked, block_on, parked, set_up};
use conductor_tools::testbed::Layout;
use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection};
use live::{LATER, LiveCell, metric, wait_metric, wait_partition};
use raw_messages::{SOON, place};

/// Where a client asks for direct replies.
const DIRECT: &str = "amq.rabbitmq.reply-to";

/// Addresses that are none. Each of the second kind makes the broker close the connection.
fn bad_addresses() -> Vec<String> {
    let pid_of_any_node = "g1hkABByYWJiaXRAbG9jYWxob3N0AAAABQAAAAAAAAAB";
    let mut addresses = vec![command_queue(PartitionId(0)), parking_queue(PartitionId(0))];
    let direct = [
        "",
        ".",
        ".x",
        ".x.y",
        ".aGVsbG8=.aGVsbG8=",
        ".g1hk.aGVsbG8=",
        &format!(".{pid_of_any_node}.aGVsbG8="),
        &format!(".{pid_of_any_node}.not base64"),
    ];
    // The broker itself takes a bare name for a request, and refuses it where nobody consumes.
    let direct = direct.iter().filter(|rest| !rest.is_empty());
    addresses.extend(direct.map(|rest| format!("{DIRECT}{rest}")));
    addresses
}

async fn connected(live: &LiveCell) -> anyhow::Result<(Connection, Channel)> {
    let connection = amqp::connect(&live.settings.broker, "test").await?;
    let channel = amqp::open_channel(&connection).await?;
    Ok((connection, channel))
}

/// Publishes a message to a partition's queue, and waits until it is confirmed.
async fn publish(
    channel: &Channel,
    partition: u32,
    body: &[u8],
    properties: BasicProperties,
) -> anyhow::Result<()> {
    let queue = command_queue(PartitionId(partition));
    let publishing = channel.basic_publish(
        COMMAND_EXCHANGE.into(),
        queue.as_str().into(),
        BasicPublishOptions::default(),
        body,
        properties,
    );
    publishing.await?.await?;
    Ok(())
}

fn answered_to(queue: &str, correlation: &str) -> BasicProperties {
    BasicProperties::default()
        .with_reply_to(queue.into())
        .with_correlation_id(correlation.into())
}

#[test]
fn a_bad_reply_address_costs_nobody_else_a_reply() {
    let live = LiveCell::start(&Layout::default());
    let conductor = live.conductor("conductor", &[]);
    let bad = bad_addresses();
    let asking = async {
        let (connection, channel) = connected(&live).await?;
        // Direct replies are consumed and asked for on one and the same channel.
        let options = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        let consuming =
            channel.basic_consume(DIRECT.into(), "".into(), options, FieldTable::default());
        let mut direct = consuming.await?;
        let exclusive = QueueDeclareOptions {
            exclusive: true,
            ..QueueDeclareOptions::default()
        };
        let own = channel.queue_declare("".into(), exclusive, FieldTable::default());
        let own = own.await?.name().to_string();
        let options = BasicConsumeOptions::default();
        let consuming = channel.basic_consume(
            own.as_str().into(),
            "".into(),
            options,
            FieldTable::default(),
        );
        let mut named = consuming.await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        let mut sent = 0;
        for (number, address) in bad.iter().enumerate() {
            for (kind, reply_to) in [("direct", DIRECT), ("bad", address), ("named", &own)] {
                let id = format!("{kind}-{number}");
                let body = place(&id, 0, "bid", "100.25", "1");
                publish(&channel, 0, &body, answered_to(reply_to, &id)).await?;
            }
            sent += 1;
        }
        for number in 0..sent {
            for (kind, consumer) in [("direct", &mut direct), ("named", &mut named)] {
                let next = tokio::time::timeout(SOON, consumer.next()).await;
                let reply = next
                    .unwrap_or_else(|_| panic!("{kind}-{number} has no reply"))
                    .expect("the consumer lives")?;
                let correlation = reply.properties.correlation_id().clone();
                let correlation = correlation.map(|id| id.to_string());
                assert_eq!(correlation, Some(format!("{kind}-{number}")));
                let text = String::from_utf8_lossy(&reply.data).into_owned();
                assert!(text.contains("\"status\":\"accepted\""), "{text}");
            }
        }
        amqp::close_connection(&connection).await;
        Ok(())
    };
    block_on(asking).expect("everybody else is answered");
    let refused = u64::try_from(bad.len()).expect("a few");
    let waited = wait_metric(
        &conductor,
        "conductor_replies_refused_total",
        0,
        refused,
        LATER,
    );
    waited.expect("every bad address is counted");
    assert_eq!(
        metric(&conductor, "conductor_replies_refused_total", 0),
        refused
    );
    assert_eq!(metric(&conductor, "conductor_replies_dropped_total", 0), 0);
    assert_eq!(
        metric(&conductor, "conductor_parked_total", 0),
        0,
        "no reply went into a queue of ours"
    );
}

/// Makes a partition's parking queue one that a conductor will not publish to, or ours again.
fn parking_queue_is(live: &LiveCell, partition: u32, ours: bool) {
    let queue = parking_queue(PartitionId(partition));
    let changing = async {
        let (connection, channel) = connected(live).await?;
        channel
            .queue_delete(queue.as_str().into(), QueueDeleteOptions::default())
            .await?;
        if ours {
            set_up(&live.settings, &[]).await?;
        } else {
            let options = QueueDeclareOptions::durable();
            channel
                .queue_declare(queue.as_str().into(), options, FieldTable::default())
                .await?;
        }
        amqp::close_connection(&connection).await;
        Ok(())
    };
    block_on(changing).expect("the broker does it");
}

fn parked_in(live: &LiveCell, partition: u32) -> Vec<Parked> {
    let looking = async {
        let connection = amqp::connect(&live.settings.broker, "test").await?;
        let (found, _) = parked(&connection, PartitionId(partition), 10, 1_000).await?;
        amqp::close_connection(&connection).await;
        Ok(found)
    };
    block_on(looking).expect("the parking queue is read")
}

#[test]
fn a_parking_queue_that_is_refused_holds_up_its_own_partition_alone() {
    let live = LiveCell::start(&Layout {
        partitions: 2,
        ..Layout::default()
    });
    let conductor = live.conductor("conductor", &[("MATCHING_SHARE_CORES", "true")]);
    // This broker bounds nothing; the conductor says what to set.
    let advised = conductor.process().wait_for_log("max_message_size", LATER);
    advised.expect("it looks at its start");
    parking_queue_is(&live, 0, false);

    let mut theirs = FieldTable::default();
    let value = AMQPValue::LongString("of-the-producer".into());
    theirs.insert("x-trace".into(), value);
    let said = answered_to("answers", "corr-1")
        .with_message_id("message-1".into())
        .with_headers(theirs);
    let sending = async {
        let (connection, channel) = connected(&live).await?;
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        for partition in [0, 1] {
            publish(&channel, partition, b"no command", said.clone()).await?;
            let body = place(&format!("behind-{partition}"), partition, "bid", "1", "1");
            publish(&channel, partition, &body, BasicProperties::default()).await?;
        }
        amqp::close_connection(&connection).await;
        Ok(())
    };
    block_on(sending).expect("the broker takes them");

    let red = wait_partition(&conductor, 0, LATER, |shown| shown["ready"] == false);
    let why = red["why"].as_str().unwrap_or_default();
    assert!(why.contains("a message cannot be parked"), "{why}");
    assert!(why.contains("x-queue-type"), "{why}");
    // The neighbour parks, acknowledges and is ready.
    live.wait_queue(&parking_queue(PartitionId(1)), "messages", 1);
    live.wait_queue(&command_queue(PartitionId(1)), "messages", 0);
    wait_partition(&conductor, 1, LATER, |shown| shown["ready"] == true);
    // What stands behind is decided and durable, and not acknowledged.
    wait_metric(&conductor, "conductor_commands_total", 0, 1, LATER).expect("it is decided");
    live.wait_queue(&command_queue(PartitionId(0)), "messages", 2);

    parking_queue_is(&live, 0, true);
    wait_partition(&conductor, 0, LATER, |shown| shown["ready"] == true);
    live.wait_queue(&command_queue(PartitionId(0)), "messages", 0);
    live.wait_queue(&parking_queue(PartitionId(0)), "messages", 1);
    let log = conductor.process().log();
    for line in ["a message cannot be parked in", "parking goes on"] {
        assert_eq!(log.matches(line).count(), 1, "once: {line}: {log}");
    }
    let ids: Vec<Option<String>> = [0, 1]
        .into_iter()
        .flat_map(|partition| parked_in(&live, partition))
        .map(|message| {
            let header = |name: &str| {
                let found = message.headers.iter().find(|(known, _)| known == name);
                found.map(|(_, value)| value.as_str())
            };
            assert_eq!(message.body, "no command");
            assert_eq!(header(HEADER_ORIGINAL_REPLY_TO), Some("answers"));
            assert_eq!(header(HEADER_ORIGINAL_CORRELATION_ID), Some("corr-1"));
            assert_eq!(header(HEADER_ORIGINAL_MESSAGE_ID), Some("message-1"));
            let theirs = header(HEADER_ORIGINAL_HEADERS).unwrap_or_default();
            assert!(theirs.contains("x-trace of-the-producer"), "{theirs}");
            message.message_id
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids[0].is_some() && ids[0] != ids[1], "{ids:?}");
}
