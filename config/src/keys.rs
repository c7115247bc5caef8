//! Every setting by its two names: its place in the file and its name in the environment.
//!
//! A refusal names both, so that whoever reads the line can change either. The list at the end is
//! what decides whether an environment variable is known; one that is not, under a prefix that is
//! ours, stops the boot, because a mistyped setting that is ignored is worse than none.

use std::fmt;

/// One setting. As small as a reference, because most errors carry one or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key(&'static Names);

#[derive(Debug, PartialEq, Eq)]
struct Names {
    section: &'static str,
    name: &'static str,
    environment: &'static str,
}

impl Key {
    /// The section of the file, without brackets.
    pub const fn section(&self) -> &'static str {
        self.0.section
    }

    /// The name inside its section.
    pub const fn name(&self) -> &'static str {
        self.0.name
    }

    /// The name of the environment variable.
    pub const fn environment(&self) -> &'static str {
        self.0.environment
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "[{}] {} ({})",
            self.section(),
            self.name(),
            self.environment()
        )
    }
}

/// Names the settings file in the environment.
pub const CONFIG_FILE: &str = "CONDUCTOR_CONFIG";
/// Refused by name: a list of cluster nodes was once read by nobody.
pub const CLUSTER_NODES: &str = "REDIS_CLUSTER_NODES";
/// What stands for the partition's number in a host or a Sentinel group.
pub const PARTITION_PLACEHOLDER: &str = "{partition}";

macro_rules! keys {
    ($($constant:ident = $section:literal $name:literal $environment:literal;)*) => {
        $(
            #[doc = concat!("`[", $section, "] ", $name, "`, in the environment `",
                $environment, "`.")]
            pub const $constant: Key =
                Key(&Names { section: $section, name: $name, environment: $environment });
        )*
        /// Every setting, in the order of the example file.
        pub const ALL: &[Key] = &[$($constant),*];
    };
}

keys! {
    PARTITION_COUNT = "topology" "partition_count" "MATCHING_PARTITION_COUNT";
    PARTITIONS = "topology" "partitions" "MATCHING_PARTITION";
    PREFETCH = "topology" "prefetch" "MATCHING_PREFETCH";
    BROKER_URI = "broker" "uri" "RABBITMQ_URI";
    BROKER_USERNAME = "broker" "username" "RABBITMQ_USERNAME";
    BROKER_PASSWORD = "broker" "password" "RABBITMQ_PASSWORD";
    BROKER_PASSWORD_FILE = "broker" "password_file" "RABBITMQ_PASSWORD_FILE";
    STORE_HOST = "store" "host" "REDIS_HOST";
    STORE_PORT = "store" "port" "REDIS_PORT";
    STORE_USERNAME = "store" "username" "REDIS_USERNAME";
    STORE_PASSWORD = "store" "password" "REDIS_PASSWORD";
    STORE_PASSWORD_FILE = "store" "password_file" "REDIS_PASSWORD_FILE";
    SENTINEL_HOSTS = "sentinel" "hosts" "REDIS_SENTINEL_HOSTS";
    SENTINEL_NAME = "sentinel" "name" "REDIS_SENTINEL_NAME";
    SENTINEL_USERNAME = "sentinel" "username" "REDIS_SENTINEL_USERNAME";
    SENTINEL_PASSWORD = "sentinel" "password" "REDIS_SENTINEL_PASSWORD";
    SENTINEL_PASSWORD_FILE = "sentinel" "password_file" "REDIS_SENTINEL_PASSWORD_FILE";
    DURABILITY = "durability" "policy" "MATCHING_DURABILITY";
    DURABILITY_TIMEOUT = "durability" "timeout_ms" "MATCHING_DURABILITY_TIMEOUT_MS";
    REPLICAS = "durability" "replicas" "MATCHING_REPLICAS";
    SHARE_CORES = "cores" "share" "MATCHING_SHARE_CORES";
    IO_CORE = "cores" "io" "MATCHING_IO_CORE";
    PARTITION_CORES = "cores" "partitions" "MATCHING_CORES";
    SPIN = "cores" "spin_us" "MATCHING_SPIN_US";
    GROUP_COMMANDS = "group" "commands_max" "MATCHING_GROUP_COMMANDS_MAX";
    GROUP_WRITES = "group" "writes_max" "MATCHING_GROUP_WRITES_MAX";
    RESULT_RETENTION = "results" "retention_seconds" "MATCHING_RESULT_RETENTION_SECONDS";
    EVENT_STREAM_ENTRIES = "events" "stream_entries_max" "MATCHING_EVENT_STREAM_ENTRIES_MAX";
    WATCHDOG = "watchdog" "silence_ms" "MATCHING_WATCHDOG_MS";
    ADMIN_ADDRESS = "admin" "address" "MATCHING_ADMIN_ADDRESS";
    OUTBOX_ADMIN_ADDRESS = "outbox" "admin_address" "MATCHING_OUTBOX_ADMIN_ADDRESS";
    OUTBOX_WINDOW = "outbox" "window" "MATCHING_OUTBOX_WINDOW";
    OUTBOX_BATCH = "outbox" "batch" "MATCHING_OUTBOX_BATCH";
    OUTBOX_LEASE = "outbox" "lease_ms" "MATCHING_OUTBOX_LEASE_MS";
}

/// Whether an environment variable of this name must be one of ours. The broker's own scripts use
/// many `RABBITMQ_` names, so only those that we know are read there and the rest is left alone.
pub(crate) fn is_claimed(name: &str) -> bool {
    name.starts_with("MATCHING_") || name.starts_with("REDIS_")
}

/// Whether an environment variable of this name is a setting.
pub(crate) fn is_known(name: &str) -> bool {
    ALL.iter().any(|key| key.environment() == name)
}

/// The known name that is most like the given one, for the line that refuses a mistyped name.
pub(crate) fn nearest(name: &str) -> &'static str {
    let distance = |key: &&Key| edits(name.as_bytes(), key.environment().as_bytes());
    ALL.iter()
        .min_by_key(distance)
        .map_or("", |key| key.environment())
}

/// The number of single-character edits between two names.
fn edits(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, wanted) in left.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, found) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(wanted != found);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_finds_its_neighbour() {
        assert_eq!(nearest("MATCHING_PREFECTH"), "MATCHING_PREFETCH");
        assert_eq!(nearest("REDIS_SENTINEL_HOST"), "REDIS_SENTINEL_HOSTS");
    }

    #[test]
    fn no_name_is_used_twice() {
        for (index, key) in ALL.iter().enumerate() {
            for other in &ALL[index + 1..] {
                assert_ne!(key.environment(), other.environment());
                assert_ne!((key.section(), key.name()), (other.section(), other.name()));
            }
        }
    }
}
