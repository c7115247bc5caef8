//! Results on their way to their producers, best effort.
//!
//! They go to whatever queue the producer named, without confirms, on a connection of their own. A
//! broker that blocks or is gone costs replies, which are counted, and nothing else: a producer
//! that misses one sends its command again and gets the stored result. A reply is handed over, and
//! nobody says that it arrived. An address that the broker would take offence at, or that is a
//! queue of ours, is refused before it can cost other producers their replies. Runs on the I/O core.

use super::reply_address;
use crate::admin::IoCoreReport;
use crate::amqp::{self, Nodes};
use crate::mailbox::Receiver;
use crate::messages::ReplyOut;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel, Connection};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Between two tries to connect, while replies are dropped.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// The channel that replies go out on.
#[derive(Default)]
struct Desk {
    open: Option<(Connection, Channel)>,
    next_try: Option<Instant>,
    /// Whether replies are being dropped, and the log has said so.
    dropping: bool,
}

/// Sends replies until every partition has ended.
pub(super) async fn run(broker: Nodes, replies: Receiver<ReplyOut>, report: Arc<IoCoreReport>) {
    let mut desk = Desk::default();
    while let Some(reply) = replies.receive().await {
        let (partition, durable) = (reply.partition, reply.durable);
        if let Err(problem) = reply_address::judge(&reply.address.queue) {
            report.of(partition).replies_refused += 1;
            warn!(
                "partition {partition}: a result is not sent to {:?}: {problem}",
                reply.address.queue
            );
            continue;
        }
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
            Ok(_) => {
                if std::mem::take(&mut self.dropping) {
                    info!("replies are sent again");
                }
                true
            }
            Err(error) => {
                self.drops(&error.to_string());
                self.open = None;
                false
            }
        }
    }

    /// The log says it once.
    fn drops(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.dropping, true) {
            warn!("replies are dropped: {reason}");
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
                    self.drops(&error.to_string());
                    self.next_try = Some(Instant::now() + TRY_AGAIN);
                }
            }
        }
        let (connection, channel) = self.open.as_ref()?;
        if !connection.status().blocked() {
            return Some(channel.clone());
        }
        self.drops("the broker takes no messages; give it memory or disk");
        None
    }
}

async fn connect(broker: &Nodes) -> Result<(Connection, Channel), amqp::AmqpError> {
    let connection = broker.connect("conductor replies").await?;
    let channel = amqp::open_channel(&connection).await?;
    Ok((connection, channel))
}
