//! Results on their way to their producers, best effort.
//!
//! They go to whatever queue the producer named, without confirms, on a connection of their own. A
//! broker that blocks or is gone costs replies, which are counted, and nothing else: a producer
//! that misses one sends its command again and gets the stored result. Runs on the I/O core.

use crate::admin::IoCoreReport;
use crate::amqp::{self, Nodes};
use crate::mailbox::Receiver;
use crate::messages::ReplyOut;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Connection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::warn;

/// Between two tries to connect, while replies are dropped.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The channel that replies go out on.
#[derive(Default)]
struct Desk {
    open: Option<(Connection, Channel)>,
    next_try: Option<Instant>,
}

/// Sends replies until every partition has ended.
pub(super) async fn run(broker: Nodes, replies: Receiver<ReplyOut>, report: Arc<IoCoreReport>) {
    let mut desk = Desk::default();
    while let Some(reply) = replies.receive().await {
        let (partition, durable) = (reply.partition, reply.durable);
        let sent = desk.send(&broker, reply).await;
        let mut figures = report.of(partition);
        if sent {
            figures.replied(durable, Instant::now());
        } else {
            figures.replies_dropped += 1;
        }
    }
}

impl Desk {
    async fn send(&mut self, broker: &Nodes, reply: ReplyOut) -> bool {
        let Some(channel) = self.channel(broker).await else {
            return false;
        };
        let mut properties =
            BasicProperties::default().with_content_type("application/json".into());
        if let Some(correlation) = reply.address.correlation {
            properties = properties.with_correlation_id(correlation.into());
        }
        let publishing = channel.basic_publish(
            "".into(),
            reply.address.queue.into(),
            BasicPublishOptions::default(),
            &reply.body,
            properties,
        );
        match amqp::within("replying", publishing).await {
            // Without confirms there is nothing more to wait for.
            Ok(_) => true,
            Err(error) => {
                warn!("replies are dropped: {error}");
                self.open = None;
                false
            }
        }
    }

    /// The channel, unless the broker takes nothing at the moment.
    async fn channel(&mut self, broker: &Nodes) -> Option<Channel> {
        self.open = self.open.take().filter(|(connection, channel)| {
            connection.status().connected() && channel.status().connected()
        });
        if self.open.is_none() && self.next_try.is_none_or(|next| next <= Instant::now()) {
            match connect(broker).await {
                Ok(opened) => self.open = Some(opened),
                Err(error) => {
                    warn!("replies are dropped: {error}");
                    self.next_try = Some(Instant::now() + TRY_AGAIN);
                }
            }
        }
        let (connection, channel) = self.open.as_ref()?;
        (!connection.status().blocked()).then(|| channel.clone())
    }
}

async fn connect(broker: &Nodes) -> Result<(Connection, Channel), amqp::AmqpError> {
    let connection = broker.connect("conductor replies").await?;
    let channel = amqp::open_channel(&connection).await?;
    Ok((connection, channel))
}
