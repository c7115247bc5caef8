//! What the broker says of other arguments, of missing queues and of what it returns, and what is
//! made of it.

use super::bench::{Bench, SOON};
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, AmqpError, Outgoing, PublishError, Publisher};
use conductor_io::keys::{command_queue, parking_queue};
use futures_util::StreamExt;
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, Consumer};
use std::time::Duration;

const PARTITION: PartitionId = PartitionId(0);
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);

fn message(queue: &str, id: u32) -> Outgoing {
    Outgoing {
        exchange: String::new(),
        routing_key: queue.to_owned(),
        properties: BasicProperties::default().with_message_id(id.to_string().into()),
        body: b"{}".to_vec(),
        mandatory: true,
    }
}

#[test]
fn declarations_repeat_and_other_arguments_are_refused_by_name() {
    let bench = Bench::new();
    bench.on_connection(async |connection| {
        let channel = amqp::open_channel(connection).await.expect("a channel");
        for _ in 0..2 {
            amqp::declare_partition(&channel, PARTITION)
                .await
                .expect("it is declared");
        }
        let counts = amqp::queue_counts(&channel, &command_queue(PARTITION)).await;
        let counts = counts.expect("it is there");
        assert_eq!((counts.messages, counts.consumers), (0, 0));
        let missing = amqp::queue_counts(&channel, "nothing")
            .await
            .expect_err("it is missing");
        assert!(missing.to_string().contains("queue nothing"), "{missing}");

        let parking = parking_queue(PARTITION);
        let channel = amqp::open_channel(connection).await.expect("a channel");
        let deleting = channel.queue_delete(parking.as_str().into(), Default::default());
        deleting.await.expect("it is deleted");
        let mut arguments = FieldTable::default();
        arguments.insert(
            "x-queue-type".into(),
            AMQPValue::LongString("quorum".into()),
        );
        arguments.insert("x-delivery-limit".into(), AMQPValue::LongInt(7));
        let declaring = channel.queue_declare(
            parking.as_str().into(),
            QueueDeclareOptions::durable(),
            arguments,
        );
        declaring.await.expect("another one is declared");
        let error = amqp::declare_partition(&channel, PARTITION)
            .await
            .expect_err("it differs");
        let AmqpError::Inequivalent(found) = &error else {
            panic!("{error}")
        };
        assert_eq!(found.name, parking);
        assert_eq!(found.argument, "x-delivery-limit");
        assert_eq!(
            (found.theirs.as_str(), found.ours.as_str()),
            ("7", "1000000"),
            "{error}"
        );
        assert!(
            !error.may_pass() && error.to_string().contains("cell init"),
            "{error}"
        );
    });
}

#[test]
fn an_ordinary_queue_where_a_command_queue_belongs_is_refused_by_name() {
    let bench = Bench::new();
    bench.on_connection(async |connection| {
        let channel = amqp::open_channel(connection).await.expect("a channel");
        let (name, none) = (command_queue(PARTITION), FieldTable::default());
        let declaring =
            channel.queue_declare(name.as_str().into(), QueueDeclareOptions::durable(), none);
        declaring.await.expect("another one is declared");
        let error = amqp::declare_partition(&channel, PARTITION)
            .await
            .expect_err("it differs");
        let AmqpError::Inequivalent(found) = &error else {
            panic!("{error}")
        };
        // The broker names the first difference that it comes to.
        assert_eq!(
            (found.name.as_str(), found.theirs.as_str()),
            (name.as_str(), "not set")
        );
        assert!(
            found.argument.starts_with("x-") && !found.ours.is_empty(),
            "{error}"
        );
    });
}

#[test]
fn a_returned_message_is_the_one_that_came_back() {
    let bench = Bench::with_queue();
    bench.on_connection(async |connection| {
        let publisher = Publisher::open(connection, CONFIRM_WITHIN)
            .await
            .expect("it opens");
        for round in 0..50 {
            let sent: Vec<_> = (0..100)
                .map(|place| {
                    let routed = (place + round) % 7 != 0;
                    let queue = if routed { super::QUEUE } else { "nowhere" };
                    (
                        routed,
                        publisher.publish(message(queue, round * 1_000 + place)),
                    )
                })
                .collect();
            for (routed, publication) in sent {
                let expected = if routed {
                    Ok(())
                } else {
                    let (exchange, routing_key) = (String::new(), "nowhere".to_owned());
                    Err(PublishError::Returned {
                        exchange,
                        routing_key,
                    })
                };
                assert_eq!(publication.await, expected);
            }
        }
        publisher.close().await;
    });
    let unroutable = u32::try_from((0..5_000).filter(nowhere).count()).expect("a few");
    assert_eq!(bench.waiting(), 50 * 100 - unroutable);
}

fn nowhere(number: &u32) -> bool {
    let (round, place) = (number / 100, number % 100);
    (place + round).is_multiple_of(7)
}

/// A reader that comes while another one still holds messages must not be given what follows them.
#[test]
fn a_queue_of_events_serves_one_reader_after_the_other() {
    let bench = Bench::with_queue();
    bench.on_connection(async |connection| {
        let publisher = Publisher::open(connection, CONFIRM_WITHIN)
            .await
            .expect("it opens");
        let first = Reader::open(connection, "first").await;
        for id in 0..10 {
            let sent = publisher.publish(message(super::QUEUE, id));
            sent.await.expect("it is taken");
        }
        let (mut first, mut second) = (first, Reader::open(connection, "second").await);
        assert_eq!(first.next().await.as_deref(), Some("0"));
        for id in 10..20 {
            let sent = publisher.publish(message(super::QUEUE, id));
            sent.await.expect("it is taken");
        }
        let unserved = tokio::time::timeout(Duration::from_secs(1), second.next()).await;
        assert!(unserved.is_err(), "two readers at once: {unserved:?}");
        let closing = first.channel.close(200, "the reader dies".into());
        closing.await.expect("the channel closes");
        for id in 0..20 {
            assert_eq!(second.next().await, Some(id.to_string()));
        }
        publisher.close().await;
    });
}

/// A consumer that acknowledges nothing.
struct Reader {
    channel: Channel,
    consumer: Consumer,
}

impl Reader {
    async fn open(connection: &Connection, tag: &str) -> Self {
        let channel = amqp::open_channel(connection).await.expect("a channel");
        let options = BasicConsumeOptions::default();
        let (queue, tag) = (super::QUEUE.into(), tag.into());
        let consuming = channel.basic_consume(queue, tag, options, FieldTable::default());
        let consumer = consuming.await.expect("it may subscribe");
        Self { channel, consumer }
    }

    /// The id of the next message, within the time that anything may take.
    async fn next(&mut self) -> Option<String> {
        let next = tokio::time::timeout(SOON, self.consumer.next()).await;
        let delivery = next.ok()??.ok()?;
        delivery
            .properties
            .message_id()
            .as_ref()
            .map(ToString::to_string)
    }
}

#[test]
fn what_cannot_be_published_fails_and_ends_the_channel() {
    let bench = Bench::new();
    bench.on_connection(async |connection| {
        let publisher = Publisher::open(connection, CONFIRM_WITHIN)
            .await
            .expect("it opens");
        let long = message(&"x".repeat(256), 1);
        assert_eq!(
            publisher.publish(long).await,
            Err(PublishError::NameTooLong)
        );
        assert!(publisher.is_usable());
        let absent = Outgoing {
            exchange: "absent".to_owned(),
            ..message("q", 2)
        };
        let error = publisher
            .publish(absent)
            .await
            .expect_err("there is no such exchange");
        assert!(
            !error.channel_survives() && error.to_string().contains("absent"),
            "{error}"
        );
        publisher.closed().await;
        assert!(!publisher.is_usable());
        let late = publisher.publish(message("q", 3)).await;
        assert!(matches!(late, Err(PublishError::Lost(_))), "{late:?}");
    });
}
