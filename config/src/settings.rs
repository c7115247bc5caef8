//! Settings that have been judged: what the processes read and trust.
//!
//! The only way to a [`Settings`] is [`Settings::load`], so that whoever holds one need not ask
//! again whether a number is in range or a password was given. Nothing here changes after boot.

use crate::cores::CoreRequest;
use crate::limits::HEARTBEAT_SECONDS;
use crate::secret::Secret;
use conductor_engine::partition::Topology;
use conductor_engine::{PairDecimals, PairId, PartitionId};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::SocketAddr;
use std::time::Duration;

/// The settings of a process, conductor and outbox alike.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The number of partitions of the whole system. It is topology and never changes in place.
    pub partition_count: u32,
    /// Deliveries ahead of their acknowledgement; the same for every instance of a cell.
    pub prefetch: u16,
    /// The partitions that this process serves, in the order in which they were named.
    pub partitions: Vec<PartitionSettings>,
    /// Where the broker is, and as whom.
    pub broker: BrokerSettings,
    /// As whom to log in to the stores; `None` where they ask for nothing.
    pub store_login: Option<Login>,
    /// As whom to log in to the Sentinels; `None` where they ask for nothing.
    pub sentinel_login: Option<Login>,
    /// What must hold before a command is acknowledged.
    pub durability: Durability,
    /// When a group takes no further command.
    pub group: GroupBounds,
    /// How long a command's result is kept; `None` is for ever.
    pub result_retention: Option<Duration>,
    /// Events in the stream above which the conductor stops consuming.
    pub event_stream_entries_max: u64,
    /// How long a queue with messages may stay silent before the connection is made anew.
    pub watchdog: Duration,
    /// How long a partition's core looks for work before it sleeps.
    pub spin: Duration,
    /// Where the conductor serves its admin pages.
    pub admin_address: SocketAddr,
    /// What concerns the outbox alone.
    pub outbox: OutboxSettings,
    /// Pairs whose decimals are fixed here; others take those of their first order.
    pub pairs: BTreeMap<PairId, PairDecimals>,
    /// Which cores were asked for; the conductor makes a core map of it.
    pub(crate) cores: CoreRequest,
}

impl Settings {
    /// What is recorded in a partition's store, and must agree with it.
    pub fn topology(&self, partition: PartitionId) -> Topology {
        Topology {
            partition: partition.0,
            partition_count: self.partition_count,
            prefetch: self.prefetch,
        }
    }
}

/// One partition that this process serves.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionSettings {
    /// Its number.
    pub id: PartitionId,
    /// Where its store is.
    pub store: StoreAddress,
}

/// Where a partition's store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// At a fixed address.
    Direct {
        /// A host name, or an address without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
    /// Where the Sentinels say the primary is.
    Sentinel {
        /// The Sentinels, as host and port.
        hosts: Vec<(String, u16)>,
        /// The group's name, with the partition's number already in it.
        name: String,
    },
}

/// A user and a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The user; `None` is the server's default user.
    pub username: Option<String>,
    /// The password.
    pub password: Secret,
}

/// Where the broker is, and as whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerSettings {
    /// Its nodes in the order in which they were named, at least one. Any of them will do.
    pub nodes: Vec<BrokerNode>,
    /// The virtual host, decoded; the same on every node.
    pub virtual_host: String,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

/// Where one node of the broker listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerNode {
    /// A host name, or an address without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for BrokerNode {
    /// As `host:port`; an IPv6 address needs brackets before a port can follow it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BrokerNode { host, port } = self;
        if host.contains(':') {
            write!(out, "[{host}]:{port}")
        } else {
            write!(out, "{host}:{port}")
        }
    }
}

impl BrokerSettings {
    /// The whole address of a node with user, password and heartbeat, as a client library takes it.
    pub fn connection_uri(&self, node: &BrokerNode) -> Secret {
        let (username, password) = (encoded(&self.username), encoded(self.password.expose()));
        let virtual_host = encoded(&self.virtual_host);
        Secret::new(format!(
            "amqp://{username}:{password}@{node}/{virtual_host}?heartbeat={HEARTBEAT_SECONDS}"
        ))
    }
}

/// Percent-encodes all that is not unreserved in an address.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    }
    out
}

/// What must hold before a command is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// On the disk of the primary and of this many replicas.
    AofReplicated {
        /// Replicas that must confirm; at least one.
        replicas: u32,
        /// How long one wait for them lasts before it is said and repeated.
        timeout: Duration,
    },
    /// In the memory of a store that can be rebuilt from somewhere else.
    Memory,
}

/// When a group takes no further command. One command may go over it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupBounds {
    /// Commands in a group.
    pub commands_max: usize,
    /// Writes in a group's transaction: records, index members, events and results.
    pub writes_max: usize,
}

/// What concerns the outbox alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxSettings {
    /// Where it serves its admin pages.
    pub admin_address: SocketAddr,
    /// Confirms that may be open at once.
    pub window: usize,
    /// Events that one read asks for.
    pub batch: usize,
    /// How long it owns a partition without renewing.
    pub lease: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_login_is_encoded_and_hidden() {
        let broker = BrokerSettings {
            nodes: vec![BrokerNode {
                host: "::1".to_owned(),
                port: 5_672,
            }],
            virtual_host: "/".to_owned(),
            username: "cell".to_owned(),
            password: Secret::new("p@ss/ü"),
        };
        assert_eq!(
            broker.connection_uri(&broker.nodes[0]).expose(),
            "amqp://cell:p%40ss%2F%C3%BC@[::1]:5672/%2F?heartbeat=10"
        );
        let shown = format!("{broker:?} {:?}", broker.connection_uri(&broker.nodes[0]));
        assert!(!shown.contains("p@") && !shown.contains("p%40"));
    }
}
