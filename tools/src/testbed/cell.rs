//! All the servers of one cell of markets: a broker, and for every partition a primary with its
//! replicas, watched by Sentinels when asked for; and the settings with which our binaries find
//! them.
//!
//! The broker takes longest, so it starts first and is waited for last. The stores of all
//! partitions have the same users, because a process has one log-in for all of them.

use super::binary::{Instance, binary};
use super::cell_settings::{CellSettings, StoreAddresses};
use super::error::{Result, TestbedError};
use super::folder::Folder;
use super::launch::Launch;
use super::rabbit::{Rabbit, RabbitOptions};
use super::rabbit_cluster::RabbitCluster;
use super::role::Role;
use super::sentinels::{Sentinels, WatchedGroup};
use super::valkey::{Valkey, ValkeyOptions, ValkeyUsers};
use super::versions::Versions;
use super::wait::wait_for;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The Sentinel group of a partition.
pub(super) const GROUP: &str = "matching-p{partition}";
/// A log-in, loading and the first synchronisation on a machine that does other things too.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// What a cell consists of.
#[derive(Clone, Debug)]
pub struct Layout {
    /// How many partitions.
    pub partitions: u32,
    /// How many replicas each primary has. None means the policy `memory`.
    pub replicas: usize,
    /// How many Sentinels watch the primaries; zero for none.
    pub sentinels: usize,
    /// The broker's nodes.
    pub rabbit: RabbitOptions,
    /// How many nodes the broker has; several are a cluster.
    pub rabbit_nodes: usize,
    /// Lines for the configuration file of every store. They come last and win over ours.
    pub store_lines: Vec<String>,
    /// How many bytes the data of each store may take; `None` for as much as there is.
    pub small_disk: Option<u64>,
    /// Which set of versions all servers are; `None` for the one that the environment chooses.
    pub versions: Option<Versions>,
}

impl Default for Layout {
    /// One partition, one replica, no Sentinel, a broker of one node.
    fn default() -> Self {
        Self {
            partitions: 1,
            replicas: 1,
            sentinels: 0,
            rabbit: RabbitOptions::default(),
            rabbit_nodes: 1,
            store_lines: Vec::new(),
            small_disk: None,
            versions: None,
        }
    }
}

/// The stores of one partition, as they began; a failover may exchange the roles.
#[derive(Debug)]
pub struct StoreGroup {
    /// The first primary.
    pub primary: Valkey,
    /// Its replicas.
    pub replicas: Vec<Valkey>,
}

impl StoreGroup {
    /// All of them, the first primary first.
    pub fn servers(&self) -> impl Iterator<Item = &Valkey> {
        std::iter::once(&self.primary).chain(&self.replicas)
    }

    /// The server at an address, which is how Sentinel names one.
    pub fn server_at(&self, address: SocketAddr) -> Option<&Valkey> {
        self.servers().find(|it| it.address() == address)
    }

    /// Whether one server takes writes, all others are in step with it, and a write reaches the
    /// disks of all.
    fn look_whole(&self, primary: &Valkey) -> std::result::Result<(), String> {
        let mut replicas = 0;
        for server in self.servers() {
            let role = server.look_at_role()?;
            let own = server.address() == primary.address();
            match role {
                Role::Primary { replicas: found } if own && found == self.replicas.len() => {}
                ref role if !own && role.follows_port(primary.port()) => replicas += 1,
                role => return Err(format!("{} is {role:?}", server.process().name())),
            }
        }
        primary.look_durable(replicas)
    }
}

/// The servers of a cell. With this the servers end and their folder goes, unless a clone of the
/// folder lives on.
#[derive(Debug)]
pub struct CellServers {
    brokers: RabbitCluster,
    stores: Vec<StoreGroup>,
    sentinels: Option<Sentinels>,
    users: ValkeyUsers,
    settings: PathBuf,
    folder: Folder,
}

impl CellServers {
    /// Starts everything and waits until it can be used: log-in to the broker, replicas in step
    /// and writing to their disks, Sentinels that know each other.
    pub fn start(layout: &Layout) -> Result<Self> {
        let layout = &Layout {
            versions: Some(Versions::or_chosen(layout.versions.as_ref())?),
            ..layout.clone()
        };
        let folder = Folder::new()?;
        let nodes = RabbitOptions {
            versions: layout.versions.clone(),
            ..layout.rabbit.clone()
        };
        let brokers = RabbitCluster::begin(&folder, &nodes, layout.rabbit_nodes)?;
        let users = ValkeyUsers::fresh()?;
        let stores = (0..layout.partitions)
            .map(|partition| start_group(&folder, layout, partition, &users))
            .collect::<Result<Vec<_>>>()?;
        let sentinels = start_sentinels(&folder, layout, &stores)?;
        if layout.replicas > 0 && layout.store_lines.is_empty() {
            let replicas = u32::try_from(layout.replicas).unwrap_or(u32::MAX);
            for group in &stores {
                group.primary.wait_durable(replicas, READY_WITHIN)?;
            }
        }
        brokers.wait_formed(READY_WITHIN)?;
        folder.secret_file("store-password", &users.conductor)?;
        let settings = PathBuf::new();
        let mut cell = Self {
            brokers,
            stores,
            sentinels,
            users,
            settings,
            folder,
        };
        cell.settings = cell.settings().write("conductor.toml")?;
        Ok(cell)
    }

    /// The broker's first node, which is the only one unless the layout says otherwise.
    pub fn rabbit(&self) -> &Rabbit {
        self.brokers.node(0)
    }

    /// The broker with all its nodes.
    pub fn brokers(&self) -> &RabbitCluster {
        &self.brokers
    }

    /// The stores of a partition.
    pub fn store(&self, partition: usize) -> &StoreGroup {
        &self.stores[partition]
    }

    /// The server that is the primary of a partition now: the one that a majority of the Sentinels
    /// names, or the first one where there are none.
    pub fn current_primary(&self, partition: usize) -> Result<&Valkey> {
        self.look_for_primary(partition)
            .map_err(|answer| TestbedError::Answer {
                name: format!("partition {partition}"),
                answer,
            })
    }

    /// Waits until a partition's stores are whole: one primary, every other server a replica in
    /// step with it, a write on the disks of all, and every Sentinel running and of the same mind.
    /// Gives the primary.
    pub fn wait_whole(&self, partition: usize, within: Duration) -> Result<&Valkey> {
        let awaited = format!("whole group of stores of partition {partition}");
        wait_for(&awaited, within, || {
            let group = self.store(partition);
            let primary = self.look_for_primary(partition)?;
            group.look_whole(primary)?;
            if let Some(sentinels) = &self.sentinels {
                sentinels.look_whole(&WatchedGroup {
                    name: &group_name(partition),
                    primary,
                    replicas: group.replicas.len(),
                })?;
            }
            Ok(primary)
        })
    }

    fn look_for_primary(&self, partition: usize) -> std::result::Result<&Valkey, String> {
        let group = self.store(partition);
        let Some(sentinels) = &self.sentinels else {
            return Ok(&group.primary);
        };
        let address = sentinels.look_for_primary(&group_name(partition))?;
        group
            .server_at(address)
            .ok_or_else(|| format!("Sentinel names {address}, which is none of ours"))
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.stores.len()
    }

    /// The Sentinels, if there are any.
    pub fn sentinels(&self) -> Option<&Sentinels> {
        self.sentinels.as_ref()
    }

    /// The name under which Sentinels know a partition.
    pub fn sentinel_group(partition: usize) -> String {
        group_name(partition)
    }

    /// The users of all the stores.
    pub fn store_users(&self) -> &ValkeyUsers {
        &self.users
    }

    /// The file that holds the password of the stores' user `conductor`.
    pub fn store_password_file(&self) -> PathBuf {
        self.folder.path().join("store-password")
    }

    /// The folder of everything.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The settings file with which our binaries find these servers.
    pub fn settings_file(&self) -> &Path {
        &self.settings
    }

    /// The same settings, to be changed and written to another file: a test that puts a proxy
    /// between a conductor and a server changes that server's address.
    pub fn settings(&self) -> CellSettings<'_> {
        let direct = self
            .stores
            .iter()
            .map(|group| group.primary.address())
            .collect();
        let stores = match &self.sentinels {
            Some(sentinels) => StoreAddresses::Sentinels(sentinels.addresses()),
            None => StoreAddresses::Direct(direct),
        };
        let replicas = self
            .stores
            .iter()
            .map(|group| group.replicas.len())
            .min()
            .unwrap_or(0);
        CellSettings {
            cell: self,
            brokers: self.brokers.addresses(),
            stores,
            replicas,
        }
    }

    /// What to add to the environment of a conductor for some partitions: the settings file and
    /// the partitions. Variables are stronger than the file, so more of them change single settings.
    pub fn environment(&self, partitions: &[u32]) -> Vec<(String, String)> {
        let listed: Vec<String> = partitions.iter().map(u32::to_string).collect();
        vec![
            (
                "CONDUCTOR_CONFIG".into(),
                self.settings.display().to_string(),
            ),
            ("MATCHING_PARTITION".into(), listed.join(",")),
        ]
    }

    /// Starts a conductor for some partitions. More variables change single settings and win.
    /// It is not waited for.
    pub fn conductor(
        &self,
        name: &str,
        partitions: &[u32],
        variables: &[(&str, &str)],
    ) -> Result<Instance> {
        self.instance(
            "conductor",
            "MATCHING_ADMIN_ADDRESS",
            name,
            partitions,
            variables,
        )
    }

    /// Starts an outbox for some partitions, as [`CellServers::conductor`] starts a conductor.
    pub fn outbox(
        &self,
        name: &str,
        partitions: &[u32],
        variables: &[(&str, &str)],
    ) -> Result<Instance> {
        let admin = "MATCHING_OUTBOX_ADMIN_ADDRESS";
        self.instance("conductor-outbox", admin, name, partitions, variables)
    }

    fn instance(
        &self,
        program: &str,
        admin: &str,
        name: &str,
        partitions: &[u32],
        variables: &[(&str, &str)],
    ) -> Result<Instance> {
        let launch = Launch::new(binary(program)?)
            .variables(self.environment(partitions))
            .variables(variables.iter().copied());
        Instance::start(&self.folder, name, launch, admin)
    }
}

fn group_name(partition: usize) -> String {
    GROUP.replace("{partition}", &partition.to_string())
}

fn start_group(
    folder: &Folder,
    layout: &Layout,
    partition: u32,
    users: &ValkeyUsers,
) -> Result<StoreGroup> {
    let options = |name: String| ValkeyOptions {
        extra: layout.store_lines.clone(),
        versions: layout.versions.clone(),
        small_disk: layout.small_disk,
        ..ValkeyOptions::named(name)
    };
    let name = format!("store-p{partition}");
    let primary = Valkey::primary_with(folder, &options(name.clone()), users)?;
    let replicas = (1..=layout.replicas)
        .map(|number| {
            let own = options(format!("{name}-replica-{number}"));
            Valkey::replica_of(folder, &primary, &own)
        })
        .collect::<Result<_>>()?;
    Ok(StoreGroup { primary, replicas })
}

fn start_sentinels(
    folder: &Folder,
    layout: &Layout,
    stores: &[StoreGroup],
) -> Result<Option<Sentinels>> {
    if layout.sentinels == 0 {
        return Ok(None);
    }
    let names: Vec<String> = (0..stores.len()).map(group_name).collect();
    let groups: Vec<WatchedGroup<'_>> = stores
        .iter()
        .zip(&names)
        .map(|(group, name)| WatchedGroup {
            name,
            primary: &group.primary,
            replicas: group.replicas.len(),
        })
        .collect();
    let versions = Versions::or_chosen(layout.versions.as_ref())?;
    Sentinels::start(folder, &versions, layout.sentinels, &groups).map(Some)
}
