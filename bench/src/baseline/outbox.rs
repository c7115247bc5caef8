//! The articles' outbox in its first version: a consumer group, a hundred entries at once, and each
//! event published, confirmed, acknowledged and deleted before the next.

use super::conductor::At;
use crate::connection::Connection;
use crate::entry::{event, id};
use anyhow::{Context, ensure};
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, Outgoing, Publisher};
use conductor_io::keys::{
    EVENT_EXCHANGE, HEADER_CAUSATION_ID, HEADER_PARTITION, HEADER_PARTITION_OFFSET,
    HEADER_PARTITION_SEQUENCE, Keys,
};
use conductor_io::resp::{Packer, Reply};
use conductor_io::wire::decode_event;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use std::time::Duration;
use tokio::sync::watch;

const GROUP: &str = "matching-outbox-v1";
const CONSUMER: &str = "baseline";
/// How long one read waits for entries, in milliseconds: the time until it hears that it is to end.
const BLOCK_MS: &str = "100";
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);
const PERSISTENT: u8 = 2;

/// Publishes events until it is told to stop.
pub(crate) async fn run(at: At, stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let connection = amqp::connect(&at.broker, "baseline outbox").await?;
    let publisher = Publisher::open(&connection, CONFIRM_WITHIN).await?;
    let mut store = Connection::open(&at.store)?;
    let keys = Keys::new(PartitionId(0));
    let made = ["XGROUP", "CREATE", keys.events(), GROUP, "0", "MKSTREAM"];
    store.ask(&made)?;
    while !*stop.borrow() {
        let read = [
            "XREADGROUP",
            "GROUP",
            GROUP,
            CONSUMER,
            "COUNT",
            "100",
            "BLOCK",
            BLOCK_MS,
            "STREAMS",
            keys.events(),
            ">",
        ];
        let reply = store.ask(&read)?;
        if reply.is_nil() {
            // The connection to the broker is kept alive by the runtime, which the reads above hold
            // up: without this the broker closes it as soon as nothing happens for a while.
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        for entry in entries(&reply).context("XREADGROUP gives entries")? {
            let (id, body) = id(entry)
                .zip(event(entry))
                .context("an entry has an id and an event")?;
            let event = publish(&publisher, id, body).await?;
            settle(&mut store, &keys, id, &event)?;
        }
    }
    publisher.close().await;
    amqp::close_connection(&connection).await;
    Ok(())
}

fn entries(reply: &Reply) -> Option<&[Reply]> {
    reply.elements()?.first()?.elements()?.get(1)?.elements()
}

/// Publishes one event and waits for its confirm; gives its id.
async fn publish(publisher: &Publisher, offset: &str, body: &[u8]) -> anyhow::Result<String> {
    let event = decode_event(body)?;
    let mut headers = FieldTable::default();
    let text = |value: &str| AMQPValue::LongString(value.into());
    headers.insert(
        HEADER_CAUSATION_ID.into(),
        text(event.causation_id.as_str()),
    );
    headers.insert(HEADER_PARTITION.into(), AMQPValue::LongLongInt(0));
    headers.insert(HEADER_PARTITION_OFFSET.into(), text(offset));
    let sequence = AMQPValue::LongLongInt(i64::try_from(event.sequence)?);
    headers.insert(HEADER_PARTITION_SEQUENCE.into(), sequence);
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type("application/json".into())
        .with_message_id(event.event_id.into())
        .with_headers(headers);
    let id = event.event_id.to_owned();
    let outgoing = Outgoing {
        exchange: EVENT_EXCHANGE.to_owned(),
        routing_key: event.kind.to_owned(),
        body: body.to_vec(),
        properties,
        mandatory: true,
    };
    publisher.publish(outgoing).await?;
    Ok(id)
}

/// Acknowledges and deletes one entry, and its tries, in one transaction.
fn settle(store: &mut Connection, keys: &Keys, id: &str, event: &str) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    let mut packer = Packer::new(&mut bytes);
    packer.start(b"MULTI").end();
    let stream = keys.events().as_bytes();
    packer
        .start(b"XACK")
        .part(stream)
        .part(GROUP.as_bytes())
        .part(id.as_bytes())
        .end();
    packer.start(b"XDEL").part(stream).part(id.as_bytes()).end();
    let attempts = keys.outbox_attempts().as_bytes();
    packer
        .start(b"HDEL")
        .part(attempts)
        .part(event.as_bytes())
        .end();
    packer.start(b"EXEC").end();
    let replies = packer.packed();
    store.send(&bytes)?;
    for _ in 0..replies {
        let reply = store.reply()?;
        ensure!(
            reply.first_error().is_none(),
            "the store refuses a deletion: {reply:?}"
        );
    }
    Ok(())
}
