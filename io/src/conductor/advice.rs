//! One look at the broker at boot: whether it bounds the size of a message.
//!
//! The broker hands out deliveries by number and never by size, so without a bound of its own a
//! process can be made to hold the prefetch times its largest message. The protocol says nothing of
//! that setting; what tells is a message that is a byte too large and goes nowhere, which a broker
//! with the bound refuses. It is advice: nothing waits for it, and a broker that cannot be asked is
//! asked no more. Runs on the I/O core, on a connection of its own that lives for a moment.

use crate::amqp::{self, AmqpError, Nodes};
use conductor_engine::limits::MESSAGE_BYTES_MAX;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel};
use std::time::Duration;
use tracing::{debug, warn};

/// A name that no queue has, so that a message the broker does take goes nowhere.
const NOWHERE: &str = "matching:size-check.nowhere";
/// Between two tries to reach the broker, and how many there are.
const TRY_AGAIN: Duration = Duration::from_secs(5);
const TRIES_MAX: usize = 60;

/// Looks once the broker can be reached, and says what to set where it takes more than a command.
pub(super) async fn run(broker: Nodes) {
    for _ in 0..TRIES_MAX {
        let Ok(connection) = broker.connect("conductor size check").await else {
            tokio::time::sleep(TRY_AGAIN).await;
            continue;
        };
        let looked = match amqp::open_channel(&connection).await {
            Ok(channel) => takes_more(&channel).await,
            Err(error) => Err(error),
        };
        amqp::close_connection(&connection).await;
        match looked {
            Ok(true) => warn!(
                "the broker takes messages larger than a command can be; set max_message_size = \
                 {MESSAGE_BYTES_MAX} in its rabbitmq.conf, or this process may have to hold the \
                 prefetch times whatever somebody sends"
            ),
            Ok(false) => {}
            Err(error) => debug!(%error, "the broker's max_message_size is not known"),
        }
        return;
    }
}

/// Whether the broker takes a message of one byte more than a command can have.
async fn takes_more(channel: &Channel) -> Result<bool, AmqpError> {
    let selecting = channel.confirm_select(ConfirmSelectOptions::default());
    amqp::within("switching confirms on", selecting).await?;
    let body = vec![b' '; MESSAGE_BYTES_MAX + 1];
    let publishing = async {
        let options = BasicPublishOptions::default();
        let properties = BasicProperties::default();
        let sent = channel.basic_publish("".into(), NOWHERE.into(), options, &body, properties);
        sent.await?.await
    };
    match amqp::within("a message that is too large", publishing).await {
        Ok(_) => Ok(true),
        Err(AmqpError::Failed { words, .. }) if words.contains("size") => Ok(false),
        Err(error) => Err(error),
    }
}
