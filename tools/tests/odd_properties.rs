//! What stands around a command's bytes is nobody's business: properties that no producer of ours
//! would set, on good commands and on bad ones in the middle of a burst, change nothing about what
//! comes of the bytes, and stop nobody.

mod live;
mod raw_messages;

use conductor_engine::PartitionId;
use conductor_io::amqp::{self, Outgoing, Publisher};
use conductor_io::keys::{COMMAND_EXCHANGE, command_queue};
use conductor_tools::client::block_on;
use conductor_tools::testbed::Layout;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldArray, FieldTable, LongString};
use live::{LiveCell, assert_same_events, metric};
use raw_messages::{SOON, parked, place, replay, replies, wait_queued};

/// Longest text that a property can be.
const SHORT_BYTES_MAX: usize = 255;

/// Properties of every kind that the broker lets through; the message id alone is ours to set, as
/// a publication's name.
fn odd() -> Vec<BasicProperties> {
    let plain = BasicProperties::default;
    let long = "x".repeat(SHORT_BYTES_MAX);
    vec![
        plain(),
        plain().with_delivery_mode(1),
        plain().with_content_type("text/plain".into()),
        plain().with_content_encoding("gzip".into()),
        plain().with_priority(255),
        plain().with_expiration("600000".into()),
        plain().with_timestamp(u64::MAX),
        plain().with_type(long.as_str().into()),
        plain().with_app_id(long.as_str().into()),
        plain().with_correlation_id(long.as_str().into()),
        plain().with_reply_to("".into()),
        plain().with_reply_to("no.such.queue".into()),
        plain()
            .with_reply_to(long.as_str().into())
            .with_correlation_id("".into()),
        plain().with_headers(headers()),
    ]
}

/// Headers of every kind, the broker's and our own names among them.
fn headers() -> FieldTable {
    let mut nested = FieldTable::default();
    for depth in 0..20 {
        let mut outer = FieldTable::default();
        outer.insert(
            format!("depth-{depth}").as_str().into(),
            AMQPValue::FieldTable(nested),
        );
        nested = outer;
    }
    let values = [
        ("nested", AMQPValue::FieldTable(nested)),
        ("nothing", AMQPValue::Void),
        ("fraction", AMQPValue::Double(-0.5)),
        ("list", AMQPValue::FieldArray(FieldArray::default())),
        ("x-death", AMQPValue::Boolean(true)),
        ("x-delivery-count", AMQPValue::LongLongInt(-1)),
        (
            "x-parked-reason",
            AMQPValue::LongString(LongString::from(vec![0xff; 20_000])),
        ),
        ("x-partition", AMQPValue::LongString("no number".into())),
    ];
    let mut headers = FieldTable::default();
    for (name, value) in values {
        headers.insert(name.into(), value);
    }
    headers
}

#[test]
fn what_stands_around_the_bytes_changes_nothing() {
    let cell = LiveCell::start(&Layout::default());
    let conductor = cell.conductor("conductor", &[]);
    let odd = odd();
    let mut messages = Vec::new();
    for number in 0..odd.len() {
        let side = if number % 2 == 0 { "ask" } else { "bid" };
        messages.push(place(&format!("good-{number}"), 7, side, "100.25", "1"));
        messages.push(place(&format!("bad-{number}"), 7, side, "1e3", "1"));
        messages.push(format!("not a command: {number}").into_bytes());
    }
    // Each of them with each of the properties in turn.
    let properties = odd.iter().flat_map(|each| [each, each, each]).cloned();
    publish(&cell, messages.iter().cloned().zip(properties));
    let last = place("last", 7, "bid", "99", "1");
    let answered = replies(&cell.settings, std::slice::from_ref(&last));

    messages.push(last);
    let alone = replay(&messages, 1);
    assert_eq!(answered.last(), alone.results.last());
    assert_same_events(&cell.stream(cell.store(0), 0), &alone.events[&0]);
    let bodies = parked(&cell.settings, 0, odd.len())
        .into_iter()
        .map(|(body, _)| body);
    let no_commands = messages.iter().skip(2).step_by(3).cloned();
    assert!(
        bodies.eq(no_commands),
        "they are parked whole, in their order"
    );
    wait_queued(&cell.servers, 0, odd.len() as u64);
    let counted = |name: &str| metric(&conductor, &format!("conductor_{name}_total"), 0);
    assert_eq!(counted("deliveries"), messages.len() as u64);
    assert_eq!((counted("redeliveries"), counted("doubts")), (0, 0));
}

/// Publishes messages as they stand and waits until a queue has each.
fn publish(cell: &LiveCell, messages: impl Iterator<Item = (Vec<u8>, BasicProperties)>) {
    let publishing = async {
        let connection = amqp::connect(&cell.settings.broker, "test").await?;
        let publisher = Publisher::open(&connection, SOON).await?;
        let mut open = Vec::new();
        for (number, (body, properties)) in messages.enumerate() {
            let id = format!("{number}: {}", "i".repeat(SHORT_BYTES_MAX - 10));
            open.push(publisher.publish(Outgoing {
                exchange: COMMAND_EXCHANGE.to_owned(),
                routing_key: command_queue(PartitionId(0)),
                properties: properties.with_message_id(id.into()),
                body,
                mandatory: true,
            }));
        }
        for publication in open {
            publication.await?;
        }
        publisher.close().await;
        amqp::close_connection(&connection).await;
        Ok(())
    };
    block_on(publishing).expect("the broker takes everything");
}
