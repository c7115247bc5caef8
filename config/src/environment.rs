//! Settings from the environment.
//!
//! The environment is handed in as pairs and never read from inside, so that a test, and a tool
//! that starts other processes, decides by itself what a process sees. Only names with a prefix
//! of ours are kept; values are never printed, because some of them are passwords.

use crate::error::ConfigError;
use crate::keys::{self, Key};
use crate::raw::{
    Raw, RawAdmin, RawBroker, RawCores, RawDurability, RawEvents, RawGroup, RawOutbox, RawResults,
    RawSentinel, RawStore, RawTopology, RawUris, RawWatchdog,
};
use crate::secret::Secret;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// The variables that concern us, by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, OsString>);

impl fmt::Debug for Environment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

impl<Name: Into<OsString>, Value: Into<OsString>> FromIterator<(Name, Value)> for Environment {
    /// Keeps what concerns us. `std::env::vars_os()` is what a binary passes.
    fn from_iter<Pairs: IntoIterator<Item = (Name, Value)>>(pairs: Pairs) -> Self {
        let ours = |name: &str| {
            keys::is_claimed(name) || keys::is_known(name) || name == keys::CONFIG_FILE
        };
        let kept = pairs.into_iter().filter_map(|(name, value)| {
            let name = name.into().into_string().ok()?;
            ours(&name).then(|| (name, value.into()))
        });
        Self(kept.collect())
    }
}

impl Environment {
    /// The settings file that the environment names, if it names one.
    pub(crate) fn config_file(&self) -> Result<Option<PathBuf>, ConfigError> {
        match self.0.get(keys::CONFIG_FILE) {
            Some(value) if value.is_empty() => Err(ConfigError::EmptyVariable {
                name: keys::CONFIG_FILE.to_owned(),
            }),
            Some(value) => Ok(Some(PathBuf::from(value))),
            None => Ok(None),
        }
    }

    /// Refuses what is ours by its prefix and known to nobody.
    pub(crate) fn refuse_unknown(&self) -> Result<(), ConfigError> {
        if self.0.contains_key(keys::CLUSTER_NODES) {
            return Err(ConfigError::ClusterNodes);
        }
        let unknown = |name: &&String| keys::is_claimed(name) && !keys::is_known(name);
        match self.0.keys().find(unknown) {
            Some(name) => Err(ConfigError::UnknownVariable {
                name: name.clone(),
                nearest: keys::nearest(name),
            }),
            None => Ok(()),
        }
    }

    /// The layer of settings that the environment holds.
    pub(crate) fn raw(&self) -> Result<Raw, ConfigError> {
        Ok(Raw {
            topology: self.topology()?,
            broker: self.broker()?,
            store: self.store()?,
            sentinel: self.sentinel()?,
            durability: self.durability()?,
            cores: self.cores()?,
            group: RawGroup {
                commands_max: self.number(keys::GROUP_COMMANDS)?,
                writes_max: self.number(keys::GROUP_WRITES)?,
            },
            results: RawResults {
                retention_seconds: self.number(keys::RESULT_RETENTION)?,
            },
            events: RawEvents {
                stream_entries_max: self.number(keys::EVENT_STREAM_ENTRIES)?,
            },
            watchdog: RawWatchdog {
                silence_ms: self.number(keys::WATCHDOG)?,
            },
            admin: RawAdmin {
                address: self.text(keys::ADMIN_ADDRESS)?,
            },
            outbox: RawOutbox {
                admin_address: self.text(keys::OUTBOX_ADMIN_ADDRESS)?,
                window: self.number(keys::OUTBOX_WINDOW)?,
                batch: self.number(keys::OUTBOX_BATCH)?,
                lease_ms: self.number(keys::OUTBOX_LEASE)?,
            },
            servers: Vec::new(),
            pairs: Vec::new(),
        })
    }

    fn topology(&self) -> Result<RawTopology, ConfigError> {
        Ok(RawTopology {
            partition_count: self.number(keys::PARTITION_COUNT)?,
            partitions: self.numbers(keys::PARTITIONS)?,
            prefetch: self.number(keys::PREFETCH)?,
        })
    }

    fn broker(&self) -> Result<RawBroker, ConfigError> {
        Ok(RawBroker {
            uri: self.text(keys::BROKER_URI)?.as_deref().map(RawUris::split),
            username: self.text(keys::BROKER_USERNAME)?,
            password: self.secret(keys::BROKER_PASSWORD)?,
            password_file: self.text(keys::BROKER_PASSWORD_FILE)?,
        })
    }

    fn store(&self) -> Result<RawStore, ConfigError> {
        Ok(RawStore {
            host: self.text(keys::STORE_HOST)?,
            port: self.number(keys::STORE_PORT)?,
            username: self.text(keys::STORE_USERNAME)?,
            password: self.secret(keys::STORE_PASSWORD)?,
            password_file: self.text(keys::STORE_PASSWORD_FILE)?,
        })
    }

    fn sentinel(&self) -> Result<RawSentinel, ConfigError> {
        let hosts = self.text(keys::SENTINEL_HOSTS)?;
        let split = |list: String| list.split(',').map(|host| host.trim().to_owned()).collect();
        Ok(RawSentinel {
            hosts: hosts.map(split),
            name: self.text(keys::SENTINEL_NAME)?,
            username: self.text(keys::SENTINEL_USERNAME)?,
            password: self.secret(keys::SENTINEL_PASSWORD)?,
            password_file: self.text(keys::SENTINEL_PASSWORD_FILE)?,
        })
    }

    fn durability(&self) -> Result<RawDurability, ConfigError> {
        Ok(RawDurability {
            policy: self.text(keys::DURABILITY)?,
            timeout_ms: self.number(keys::DURABILITY_TIMEOUT)?,
            replicas: self.number(keys::REPLICAS)?,
        })
    }

    fn cores(&self) -> Result<RawCores, ConfigError> {
        let share = match self.text(keys::SHARE_CORES)?.as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(value) => {
                return Err(ConfigError::NotYesOrNo {
                    key: keys::SHARE_CORES,
                    value: value.to_owned(),
                });
            }
        };
        Ok(RawCores {
            share,
            io: self.number(keys::IO_CORE)?,
            partitions: self.numbers(keys::PARTITION_CORES)?,
            spin_us: self.number(keys::SPIN)?,
        })
    }

    fn text(&self, key: Key) -> Result<Option<String>, ConfigError> {
        let name = key.environment().to_owned();
        match self.0.get(key.environment()) {
            None => Ok(None),
            Some(value) if value.is_empty() => Err(ConfigError::EmptyVariable { name }),
            Some(value) => match value.to_str() {
                Some(text) => Ok(Some(text.to_owned())),
                None => Err(ConfigError::VariableNotText { name }),
            },
        }
    }

    fn secret(&self, key: Key) -> Result<Option<Secret>, ConfigError> {
        Ok(self.text(key)?.map(Secret::new))
    }

    fn number(&self, key: Key) -> Result<Option<u64>, ConfigError> {
        self.text(key)?.map(|text| number(key, &text)).transpose()
    }

    fn numbers(&self, key: Key) -> Result<Option<Vec<u64>>, ConfigError> {
        let all = |list: String| {
            list.split(',')
                .map(|text| number(key, text.trim()))
                .collect()
        };
        self.text(key)?.map(all).transpose()
    }
}

/// Digits and nothing else: no sign, no unit, no underscore.
fn number(key: Key, text: &str) -> Result<u64, ConfigError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if digits { text.parse().ok() } else { None };
    parsed.ok_or_else(|| ConfigError::NotANumber {
        key,
        value: text.to_owned(),
    })
}
