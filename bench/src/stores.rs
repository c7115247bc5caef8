//! Private stores for the length of a measurement: primaries, each with a replica where one is
//! wanted.

use crate::connection::{Connection, StoreAt};
use conductor_tools::testbed::{Folder, Valkey, ValkeyOptions};
use serde_json::{Value, json};
use std::time::Duration;

/// A first synchronisation on a machine that does other things too.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// The stores. With this they end and their folder goes.
#[derive(Debug)]
pub(crate) struct Stores {
    groups: Vec<(Valkey, Vec<Valkey>)>,
    _folder: Folder,
}

impl Stores {
    /// Stores for the policy `memory`: no replica, no file.
    pub(crate) fn in_memory(groups: usize) -> anyhow::Result<Self> {
        Self::start_with(groups, 0, Some("appendonly no"))
    }

    /// Starts so many groups and waits until a write of each is on all its disks.
    pub(crate) fn start(groups: usize, replicas: u32) -> anyhow::Result<Self> {
        Self::start_with(groups, replicas, None)
    }

    fn start_with(groups: usize, replicas: u32, line: Option<&str>) -> anyhow::Result<Self> {
        let folder = Folder::new()?;
        let mut started = Vec::with_capacity(groups);
        for number in 0..groups {
            let mut options = ValkeyOptions::named(format!("store-{number}"));
            options.extra.extend(line.map(str::to_owned));
            let primary = Valkey::primary(&folder, &options)?;
            let mut followers = Vec::new();
            for replica in 0..replicas {
                let options = ValkeyOptions::named(format!("store-{number}-replica-{replica}"));
                followers.push(Valkey::replica_of(&folder, &primary, &options)?);
            }
            if replicas > 0 {
                primary.wait_durable(replicas, READY_WITHIN)?;
            }
            started.push((primary, followers));
        }
        Ok(Self {
            groups: started,
            _folder: folder,
        })
    }

    /// Where the primaries are.
    pub(crate) fn primaries(&self) -> Vec<StoreAt> {
        self.groups.iter().map(|(primary, _)| at(primary)).collect()
    }
}

/// How to connect to a private store as one who may do everything.
pub(crate) fn at(store: &Valkey) -> StoreAt {
    StoreAt {
        address: store.address(),
        login: Some(("admin".to_owned(), store.users().admin.clone())),
    }
}

/// What a store says of itself, for the record.
pub(crate) fn versions(store: &StoreAt) -> anyhow::Result<Value> {
    let mut connection = Connection::open(store)?;
    let version = connection.info("server", "valkey_version");
    let version = version.or_else(|_| connection.info("server", "redis_version"))?;
    Ok(json!({ "store": version }))
}
