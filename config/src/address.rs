//! Addresses: of the broker, of the stores, of the Sentinels and of the admin pages.
//!
//! A partition's store address comes out with everything filled in, so that a core asks for
//! nothing but its own.

use crate::error::ConfigError;
use crate::keys::{self, Key, PARTITION_PLACEHOLDER};
use crate::limits::STORE_PORT;
use crate::raw::{Raw, RawSentinel, RawServer};
use crate::secret::Secret;
use crate::settings::{BrokerNode, StoreAddress};
use conductor_engine::PartitionId;
use std::net::{Ipv6Addr, SocketAddr};

const STORE_HOST_DEFAULT: &str = "127.0.0.1";
const BROKER_PORT_DEFAULT: u16 = 5_672;

const BROKER_DEFAULT: &str = "amqp://127.0.0.1:5672/%2f";

/// The nodes of the broker and their one virtual host.
pub(crate) struct BrokerAddress {
    pub(crate) nodes: Vec<BrokerNode>,
    pub(crate) virtual_host: String,
}

/// Reads the addresses of all nodes. They are one broker, so they share their virtual host.
pub(crate) fn broker(uris: Option<&[Secret]>) -> Result<BrokerAddress, ConfigError> {
    let refused = |problem| ConfigError::BrokerUri { problem };
    let Some(uris) = uris else {
        let (node, virtual_host) = broker_node(BROKER_DEFAULT)?;
        let nodes = vec![node];
        return Ok(BrokerAddress {
            nodes,
            virtual_host,
        });
    };
    let mut nodes = Vec::with_capacity(uris.len());
    let mut shared: Option<String> = None;
    for uri in uris {
        let (node, virtual_host) = broker_node(uri.expose())?;
        if nodes.contains(&node) {
            return Err(refused("names one node twice"));
        }
        if shared.get_or_insert_with(|| virtual_host.clone()) != &virtual_host {
            return Err(refused("names more than one virtual host"));
        }
        nodes.push(node);
    }
    let virtual_host = shared.ok_or_else(|| refused("is an empty list"))?;
    Ok(BrokerAddress {
        nodes,
        virtual_host,
    })
}

/// Reads `amqp://host[:port][/virtual-host]`. A user, a password, parameters and any other scheme
/// are refused, and the text itself is never part of the refusal.
fn broker_node(uri: &str) -> Result<(BrokerNode, String), ConfigError> {
    let refused = |problem| ConfigError::BrokerUri { problem };
    if uri.starts_with("amqps:") {
        return Err(refused("asks for TLS, which is not supported yet"));
    }
    let rest = uri
        .strip_prefix("amqp://")
        .ok_or_else(|| refused("does not begin with amqp://"))?;
    if rest.contains('@') {
        return Err(ConfigError::BrokerUriCredentials);
    }
    if rest.contains(['?', '#']) {
        return Err(refused("has parameters, and none is read"));
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, "%2f"));
    let (host, port) = match host_and_port(authority) {
        Some((host, Some(port))) => (host, port),
        Some((host, None)) => (host, BROKER_PORT_DEFAULT),
        None => return Err(refused("has no usable host and port")),
    };
    let virtual_host = decoded(path).ok_or_else(|| refused("has no usable virtual host"))?;
    Ok((BrokerNode { host, port }, virtual_host))
}

/// Undoes percent-encoding. `None` where it is broken, or where an unencoded slash is left.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let (high, low) = (char::from(rest.next()?), char::from(rest.next()?));
                let value = high.to_digit(16)? * 16 + low.to_digit(16)?;
                bytes.push(u8::try_from(value).ok()?);
            }
            b'/' => return None,
            other => bytes.push(other),
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    if text.is_empty() { None } else { Some(text) }
}

/// Splits `host`, `host:port` or `[address]:port`. The brackets are taken off.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, after) = rest.split_once(']')?;
        address.parse::<Ipv6Addr>().ok()?;
        (
            address,
            if after.is_empty() {
                None
            } else {
                Some(after.strip_prefix(':')?)
            },
        )
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    if !is_host(host) {
        return None;
    }
    match port {
        None => Some((host.to_owned(), None)),
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port = port.parse().ok().filter(|port| *port > 0)?;
            Some((host.to_owned(), Some(port)))
        }
        Some(_) => None,
    }
}

/// A name or an address, without brackets.
fn is_host(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    text.parse::<Ipv6Addr>().is_ok() || (!text.is_empty() && text.bytes().all(allowed))
}

/// An address and a port of the admin pages.
pub(crate) fn admin(
    key: Key,
    text: Option<&str>,
    default: SocketAddr,
) -> Result<SocketAddr, ConfigError> {
    let Some(text) = text else { return Ok(default) };
    text.parse().map_err(|_| ConfigError::AdminAddress {
        key,
        value: text.to_owned(),
    })
}

/// Where each of the partitions' stores is.
pub(crate) fn stores(
    raw: &Raw,
    from_environment: bool,
    count: u32,
    partitions: &[PartitionId],
) -> Result<Vec<StoreAddress>, ConfigError> {
    refuse_servers(&raw.servers, count)?;
    let general = General::judge(raw, from_environment, partitions.len())?;
    let server = |id: &PartitionId| raw.servers.iter().find(|it| it.number == u64::from(id.0));
    let address = |id: &PartitionId| match server(id) {
        Some(own) => general.refuse_beside(*id).and_then(|()| own_server(own)),
        None => Ok(general.address(*id)),
    };
    partitions.iter().map(address).collect()
}

/// The address that holds for every partition without a server of its own.
struct General {
    template: StoreAddress,
    /// What a server of its own would contradict.
    contradicts: Option<Key>,
}

impl General {
    fn judge(raw: &Raw, from_environment: bool, partitions: usize) -> Result<Self, ConfigError> {
        if let Some(template) = sentinel(&raw.sentinel, partitions)? {
            return Ok(Self {
                template,
                contradicts: Some(keys::SENTINEL_HOSTS),
            });
        }
        let host = raw.store.host.as_deref().unwrap_or(STORE_HOST_DEFAULT);
        if !is_host(&host.replace(PARTITION_PLACEHOLDER, "0")) {
            let (place, value) = (keys::STORE_HOST.to_string(), host.to_owned());
            return Err(ConfigError::Host { place, value });
        }
        let port = STORE_PORT.judge(raw.store.port)?;
        let said = if raw.store.host.is_some() {
            keys::STORE_HOST
        } else {
            keys::STORE_PORT
        };
        let contradicts = from_environment.then_some(said);
        Ok(Self {
            template: StoreAddress::Direct {
                host: host.to_owned(),
                port,
            },
            contradicts,
        })
    }

    fn refuse_beside(&self, id: PartitionId) -> Result<(), ConfigError> {
        match self.contradicts {
            Some(other) => Err(ConfigError::ServerContradicted {
                partition: id.0,
                other,
            }),
            None => Ok(()),
        }
    }

    fn address(&self, id: PartitionId) -> StoreAddress {
        let expanded = |text: &String| text.replace(PARTITION_PLACEHOLDER, &id.to_string());
        match &self.template {
            StoreAddress::Direct { host, port } => StoreAddress::Direct {
                host: expanded(host),
                port: *port,
            },
            StoreAddress::Sentinel { hosts, name } => StoreAddress::Sentinel {
                hosts: hosts.clone(),
                name: expanded(name),
            },
        }
    }
}

fn sentinel(raw: &RawSentinel, partitions: usize) -> Result<Option<StoreAddress>, ConfigError> {
    let (hosts, name) = match (&raw.hosts, &raw.name) {
        (None, None) => return Ok(None),
        (Some(hosts), Some(name)) => (hosts, name),
        (Some(_), None) => {
            let (present, missing) = (keys::SENTINEL_HOSTS, keys::SENTINEL_NAME);
            return Err(ConfigError::HalfSentinel { present, missing });
        }
        (None, Some(_)) => {
            let (present, missing) = (keys::SENTINEL_NAME, keys::SENTINEL_HOSTS);
            return Err(ConfigError::HalfSentinel { present, missing });
        }
    };
    if name.is_empty() {
        return Err(ConfigError::EmptyText {
            key: keys::SENTINEL_NAME,
        });
    }
    if hosts.is_empty() {
        return Err(ConfigError::SentinelHost {
            value: String::new(),
        });
    }
    if partitions > 1 && !name.contains(PARTITION_PLACEHOLDER) {
        return Err(ConfigError::SentinelNameShared { name: name.clone() });
    }
    let pair = |text: &String| match host_and_port(text) {
        Some((host, Some(port))) => Ok((host, port)),
        _ => Err(ConfigError::SentinelHost {
            value: text.clone(),
        }),
    };
    let hosts = hosts.iter().map(pair).collect::<Result<_, _>>()?;
    Ok(Some(StoreAddress::Sentinel {
        hosts,
        name: name.clone(),
    }))
}

/// Refuses servers of partitions that do not exist, and two for one.
fn refuse_servers(servers: &[RawServer], count: u32) -> Result<(), ConfigError> {
    for (index, server) in servers.iter().enumerate() {
        let partition = server.number;
        if partition >= u64::from(count) {
            return Err(ConfigError::ServerAbsent { partition, count });
        }
        if servers[..index]
            .iter()
            .any(|other| other.number == partition)
        {
            return Err(ConfigError::ServerTwice { partition });
        }
        own_server(server)?;
    }
    Ok(())
}

fn own_server(server: &RawServer) -> Result<StoreAddress, ConfigError> {
    let (partition, port) = (server.number, server.port.unwrap_or(STORE_PORT.default));
    if !is_host(&server.host) {
        let place = format!("[[partition]] number {partition} host");
        return Err(ConfigError::Host {
            place,
            value: server.host.clone(),
        });
    }
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok(StoreAddress::Direct {
            host: server.host.clone(),
            port,
        }),
        _ => Err(ConfigError::ServerPort { partition, port }),
    }
}
