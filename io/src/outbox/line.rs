//! The one connection to the broker that all partitions of an outbox publish on.
//!
//! It is made when the first partition asks for a channel and made anew when one asks after it was
//! lost. It only publishes: a broker that is short of memory or disk stops reading from such a
//! connection, and nothing that consumes may share it.

use crate::amqp::{self, AmqpError, Nodes, Publisher};
use conductor_config::BrokerSettings;
use futures_util::StreamExt;
use lapin::{Connection, Event};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How long the broker may leave an event unconfirmed while it takes messages.
const CONFIRM_WITHIN: Duration = Duration::from_secs(30);

/// The shared connection, or how to get one.
#[derive(Debug)]
pub(super) struct Line {
    broker: Nodes,
    name: String,
    partitions: String,
    held: Mutex<Option<Held>>,
    blocked: Arc<AtomicBool>,
}

/// A channel to publish on, and word of the connection's end.
#[derive(Debug)]
pub(super) struct OpenLine {
    /// The channel.
    pub(super) publisher: Publisher,
    /// Why the connection was lost, once it is.
    pub(super) lost: watch::Receiver<Option<String>>,
}

struct Held {
    connection: Connection,
    lost: watch::Receiver<Option<String>>,
    watcher: JoinHandle<()>,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Held")
            .field("lost", &*self.lost.borrow())
            .finish_non_exhaustive()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Line {
    /// A line that is not connected yet.
    pub(super) fn new(broker: &BrokerSettings, partitions: &str, worker: &str) -> Self {
        Self {
            broker: Nodes::new(Arc::new(broker.clone())),
            name: format!("conductor-outbox of partitions {partitions} ({worker})"),
            partitions: partitions.to_owned(),
            held: Mutex::new(None),
            blocked: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Whether the broker takes no messages at the moment.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Opens a channel, on a new connection if there is none that works.
    ///
    /// # Errors
    /// [`AmqpError`] when the broker is not there, or has no exchange for events.
    pub(super) async fn open(&self) -> Result<OpenLine, AmqpError> {
        let mut held = self.held.lock().await;
        let working = held.take().filter(Held::works);
        let current = match working {
            Some(current) => current,
            None => self.connect().await?,
        };
        // Left empty after a failure, so that the next one to ask connects anew.
        let check = amqp::open_channel(&current.connection).await?;
        let checked = amqp::require_events(&check).await;
        amqp::close_channel(&check).await;
        if let Err(error) = checked {
            *held = Some(current);
            return Err(error);
        }
        let publisher = Publisher::open(&current.connection, CONFIRM_WITHIN).await?;
        let lost = current.lost.clone();
        *held = Some(current);
        Ok(OpenLine { publisher, lost })
    }

    /// Closes the connection, if there is one.
    pub(super) async fn close(&self) {
        // Whoever has it locked is connecting, and is not waited for.
        let held = self.held.try_lock().ok().and_then(|mut held| held.take());
        if let Some(held) = held {
            amqp::close_connection(&held.connection).await;
        }
    }

    async fn connect(&self) -> Result<Held, AmqpError> {
        let connection = self.broker.connect(&self.name).await?;
        let (tell, lost) = watch::channel(None);
        self.blocked.store(false, Ordering::Relaxed);
        let events = connection.events_listener();
        let watching = watch_events(
            events,
            tell,
            Arc::clone(&self.blocked),
            self.partitions.clone(),
        );
        let watcher = tokio::spawn(watching);
        info!(partitions = self.partitions, "connected to the broker");
        Ok(Held {
            connection,
            lost,
            watcher,
        })
    }
}

impl Held {
    fn works(&self) -> bool {
        self.connection.status().connected() && self.lost.borrow().is_none()
    }
}

async fn watch_events(
    events: impl futures_util::Stream<Item = Event>,
    lost: watch::Sender<Option<String>>,
    blocked: Arc<AtomicBool>,
    partitions: String,
) {
    let mut events = std::pin::pin!(events);
    let reason = loop {
        match events.next().await {
            Some(Event::ConnectionBlocked(reason)) => {
                blocked.store(true, Ordering::Relaxed);
                warn!(
                    partitions,
                    reason, "the broker takes no messages; give it memory or disk"
                );
            }
            Some(Event::ConnectionUnblocked) => {
                blocked.store(false, Ordering::Relaxed);
                info!(partitions, "the broker takes messages again");
            }
            Some(Event::Error(error)) => break error.to_string(),
            Some(_) => {}
            None => break "the connection ended".to_owned(),
        }
    };
    blocked.store(false, Ordering::Relaxed);
    lost.send_replace(Some(reason));
}
