//! A cell without a conductor: the test puts the events into the stream and looks at the queue.

use conductor_config::{Settings, Sources};
use conductor_engine::PartitionId;
use conductor_io::amqp;
use conductor_io::keys::Keys;
use conductor_tools::testbed::{CellServers, Instance, Layout, wait_for};
use futures_util::StreamExt;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Connection};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// What anything may take on a machine that is busy.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// An outbox that is asked to end has this long.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(5);
/// The queue that the tests read.
pub(crate) const QUEUE: &str = "outbox.test";
/// A queue that gave nothing for so long is taken to be empty for now.
const QUIET: Duration = Duration::from_millis(100);
/// A short lease, and waits that fit into it.
pub(crate) const SHORT_LEASE: [(&str, &str); 2] = [
    ("MATCHING_OUTBOX_LEASE_MS", "2000"),
    ("MATCHING_DURABILITY_TIMEOUT_MS", "500"),
];
/// How long the short lease lasts, with the second between two tries to take it and its jitter.
pub(crate) const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(10);

/// One message of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) sequence: u64,
    pub(crate) event: String,
    pub(crate) routing_key: String,
    pub(crate) properties: BasicProperties,
    pub(crate) body: Vec<u8>,
}

/// The servers, with the records that `cell init` would write.
pub(crate) struct Bench {
    pub(crate) cell: CellServers,
    settings: Settings,
    runtime: Runtime,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let cell = CellServers::start(&Layout::default()).expect("the cell starts");
        let sources = Sources {
            file: Some(cell.settings_file().to_owned()),
            ..Sources::default()
        };
        let settings = Settings::load(&sources).expect("the settings are good");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.expect("a runtime");
        let bench = Self {
            cell,
            settings,
            runtime,
        };
        bench.write_topology("512");
        bench.on_channel(async |channel| {
            amqp::declare_events(channel)
                .await
                .expect("the exchange is declared");
        });
        bench
    }

    /// With a queue for all events.
    pub(crate) fn with_queue() -> Self {
        let bench = Self::new();
        bench.bind(QUEUE, &["#"]);
        bench
    }

    pub(crate) fn keys(&self) -> Keys {
        Keys::new(PartitionId(0))
    }

    pub(crate) fn write_topology(&self, prefetch: &str) {
        let key = self.keys().topology().to_owned();
        let fields = [
            "partition",
            "0",
            "partitionCount",
            "1",
            "prefetch",
            prefetch,
        ];
        let words: Vec<&str> = ["HSET", &key].into_iter().chain(fields).collect();
        self.store::<u32>(&words);
    }

    /// One command to the partition's primary.
    #[track_caller]
    pub(crate) fn store<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let primary = &self.cell.store(0).primary;
        primary.command(words).expect("the store answers")
    }

    pub(crate) fn stream_length(&self) -> u64 {
        self.store(&["XLEN", self.keys().events()])
    }

    pub(crate) fn outbox(&self, name: &str, variables: &[(&str, &str)]) -> Instance {
        self.cell
            .outbox(name, &[0], variables)
            .expect("the outbox starts")
    }

    /// Puts events with these sequences into the stream, as a conductor would.
    pub(crate) fn add(&self, sequences: std::ops::RangeInclusive<u64>) {
        let primary = &self.cell.store(0).primary;
        let mut connection = primary.connection().expect("the store is there");
        let (keys, mut pipe) = (self.keys(), redis::Pipeline::new());
        for sequence in sequences {
            let event = event(sequence, kind(sequence));
            pipe.cmd("XADD")
                .arg(keys.events())
                .arg("*")
                .arg("event")
                .arg(event)
                .ignore();
        }
        pipe.query::<()>(&mut connection).expect("the store writes");
    }

    pub(crate) fn add_entry(&self, fields: &[(&str, &str)]) -> String {
        let keys = self.keys();
        let mut words = vec!["XADD", keys.events(), "*"];
        words.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
        self.store(&words)
    }

    pub(crate) fn bind(&self, queue: &str, routing_keys: &[&str]) {
        self.on_channel(async |channel| {
            let declaring = amqp::declare_event_queue(channel, queue, routing_keys);
            declaring.await.expect("the queue is declared");
        });
    }

    /// Messages that wait in the queue.
    pub(crate) fn waiting(&self) -> u32 {
        self.on_channel(async |channel| {
            let counts = amqp::queue_counts(channel, QUEUE).await;
            counts.expect("the queue is there").messages
        })
    }

    /// Takes messages until they are as wanted, and gives all that there were.
    #[track_caller]
    pub(crate) fn take_until(&self, wanted: impl Fn(&[Got]) -> bool) -> Vec<Got> {
        let (begin, mut taken, mut failure) = (Instant::now(), Vec::new(), None);
        while !wanted(&taken) {
            let seen = || {
                taken
                    .iter()
                    .map(|got: &Got| got.sequence)
                    .collect::<Vec<_>>()
            };
            assert!(
                begin.elapsed() < SOON,
                "the queue never was as wanted; it had {:?}; the last failure was {failure:?}",
                seen()
            );
            let (found, failed) = self.on_channel(async |channel| take(channel).await);
            if found.is_empty() {
                std::thread::sleep(Duration::from_millis(50));
            }
            failure = failed.or(failure);
            taken.extend(found);
        }
        taken
    }

    /// Takes messages until a consumer that counts has had the events up to this sequence.
    #[track_caller]
    pub(crate) fn take_through(&self, last: u64) -> Vec<Got> {
        self.take_until(|taken| counted(taken) == last)
    }

    /// Waits until the broker has the names of its queues on disk. It writes them a while after a
    /// declaration; one that is killed before begins such a queue anew and empty, whatever it had
    /// confirmed (seen with RabbitMQ 3.10.8).
    pub(crate) fn keep_queues(&self) {
        let call = "[dets:sync(Table) || Table <- dets:all()].";
        let called = self.cell.rabbit().control(&["eval", call]);
        called.expect("the broker takes the call");
    }

    /// Waits until the outbox has deleted all that it published.
    pub(crate) fn wait_drained(&self) {
        wait_for("an empty stream", SOON, || match self.stream_length() {
            0 => Ok(()),
            left => Err(format!("{left} entries")),
        })
        .expect("the stream is drained");
    }

    fn on_channel<T>(&self, work: impl AsyncFnOnce(&Channel) -> T) -> T {
        self.runtime.block_on(async {
            let connection = self.connect().await;
            let channel = amqp::open_channel(&connection).await.expect("a channel");
            let done = work(&channel).await;
            amqp::close_connection(&connection).await;
            done
        })
    }

    async fn connect(&self) -> Connection {
        let connecting = amqp::connect(&self.settings.broker, "test");
        connecting.await.expect("the broker is there")
    }

    pub(crate) fn on_connection<T>(&self, work: impl AsyncFnOnce(&Connection) -> T) -> T {
        self.runtime.block_on(async {
            let connection = self.connect().await;
            let done = work(&connection).await;
            amqp::close_connection(&connection).await;
            done
        })
    }
}

/// What is in the queue now, and what went wrong: after a restart it has no leader for a while.
/// A queue with a single active consumer gives nothing to one that asks, so this one subscribes.
async fn take(channel: &Channel) -> (Vec<Got>, Option<lapin::Error>) {
    let mut taken = Vec::new();
    let options = BasicConsumeOptions {
        no_ack: true,
        ..BasicConsumeOptions::default()
    };
    let (queue, tag) = (ShortString::from(QUEUE), ShortString::from("test"));
    let consuming = channel.basic_consume(queue, tag.clone(), options, FieldTable::default());
    let mut consumer = match consuming.await {
        Ok(consumer) => consumer,
        Err(error) => return (taken, Some(error)),
    };
    let mut failure = None;
    while let Ok(next) = tokio::time::timeout(QUIET, consumer.next()).await {
        match next {
            Some(Ok(message)) => taken.push(got(message)),
            Some(Err(error)) => {
                failure = Some(error);
                break;
            }
            None => break,
        }
    }
    // What the broker sent before it heard of this is still given.
    let cancelled = channel.basic_cancel(tag, BasicCancelOptions::default());
    failure = failure.or(cancelled.await.err());
    while let Ok(Some(Ok(message))) = tokio::time::timeout(QUIET, consumer.next()).await {
        taken.push(got(message));
    }
    (taken, failure)
}

fn got(message: lapin::message::Delivery) -> Got {
    let header = header(&message.properties, "x-partition-sequence");
    let Some(AMQPValue::LongLongInt(sequence)) = header else {
        panic!("no sequence in {:?}", message.properties)
    };
    let event = message
        .properties
        .message_id()
        .clone()
        .expect("a message id");
    Got {
        sequence: u64::try_from(sequence).expect("a sequence is not negative"),
        event: event.to_string(),
        routing_key: message.routing_key.to_string(),
        properties: message.properties,
        body: message.data,
    }
}

pub(crate) fn header(properties: &BasicProperties, name: &str) -> Option<AMQPValue> {
    properties.headers().as_ref()?.inner().get(name).cloned()
}

/// How far a consumer gets that drops what it has had and waits at a gap. A sequence always comes
/// with the same event.
#[track_caller]
pub(crate) fn counted(taken: &[Got]) -> u64 {
    let mut last = 0;
    for got in taken {
        assert_eq!(
            got.event,
            format!("c-{}.0", got.sequence),
            "an event keeps its sequence"
        );
        if got.sequence == last + 1 {
            last = got.sequence;
        }
    }
    last
}

pub(crate) fn kind(sequence: u64) -> &'static str {
    if sequence.is_multiple_of(3) {
        "deal.executed.v1"
    } else {
        "order.rested.v1"
    }
}

/// An event in its canonical form; the outbox does not read its payload.
pub(crate) fn event(sequence: u64, kind: &str) -> String {
    format!(
        "{{\"eventId\":\"c-{sequence}.0\",\"type\":\"{kind}\",\"causationId\":\"c-{sequence}\",\
         \"partition\":0,\"pairId\":12,\"sequence\":{sequence},\"timestamp\":1767225600000,\
         \"payload\":{{\"orderId\":\"o-{sequence}\"}}}}"
    )
}

/// The value of one figure of `/metrics`.
#[track_caller]
pub(crate) fn figure(outbox: &Instance, name: &str) -> u64 {
    let (status, text) = outbox.page("/metrics").expect("the page answers");
    assert_eq!(status, 200, "{text}");
    let start = format!("conductor_outbox_{name}{{partition=\"0\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&start));
    let value = line.unwrap_or_else(|| panic!("no {start} in {text}"));
    value.parse().expect("a whole number")
}
