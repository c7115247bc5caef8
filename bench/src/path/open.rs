//! An open loop: commands leave when they are due, whatever became of those before, and a
//! command's time is counted from when it was due, not from when it was sent.

use crate::figures::{histogram, record};
use anyhow::{Context, ensure};
use conductor_config::BrokerSettings;
use conductor_io::amqp::{self, Outgoing, Publication, Publisher};
use conductor_io::keys::{COMMAND_EXCHANGE, command_queue};
use conductor_tools::client::{Done, Load};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use hdrhistogram::Histogram;
use lapin::options::{BasicConsumeOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, Consumer};
use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};
use tokio::time::sleep_until;

const CONFIRM_WITHIN: Duration = Duration::from_secs(60);
/// A reply that does not come so long after the last command was due is missing.
const REPLY_WITHIN: Duration = Duration::from_secs(60);
const PERSISTENT: u8 = 2;
/// Commands over this are told one by one.
pub(crate) const SLOW: Duration = Duration::from_millis(250);

/// What an open loop came to.
#[derive(Debug)]
pub(crate) struct Offered {
    /// From when on the times are counted.
    pub(crate) began: Instant,
    pub(crate) times: Histogram<u64>,
    /// When a slow command was due, counted from the beginning, and how long it took.
    pub(crate) slow: Vec<(Duration, Duration)>,
}

/// A producer that keeps to a schedule.
pub(crate) struct OpenLoop {
    connection: Connection,
    publisher: Publisher,
    channel: Channel,
    // Dropping a consumer would cancel it.
    replies: ManuallyDrop<Consumer>,
    reply_queue: String,
}

struct Due {
    at: Instant,
    reply: Option<Vec<u8>>,
}

impl OpenLoop {
    pub(crate) async fn connect(broker: &BrokerSettings) -> anyhow::Result<Self> {
        let connection = amqp::connect(broker, "conductor-bench, open loop").await?;
        let publisher = Publisher::open(&connection, CONFIRM_WITHIN).await?;
        let channel = amqp::open_channel(&connection).await?;
        let options = QueueDeclareOptions {
            exclusive: true,
            auto_delete: true,
            ..QueueDeclareOptions::default()
        };
        let queue = channel
            .queue_declare("".into(), options, FieldTable::default())
            .await?;
        let reply_queue = queue.name().to_string();
        let options = BasicConsumeOptions {
            no_ack: true,
            ..BasicConsumeOptions::default()
        };
        let name = queue.name().clone();
        let consuming = channel.basic_consume(name, "".into(), options, FieldTable::default());
        let replies = ManuallyDrop::new(consuming.await?);
        Ok(Self {
            connection,
            publisher,
            channel,
            replies,
            reply_queue,
        })
    }

    /// Sends everything at this rate and waits for every reply.
    pub(crate) async fn offer(
        &mut self,
        load: &mut dyn Load,
        per_second: f64,
    ) -> anyhow::Result<Offered> {
        let began = Instant::now();
        let step = Duration::from_secs_f64(1.0 / per_second);
        let mut open: VecDeque<Due> = VecDeque::new();
        let mut confirms: FuturesUnordered<Publication> = FuturesUnordered::new();
        let (mut first, mut next, mut more) = (0_u64, 0_u64, true);
        let mut offered = Offered {
            began,
            times: histogram(),
            slow: Vec::new(),
        };
        while more || !open.is_empty() {
            let due = began + step * u32::try_from(next)?;
            let patience = if more { due } else { due + REPLY_WITHIN };
            tokio::select! {
                biased;
                Some(confirmed) = confirms.next() => confirmed?,
                reply = self.replies.next() => {
                    let reply = reply.context("the broker ended the consumer")??;
                    let number = reply.properties.correlation_id().as_ref();
                    let number: u64 = number.context("a reply has its number")?.as_str().parse()?;
                    let place = usize::try_from(number - first)?;
                    let due = open.get_mut(place).context("a reply that nobody waits for")?;
                    let took = due.at.elapsed();
                    record(&mut offered.times, took);
                    if took >= SLOW {
                        offered.slow.push((due.at - began, took));
                    }
                    due.reply = Some(reply.data);
                }
                () = sleep_until(patience.into()) => {
                    ensure!(more, "{} replies did not come: there is no time to print", open.len());
                    match load.next()? {
                        Some(request) => {
                            confirms.push(self.send(request, next));
                            open.push_back(Due { at: due, reply: None });
                            next += 1;
                        }
                        None => more = false,
                    }
                }
            }
            while open.front().is_some_and(|due| due.reply.is_some()) {
                let reply = open.pop_front().and_then(|due| due.reply);
                load.done(Done {
                    number: first,
                    published: Ok(()),
                    reply,
                    waited: None,
                })?;
                first += 1;
            }
        }
        while let Some(confirmed) = confirms.next().await {
            confirmed?;
        }
        Ok(offered)
    }

    fn send(&self, request: conductor_tools::client::Request, number: u64) -> Publication {
        let properties = BasicProperties::default()
            .with_content_type("application/json".into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(request.message_id.unwrap_or_default().into())
            .with_reply_to(self.reply_queue.as_str().into())
            .with_correlation_id(number.to_string().into());
        self.publisher.publish(Outgoing {
            exchange: COMMAND_EXCHANGE.to_owned(),
            routing_key: command_queue(request.partition),
            properties,
            body: request.body,
            mandatory: true,
        })
    }

    pub(crate) async fn close(self) {
        self.publisher.close().await;
        amqp::close_channel(&self.channel).await;
        amqp::close_connection(&self.connection).await;
    }
}
