//! One partition's writes against its store, a packet at a time.

use super::load::{Load, StoredDue, Wait, packet};
use crate::connection::{Connection, StoreAt};
use crate::entry::{event, id};
use crate::figures::{histogram, record};
use anyhow::{Context, bail, ensure};
use conductor_engine::{PairId, Side};
use conductor_io::keys::Keys;
use conductor_io::resp::{Packer, Reply};
use conductor_io::wire::Digest;
use hdrhistogram::Histogram;
use std::time::Instant;

/// Entries that are read at once when a stream is compared.
const PAGE: &str = "1000";

/// How a transaction and its wait for disks are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Everything in one packet, `WAIT` before `WAITAOF`, as the conductor does.
    OnePacket,
    /// `EXEC` first, and `WAITAOF` once it was answered, as the articles do.
    ExecThenWait,
}

/// What one partition's run came to.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) times: Histogram<u64>,
    /// Waits that were not enough at first and were repeated.
    pub(crate) waited_again: u64,
}

/// Sends every group and waits for it.
pub(crate) fn drive(
    store: &StoreAt,
    load: &Load,
    wait: Option<Wait>,
    way: Way,
) -> anyhow::Result<Driven> {
    let mut core = Core::open(store, wait)?;
    core.own(&load.keys)?;
    let (mut times, mut bytes) = (histogram(), Vec::new());
    for group in &load.groups {
        let replies = packet(&load.keys, group, wait, &mut bytes);
        let began = Instant::now();
        match way {
            Way::OnePacket => {
                core.send(&bytes)?;
                core.one_packet(replies, group.writes)?;
            }
            Way::ExecThenWait => {
                core.send(&group.transaction)?;
                core.executed(group.writes)?;
                core.disks_alone()?;
            }
        }
        record(&mut times, began.elapsed());
    }
    Ok(Driven {
        times,
        waited_again: core.waited_again,
    })
}

/// The one connection.
pub(super) struct Core {
    connection: Connection,
    wait: Option<Wait>,
    waited_again: u64,
}

impl Core {
    pub(super) fn open(store: &StoreAt, wait: Option<Wait>) -> anyhow::Result<Self> {
        Ok(Self {
            connection: Connection::open(store)?,
            wait,
            waited_again: 0,
        })
    }

    /// Writes the epoch that every packet expects.
    pub(super) fn own(&mut self, keys: &Keys) -> anyhow::Result<()> {
        self.connection.ask(&["SET", keys.epoch(), "1"])?;
        Ok(())
    }

    pub(super) fn send(&mut self, packet: &[u8]) -> anyhow::Result<()> {
        self.connection.send(packet)
    }

    /// Takes the replies of a transaction; all of it must be done.
    fn executed(&mut self, writes: usize) -> anyhow::Result<()> {
        for _ in 0..=writes {
            let queued = self.connection.reply()?;
            if let Some(error) = queued.error() {
                bail!("the store refuses a write: {error}");
            }
        }
        let exec = self.connection.reply()?;
        if let Some(error) = exec.first_error() {
            bail!("a write failed: {error}");
        }
        let done = exec.elements().map_or(0, <[Reply]>::len);
        ensure!(
            done == writes,
            "a transaction of {writes} writes did {done}"
        );
        Ok(())
    }

    /// Takes the replies of the conductor's packet, and waits again where the disks were too slow.
    pub(super) fn one_packet(&mut self, replies: usize, writes: usize) -> anyhow::Result<()> {
        self.executed(writes)?;
        for _ in 0..replies - writes - 2 - self.waits() - 2 {
            self.plain()?;
        }
        let enough = match self.wait {
            Some(wait) => {
                self.plain()?;
                let disks = self.connection.reply()?;
                enough(&disks, wait)
            }
            None => true,
        };
        self.plain()?;
        let epoch = self.connection.reply()?;
        ensure!(epoch.text() == Some("1"), "the epoch is {epoch:?}");
        if enough { Ok(()) } else { self.again() }
    }

    const fn waits(&self) -> usize {
        if self.wait.is_some() { 2 } else { 0 }
    }

    fn plain(&mut self) -> anyhow::Result<()> {
        let reply = self.connection.reply()?;
        match reply.error() {
            Some(error) => bail!("the store refuses a part of the packet: {error}"),
            None => Ok(()),
        }
    }

    /// `WAITAOF` in a packet of its own.
    fn disks_alone(&mut self) -> anyhow::Result<()> {
        let Some(wait) = self.wait else {
            return Ok(());
        };
        let (replicas, timeout) = (
            wait.replicas.to_string(),
            wait.timeout.as_millis().to_string(),
        );
        let disks = self
            .connection
            .ask(&["WAITAOF", "1", &replicas, &timeout])?;
        if enough(&disks, wait) {
            Ok(())
        } else {
            self.again()
        }
    }

    /// Waits on the same connection until it is enough.
    fn again(&mut self) -> anyhow::Result<()> {
        let wait = self.wait.context("nothing is waited for")?;
        let mut bytes = Vec::new();
        conductor_io::store::waits::pack(&mut Packer::new(&mut bytes), wait.replicas, wait.timeout);
        loop {
            self.waited_again += 1;
            self.connection.send(&bytes)?;
            self.plain()?;
            if enough(&self.connection.reply()?, wait) {
                return Ok(());
            }
        }
    }
}

fn enough(disks: &Reply, wait: Wait) -> bool {
    let counted = |place: usize| disks.elements()?.get(place)?.integer();
    counted(0) >= Some(1) && counted(1) >= Some(i64::from(wait.replicas))
}

/// Insists that the store holds the events and the orders that the decisions say.
pub(crate) fn check(store: &StoreAt, load: &Load, pairs: &[PairId]) -> anyhow::Result<()> {
    let (mut connection, due) = (Connection::open(store)?, &load.due);
    let (events, digest) = stream(&mut connection, load.keys.events())?;
    ensure!(
        (events, &digest) == (due.events, &due.digest),
        "the stream holds {events} events ({digest}), not {} ({}): there is no speed to print",
        due.events,
        due.digest
    );
    check_resting(&mut connection, &load.keys, due, pairs)
}

/// Insists that so many orders rest.
pub(super) fn check_resting(
    connection: &mut Connection,
    keys: &Keys,
    due: &StoredDue,
    pairs: &[PairId],
) -> anyhow::Result<()> {
    let mut resting = 0;
    for pair in pairs {
        for side in [Side::Ask, Side::Bid] {
            resting += connection.number(&["ZCARD", &keys.book(*pair, side)])?;
        }
    }
    ensure!(
        resting == due.resting as u64,
        "{resting} orders rest, not {}: there is no speed to print",
        due.resting
    );
    Ok(())
}

/// Events that were taken out of a stream.
#[derive(Debug, Default)]
pub(super) struct Drained {
    pub(super) events: usize,
    so_far: Digest,
}

impl Drained {
    /// Takes everything that is there.
    pub(super) fn take(&mut self, connection: &mut Connection, key: &str) -> anyhow::Result<()> {
        loop {
            let page = connection.ask(&["XRANGE", key, "-", "+", "COUNT", PAGE])?;
            let entries = page.elements().context("XRANGE gives entries")?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut deletion = vec!["XDEL", key];
            for entry in entries {
                self.so_far
                    .line(event(entry).context("an entry holds an event")?);
                deletion.push(id(entry).context("an entry has an id")?);
            }
            self.events += entries.len();
            connection.ask(&deletion)?;
        }
    }

    pub(super) fn digest(&self) -> String {
        self.so_far.hex()
    }
}

/// How many events a stream holds, and their digest.
pub(crate) fn stream(connection: &mut Connection, key: &str) -> anyhow::Result<(usize, String)> {
    let (mut digest, mut count, mut from) = (Digest::default(), 0, "-".to_owned());
    loop {
        let page = connection.ask(&["XRANGE", key, &from, "+", "COUNT", PAGE])?;
        let entries = page.elements().context("XRANGE gives entries")?;
        let Some(last) = entries.last() else {
            return Ok((count, digest.hex()));
        };
        for entry in entries {
            digest.line(event(entry).context("an entry holds an event")?);
            count += 1;
        }
        from = format!("({}", id(last).context("an entry has an id")?);
    }
}
