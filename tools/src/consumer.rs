//! A consumer of events, as every consumer of a cell should be.
//!
//! Events come at least once. Their sequence is gapless within a partition, so a consumer drops
//! what is at or below its last and takes nothing that skips one ([`Ledger`]). A known sequence
//! that comes with other bytes means that the store has gone back behind what was published: then
//! no further event can be trusted, and the consumer stops and says so. [`EventConsumer`] reads a
//! queue by these rules and acknowledges what its caller has taken.

mod ledger;

pub use ledger::{Beginning, Ledger, LedgerError, Seen};

use crate::client::Subscription;
use conductor_config::BrokerSettings;
use conductor_engine::PartitionId;
use conductor_io::amqp::{self, AmqpError};
use futures_util::FutureExt;
use lapin::Connection;
use lapin::message::Delivery;

/// Events ahead of their acknowledgement.
const PREFETCH: u16 = 1_024;
/// Events after which an acknowledgement is due however busy the queue is.
const ACKNOWLEDGE_EVERY: usize = 256;

/// Why no further event is taken.
#[derive(Debug, thiserror::Error)]
pub enum ConsumerError {
    /// The broker.
    #[error(transparent)]
    Broker(#[from] AmqpError),
    /// What came must not be.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// One event that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Its partition.
    pub partition: PartitionId,
    /// Its sequence there.
    pub sequence: u64,
    /// Whether it was not known before.
    pub fresh: bool,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// Reads a queue of events.
#[derive(Debug)]
pub struct EventConsumer {
    connection: Connection,
    queue: String,
    subscription: Subscription,
    ledger: Ledger,
    /// The last one that was handed on, with all before it.
    taken: Option<Delivery>,
    unacknowledged: usize,
}

impl EventConsumer {
    /// Attaches to a queue.
    ///
    /// # Errors
    /// [`AmqpError`] when there is no such queue or the broker does not answer.
    pub async fn attach(
        broker: &BrokerSettings,
        queue: &str,
        beginning: Beginning,
    ) -> Result<Self, AmqpError> {
        let connection = amqp::connect(broker, "cell events").await?;
        let subscription = Subscription::open(&connection, queue, PREFETCH).await?;
        Ok(Self {
            connection,
            queue: queue.to_owned(),
            subscription,
            ledger: Ledger::new(beginning),
            taken: None,
            unacknowledged: 0,
        })
    }

    /// The next event; asking for it says that the one before was taken. It may be abandoned while
    /// it waits.
    ///
    /// # Errors
    /// [`ConsumerError`], after which nothing more is to be asked.
    pub async fn next(&mut self) -> Result<Arrived, ConsumerError> {
        if self.unacknowledged >= ACKNOWLEDGE_EVERY {
            self.acknowledge().await?;
        }
        let at_once = self.subscription.next().now_or_never();
        let delivery = match at_once {
            Some(delivery) => delivery?,
            None => {
                self.acknowledge().await?;
                self.subscription.next().await?
            }
        };
        let (partition, sequence, seen) = self.ledger.take(&delivery.data)?;
        let mut delivery = delivery;
        let body = std::mem::take(&mut delivery.data);
        self.taken = Some(delivery);
        self.unacknowledged += 1;
        Ok(Arrived {
            partition,
            sequence,
            fresh: seen == Seen::Fresh,
            body,
        })
    }

    /// Messages that the queue holds for whoever comes next: where none came here, another reader
    /// is the active one.
    ///
    /// # Errors
    /// [`AmqpError`] when the broker is gone.
    pub async fn waiting(&self) -> Result<u32, AmqpError> {
        let channel = amqp::open_channel(&self.connection).await?;
        let counts = amqp::queue_counts(&channel, &self.queue).await?;
        Ok(counts.messages)
    }

    /// What was seen so far.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Acknowledges what was taken, the last one included, and leaves.
    ///
    /// # Errors
    /// [`AmqpError`] when the broker is gone; what was not acknowledged comes again.
    pub async fn close(mut self) -> Result<(), AmqpError> {
        let acknowledged = self.acknowledge().await;
        self.subscription.close().await;
        amqp::close_connection(&self.connection).await;
        acknowledged
    }

    /// Leaves without acknowledging the last one, whose taking failed.
    pub async fn abandon(self) {
        self.subscription.close().await;
        amqp::close_connection(&self.connection).await;
    }

    async fn acknowledge(&mut self) -> Result<(), AmqpError> {
        self.unacknowledged = 0;
        match self.taken.take() {
            Some(last) => self.subscription.acknowledge(&last, true).await,
            None => Ok(()),
        }
    }
}
