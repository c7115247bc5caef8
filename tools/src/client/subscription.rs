//! Reading a queue in order, and leaving it without disturbing that order.
//!
//! The client library cancels a consumer when it is dropped, and a cancelled consumer keeps what it
//! has not acknowledged while the next one is served already: the messages overtake each other. So
//! the consumer here is never dropped. Leaving is closing the channel, which gives everything back
//! in order, and what is left of the consumer is a few bytes.

use conductor_io::amqp::{AmqpError, close_channel, open_channel, within};
use futures_util::stream::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Connection, Consumer};
use std::mem::ManuallyDrop;

/// A consumer on a channel of its own.
#[derive(Debug)]
pub struct Subscription {
    channel: Channel,
    consumer: ManuallyDrop<Consumer>,
}

/// How messages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// At most so many ahead of their acknowledgement.
    Acknowledged { prefetch: u16 },
    /// They are gone with their delivery.
    Blind,
}

impl Subscription {
    /// Consumes a queue with at most this many messages ahead of their acknowledgement.
    ///
    /// # Errors
    /// [`AmqpError`] when there is no such queue or the broker does not answer.
    pub async fn open(
        connection: &Connection,
        queue: &str,
        prefetch: u16,
    ) -> Result<Self, AmqpError> {
        let channel = open_channel(connection).await?;
        Self::on(channel, queue, Taking::Acknowledged { prefetch }).await
    }

    /// Consumes a queue on a channel that nothing else uses.
    pub(super) async fn on(
        channel: Channel,
        queue: &str,
        taking: Taking,
    ) -> Result<Self, AmqpError> {
        if let Taking::Acknowledged { prefetch } = taking {
            let limiting = channel.basic_qos(prefetch, BasicQosOptions::default());
            within("limiting what is delivered", limiting).await?;
        }
        let name = ShortString::try_new(queue).map_err(|_| AmqpError::NameTooLong {
            bytes: queue.len(),
            start: queue.chars().take(32).collect(),
        })?;
        let options = BasicConsumeOptions {
            no_ack: taking == Taking::Blind,
            ..BasicConsumeOptions::default()
        };
        let tag = ShortString::default();
        let consuming = channel.basic_consume(name, tag, options, FieldTable::default());
        let consumer = within(&format!("queue {queue}"), consuming).await?;
        Ok(Self {
            channel,
            consumer: ManuallyDrop::new(consumer),
        })
    }

    /// The next message; it may be abandoned while it waits.
    ///
    /// # Errors
    /// [`AmqpError`] when the channel is gone, after which there is nothing more to come.
    pub async fn next(&mut self) -> Result<Delivery, AmqpError> {
        let what = "reading a queue";
        match self.consumer.next().await {
            Some(Ok(delivery)) => Ok(delivery),
            Some(Err(error)) => Err(failed(what, error.to_string())),
            None => Err(failed(what, "the broker ended the consumer".to_owned())),
        }
    }

    /// Acknowledges one message, or every message up to it.
    ///
    /// # Errors
    /// [`AmqpError`] when the channel is gone.
    pub async fn acknowledge(&self, delivery: &Delivery, up_to: bool) -> Result<(), AmqpError> {
        let options = BasicAckOptions { multiple: up_to };
        let what = "acknowledging";
        // The library says no, and not why, where the channel is gone.
        match within(what, delivery.acker.ack(options)).await? {
            true => Ok(()),
            false => Err(failed(what, "the channel is gone".to_owned())),
        }
    }

    /// Gives back what is not acknowledged, in order.
    pub async fn close(self) {
        close_channel(&self.channel).await;
    }
}

fn failed(what: &str, words: String) -> AmqpError {
    AmqpError::Failed {
        what: what.to_owned(),
        words,
    }
}
