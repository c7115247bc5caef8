//! All the servers of one cell of markets: a broker, and for every partition a primary with its
//! replicas, watched by Sentinels when asked for; and the settings with which our binaries find
//! them.
//!
//! The broker takes longest, so it starts first and is waited for last. The stores of all
//! partitions have the same users, because a process has one log-in for all of them.

use super::binary::{Instance, binary};
use super::error::Result;
use super::folder::Folder;
use super::process::Launch;
use super::rabbit::{self, Rabbit, RabbitOptions};
use super::rabbit_cluster::RabbitCluster;
use super::sentinels::{Sentinels, WatchedGroup};
use super::valkey::{Valkey, ValkeyOptions, ValkeyUsers};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The Sentinel group of a partition.
const GROUP: &str = "matching-p{partition}";
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
}

impl Default for Layout {
    /// One partition, one replica, no Sentinel.
    fn default() -> Self {
        Self {
            partitions: 1,
            replicas: 1,
            sentinels: 0,
            rabbit: RabbitOptions::default(),
            rabbit_nodes: 1,
            store_lines: Vec::new(),
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
    /// The server at an address, which is how Sentinel names one.
    pub fn server_at(&self, address: SocketAddr) -> Option<&Valkey> {
        std::iter::once(&self.primary)
            .chain(&self.replicas)
            .find(|it| it.address() == address)
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
        let folder = Folder::new()?;
        let brokers = RabbitCluster::begin(&folder, &layout.rabbit, layout.rabbit_nodes)?;
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
        brokers.wait_members(READY_WITHIN)?;
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
            broker: self.rabbit().address(),
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

/// Where a process looks for the stores.
#[derive(Clone, Debug)]
pub enum StoreAddresses {
    /// The primary of each partition, in order.
    Direct(Vec<SocketAddr>),
    /// The Sentinels to ask.
    Sentinels(Vec<SocketAddr>),
}

/// The settings of a process of this cell, before they are written.
#[derive(Clone, Debug)]
pub struct CellSettings<'a> {
    cell: &'a CellServers,
    /// The broker.
    pub broker: SocketAddr,
    /// The stores.
    pub stores: StoreAddresses,
    /// How many replicas must confirm; none means the policy `memory`.
    pub replicas: usize,
}

impl CellSettings<'_> {
    /// Writes them to a file in the cell's folder, which only this user can read.
    pub fn write(&self, name: &str) -> Result<PathBuf> {
        self.cell.folder.secret_file(name, &self.text())
    }

    fn text(&self) -> String {
        let rabbit = self.cell.rabbit();
        let mut text = format!(
            "[topology]\npartition_count = {}\n\n\
             [broker]\nuri = {:?}\nusername = {:?}\npassword_file = {:?}\n\n\
             [store]\nusername = \"conductor\"\npassword_file = {:?}\n\n\
             [cores]\nshare = true\n\n",
            self.cell.partitions(),
            rabbit::uri(self.broker),
            rabbit.user(),
            rabbit.password_file(),
            self.cell.store_password_file(),
        );
        let _ = match self.replicas {
            0 => writeln!(text, "[durability]\npolicy = \"memory\"\n"),
            count => writeln!(
                text,
                "[durability]\npolicy = \"aof-replicated\"\nreplicas = {count}\n"
            ),
        };
        let _ = match &self.stores {
            StoreAddresses::Sentinels(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(SocketAddr::to_string).collect();
                writeln!(text, "[sentinel]\nhosts = {hosts:?}\nname = {GROUP:?}")
            }
            StoreAddresses::Direct(servers) => {
                servers.iter().enumerate().try_for_each(|(number, server)| {
                    let (host, port) = (server.ip(), server.port());
                    writeln!(
                        text,
                        "[[partition]]\nnumber = {number}\nhost = \"{host}\"\nport = {port}\n"
                    )
                })
            }
        };
        text
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
    Sentinels::start(folder, layout.sentinels, &groups).map(Some)
}
