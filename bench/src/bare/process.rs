//! The bare conductor: the conductor's traffic and nothing of its thought.
//!
//! Two threads, as the conductor has two cores: one speaks to the broker, one to the store, and
//! groups of what has arrived pass between them. Every message is taken, every write is sent in the
//! conductor's own packet, every reply is given and every acknowledgement sent once the disks have
//! the group; what the bytes are was decided before ([`super::script`]). No command is decoded, no
//! epoch is claimed, no page is served.

use super::script::{self, Line};
use crate::commit::Wait;
use crate::connection::{Connection, StoreAt};
use anyhow::{Context, bail, ensure};
use conductor_config::{BrokerSettings, Environment, Settings, Sources, keys};
use conductor_engine::PartitionId;
use conductor_io::amqp;
use conductor_io::keys::{Keys, command_queue};
use conductor_io::resp::Packer;
use conductor_io::store::waits;
use conductor_tools::client::{Subscription, block_on};
use lapin::message::Delivery;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The conductor's own defaults.
const PREFETCH: u16 = 512;
const GROUP: usize = 256;
/// The variable that holds the store's password.
pub(crate) const PASSWORD: &str = "CONDUCTOR_BENCH_STORE_PASSWORD";
/// What the log says once it consumes.
pub(crate) const CONSUMING: &str = "consuming";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to do for each command
    #[arg(long)]
    script: PathBuf,
    /// The cell's settings
    #[arg(long)]
    settings: PathBuf,
    /// The primary
    #[arg(long)]
    store: SocketAddr,
    /// Replicas to wait for
    #[arg(long)]
    replicas: u32,
}

/// Where a reply goes.
struct Address {
    queue: ShortString,
    correlation: Option<ShortString>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let lines = script::read(&arguments.script)?;
    let named = (keys::PARTITIONS.environment(), "0".to_owned());
    let environment: Environment = [named].into_iter().collect();
    let settings = Settings::load(&Sources {
        file: Some(arguments.settings.clone()),
        environment,
    })?;
    let password = std::env::var(PASSWORD).context(PASSWORD)?;
    let core = Core {
        connection: Connection::open(&StoreAt {
            address: arguments.store,
            login: Some(("admin".to_owned(), password)),
        })?,
        keys: Keys::new(PartitionId(0)),
        wait: Wait::of(arguments.replicas),
        lines,
        next: 0,
        packet: Vec::new(),
    };
    let (deliver, arrived) = mpsc::channel();
    let (finish, finished) = unbounded_channel();
    let core = std::thread::Builder::new()
        .name("store".into())
        .spawn(move || core.run(&arrived, &finish))?;
    let served = block_on(serve(&settings.broker, deliver, finished));
    match core.join() {
        Ok(ended) => ended.and(served),
        Err(_) => bail!("the thread of the store panicked"),
    }
}

/// The broker's side: hands over that something arrived, and finishes what the store has.
async fn serve(
    broker: &BrokerSettings,
    deliver: mpsc::Sender<()>,
    mut finished: UnboundedReceiver<Vec<Vec<u8>>>,
) -> anyhow::Result<()> {
    let connection = amqp::connect(broker, "bare conductor").await?;
    let replies = amqp::connect(broker, "bare replies").await?;
    let replies = amqp::open_channel(&replies).await?;
    let queue = command_queue(PartitionId(0));
    let mut commands = Subscription::open(&connection, &queue, PREFETCH).await?;
    println!("{CONSUMING}");
    let mut open: VecDeque<(Delivery, Option<Address>)> = VecDeque::new();
    loop {
        tokio::select! {
            delivery = commands.next() => {
                let delivery = delivery?;
                let address = address(&delivery);
                open.push_back((delivery, address));
                deliver.send(()).context("the thread of the store has ended")?;
            }
            group = finished.recv() => {
                let group = group.context("the thread of the store has ended")?;
                let mut last = None;
                for reply in group {
                    let (delivery, address) = open.pop_front().context("a reply too many")?;
                    if let Some(address) = address {
                        publish(&replies, address, &reply).await?;
                    }
                    last = Some(delivery);
                }
                if let Some(last) = last {
                    commands.acknowledge(&last, true).await?;
                }
            }
        }
    }
}

fn address(delivery: &Delivery) -> Option<Address> {
    Some(Address {
        queue: delivery.properties.reply_to().clone()?,
        correlation: delivery.properties.correlation_id().clone(),
    })
}

async fn publish(channel: &Channel, address: Address, reply: &[u8]) -> anyhow::Result<()> {
    let mut properties = BasicProperties::default().with_content_type("application/json".into());
    if let Some(correlation) = address.correlation {
        properties = properties.with_correlation_id(correlation);
    }
    let options = BasicPublishOptions::default();
    channel
        .basic_publish("".into(), address.queue, options, reply, properties)
        .await?;
    Ok(())
}

/// The store's side.
struct Core {
    connection: Connection,
    keys: Keys,
    wait: Option<Wait>,
    lines: Vec<Line>,
    next: usize,
    packet: Vec<u8>,
}

impl Core {
    fn run(
        mut self,
        arrived: &mpsc::Receiver<()>,
        finish: &UnboundedSender<Vec<Vec<u8>>>,
    ) -> anyhow::Result<()> {
        while arrived.recv().is_ok() {
            let count = 1 + arrived.try_iter().take(GROUP - 1).count();
            let replies = self.commit(count)?;
            if finish.send(replies).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Commits the next commands in one packet; gives their replies once the disks have them.
    fn commit(&mut self, count: usize) -> anyhow::Result<Vec<Vec<u8>>> {
        let end = self.next + count;
        ensure!(
            end <= self.lines.len(),
            "there are more commands than the script has"
        );
        let group = &self.lines[self.next..end];
        self.packet.clear();
        Packer::new(&mut self.packet).start(b"MULTI").end();
        let mut writes = 1;
        for line in group {
            self.packet.extend_from_slice(&line.writes);
            writes += line.count;
        }
        let last = group.last().context("a group has a command")?;
        self.packet.extend_from_slice(&last.cursor);
        let mut packer = Packer::new(&mut self.packet);
        packer.start(b"EXEC").end();
        packer
            .start(b"XLEN")
            .part(self.keys.events().as_bytes())
            .end();
        packer.start(b"MGET");
        let keys = group
            .iter()
            .flat_map(|line| line.look_ups.split(|byte| *byte == b'\n'));
        for key in keys.filter(|key| !key.is_empty()) {
            packer.part(key);
        }
        packer.end();
        if let Some(Wait { replicas, timeout }) = self.wait {
            waits::pack(&mut packer, replicas, timeout);
        }
        packer
            .start(b"WATCH")
            .part(self.keys.epoch().as_bytes())
            .end();
        packer
            .start(b"GET")
            .part(self.keys.epoch().as_bytes())
            .end();
        let replies = 1 + writes + packer.packed();
        self.connection.send(&self.packet)?;
        for _ in 0..replies {
            let reply = self.connection.reply()?;
            if let Some(error) = reply.first_error() {
                bail!("the store refuses a part of a packet: {error}");
            }
        }
        let replies = group.iter().map(|line| line.reply.clone()).collect();
        self.next = end;
        Ok(replies)
    }
}
