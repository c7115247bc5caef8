//! A whole cell under test: servers of its own, two conductors and two outboxes, all supervised by
//! the tester, which is the only one who kills them and the only one who starts them again.
//!
//! Who works at a moment is looked up at that moment, on the admin pages and at the Sentinels, never
//! remembered: a fault is aimed at a role and not at a process. A process that the tester has
//! stopped is not asked, because it would hold the question and not answer it.

use super::story::RECORD;
use crate::client::{block_on, set_up};
use crate::private_cell;
use crate::testbed::{CellServers, Instance, Layout, Process, RabbitOptions, Valkey, Versions};
use conductor_config::Settings;
use conductor_engine::PartitionId;
use conductor_io::keys::command_queue;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// The fewest Sentinels of which one can be away.
const SENTINELS: usize = 3;
/// How long a conductor or an outbox may take until it is ready, on a machine that is busy.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// What each process of two has as its name.
const CONDUCTORS: [&str; 2] = ["conductor-1", "conductor-2"];
const OUTBOXES: [&str; 2] = ["outbox-1", "outbox-2"];

/// What the site consists of.
#[derive(Clone, Debug)]
pub struct SiteOptions {
    /// How many partitions, all served by the same two conductors.
    pub partitions: u32,
    /// How many replicas each primary has.
    pub replicas: usize,
    /// How many replicas must confirm a command.
    pub durable_replicas: usize,
    /// How many nodes the broker has.
    pub nodes: usize,
    /// Which servers to run; the environment's choice unless given.
    pub versions: Option<Versions>,
    /// Each store has a disk of its own of so many bytes.
    pub small_disk: Option<u64>,
}

/// A cell under test.
#[derive(Debug)]
pub struct Site {
    // Our processes end before the servers that they use.
    conductors: Vec<Instance>,
    outboxes: Vec<Instance>,
    settings: Settings,
    servers: CellServers,
}

impl Site {
    /// Starts everything and waits until it takes commands.
    ///
    /// # Errors
    /// The server or the process that did not come up, with the end of its log.
    pub fn start(options: &SiteOptions) -> anyhow::Result<Self> {
        let servers = CellServers::start(&Layout {
            partitions: options.partitions,
            replicas: options.replicas,
            sentinels: SENTINELS,
            rabbit: RabbitOptions::default(),
            rabbit_nodes: options.nodes,
            versions: options.versions.clone(),
            small_disk: options.small_disk,
            ..Layout::default()
        })?;
        let partitions: Vec<u32> = (0..options.partitions).collect();
        let mut written = servers.settings();
        written.replicas = options.durable_replicas;
        let config = written.write("site.toml")?;
        let settings = private_cell::load(&config, &partitions)?;
        block_on(async { Ok(set_up(&settings, &[]).await?) })?;
        let file = config.display().to_string();
        let variables = [("CONDUCTOR_CONFIG", file.as_str())];
        let start = |name: &&str| servers.conductor(name, &partitions, &variables);
        let conductors = CONDUCTORS
            .iter()
            .map(start)
            .collect::<Result<Vec<_>, _>>()?;
        let start = |name: &&str| servers.outbox(name, &partitions, &variables);
        let outboxes = OUTBOXES.iter().map(start).collect::<Result<Vec<_>, _>>()?;
        for conductor in &conductors {
            conductor.wait_ready(READY_WITHIN)?;
        }
        Ok(Self {
            conductors,
            outboxes,
            settings,
            servers,
        })
    }

    /// The settings with which a client finds it.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Its servers.
    pub fn servers(&self) -> &CellServers {
        &self.servers
    }

    /// Its conductors.
    pub fn conductors(&self) -> &[Instance] {
        &self.conductors
    }

    /// Its outboxes.
    pub fn outboxes(&self) -> &[Instance] {
        &self.outboxes
    }

    /// The file of the run's record, which is kept when a run fails.
    pub fn record(&self) -> PathBuf {
        self.servers.folder().path().join(RECORD)
    }

    /// The addresses of the conductors' admin pages.
    pub fn pages(&self) -> Vec<String> {
        self.conductors.iter().map(|it| it.url("")).collect()
    }

    /// The partitions' numbers.
    pub fn partitions(&self) -> std::ops::Range<usize> {
        0..self.servers.partitions()
    }

    /// The name of a partition's command queue.
    pub fn queue(partition: usize) -> String {
        command_queue(PartitionId(u32::try_from(partition).unwrap_or(u32::MAX)))
    }

    /// Every process of the site but the broker's port mappers.
    pub fn processes(&self) -> Vec<&Process> {
        let own = self.conductors.iter().chain(&self.outboxes);
        let mut all: Vec<&Process> = own.map(Instance::process).collect();
        let stores = self
            .partitions()
            .flat_map(|it| self.servers.store(it).servers());
        all.extend(stores.map(Valkey::process));
        all.extend(self.sentinels());
        all.extend(self.servers.brokers().nodes().iter().map(|it| it.process()));
        all
    }

    /// The Sentinels' processes.
    pub fn sentinels(&self) -> Vec<&Process> {
        let sentinels = self.servers.sentinels();
        let each = sentinels.into_iter().flat_map(|them| {
            let number = 0..them.count();
            number.map(|number| them.process(number))
        });
        each.collect()
    }

    /// The first process that has ended though nobody ended it, and how its log ends.
    pub fn ended(&self) -> Option<String> {
        let gone = self.processes().into_iter().find(|it| !it.is_running())?;
        let status = gone.exit_status().map(|status| status.to_string());
        Some(format!(
            "{} has ended by itself ({}); the end of its log:\n{}",
            gone.name(),
            status.unwrap_or_default(),
            gone.log_tail(20)
        ))
    }
}

/// What an instance says of a partition on `/ready`; nothing while it cannot say anything.
pub(super) fn shown(instance: &Instance, partition: usize) -> Option<Value> {
    if !instance.process().is_running() || instance.process().is_paused() {
        return None;
    }
    let (_, body) = instance.page("/ready").ok()?;
    let page: Value = serde_json::from_str(&body).ok()?;
    let mut partitions = page["partitions"].as_array()?.iter();
    partitions.find(|it| it["partition"] == partition).cloned()
}
