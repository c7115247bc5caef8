//! Private servers of a whole cell, set up and still without a conductor or an outbox.

use conductor_config::{Environment, Settings, Sources, keys};
use conductor_tools::client::set_up;
use conductor_tools::testbed::{CellServers, Layout};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The queue that receives every event.
pub(crate) const EVENT_QUEUE: &str = "events.all";
/// A conductor or an outbox on a machine that does everything at once.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long they may take to end.
pub(crate) const END_WITHIN: Duration = Duration::from_secs(15);

/// The servers. With this they end.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) settings: Settings,
    pub(crate) servers: Arc<CellServers>,
}

impl Bed {
    /// Starts them, writes the records that no conductor may write, and declares the queues.
    pub(crate) async fn start(layout: &Layout) -> anyhow::Result<Self> {
        Self::start_with(layout, &[]).await
    }

    /// The same with settings that differ, as the environment spells them.
    pub(crate) async fn start_with(
        layout: &Layout,
        variables: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let servers = Arc::new(CellServers::start(layout)?);
        let listed: Vec<String> = (0..layout.partitions).map(|it| it.to_string()).collect();
        let partitions = (keys::PARTITIONS.environment(), listed.join(","));
        let varied = variables
            .iter()
            .map(|(name, value)| (*name, (*value).to_owned()));
        let environment: Environment = varied.chain([partitions]).collect();
        let settings = Settings::load(&Sources {
            file: Some(servers.settings_file().to_owned()),
            environment,
        })?;
        set_up(&settings, &[EVENT_QUEUE.to_owned()]).await?;
        Ok(Self { settings, servers })
    }

    /// What the servers say of themselves.
    pub(crate) fn versions(&self) -> anyhow::Result<Value> {
        let store = crate::stores::versions(&crate::stores::at(&self.servers.store(0).primary))?;
        let broker = self.servers.rabbit().control(&["version"])?;
        Ok(json!({ "store": store["store"], "broker": broker.trim() }))
    }
}
