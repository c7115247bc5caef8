//! Settings as they were written: one layer from the file, one from the environment.
//!
//! Both have the same shape, every value may be missing, and nothing has been judged yet except
//! that the keys are known and the values are of the right kind. [`Raw::overlay`] puts the
//! stronger layer over the weaker one. What contradicts itself is looked for in each layer before
//! that, because a stronger layer may replace what a weaker one says, but nobody may say two
//! things at once.

use crate::error::ConfigError;
use crate::keys::{self, Key};
use crate::secret::Secret;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// One layer of settings.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Raw {
    pub(crate) topology: RawTopology,
    pub(crate) broker: RawBroker,
    pub(crate) store: RawStore,
    pub(crate) sentinel: RawSentinel,
    pub(crate) durability: RawDurability,
    pub(crate) cores: RawCores,
    pub(crate) group: RawGroup,
    pub(crate) results: RawResults,
    pub(crate) events: RawEvents,
    pub(crate) watchdog: RawWatchdog,
    pub(crate) admin: RawAdmin,
    pub(crate) outbox: RawOutbox,
    #[serde(rename = "partition")]
    pub(crate) servers: Vec<RawServer>,
    #[serde(rename = "pair")]
    pub(crate) pairs: Vec<RawPair>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTopology {
    pub(crate) partition_count: Option<u64>,
    pub(crate) partitions: Option<Vec<u64>>,
    pub(crate) prefetch: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawBroker {
    pub(crate) uri: Option<RawUris>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) password_file: Option<String>,
}

/// The addresses of the broker's nodes: a list, or one text with commas. Hidden like a password,
/// because somebody may have written one into them.
#[derive(Debug)]
pub(crate) struct RawUris(pub(crate) Vec<Secret>);

impl RawUris {
    /// Splits one text at its commas; an address that holds one itself has it percent-encoded.
    pub(crate) fn split(text: &str) -> Self {
        Self(text.split(',').map(|uri| Secret::new(uri.trim())).collect())
    }
}

impl<'de> Deserialize<'de> for RawUris {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong =
            || D::Error::custom("write this value as one text in quotes, or a list of them");
        let text = |value| match value {
            toml::Value::String(text) => Ok(Secret::new(text)),
            _ => Err(wrong()),
        };
        // Through a generic value, because the refusal of a wrong type would quote the value.
        match toml::Value::deserialize(deserializer) {
            Ok(toml::Value::String(text)) => Ok(Self::split(&text)),
            Ok(toml::Value::Array(list)) => list
                .into_iter()
                .map(text)
                .collect::<Result<_, _>>()
                .map(Self),
            Ok(_) | Err(_) => Err(wrong()),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawStore {
    pub(crate) host: Option<String>,
    pub(crate) port: Option<u64>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) password_file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawSentinel {
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) name: Option<String>,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) password_file: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawDurability {
    pub(crate) policy: Option<String>,
    pub(crate) timeout_ms: Option<u64>,
    pub(crate) replicas: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCores {
    pub(crate) share: Option<bool>,
    pub(crate) io: Option<u64>,
    pub(crate) partitions: Option<Vec<u64>>,
    pub(crate) spin_us: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawGroup {
    pub(crate) commands_max: Option<u64>,
    pub(crate) writes_max: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawResults {
    pub(crate) retention_seconds: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawEvents {
    pub(crate) stream_entries_max: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawWatchdog {
    pub(crate) silence_ms: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawAdmin {
    pub(crate) address: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawOutbox {
    pub(crate) admin_address: Option<String>,
    pub(crate) window: Option<u64>,
    pub(crate) batch: Option<u64>,
    pub(crate) lease_ms: Option<u64>,
}

/// The server of one partition, where it is not the one of all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawServer {
    pub(crate) number: u64,
    pub(crate) host: String,
    pub(crate) port: Option<u64>,
}

/// The decimals of one pair.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawPair {
    pub(crate) id: u64,
    pub(crate) price_decimals: u64,
    pub(crate) amount_decimals: u64,
    pub(crate) quote_decimals: u64,
}

impl Raw {
    /// Refuses a layer that says two things at once.
    ///
    /// # Errors
    /// A password both inline and as a file, or an address both direct and by Sentinel.
    pub(crate) fn refuse_contradictions(&self) -> Result<(), ConfigError> {
        let (broker, store, sentinel) = (&self.broker, &self.store, &self.sentinel);
        one_password(
            (&broker.password, keys::BROKER_PASSWORD),
            (&broker.password_file, keys::BROKER_PASSWORD_FILE),
        )?;
        one_password(
            (&store.password, keys::STORE_PASSWORD),
            (&store.password_file, keys::STORE_PASSWORD_FILE),
        )?;
        one_password(
            (&sentinel.password, keys::SENTINEL_PASSWORD),
            (&sentinel.password_file, keys::SENTINEL_PASSWORD_FILE),
        )?;
        if self.says_direct() && self.says_sentinel() {
            return Err(ConfigError::DirectAndSentinel);
        }
        Ok(())
    }

    /// Whether this layer says where the store itself listens.
    pub(crate) fn says_direct(&self) -> bool {
        self.store.host.is_some() || self.store.port.is_some()
    }

    /// Whether this layer says where to ask for the store.
    pub(crate) fn says_sentinel(&self) -> bool {
        self.sentinel.hosts.is_some() || self.sentinel.name.is_some()
    }

    /// This layer, with everything replaced that the stronger one says.
    ///
    /// Two things go together: a password replaces a password file and the other way round, and an
    /// address of the one kind replaces one of the other.
    pub(crate) fn overlay(mut self, stronger: Raw) -> Raw {
        if stronger.says_sentinel() {
            self.store.host = None;
            self.store.port = None;
        }
        if stronger.says_direct() {
            self.sentinel.hosts = None;
            self.sentinel.name = None;
        }
        Raw {
            topology: self.topology.overlay(stronger.topology),
            broker: self.broker.overlay(stronger.broker),
            store: self.store.overlay(stronger.store),
            sentinel: self.sentinel.overlay(stronger.sentinel),
            durability: self.durability.overlay(stronger.durability),
            cores: self.cores.overlay(stronger.cores),
            group: self.group.overlay(stronger.group),
            results: self.results.overlay(stronger.results),
            events: self.events.overlay(stronger.events),
            watchdog: self.watchdog.overlay(stronger.watchdog),
            admin: self.admin.overlay(stronger.admin),
            outbox: self.outbox.overlay(stronger.outbox),
            servers: self.servers,
            pairs: self.pairs,
        }
    }
}

fn one_password(
    (password, inline): (&Option<Secret>, Key),
    (path, file): (&Option<String>, Key),
) -> Result<(), ConfigError> {
    if password.is_some() && path.is_some() {
        return Err(ConfigError::PasswordTwice { inline, file });
    }
    Ok(())
}

/// Gives a section the field-by-field rule "the stronger one, or else ours".
macro_rules! overlay {
    ($section:ident: $($field:ident),*) => {
        impl $section {
            fn overlay(self, stronger: Self) -> Self {
                Self { $($field: stronger.$field.or(self.$field)),* }
            }
        }
    };
    ($section:ident with a password: $($field:ident),*) => {
        impl $section {
            fn overlay(mut self, stronger: Self) -> Self {
                if stronger.password.is_some() || stronger.password_file.is_some() {
                    self.password = None;
                    self.password_file = None;
                }
                Self {
                    $($field: stronger.$field.or(self.$field),)*
                    password: stronger.password.or(self.password),
                    password_file: stronger.password_file.or(self.password_file),
                }
            }
        }
    };
}

overlay!(RawTopology: partition_count, partitions, prefetch);
overlay!(RawBroker with a password: uri, username);
overlay!(RawStore with a password: host, port, username);
overlay!(RawSentinel with a password: hosts, name, username);
overlay!(RawDurability: policy, timeout_ms, replicas);
overlay!(RawCores: share, io, partitions, spin_us);
overlay!(RawGroup: commands_max, writes_max);
overlay!(RawResults: retention_seconds);
overlay!(RawEvents: stream_entries_max);
overlay!(RawWatchdog: silence_ms);
overlay!(RawAdmin: address);
overlay!(RawOutbox: admin_address, window, batch, lease_ms);
