//! The servers of a cell, set up as `cell init` sets them up, and looks into its stores.

use super::{LATER, Message, Sending};
use conductor_config::{Environment, Settings, Sources, keys};
use conductor_engine::PartitionId;
use conductor_io::keys::Keys;
use conductor_tools::client::{block_on, set_up};
use conductor_tools::testbed::{CellServers, Instance, Layout, Valkey};
use std::time::Duration;

/// Servers that are set up, with no process of ours on them yet.
pub(crate) struct LiveCell {
    pub(crate) servers: CellServers,
    pub(crate) settings: Settings,
}

impl LiveCell {
    /// The queue that receives every event.
    pub(crate) const EVENTS: &'static str = "events.all";

    pub(crate) fn start(layout: &Layout) -> Self {
        let servers = CellServers::start(layout).expect("the servers start");
        let listed: Vec<String> = (0..layout.partitions)
            .map(|each| each.to_string())
            .collect();
        let named = (keys::PARTITIONS.environment(), listed.join(","));
        let environment: Environment = [named].into_iter().collect();
        let file = Some(servers.settings_file().to_owned());
        let settings =
            Settings::load(&Sources { file, environment }).expect("the settings are good");
        let queues = [Self::EVENTS.to_owned()];
        block_on(async { Ok(set_up(&settings, &queues).await?) }).expect("the cell is set up");
        Self { servers, settings }
    }

    /// A conductor of every partition that can take the next delivery.
    pub(crate) fn conductor(&self, name: &str, variables: &[(&str, &str)]) -> Instance {
        let conductor = self.unready_conductor(name, variables);
        conductor
            .wait_ready(LATER)
            .expect("the conductor gets ready");
        conductor
    }

    /// The same, not waited for.
    pub(crate) fn unready_conductor(&self, name: &str, variables: &[(&str, &str)]) -> Instance {
        let partitions = self.partitions();
        let started = self.servers.conductor(name, &partitions, variables);
        started.expect("the conductor starts")
    }

    /// An outbox of every partition that holds its leases.
    pub(crate) fn outbox(&self, name: &str, variables: &[(&str, &str)]) -> Instance {
        let started = self.servers.outbox(name, &self.partitions(), variables);
        let outbox = started.expect("the outbox starts");
        outbox.wait_ready(LATER).expect("the outbox gets ready");
        outbox
    }

    fn partitions(&self) -> Vec<u32> {
        (0..self.settings.partition_count).collect()
    }

    /// Sends messages beside the test, and waits so long for each reply.
    pub(crate) fn send(&self, messages: &[Message], reply_within: Duration) -> Sending {
        Sending::start(&self.settings.broker, messages.to_vec(), reply_within)
    }

    /// Sends one message and gives its reply.
    pub(crate) fn ask(&self, message: &Message) -> String {
        let sent = self.send(std::slice::from_ref(message), LATER).finish();
        let reply = sent.replies[0].clone().expect("it was answered");
        String::from_utf8(reply).expect("replies are text")
    }

    /// The first primary of a partition.
    pub(crate) fn store(&self, partition: u32) -> &Valkey {
        &self.servers.store(partition as usize).primary
    }

    /// The events that wait in a store for the outbox, one a line, as they stand.
    pub(crate) fn stream(&self, store: &Valkey, partition: u32) -> Vec<u8> {
        type Entry = (String, Vec<(String, Vec<u8>)>);
        let keys = Keys::new(PartitionId(partition));
        let words = ["XRANGE", keys.events(), "-", "+"];
        let entries: Vec<Entry> = store.command(&words).expect("the store answers");
        let events = entries.into_iter().map(|(_, fields)| fields);
        let mut lines = Vec::new();
        for (_, event) in events.flatten() {
            lines.extend_from_slice(&event);
            lines.push(b'\n');
        }
        lines
    }

    /// Waits until the broker counts so many messages of a kind in a queue; it counts now and then.
    pub(crate) fn wait_queue(&self, queue: &str, kind: &str, messages: usize) {
        let rabbit = self.servers.rabbit();
        let wanted = format!("{queue}\t{messages}");
        let waited = rabbit
            .process()
            .wait_for(&format!("{wanted} {kind}"), LATER, || {
                let listed = rabbit.control(&["list_queues", "name", kind]);
                let queues = listed.map_err(|error| error.to_string())?;
                queues
                    .lines()
                    .any(|line| line == wanted)
                    .then_some(())
                    .ok_or(queues)
            });
        waited.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Closes the broker's side of every connection of consumers of the commands, so that each
    /// conductor finds itself without a channel.
    pub(crate) fn close_connections(&self) {
        let words = ["close_all_connections", "a test closes them"];
        self.servers
            .rabbit()
            .control(&words)
            .expect("rabbitmqctl works");
    }
}
