//! The bounds of every number that may be set, each with its reason and its default.
//!
//! Where the engine has a limit of its own the bound is that limit; the rest concern only how a
//! process is run. The assertions at the end relate them.

use crate::keys::{self, Key};
use conductor_engine::limits as engine;

/// A numeric setting: its names, its bounds and what it is when nobody sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its two names.
    pub key: Key,
    /// The smallest value that is taken.
    pub least: u64,
    /// The largest value that is taken.
    pub most: u64,
    /// The value when it is not set.
    pub default: u64,
}

/// Far beyond the busiest exchange; catches a count that is really a pair id.
pub const PARTITION_COUNT: Limit = Limit {
    key: keys::PARTITION_COUNT,
    least: 1,
    most: 1_024,
    default: 1,
};
/// Zero would mean "no bound" to the broker, and mailboxes are sized by it.
pub const PREFETCH: Limit = Limit {
    key: keys::PREFETCH,
    least: 1,
    most: engine::PREFETCH_MAX as u64,
    default: engine::PREFETCH_DEFAULT as u64,
};
/// Port zero cannot be connected to.
pub const STORE_PORT: Limit = Limit {
    key: keys::STORE_PORT,
    least: 1,
    most: 65_535,
    default: 6_379,
};
/// Zero would wait for ever inside the store; more than a minute would hide a replica that is gone.
pub const DURABILITY_TIMEOUT_MS: Limit = Limit {
    key: keys::DURABILITY_TIMEOUT,
    least: 10,
    most: 60_000,
    default: 2_000,
};
/// Without a replica the policy would promise two disks and keep one.
pub const REPLICAS: Limit = Limit {
    key: keys::REPLICAS,
    least: 1,
    most: 5,
    default: 1,
};
/// One is one command a transaction, as if there were no groups.
pub const GROUP_COMMANDS: Limit = Limit {
    key: keys::GROUP_COMMANDS,
    least: 1,
    most: engine::GROUP_COMMANDS_MAX as u64,
    default: engine::GROUP_COMMANDS_DEFAULT as u64,
};
/// One command may go over it; a longer transaction would stall the store for all others.
pub const GROUP_WRITES: Limit = Limit {
    key: keys::GROUP_WRITES,
    least: 1,
    most: 65_536,
    default: engine::GROUP_WRITES_DEFAULT as u64,
};
/// Below a minute a redelivered command could outlive its own record. The most is ten years, which
/// also stands in as the default here; when nobody sets it a result is kept for ever.
pub const RESULT_RETENTION_SECONDS: Limit = Limit {
    key: keys::RESULT_RETENTION,
    least: 60,
    most: 315_360_000,
    default: 315_360_000,
};
/// An event costs about half a kibibyte in the store's memory.
pub const EVENT_STREAM_ENTRIES: Limit = Limit {
    key: keys::EVENT_STREAM_ENTRIES,
    least: 1,
    most: 1_000_000_000,
    default: engine::EVENT_STREAM_ENTRIES_DEFAULT,
};
/// Shorter than a second would reconnect an idle market again and again.
pub const WATCHDOG_MS: Limit = Limit {
    key: keys::WATCHDOG,
    least: 1_000,
    most: 3_600_000,
    default: 30_000,
};
/// Longer than a commit takes would never park.
pub const SPIN_US: Limit = Limit {
    key: keys::SPIN,
    least: 0,
    most: 10_000,
    default: 0,
};
/// Confirms that may be open at once.
pub const OUTBOX_WINDOW: Limit = Limit {
    key: keys::OUTBOX_WINDOW,
    least: 1,
    most: 65_536,
    default: engine::OUTBOX_WINDOW_DEFAULT as u64,
};
/// Entries that one read of the stream asks for.
pub const OUTBOX_BATCH: Limit = Limit {
    key: keys::OUTBOX_BATCH,
    least: 1,
    most: 65_536,
    default: engine::OUTBOX_BATCH_DEFAULT as u64,
};
/// Longer than five minutes would leave a partition unpublished that long after a crash.
pub const OUTBOX_LEASE_MS: Limit = Limit {
    key: keys::OUTBOX_LEASE,
    least: 100,
    most: 300_000,
    default: engine::OUTBOX_LEASE_MS_DEFAULT,
};

/// A lease is renewed once a packet, and a packet may hold two waits for durability.
pub const LEASE_WAITS: u64 = 2;
/// The longest password file, in bytes; what is longer is not a password.
pub const PASSWORD_FILE_BYTES_MAX: usize = 4_096;
/// The longest settings file, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// Seconds between two heartbeats of a connection to the broker.
pub const HEARTBEAT_SECONDS: u16 = 10;

const fn holds(limit: Limit) -> bool {
    limit.least <= limit.default && limit.default <= limit.most
}
const _: () = assert!(holds(PARTITION_COUNT) && holds(PREFETCH) && holds(STORE_PORT));
const _: () = assert!(holds(DURABILITY_TIMEOUT_MS) && holds(REPLICAS) && holds(WATCHDOG_MS));
const _: () = assert!(holds(GROUP_COMMANDS) && holds(GROUP_WRITES) && holds(EVENT_STREAM_ENTRIES));
const _: () = assert!(holds(SPIN_US));
const _: () = assert!(holds(OUTBOX_WINDOW) && holds(OUTBOX_BATCH) && holds(OUTBOX_LEASE_MS));
const _: () = assert!(LEASE_WAITS * DURABILITY_TIMEOUT_MS.default <= OUTBOX_LEASE_MS.default);
