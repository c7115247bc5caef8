//! Connecting to one of the broker's nodes.
//!
//! Any node will do, so they are tried in turn, each for a bounded time: a node may be dead, or
//! take a connection and never say a word. Whoever owns a connection keeps a [`Nodes`] of its own,
//! which begins with another node each time it is asked again, because a node that took the last
//! connection may be the one on which everything else fails. It must never wait for one node
//! longer than the bound while there are others.

use super::{AmqpError, CALL_WITHIN};
use conductor_config::{BrokerNode, BrokerSettings};
use lapin::uri::AMQPUri;
use lapin::{Connection, ConnectionProperties};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long one node of several may take. With one node alone there is nothing to hurry to.
const NODE_WITHIN: Duration = Duration::from_secs(4);

/// The broker's nodes, and which of them is asked first the next time.
#[derive(Clone, Debug)]
pub struct Nodes {
    broker: Arc<BrokerSettings>,
    next: Arc<AtomicUsize>,
}

/// Connects once, to whichever node takes the connection. The name is what an operator reads in
/// the broker's list of connections.
///
/// # Errors
/// As [`Nodes::connect`].
pub async fn connect(broker: &BrokerSettings, name: &str) -> Result<Connection, AmqpError> {
    Nodes::new(Arc::new(broker.clone())).connect(name).await
}

impl Nodes {
    /// The nodes, to be tried from the first one on.
    pub fn new(broker: Arc<BrokerSettings>) -> Self {
        Self {
            broker,
            next: Arc::default(),
        }
    }

    /// Connects and logs in at the first node that takes it, beginning behind the one that took
    /// the last connection.
    ///
    /// # Errors
    /// [`AmqpError::Connect`] with what each node did, or [`AmqpError::Login`]; neither ever holds
    /// the password.
    pub async fn connect(&self, name: &str) -> Result<Connection, AmqpError> {
        let nodes = &self.broker.nodes;
        let within = if nodes.len() > 1 {
            NODE_WITHIN
        } else {
            CALL_WITHIN
        };
        let first = self.next.load(Ordering::Relaxed);
        let mut failures = Vec::new();
        for place in (0..nodes.len()).map(|step| (first + step) % nodes.len()) {
            match tried(&self.broker, &nodes[place], name, within).await {
                Ok(connection) => {
                    self.next.store(place + 1, Ordering::Relaxed);
                    return Ok(connection);
                }
                Err(failure) => failures.push(failure),
            }
        }
        self.next.store(first + 1, Ordering::Relaxed);
        Err(summed_up(&self.broker, failures))
    }
}

async fn tried(
    broker: &BrokerSettings,
    node: &BrokerNode,
    name: &str,
    within: Duration,
) -> Result<Connection, AmqpError> {
    let failed = |reason: String| AmqpError::Connect {
        address: node.to_string(),
        user: broker.username.clone(),
        reason,
    };
    // The parser's own words could quote the password.
    let uri: AMQPUri = broker
        .connection_uri(node)
        .expose()
        .parse()
        .map_err(|_| failed("the address cannot be read; correct [broker] uri".to_owned()))?;
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    match tokio::time::timeout(within, Connection::connect_uri(uri, properties)).await {
        Ok(connected) => connected.map_err(|error| {
            AmqpError::connecting(node.to_string(), broker.username.clone(), &error)
        }),
        Err(_) => Err(failed(format!("no answer in {} s", within.as_secs()))),
    }
}

/// One error of all nodes'. They are one broker with the same users, so a log-in that one of them
/// refuses is refused.
fn summed_up(broker: &BrokerSettings, mut failures: Vec<AmqpError>) -> AmqpError {
    let refusal = |failure: &AmqpError| !failure.may_pass();
    if let Some(place) = failures.iter().position(refusal) {
        return failures.swap_remove(place);
    }
    if failures.len() == 1 {
        return failures.remove(0);
    }
    let (mut addresses, mut reasons) = (Vec::new(), Vec::new());
    for failure in failures {
        if let AmqpError::Connect {
            address, reason, ..
        } = failure
        {
            reasons.push(format!("{address}: {reason}"));
            addresses.push(address);
        }
    }
    AmqpError::Connect {
        address: addresses.join(" or "),
        user: broker.username.clone(),
        reason: reasons.join("; "),
    }
}
