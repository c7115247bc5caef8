//! The one conversion from what was written to what is trusted.

use crate::address;
use crate::cores::CoreRequest;
use crate::error::ConfigError;
use crate::keys;
use crate::limits::{self, LEASE_WAITS, Limit};
use crate::login;
use crate::raw::{Raw, RawBroker, RawDurability, RawOutbox, RawPair, RawTopology};
use crate::settings::{
    BrokerSettings, Durability, GroupBounds, OutboxSettings, PartitionSettings, Settings,
};
use conductor_engine::limits::{AMOUNT_DECIMALS_MAX, PRICE_DECIMALS_MAX};
use conductor_engine::{PairDecimals, PairId, PartitionId};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

const ADMIN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9_601);
const OUTBOX_ADMIN_DEFAULT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9_602);

impl Limit {
    /// The value, or else the default, in the type that its users count in.
    pub(crate) fn judge<Number: TryFrom<u64>>(
        &self,
        value: Option<u64>,
    ) -> Result<Number, ConfigError> {
        let value = value.unwrap_or(self.default);
        let Limit {
            key, least, most, ..
        } = *self;
        let refused = ConfigError::OutOfRange {
            key,
            value,
            least,
            most,
        };
        if value < least || value > most {
            return Err(refused);
        }
        Number::try_from(value).map_err(|_| refused)
    }
}

/// Judges the file with the environment over it.
pub(crate) fn settings(file: Raw, environment: Raw) -> Result<Settings, ConfigError> {
    let from_environment = environment.says_direct();
    let raw = file.overlay(environment);
    let partition_count = limits::PARTITION_COUNT.judge(raw.topology.partition_count)?;
    let ids = partitions(&raw.topology, partition_count)?;
    let stores = address::stores(&raw, from_environment, partition_count, &ids)?;
    let joined = ids.into_iter().zip(stores);
    let durability = durability(&raw.durability)?;
    let retention = raw.results.retention_seconds;
    let retention = retention.map(|it| limits::RESULT_RETENTION_SECONDS.judge(Some(it)));
    let watchdog = limits::WATCHDOG_MS.judge(raw.watchdog.silence_ms)?;
    let admin = raw.admin.address.as_deref();
    Ok(Settings {
        partition_count,
        prefetch: limits::PREFETCH.judge(raw.topology.prefetch)?,
        partitions: joined
            .map(|(id, store)| PartitionSettings { id, store })
            .collect(),
        broker: broker(&raw.broker)?,
        store_login: login::store(&raw.store)?,
        sentinel_login: login::sentinel(&raw.sentinel)?,
        durability,
        group: GroupBounds {
            commands_max: limits::GROUP_COMMANDS.judge(raw.group.commands_max)?,
            writes_max: limits::GROUP_WRITES.judge(raw.group.writes_max)?,
        },
        result_retention: retention.transpose()?.map(Duration::from_secs),
        event_stream_entries_max: limits::EVENT_STREAM_ENTRIES
            .judge(raw.events.stream_entries_max)?,
        watchdog: Duration::from_millis(watchdog),
        spin: Duration::from_micros(limits::SPIN_US.judge(raw.cores.spin_us)?),
        admin_address: address::admin(keys::ADMIN_ADDRESS, admin, ADMIN_DEFAULT)?,
        outbox: outbox(&raw.outbox, durability)?,
        pairs: pairs(&raw.pairs)?,
        cores: CoreRequest {
            share: raw.cores.share.unwrap_or(false),
            io: raw.cores.io,
            partitions: raw.cores.partitions,
        },
    })
}

/// The partitions to serve: those named, or else the only one that is sure to exist.
fn partitions(raw: &RawTopology, count: u32) -> Result<Vec<PartitionId>, ConfigError> {
    let named = raw.partitions.as_deref().unwrap_or(&[0]);
    if named.is_empty() {
        return Err(ConfigError::NoPartition);
    }
    let mut ids = Vec::with_capacity(named.len());
    for partition in named {
        let id = match u32::try_from(*partition) {
            Ok(number) if number < count => PartitionId(number),
            _ => {
                return Err(ConfigError::PartitionAbsent {
                    partition: *partition,
                    count,
                });
            }
        };
        if ids.contains(&id) {
            return Err(ConfigError::PartitionTwice { partition: id.0 });
        }
        ids.push(id);
    }
    Ok(ids)
}

fn broker(raw: &RawBroker) -> Result<BrokerSettings, ConfigError> {
    let uris = raw.uri.as_ref().map(|uris| uris.0.as_slice());
    let address = address::broker(uris)?;
    let (username, password) = login::broker(raw)?;
    Ok(BrokerSettings {
        nodes: address.nodes,
        virtual_host: address.virtual_host,
        username,
        password,
    })
}

/// The policy. Replicas and timeout are judged under either, since a switch must not uncover them.
fn durability(raw: &RawDurability) -> Result<Durability, ConfigError> {
    let timeout = limits::DURABILITY_TIMEOUT_MS.judge(raw.timeout_ms)?;
    match raw.policy.as_deref().unwrap_or("aof-replicated") {
        "aof-replicated" if raw.replicas == Some(0) => Err(ConfigError::NoReplica),
        "aof-replicated" => Ok(Durability::AofReplicated {
            replicas: limits::REPLICAS.judge(raw.replicas)?,
            timeout: Duration::from_millis(timeout),
        }),
        "memory" => Ok(Durability::Memory),
        word => Err(ConfigError::DurabilityWord {
            word: word.to_owned(),
        }),
    }
}

fn outbox(raw: &RawOutbox, durability: Durability) -> Result<OutboxSettings, ConfigError> {
    let lease_ms: u64 = limits::OUTBOX_LEASE_MS.judge(raw.lease_ms)?;
    let lease = Duration::from_millis(lease_ms);
    if let Durability::AofReplicated { timeout, .. } = durability {
        let least_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX) * LEASE_WAITS;
        if lease_ms < least_ms {
            return Err(ConfigError::LeaseTooShort { lease_ms, least_ms });
        }
    }
    let admin = raw.admin_address.as_deref();
    Ok(OutboxSettings {
        admin_address: address::admin(keys::OUTBOX_ADMIN_ADDRESS, admin, OUTBOX_ADMIN_DEFAULT)?,
        window: limits::OUTBOX_WINDOW.judge(raw.window)?,
        batch: limits::OUTBOX_BATCH.judge(raw.batch)?,
        lease,
    })
}

fn pairs(raw: &[RawPair]) -> Result<BTreeMap<PairId, PairDecimals>, ConfigError> {
    let mut pairs = BTreeMap::new();
    for pair in raw {
        let decimals = PairDecimals {
            price: decimals(
                pair.id,
                "price_decimals",
                pair.price_decimals,
                PRICE_DECIMALS_MAX,
            )?,
            amount: decimals(
                pair.id,
                "amount_decimals",
                pair.amount_decimals,
                AMOUNT_DECIMALS_MAX,
            )?,
            quote: decimals(
                pair.id,
                "quote_decimals",
                pair.quote_decimals,
                AMOUNT_DECIMALS_MAX,
            )?,
        };
        let id = u32::try_from(pair.id).map_err(|_| ConfigError::PairOutOfRange {
            pair: pair.id,
            field: "id",
            value: pair.id,
            most: u64::from(u32::MAX),
        })?;
        if pairs.insert(PairId(id), decimals).is_some() {
            return Err(ConfigError::PairTwice { pair: pair.id });
        }
    }
    Ok(pairs)
}

fn decimals(pair: u64, field: &'static str, value: u64, most: u8) -> Result<u8, ConfigError> {
    let refused = ConfigError::PairOutOfRange {
        pair,
        field,
        value,
        most: u64::from(most),
    };
    match u8::try_from(value) {
        Ok(value) if value <= most => Ok(value),
        _ => Err(refused),
    }
}
