//! The articles' conductor: one delivery at a time, one transaction a command, the reply and the
//! acknowledgement once the disks have it.
//!
//! Runs in a thread of its own with a runtime of its own. A store that does not confirm in time
//! ends it, where the articles' would have the command delivered again.

use super::decide::decide;
use super::reads::Reads;
use crate::commit::Wait;
use crate::connection::{Connection, StoreAt};
use anyhow::{Context, bail, ensure};
use conductor_config::BrokerSettings;
use conductor_engine::staging::Cursor;
use conductor_engine::{Incoming, PartitionId};
use conductor_io::amqp;
use conductor_io::keys::{Keys, command_queue};
use conductor_io::resp::{Packer, Reply};
use conductor_io::store::waits;
use conductor_io::wire::{decode, encode_result, store_writes};
use conductor_tools::client::Subscription;
use lapin::message::Delivery;
use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel};
use tokio::sync::watch;

/// Deliveries ahead of their acknowledgement.
const PREFETCH: u16 = 1;

/// What the baseline runs against.
#[derive(Clone, Debug)]
pub(crate) struct At {
    pub(crate) broker: BrokerSettings,
    pub(crate) store: StoreAt,
    pub(crate) wait: Option<Wait>,
    /// `EXEC`, `WAIT` and `WAITAOF` in one packet instead of `EXEC` and then `WAITAOF`.
    pub(crate) mended: bool,
}

/// Takes commands until it is told to stop.
pub(crate) async fn run(at: At, mut stop: watch::Receiver<bool>) -> anyhow::Result<()> {
    let connection = amqp::connect(&at.broker, "baseline conductor").await?;
    let replies = amqp::connect(&at.broker, "baseline replies").await?;
    let replies_channel = amqp::open_channel(&replies).await?;
    let queue = command_queue(PartitionId(0));
    let mut commands = Subscription::open(&connection, &queue, PREFETCH).await?;
    let mut conductor = Conductor::new(&at)?;
    loop {
        let delivery = tokio::select! {
            delivery = commands.next() => delivery?,
            _ = stop.changed() => break,
        };
        let result = conductor.process(&delivery)?;
        reply(&replies_channel, &delivery, &result).await?;
        commands.acknowledge(&delivery, false).await?;
    }
    commands.close().await;
    amqp::close_connection(&connection).await;
    amqp::close_connection(&replies).await;
    Ok(())
}

struct Conductor {
    reads: Reads,
    cursor: Cursor,
    wait: Option<Wait>,
    mended: bool,
    packet: Vec<u8>,
}

impl Conductor {
    fn new(at: &At) -> anyhow::Result<Self> {
        Ok(Self {
            reads: Reads {
                connection: Connection::open(&at.store)?,
                keys: Keys::new(PartitionId(0)),
            },
            cursor: Cursor::default(),
            wait: at.wait,
            mended: at.mended,
            packet: Vec::new(),
        })
    }

    /// Decides a command and gives its result once it is durable.
    fn process(&mut self, delivery: &Delivery) -> anyhow::Result<Vec<u8>> {
        let command = match decode(&delivery.data) {
            Incoming::Command(command) => command,
            other => bail!("the baseline takes commands only, not {other:?}"),
        };
        if let Some(result) = self.reads.processed(&command.id)? {
            self.disks()?;
            return Ok(result);
        }
        let decided = decide(&mut self.reads, &command, &self.cursor)?;
        self.packet.clear();
        Packer::new(&mut self.packet).start(b"MULTI").end();
        let count = store_writes(&self.reads.keys, &decided.writes, None, &mut self.packet);
        Packer::new(&mut self.packet).start(b"EXEC").end();
        if let Some(wait) = self.wait.filter(|_| self.mended) {
            waits::pack(
                &mut Packer::new(&mut self.packet),
                wait.replicas,
                wait.timeout,
            );
        }
        self.reads.connection.send(&self.packet)?;
        for _ in 0..count + 2 {
            if let Some(error) = self.reads.connection.reply()?.first_error() {
                bail!("the store refuses a write: {error}");
            }
        }
        match self.wait {
            Some(wait) if self.mended => {
                self.reads.connection.reply()?;
                confirmed(&self.reads.connection.reply()?, wait)?;
            }
            _ => self.disks()?,
        }
        self.cursor = decided.cursor;
        let mut result = Vec::new();
        encode_result(&decided.result, &mut result);
        Ok(result)
    }

    /// The articles' ensureDurability.
    fn disks(&mut self) -> anyhow::Result<()> {
        let Some(wait) = self.wait else {
            return Ok(());
        };
        let (replicas, timeout) = (
            wait.replicas.to_string(),
            wait.timeout.as_millis().to_string(),
        );
        let words = ["WAITAOF", "1", &replicas, &timeout];
        confirmed(&self.reads.connection.ask(&words)?, wait)
    }
}

fn confirmed(disks: &Reply, wait: Wait) -> anyhow::Result<()> {
    let counted = |place: usize| disks.elements()?.get(place)?.integer();
    ensure!(
        counted(0) >= Some(1) && counted(1) >= Some(i64::from(wait.replicas)),
        "the disks did not confirm in time: {disks:?}"
    );
    Ok(())
}

async fn reply(channel: &Channel, delivery: &Delivery, result: &[u8]) -> anyhow::Result<()> {
    let Some(queue) = delivery.properties.reply_to() else {
        return Ok(());
    };
    let mut properties = BasicProperties::default().with_content_type("application/json".into());
    if let Some(correlation) = delivery.properties.correlation_id() {
        properties = properties.with_correlation_id(correlation.clone());
    }
    let options = BasicPublishOptions::default();
    let published = channel.basic_publish("".into(), queue.clone(), options, result, properties);
    published.await.context("replying")?;
    Ok(())
}
