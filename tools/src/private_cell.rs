//! A whole private cell: servers of its own, set up, with a conductor and an outbox at work.
//!
//! `cell up`, `cell demo` and the tests of the command line run on it. The servers and their
//! clearing away are the test bed's; here is what makes a cell of them. One conductor serves all
//! partitions, because a private cell shares one machine on purpose; a cell that matters has a
//! process for each.

use crate::client::{SetUp, SetUpError, block_on, set_up};
use crate::testbed::{CellServers, Instance, Layout, TestbedError};
use conductor_config::{ConfigError, Environment, Settings, Sources, keys};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The queue that receives every event of a private cell.
pub const EVENT_QUEUE: &str = "events.all";
/// Sentinels that watch a private cell's stores, where it has any: the fewest with a majority.
const SENTINELS: usize = 3;
/// How long a conductor and an outbox may take until they can work, on a machine that is busy.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long they may take to end: longer than they promise.
const END_WITHIN: Duration = Duration::from_secs(10);

/// What a private cell is to be.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// How many partitions.
    pub partitions: u32,
    /// How many replicas each store has, all of which must confirm; none means the policy
    /// `memory`.
    pub replicas: usize,
    /// Whether Sentinels watch the stores.
    pub sentinels: bool,
}

/// Why there is no private cell.
#[derive(Debug, thiserror::Error)]
pub enum PrivateCellError {
    /// Its servers or processes.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// Its settings.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// Its topology or its queues.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// Something of the system.
    #[error("{0:#}")]
    System(anyhow::Error),
}

/// A private cell. With this everything of it ends and its folder goes.
#[derive(Debug)]
pub struct PrivateCell {
    // The processes end before the servers that they use.
    conductor: Instance,
    outbox: Instance,
    settings: Settings,
    config: PathBuf,
    servers: CellServers,
}

impl PrivateCell {
    /// Starts everything and waits until it takes commands.
    ///
    /// # Errors
    /// [`PrivateCellError`]; what was started ends again.
    pub fn start(plan: &Plan) -> Result<Self, PrivateCellError> {
        let servers = CellServers::start(&Layout {
            partitions: plan.partitions,
            replicas: plan.replicas,
            sentinels: if plan.sentinels { SENTINELS } else { 0 },
            ..Layout::default()
        })?;
        let partitions: Vec<u32> = (0..plan.partitions).collect();
        set_up_servers(&load(servers.settings_file(), &partitions)?)?;
        let conductor = servers.conductor("conductor", &partitions, &[])?;
        let outbox = servers.outbox("outbox", &partitions, &[])?;
        conductor.wait_ready(READY_WITHIN)?;
        outbox.wait_ready(READY_WITHIN)?;
        let text = client_settings(&servers, &partitions, &conductor, &outbox)?;
        let config = servers.folder().secret_file("cell.toml", &text)?;
        let settings = load(&config, &partitions)?;
        Ok(Self {
            conductor,
            outbox,
            settings,
            config,
            servers,
        })
    }

    /// The settings with which a client finds it, admin pages included.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The file that holds them.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// Its servers.
    pub fn servers(&self) -> &CellServers {
        &self.servers
    }

    /// Its conductor.
    pub fn conductor(&self) -> &Instance {
        &self.conductor
    }

    /// Its outbox.
    pub fn outbox(&self) -> &Instance {
        &self.outbox
    }

    /// Which of its processes has ended, and how the end of its log reads; `None` while all run.
    pub fn ended(&self) -> Option<String> {
        let servers = &self.servers;
        let stores = (0..servers.partitions()).flat_map(|partition| {
            let group = servers.store(partition);
            std::iter::once(&group.primary)
                .chain(&group.replicas)
                .map(|store| store.process())
        });
        let own = [
            self.conductor.process(),
            self.outbox.process(),
            servers.rabbit().process(),
        ];
        let mut all = own.into_iter().chain(stores);
        let gone = all.find(|process| !process.is_running())?;
        Some(format!(
            "{} has ended; the end of its log:\n{}",
            gone.name(),
            gone.log_tail(20)
        ))
    }

    /// Ends the conductor and the outbox in good order, then everything else.
    ///
    /// # Errors
    /// [`TestbedError`] when one of them does not end by itself.
    pub fn stop(self) -> Result<(), TestbedError> {
        for process in [&self.conductor, &self.outbox] {
            if process.process().is_running() {
                process.terminate(END_WITHIN)?;
            }
        }
        Ok(())
    }
}

fn set_up_servers(settings: &Settings) -> Result<SetUp, PrivateCellError> {
    let queues = [EVENT_QUEUE.to_owned()];
    let running = async { Ok(set_up(settings, &queues).await) };
    Ok(block_on(running).map_err(PrivateCellError::System)??)
}

/// Reads settings from a file alone: what stands in the caller's environment is meant for other
/// cells.
pub(crate) fn load(file: &Path, partitions: &[u32]) -> Result<Settings, ConfigError> {
    let listed: Vec<String> = partitions.iter().map(u32::to_string).collect();
    let named = (keys::PARTITIONS.environment(), listed.join(","));
    let environment: Environment = [named].into_iter().collect();
    Settings::load(&Sources {
        file: Some(file.to_owned()),
        environment,
    })
}

/// The servers' settings, with every partition and with the admin pages' addresses, so that the
/// file alone is all that another terminal needs.
fn client_settings(
    servers: &CellServers,
    partitions: &[u32],
    conductor: &Instance,
    outbox: &Instance,
) -> Result<String, PrivateCellError> {
    let path = servers.settings_file();
    let unreadable = |error| TestbedError::File {
        doing: "read",
        path: path.to_owned(),
        source: error,
    };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let address = |instance: &Instance| instance.url("").replace("http://", "");
    Ok(format!(
        "{}\n[admin]\naddress = {:?}\n\n[outbox]\nadmin_address = {:?}\n",
        text.replacen(
            "[topology]\n",
            &format!("[topology]\npartitions = {partitions:?}\n"),
            1
        ),
        address(conductor),
        address(outbox),
    ))
}
