//! The broker's side of a connection: connecting, declaring, publishing with confirms.
//!
//! Shared by the conductor's I/O core, the outbox and the command line, all on tokio. Every call
//! has a time limit, because the client library can wait for ever on a broker that is going down.
//! Nothing here recovers a connection by itself: a recovered channel mixes old deliveries with
//! repeated ones, so whoever owns a connection makes a new one and starts again.
//!
//! A connection starts a thread of its own, which inherits the processor mask of the thread that
//! connects: call [`connect`] from the I/O core's thread, never from a partition's core. A consumer
//! that is dropped sends `basic.cancel`, which lets another consumer overtake what is still
//! unacknowledged: close the channel with [`close_channel`] before anything of it is dropped.

mod error;
mod nodes;
mod publisher;
mod topology;

pub use error::{AmqpError, Inequivalence, PublishError};
pub use nodes::{Nodes, connect};
pub use publisher::{Outgoing, Publication, Publisher};
pub use topology::{
    QueueCounts, declare_event_queue, declare_events, declare_partition, queue_counts,
    require_events,
};

use lapin::types::ShortString;
use lapin::{Channel, Connection};
use std::future::Future;
use std::time::Duration;

/// How long one call to the broker may take. Longer than a quorum queue's election, shorter than
/// an operator's patience.
pub const CALL_WITHIN: Duration = Duration::from_secs(10);
/// How long a channel or a connection may take to close before it is left to itself.
pub const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The reply code of an ordinary end.
const REPLY_SUCCESS: u16 = 200;

/// Opens a channel.
///
/// # Errors
/// [`AmqpError`] when the connection is gone or does not answer.
pub async fn open_channel(connection: &Connection) -> Result<Channel, AmqpError> {
    within("opening a channel", connection.create_channel()).await
}

/// Closes a channel and waits until the broker has, so that what was unacknowledged on it is given
/// back in order. A channel that is gone already is as good as closed.
pub async fn close_channel(channel: &Channel) {
    let closing = channel.close(REPLY_SUCCESS, ShortString::from("closing"));
    if let Ok(Err(error)) = tokio::time::timeout(CLOSE_WITHIN, closing).await {
        tracing::debug!(%error, "a channel was gone before it was closed");
    }
}

/// Closes a connection with all its channels. One that is gone already is as good as closed.
pub async fn close_connection(connection: &Connection) {
    let closing = connection.close(REPLY_SUCCESS, ShortString::from("closing"));
    if let Ok(Err(error)) = tokio::time::timeout(CLOSE_WITHIN, closing).await {
        tracing::debug!(%error, "a connection was gone before it was closed");
    }
}

/// Waits for one call to the broker, but not for ever.
///
/// # Errors
/// [`AmqpError::TimedOut`], or the call's own failure.
pub async fn within<T>(
    what: &str,
    call: impl Future<Output = lapin::Result<T>>,
) -> Result<T, AmqpError> {
    match tokio::time::timeout(CALL_WITHIN, call).await {
        Ok(answer) => answer.map_err(|error| AmqpError::call(what, &error)),
        Err(_) => Err(AmqpError::TimedOut {
            what: what.to_owned(),
        }),
    }
}

/// A name of the broker, checked for length here because the client library would panic.
fn short(name: &str) -> Result<ShortString, AmqpError> {
    ShortString::try_new(name).map_err(|_| AmqpError::NameTooLong {
        bytes: name.len(),
        start: name.chars().take(32).collect(),
    })
}
