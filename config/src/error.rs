//! Everything that stops a boot, each as one line that says what to change.
//!
//! No value of a password, and nothing that may hold one, is ever part of a line. A binary prints
//! the line and exits with 78.

use crate::keys::{self, Key};
use std::path::PathBuf;

/// Why the settings are refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The settings file cannot be read.
    #[error(
        "cannot read the settings file {}: {reason}; correct the path or its permissions",
        path.display()
    )]
    FileUnreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// The settings file is no TOML, or has an unknown key or a value of another kind.
    #[error("{} line {line}: {problem}", path.display())]
    FileMalformed {
        /// The file.
        path: PathBuf,
        /// Counted from one.
        line: usize,
        /// What is wrong, without the value of any password.
        problem: String,
    },
    /// A variable with a prefix of ours that is no setting.
    #[error("{name} is not a setting; did you mean {nearest}? Correct the name or unset it")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The setting with the most similar name.
        nearest: &'static str,
    },
    /// A variable that is set to nothing.
    #[error("{name} is set but empty; give it a value or unset it")]
    EmptyVariable {
        /// The variable.
        name: String,
    },
    /// A variable that is not UTF-8.
    #[error("{name} is not valid UTF-8; give it a plain text")]
    VariableNotText {
        /// The variable.
        name: String,
    },
    /// A list of cluster nodes.
    #[error(
        "{} is set, and a cell does not run on Valkey Cluster; unset it and give each partition a \
         primary with replicas, by {} or by {}",
        keys::CLUSTER_NODES, keys::SENTINEL_HOSTS.environment(), keys::STORE_HOST.environment()
    )]
    ClusterNodes,
    /// A number with anything but digits in it.
    #[error("{key} is \"{value}\"; write a whole number in digits")]
    NotANumber {
        /// The setting.
        key: Key,
        /// What was written.
        value: String,
    },
    /// Something other than `true` or `false`.
    #[error("{key} is \"{value}\"; write true or false")]
    NotYesOrNo {
        /// The setting.
        key: Key,
        /// What was written.
        value: String,
    },
    /// A number outside its bounds.
    #[error("{key} is {value}; choose a number from {least} to {most}")]
    OutOfRange {
        /// The setting.
        key: Key,
        /// What was written.
        value: u64,
        /// The smallest that is taken.
        least: u64,
        /// The largest that is taken.
        most: u64,
    },
    /// A partition that the topology does not have.
    #[error(
        "partition {partition} does not exist: with a partition count of {count} they are 0 to \
         {}; correct {} or {}", count - 1, keys::PARTITIONS, keys::PARTITION_COUNT
    )]
    PartitionAbsent {
        /// The partition.
        partition: u64,
        /// The partition count.
        count: u32,
    },
    /// No partition at all.
    #[error("{} is an empty list; name at least one partition", keys::PARTITIONS)]
    NoPartition,
    /// One partition twice in the list.
    #[error(
        "{} names partition {partition} twice; name each once",
        keys::PARTITIONS
    )]
    PartitionTwice {
        /// The partition.
        partition: u32,
    },
    /// A broker address that is not understood. It is not shown, since it may hold a password.
    #[error("{} {problem}; write it like amqp://host:5672/%2f", keys::BROKER_URI)]
    BrokerUri {
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A user or a password inside the broker's address.
    #[error(
        "{} holds a user or a password, and addresses end up in logs; take it out and set {} and \
         {} or {}",
        keys::BROKER_URI,
        keys::BROKER_USERNAME,
        keys::BROKER_PASSWORD,
        keys::BROKER_PASSWORD_FILE
    )]
    BrokerUriCredentials,
    /// A password inline and as a file.
    #[error("{inline} and {file} are both set; keep one of them")]
    PasswordTwice {
        /// The password itself.
        inline: Key,
        /// The file that holds it.
        file: Key,
    },
    /// A user without a password.
    #[error("{username} is set without a password; set {password} or {file}")]
    PasswordMissing {
        /// The user.
        username: Key,
        /// The password itself.
        password: Key,
        /// The file that holds it.
        file: Key,
    },
    /// A user name that is empty.
    #[error("{key} is empty; give it a value or leave it out")]
    EmptyText {
        /// The setting.
        key: Key,
    },
    /// A password file that cannot be read.
    #[error(
        "{key} names {}, which cannot be read: {reason}; correct the path or its permissions",
        path.display()
    )]
    PasswordFileUnreadable {
        /// The setting.
        key: Key,
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A password file that holds no password, or more than one line.
    #[error(
        "{key} names {}, which {problem}; write the password into it as its only line",
        path.display()
    )]
    PasswordFileContent {
        /// The setting.
        key: Key,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An address of the store both direct and by Sentinel.
    #[error(
        "{} or its port is set together with a Sentinel setting; keep {} or {} and {}",
        keys::STORE_HOST,
        keys::STORE_HOST,
        keys::SENTINEL_HOSTS,
        keys::SENTINEL_NAME
    )]
    DirectAndSentinel,
    /// One half of the Sentinel setting.
    #[error("{present} is set without {missing}; set both or neither")]
    HalfSentinel {
        /// The half that is there.
        present: Key,
        /// The half that is not.
        missing: Key,
    },
    /// One Sentinel group for several partitions.
    #[error(
        "{} is \"{name}\" for several partitions; put {{partition}} into it, for example \
         matching-p{{partition}}",
        keys::SENTINEL_NAME
    )]
    SentinelNameShared {
        /// The name.
        name: String,
    },
    /// A host that is none.
    #[error("{place} is \"{value}\"; write a host name or an address")]
    Host {
        /// Where it was written.
        place: String,
        /// What was written.
        value: String,
    },
    /// A Sentinel that is not written as host and port.
    #[error(
        "{} holds \"{value}\"; write each Sentinel as host:port, an IPv6 address in brackets",
        keys::SENTINEL_HOSTS
    )]
    SentinelHost {
        /// What was written.
        value: String,
    },
    /// A server for one partition, and a setting that says otherwise.
    #[error(
        "partition {partition} has a [[partition]] server of its own and {other} is set too; \
         remove one of them"
    )]
    ServerContradicted {
        /// The partition.
        partition: u32,
        /// The setting that says otherwise.
        other: Key,
    },
    /// Two servers for one partition.
    #[error("[[partition]] number {partition} is there twice; keep one of them")]
    ServerTwice {
        /// The partition.
        partition: u64,
    },
    /// A server for a partition that the topology does not have.
    #[error(
        "[[partition]] number {partition} does not exist: with a partition count of {count} they \
         are 0 to {}; remove it or correct {}", count - 1, keys::PARTITION_COUNT
    )]
    ServerAbsent {
        /// The partition.
        partition: u64,
        /// The partition count.
        count: u32,
    },
    /// A port outside 1 to 65535 in a `[[partition]]`.
    #[error("[[partition]] number {partition} has port {port}; choose a number from 1 to 65535")]
    ServerPort {
        /// The partition.
        partition: u64,
        /// What was written.
        port: u64,
    },
    /// A durability policy that nobody knows.
    #[error("{} is \"{word}\"; write aof-replicated or memory", keys::DURABILITY)]
    DurabilityWord {
        /// What was written.
        word: String,
    },
    /// No replica under the replicated policy.
    #[error(
        "{} is 0 under aof-replicated; set it to 1 or more, or choose memory in {}",
        keys::REPLICAS,
        keys::DURABILITY
    )]
    NoReplica,
    /// A lease that would lapse during an ordinary wait.
    #[error(
        "{} is {lease_ms}, shorter than two waits for durability; set it to {least_ms} or more, \
         or lower {}",
        keys::OUTBOX_LEASE,
        keys::DURABILITY_TIMEOUT
    )]
    LeaseTooShort {
        /// The lease.
        lease_ms: u64,
        /// The shortest that would do.
        least_ms: u64,
    },
    /// An address of the admin pages that is none.
    #[error("{key} is \"{value}\"; write an address and a port, like 127.0.0.1:9601 or [::1]:9601")]
    AdminAddress {
        /// The setting.
        key: Key,
        /// What was written.
        value: String,
    },
    /// Decimals of one pair twice.
    #[error("[[pair]] id {pair} is there twice; keep one of them")]
    PairTwice {
        /// The pair.
        pair: u64,
    },
    /// A pair's number or decimals outside their bounds.
    #[error("[[pair]] id {pair}: {field} is {value}; choose a number from 0 to {most}")]
    PairOutOfRange {
        /// The pair.
        pair: u64,
        /// Which of its fields.
        field: &'static str,
        /// What was written.
        value: u64,
        /// The largest that is taken.
        most: u64,
    },
    /// Fewer cores than the partitions and the I/O need.
    #[error(
        "the I/O and the partitions need {} cores, one each, and this process may use \
         {available}; serve fewer partitions, allow it more cores, or set {} to true",
        partitions + 1, keys::SHARE_CORES
    )]
    TooFewCores {
        /// Partitions that are served.
        partitions: usize,
        /// Cores that may be used.
        available: usize,
    },
    /// A core that this process may not use.
    #[error("{key} names core {core}, which this process may not use; choose from {available}")]
    CoreAbsent {
        /// The setting.
        key: Key,
        /// The core.
        core: u64,
        /// The cores that may be used.
        available: String,
    },
    /// One core for two.
    #[error(
        "core {core} is given to more than one of the I/O and the partitions; give each its own \
         in {} and {}, or set {} to true",
        keys::IO_CORE,
        keys::PARTITION_CORES,
        keys::SHARE_CORES
    )]
    CoreTwice {
        /// The core.
        core: usize,
    },
    /// A list of cores of another length than the list of partitions.
    #[error(
        "{} is a list of length {cores} and the list of partitions has length {partitions}; \
         name one core for each partition",
        keys::PARTITION_CORES
    )]
    CoreListLength {
        /// Cores named.
        cores: usize,
        /// Partitions that are served.
        partitions: usize,
    },
}
