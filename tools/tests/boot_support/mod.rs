//! A conductor in front of one store and no broker, and how it ends when it refuses to start.
//!
//! The store is judged before the broker is asked for anything, so a refusal needs none; and what
//! goes on to wait for one has passed every check of the store.
#![allow(dead_code, reason = "each test file uses a part")]

use conductor_engine::PartitionId;
use conductor_io::keys::Keys;
use conductor_tools::testbed::{
    Folder, Instance, Launch, Port, Process, Valkey, ValkeyOptions, ValkeyUsers, binary,
    fresh_password,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// The exit code that asks for a change of configuration.
const EXIT_CONFIGURATION: i32 = 78;
/// A refusal takes a moment; on a machine that is busy, many of them.
const REFUSED_WITHIN: Duration = Duration::from_secs(60);

/// How a process that refused to start has ended.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The line that says what to change.
    pub(crate) line: String,
    /// Everything that it wrote.
    pub(crate) log: String,
}

impl Refused {
    /// The line holds each of these.
    #[track_caller]
    pub(crate) fn names(&self, parts: &[&str]) {
        for part in parts {
            assert!(self.line.contains(part), "no {part:?} in: {}", self.line);
        }
    }
}

/// Waits until a process has refused to start: exit code 78, and beside its log exactly one line.
#[track_caller]
pub(crate) fn refused(process: &Process) -> Refused {
    let status = process
        .wait_exit(REFUSED_WITHIN)
        .expect("it ends by itself");
    let log = process.log();
    assert_eq!(status.code(), Some(EXIT_CONFIGURATION), "{log}");
    let said: Vec<&str> = log.lines().filter(|line| !is_logged(line)).collect();
    let [line] = said.as_slice() else {
        panic!("one line says what to change, not:\n{log}")
    };
    assert!(line.starts_with("conductor: "), "{line}");
    Refused {
        line: (*line).to_owned(),
        log,
    }
}

/// A line of the log begins with its time.
fn is_logged(line: &str) -> bool {
    let plain = line.trim_start_matches("\u{1b}[2m");
    let time = plain.get(..20).unwrap_or_default().as_bytes();
    time.len() == 20 && time[4] == b'-' && time[10] == b'T' && time[13] == b':'
}

/// The only partition's keys.
pub(crate) fn keys() -> Keys {
    Keys::new(PartitionId(0))
}

/// Stores for a conductor without a broker.
pub(crate) struct StoreOnly {
    users: ValkeyUsers,
    started: Cell<u32>,
    /// Nobody listens here.
    broker: Port,
    folder: Folder,
}

impl StoreOnly {
    pub(crate) fn new() -> Self {
        Self {
            users: ValkeyUsers::fresh().expect("fresh passwords"),
            started: Cell::new(0),
            broker: Port::take().expect("a port"),
            folder: Folder::new().expect("a folder"),
        }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn store(&self, options: &ValkeyOptions) -> Valkey {
        Valkey::primary_with(&self.folder, options, &self.users).expect("the store starts")
    }

    pub(crate) fn replica(&self, primary: &Valkey, name: &str) -> Valkey {
        let options = ValkeyOptions::named(name);
        Valkey::replica_of(&self.folder, primary, &options).expect("the replica starts")
    }

    /// Records that the store is for partition 0 of so many.
    pub(crate) fn write_topology(&self, store: &Valkey, count: &str, prefetch: &str) {
        let key = keys().topology().to_owned();
        let words = [
            "HSET",
            &key,
            "partition",
            "0",
            "partitionCount",
            count,
            "prefetch",
            prefetch,
        ];
        store.command::<u32>(&words).expect("the store writes");
    }

    /// Everything that the store holds, as the store itself serializes it.
    pub(crate) fn records(&self, store: &Valkey) -> BTreeMap<String, Vec<u8>> {
        let keys: Vec<String> = store.command(&["KEYS", "*"]).expect("the store answers");
        let dump = |key: String| {
            let value = store.command(&["DUMP", &key]).expect("the store answers");
            (key, value)
        };
        keys.into_iter().map(dump).collect()
    }

    /// Starts a conductor on a store, with more variables.
    pub(crate) fn conductor(&self, store: &Valkey, variables: &[(&str, &str)]) -> Instance {
        let number = self.started.replace(self.started.get() + 1);
        let secret = |name: &str, text: &str| {
            let written = self.folder.secret_file(name, text).expect("written");
            written.display().to_string()
        };
        let store_password = secret("store-password", &self.users.conductor);
        let broker_password = secret("broker-password", &fresh_password().expect("fresh"));
        let launch = Launch::new(binary("conductor").expect("it is built"))
            .variable("REDIS_HOST", "127.0.0.1")
            .variable("REDIS_PORT", store.port().to_string())
            .variable("REDIS_USERNAME", "conductor")
            .variable("REDIS_PASSWORD_FILE", store_password)
            .variable(
                "RABBITMQ_URI",
                format!("amqp://{}/%2f", self.broker.address()),
            )
            .variable("RABBITMQ_USERNAME", "conductor")
            .variable("RABBITMQ_PASSWORD_FILE", broker_password)
            .variable("MATCHING_DURABILITY", "aof-replicated")
            .variable("MATCHING_SHARE_CORES", "true")
            .variables(variables.iter().copied());
        let name = format!("conductor-{number}");
        Instance::start(&self.folder, &name, launch, "MATCHING_ADMIN_ADDRESS").expect("it starts")
    }

    /// Starts a conductor on a store and waits until it has refused to go on.
    #[track_caller]
    pub(crate) fn refused(&self, store: &Valkey, variables: &[(&str, &str)]) -> Refused {
        refused(self.conductor(store, variables).process())
    }
}
