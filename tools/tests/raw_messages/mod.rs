//! Messages as bytes, whatever they hold, through a real cell: what is heard of each, and what the
//! store and the broker hold afterwards.
//!
//! Stores are read as their administrator, and never written.
#![allow(dead_code, reason = "each test file uses a part")]

use conductor_config::Settings;
use conductor_engine::{Incoming, PairId, PartitionId, Side};
use conductor_io::amqp;
use conductor_io::keys::{HEADER_PARKED_REASON, Keys, command_queue, parking_queue};
use conductor_io::wire::{decode, encode_result};
use conductor_tools::client::{
    Done, Load, Producer, ProducerOptions, Request, Subscription, Summary, block_on,
};
use conductor_tools::replay::{
    BookView, Counts, FastReplay, OrderView, PairView, QueueView, Verdict,
};
use conductor_tools::testbed::{CellServers, Valkey, wait_for};
use conductor_tools::trace::destination;
use lapin::types::AMQPValue;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long anything of a small cell may take on a machine that is busy.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// Messages under way at once: several groups.
const WINDOW: usize = 512;

/// Sends messages in this order and waits until each of them is answered or, where it is no
/// command, confirmed.
pub(crate) fn send(settings: &Settings, messages: &[Vec<u8>]) -> Vec<Done> {
    let options = ProducerOptions {
        window: WINDOW,
        reply_within: Some(SOON),
    };
    let (summary, done) = send_counted(settings, messages, options, &AtomicUsize::new(0));
    assert!(summary.is_complete(), "{summary}");
    done
}

/// The same in a way of the test's own, where replies may be missing, with a count of what is done.
pub(crate) fn send_counted(
    settings: &Settings,
    messages: &[Vec<u8>],
    options: ProducerOptions,
    count: &AtomicUsize,
) -> (Summary, Vec<Done>) {
    let mut feed = Feed {
        messages: messages.iter().cloned().collect(),
        partition_count: settings.partition_count,
        done: Vec::new(),
        count,
    };
    let sending = async {
        let mut producer = Producer::connect(&settings.broker, "test").await?;
        let sent = producer.run(&mut feed, options).await;
        producer.close().await;
        Ok(sent?)
    };
    let summary = block_on(sending).expect("the broker takes everything");
    (summary, feed.done)
}

/// The reply to each message, where it is a command.
pub(crate) fn replies(settings: &Settings, messages: &[Vec<u8>]) -> Vec<Option<String>> {
    let done = send(settings, messages);
    done.into_iter()
        .map(|done| done.reply.as_deref().map(text))
        .collect()
}

struct Feed<'a> {
    messages: VecDeque<Vec<u8>>,
    partition_count: u32,
    done: Vec<Done>,
    count: &'a AtomicUsize,
}

impl Load for Feed<'_> {
    fn next(&mut self) -> anyhow::Result<Option<Request>> {
        let Some(body) = self.messages.pop_front() else {
            return Ok(None);
        };
        let incoming = decode(&body);
        let id = match &incoming {
            Incoming::Command(command) => Some(command.id.to_string()),
            Incoming::Refused(refused) => Some(refused.id.to_string()),
            Incoming::Unusable(_) => None,
        };
        let partition = destination(&incoming, Some(&body), self.partition_count);
        let answered = id.is_some();
        Ok(Some(Request {
            partition,
            body,
            message_id: id,
            answered,
        }))
    }

    fn done(&mut self, done: Done) -> anyhow::Result<()> {
        self.done.push(done);
        self.count.store(self.done.len(), Ordering::Relaxed);
        Ok(())
    }
}

/// What the engine alone makes of messages.
#[derive(Default)]
pub(crate) struct Replayed {
    /// Every event of each partition, one a line.
    pub(crate) events: BTreeMap<u32, Vec<u8>>,
    /// The result of every message, in the order of the messages, where it has one.
    pub(crate) results: Vec<Option<String>>,
    /// Everything that rests.
    pub(crate) book: BookView,
    /// What was counted.
    pub(crate) counts: Counts,
}

/// Decides messages with the engine alone, in this order.
pub(crate) fn replay(messages: &[Vec<u8>], partition_count: u32) -> Replayed {
    let mut replay = FastReplay::new(partition_count);
    let mut replayed = Replayed::default();
    for message in messages {
        let incoming = decode(message);
        let partition = destination(&incoming, Some(message), partition_count);
        let decided = replay
            .feed(partition, &incoming)
            .expect("no invariant breaks");
        let events = replayed.events.entry(partition.0).or_default();
        events.extend_from_slice(decided.canonical);
        replayed.results.push(match &decided.verdict {
            Verdict::New(result) | Verdict::Repeat(result) => {
                let mut bytes = Vec::new();
                encode_result(result, &mut bytes);
                Some(text(&bytes))
            }
            Verdict::Parked(_) => None,
        });
    }
    replay.audit().expect("the book is sound");
    replayed.book = replay.view();
    replayed.counts = replay.counts().clone();
    replayed
}

/// The book of a partition by its indexes and records, in their order.
pub(crate) fn stored_book(store: &Valkey, partition: u32) -> BookView {
    let keys = Keys::new(PartitionId(partition));
    let pairs: Vec<u32> = store
        .command(&["SMEMBERS", keys.pairs()])
        .expect("it answers");
    let views = pairs.into_iter().map(PairId).map(|pair| {
        let side = |side| queues(store, &keys, pair, side);
        (
            pair,
            PairView {
                bids: side(Side::Bid),
                asks: side(Side::Ask),
            },
        )
    });
    BookView {
        pairs: views.collect(),
    }
}

fn queues(store: &Valkey, keys: &Keys, pair: PairId, side: Side) -> Vec<QueueView> {
    let range = if side == Side::Ask {
        "ZRANGE"
    } else {
        "ZREVRANGE"
    };
    let members: Vec<String> = store
        .command(&[range, &keys.book(pair, side), "0", "-1"])
        .expect("it answers");
    let mut connection = store.connection().expect("it answers");
    let mut queues: Vec<QueueView> = Vec::new();
    for member in members {
        let order = Keys::parse_member(side, &member)
            .prefixed
            .expect("a member of ours")
            .order;
        let record: BTreeMap<String, String> = redis::cmd("HGETALL")
            .arg(keys.order(&order))
            .query(&mut connection)
            .expect("hash");
        let (id, remaining) = (order.to_string(), record["remaining"].clone());
        let order = OrderView { id, remaining };
        match queues
            .last_mut()
            .filter(|queue| queue.price == record["price"])
        {
            Some(queue) => queue.orders.push(order),
            None => queues.push(QueueView {
                price: record["price"].clone(),
                orders: vec![order],
            }),
        }
    }
    queues
}

/// What is in a partition's parking queue: each of so many messages with its reason, oldest first.
/// They stay there.
pub(crate) fn parked(settings: &Settings, partition: u32, count: usize) -> Vec<(Vec<u8>, String)> {
    parked_while(settings, partition, |found| found.len() < count)
}

/// The same, for as long as what was found asks for more.
pub(crate) fn parked_while(
    settings: &Settings,
    partition: u32,
    more: impl Fn(&[(Vec<u8>, String)]) -> bool,
) -> Vec<(Vec<u8>, String)> {
    let queue = parking_queue(PartitionId(partition));
    let reading = async {
        let connection = amqp::connect(&settings.broker, "parked").await?;
        let mut parked = Subscription::open(&connection, &queue, 1_000).await?;
        let mut found = Vec::new();
        while more(&found) {
            let next = tokio::time::timeout(SOON, parked.next()).await;
            let message = next.unwrap_or_else(|_| panic!("only {} came", found.len()))?;
            let headers = message.properties.headers().clone().unwrap_or_default();
            let reason = match headers.inner().get(HEADER_PARKED_REASON) {
                Some(AMQPValue::LongString(reason)) => text(reason.as_bytes()),
                other => panic!("a parked message has its reason, not {other:?}"),
            };
            found.push((message.data, reason));
        }
        parked.close().await;
        amqp::close_connection(&connection).await;
        Ok(found)
    };
    block_on(reading).expect("the parking queue is read")
}

/// Waits until a partition's two queues hold so many messages, delivered ones included: none of
/// commands, so many parked.
pub(crate) fn wait_queued(servers: &CellServers, partition: u32, parked: u64) {
    let names = [
        command_queue(PartitionId(partition)),
        parking_queue(PartitionId(partition)),
    ];
    wait_for("settled queues", SOON, || {
        let words = ["list_queues", "name", "messages"];
        let listed = servers
            .rabbit()
            .control(&words)
            .map_err(|error| error.to_string())?;
        let rows: BTreeMap<&str, &str> = listed
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .collect();
        let of = |name: &String| rows.get(name.as_str()).and_then(|n| n.trim().parse().ok());
        match [of(&names[0]), of(&names[1])] {
            [Some(0), Some(found)] if found == parked => Ok(()),
            found => Err(format!("{found:?} instead of 0 and {parked}")),
        }
    })
    .expect("everything is acknowledged");
}

/// Bytes that must be text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// A limit order, good till cancelled, of two price and eight amount decimals.
pub(crate) fn order_json(id: &str, side: &str, price: &str, volume: &str) -> Value {
    json!({
        "id": id, "side": side, "type": "limit", "price": price, "volume": volume,
        "userId": "u-1", "priceDecimals": 2, "amountDecimals": 8, "quoteDecimals": 2,
        "timestamp": 1_767_225_600_000_u64,
    })
}

/// The order `ID` by the command `c-ID`.
pub(crate) fn place(id: &str, pair: u32, side: &str, price: &str, volume: &str) -> Vec<u8> {
    let command = json!({
        "type": "order.place", "commandId": format!("c-{id}"), "pairId": pair,
        "timestamp": 1_767_225_600_000_u64, "order": order_json(id, side, price, volume),
    });
    command.to_string().into_bytes()
}
