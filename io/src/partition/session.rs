//! The partition's one connection to its store, as a task on the partition's core.
//!
//! Jobs are done one after the other in the order in which they were given; what comes of each is
//! reported as it comes, so that a transaction's look-ups are known while its disks are still
//! waited for. The first failure ends the session: what the store has done is unknown then. Every
//! reply has a limit, after which the connection is dropped, never asked again.

use super::loading::read_cursor;
use super::local::LocalQueue;
use super::packet::{self, CommitBytes, Waits};
use super::socket::Dialler;
use super::waiting::Waiting;
use crate::keys::Keys;
use crate::messages::{Issue, OrderView, Suspect};
use crate::reconcile;
use crate::resp::{Packer, Reply};
use crate::store::checks::{self, CheckError};
use crate::store::discover::{self, DiscoverError, Logins, Primary};
use crate::store::{Link, LinkError, meta, refused, replication, unexpected};
use conductor_config::{Login, StoreAddress};
use conductor_engine::PairId;
use conductor_engine::partition::{HaltRecord, LookUp, Remembered, StoreEvent, Topology};
use conductor_engine::staging::Cursor;
use glommio::net::TcpStream;
use std::collections::HashMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;

/// What the session is asked to do.
#[derive(Debug)]
pub(super) enum Job {
    RaiseEpoch,
    AwaitDisks,
    Prepare,
    Load {
        remember: Option<Remembered>,
        known: Option<Cursor>,
    },
    WatchEpoch,
    LookUp(Vec<LookUp>),
    Commit(CommitBytes),
    WriteHalt(HaltRecord),
    Verify(Box<Verification>),
}

/// A comparison of memory and store that somebody waits for.
#[derive(Debug)]
pub(super) struct Verification {
    pub(super) pair: PairId,
    pub(super) suspects: Vec<Suspect>,
    pub(super) memory: HashMap<String, OrderView>,
    pub(super) answer: oneshot::Sender<Option<Vec<Issue>>>,
}

/// What the driver is told by the tasks of its core.
#[derive(Debug)]
pub(super) enum Told {
    /// Something came of the session of this number.
    Store(u64, StoreEvent),
    /// The buffer of a packet that was sent, to be used again.
    Spent(Vec<u8>),
    /// The pause of this number is over.
    PauseOver(u64),
}

/// Everything that a session needs to know; the same for every session of the process.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) keys: Keys,
    pub(super) address: StoreAddress,
    pub(super) store_login: Option<Login>,
    pub(super) sentinel_login: Option<Login>,
    pub(super) waits: Waits,
    /// What the store must say that it is for.
    pub(super) topology: Topology,
}

/// How long a connection, a login or a check may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may be idle before it is tried.
pub(super) const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long any reply may take beyond the waits that stand before it.
const REPLY_MARGIN: Duration = Duration::from_millis(1_500);

/// One session.
pub(super) struct Session {
    pub(super) site: Rc<Site>,
    number: u64,
    jobs: LocalQueue<Job>,
    told: LocalQueue<Told>,
    waiting: Waiting,
}

impl Session {
    pub(super) const fn new(
        site: Rc<Site>,
        number: u64,
        jobs: LocalQueue<Job>,
        told: LocalQueue<Told>,
        waiting: Waiting,
    ) -> Self {
        Self {
            site,
            number,
            jobs,
            told,
            waiting,
        }
    }

    /// Connects, then does jobs until something fails or the task is dropped.
    pub(super) async fn run(self, first: bool) {
        let mut link = match self.open(first).await {
            Ok(link) => link,
            Err(event) => return self.tell(event),
        };
        loop {
            let job = self.next_job().await;
            self.waiting.begin();
            let done = match job {
                Some(job) => self.perform(&mut link, job).await,
                None => self.probe(&mut link).await.map(drop),
            };
            self.waiting.end();
            if let Err(error) = done {
                return self.tell(lost(&error));
            }
        }
    }

    /// The next job; `None` when there was none for a while.
    async fn next_job(&self) -> Option<Job> {
        futures_lite::future::or(async { Some(self.jobs.pop().await) }, async {
            glommio::timer::Timer::new(PROBE_EVERY).await;
            None
        })
        .await
    }

    /// Tries an idle connection, so that a store that is gone, or is no primary any more, is known
    /// before the next command needs it; and a replica that follows and no longer answers. Gives
    /// where the store stands.
    pub(super) async fn probe(
        &self,
        link: &mut Link<TcpStream>,
    ) -> Result<Option<Cursor>, LinkError> {
        let cursor = self.site.keys.cursor().as_bytes();
        let asking = link.ask_all(|packer| {
            packer.start(b"INFO").part(b"replication").end();
            packer.start(b"HGETALL").part(cursor).end();
        });
        let replies = within(CONNECT_TIMEOUT, asking).await?;
        let [info, cursor] = <[Reply; 2]>::try_from(replies).map_err(|_| unexpected("INFO"))?;
        if let Reply::Error(words) = info {
            return Err(refused("INFO", words));
        }
        let info = info.text().ok_or_else(|| unexpected("INFO"))?;
        let Some(replicas) = replication::read(info) else {
            return Err(unexpected("INFO: it is a primary no longer"));
        };
        let cursor = read_cursor(&cursor).ok();
        self.tell(StoreEvent::Probed {
            replicas,
            cursor: cursor.clone(),
        });
        Ok(cursor)
    }

    pub(super) fn tell(&self, event: StoreEvent) {
        self.waiting.heard();
        self.told.push(Told::Store(self.number, event));
    }

    /// Finds the primary, checks it and reads what it says of itself.
    async fn open(&self, first: bool) -> Result<Link<TcpStream>, StoreEvent> {
        let dialler = Dialler {
            timeout: CONNECT_TIMEOUT,
        };
        let logins = Logins {
            store: self.site.store_login.as_ref(),
            sentinel: self.site.sentinel_login.as_ref(),
        };
        let sentinels = match &self.site.address {
            StoreAddress::Sentinel { hosts, .. } => u32::try_from(hosts.len()).unwrap_or(1),
            StoreAddress::Direct { .. } => 0,
        };
        let finding = discover::primary(&dialler, &self.site.address, logins);
        let found = within(CONNECT_TIMEOUT * (sentinels + 1), async {
            Ok(finding.await)
        })
        .await;
        let Primary {
            mut link, address, ..
        } = match found {
            Ok(Ok(primary)) => primary,
            Ok(Err(error)) => return Err(not_found(&error)),
            Err(_) => {
                return Err(StoreEvent::Unavailable(
                    "the store does not answer".to_owned(),
                ));
            }
        };
        let limit = CONNECT_TIMEOUT + self.site.waits.timeout * 2;
        let checking = within(limit, async { Ok(self.check(&mut link, first).await) });
        match checking.await {
            Ok(Ok(event)) => {
                self.tell(event);
                Ok(link)
            }
            Ok(Err(CheckError::Misconfigured(line))) => Err(StoreEvent::Misconfigured(format!(
                "store {address}: {line}"
            ))),
            Ok(Err(CheckError::Unavailable(reason))) => Err(StoreEvent::Unavailable(format!(
                "store {address}: {reason}"
            ))),
            Ok(Err(CheckError::Link(error))) => Err(unavailable(&address, &error)),
            Err(error) => Err(unavailable(&address, &error)),
        }
    }

    async fn check(
        &self,
        link: &mut Link<TcpStream>,
        first: bool,
    ) -> Result<StoreEvent, CheckError> {
        let durability = self.site.waits.durability;
        checks::settings(link, durability.is_some()).await?;
        if durability.is_some() {
            checks::restart(link, &self.site.keys).await?;
        }
        let guards = meta::guards(link, &self.site.keys).await?;
        // Nothing is written to a store of another cell, and no replica of it is waited for.
        let ours = guards.topology == Some(self.site.topology);
        if let (Some(needed), true) = (durability, first && ours) {
            checks::durability(link, &self.site.keys, needed, self.site.waits.timeout).await?;
        }
        Ok(StoreEvent::Connected(guards))
    }

    async fn perform(&self, link: &mut Link<TcpStream>, job: Job) -> Result<(), LinkError> {
        match job {
            Job::RaiseEpoch => self.raise_epoch(link).await,
            Job::AwaitDisks => {
                self.send(link, |packer| self.site.waits.pack(packer))
                    .await?;
                self.confirmations(link).await
            }
            Job::Prepare => self.prepare(link).await,
            Job::Load { remember, known } => self.load(link, remember, known).await,
            Job::WatchEpoch => {
                self.send(link, |packer| packet::pack_watch(&self.site.keys, packer))
                    .await?;
                self.epoch(link).await
            }
            Job::LookUp(keys) if keys.is_empty() => {
                self.tell(StoreEvent::LookedUp(Vec::new()));
                Ok(())
            }
            Job::LookUp(keys) => {
                let site = &self.site;
                self.send(link, |packer| {
                    packet::pack_look_ups(&site.keys, &keys, packer)
                })
                .await?;
                self.look_ups(link).await
            }
            Job::Commit(commit) => self.commit(link, commit).await,
            Job::WriteHalt(record) => self.write_halt(link, &record).await,
            Job::Verify(verification) => self.verify(link, *verification).await,
        }
    }

    async fn send(
        &self,
        link: &mut Link<TcpStream>,
        pack: impl FnOnce(&mut Packer<'_>),
    ) -> Result<(), LinkError> {
        let mut bytes = Vec::new();
        pack(&mut Packer::new(&mut bytes));
        within(REPLY_MARGIN, link.send(&bytes)).await
    }

    async fn reply(&self, link: &mut Link<TcpStream>) -> Result<Reply, LinkError> {
        within(self.reply_limit(), link.reply()).await
    }

    /// How long a reply may take that stands behind both waits.
    pub(super) fn reply_limit(&self) -> Duration {
        self.site.waits.timeout * 2 + REPLY_MARGIN
    }

    /// A reply that is a failure of the whole session when the server refuses.
    async fn granted(&self, link: &mut Link<TcpStream>, command: &str) -> Result<Reply, LinkError> {
        match self.reply(link).await? {
            Reply::Error(words) => Err(refused(command, words)),
            reply => Ok(reply),
        }
    }

    async fn raise_epoch(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let key = self.site.keys.epoch().as_bytes();
        self.send(link, |packer| packer.start(b"INCR").part(key).end())
            .await?;
        let reply = match self.granted(link, "INCR").await {
            Err(LinkError::Refused { words, .. }) if is_no_counter(&words) => {
                self.tell(StoreEvent::Misconfigured(format!(
                    "the store's epoch cannot be raised: {words}; it is no store of a cell, or \
                     somebody changed it by hand: set {} to a number above every epoch that a \
                     conductor has logged",
                    self.site.keys.epoch()
                )));
                return Ok(());
            }
            reply => reply?,
        };
        let epoch = reply.integer().and_then(|epoch| u64::try_from(epoch).ok());
        self.tell(StoreEvent::EpochRaised(
            epoch.ok_or_else(|| unexpected("INCR"))?,
        ));
        Ok(())
    }

    async fn commit(
        &self,
        link: &mut Link<TcpStream>,
        commit: CommitBytes,
    ) -> Result<(), LinkError> {
        within(
            self.site.waits.timeout + REPLY_MARGIN,
            link.send(&commit.bytes),
        )
        .await?;
        self.told.push(Told::Spent(commit.bytes));
        self.transaction(link, commit.writes, true).await?;
        if commit.look_ups > 0 {
            self.look_ups(link).await?;
        }
        if self.site.waits.durability.is_some() {
            self.confirmations(link).await?;
        }
        self.epoch(link).await
    }

    /// Reads what `MULTI … EXEC`, and the stream's length where it was asked, came to.
    async fn transaction(
        &self,
        link: &mut Link<TcpStream>,
        writes: usize,
        with_length: bool,
    ) -> Result<(), LinkError> {
        let mut refused = Vec::new();
        for _ in 0..=writes {
            let queued = self.reply(link).await?;
            if queued.error().is_some() {
                refused.push(queued);
            } else if !queued.is_status("OK") && !queued.is_status("QUEUED") {
                return Err(unexpected("MULTI"));
            }
        }
        let exec = self.reply(link).await?;
        let length = if with_length {
            self.granted(link, "XLEN").await?.integer()
        } else {
            Some(0)
        };
        let length = length.and_then(|length| u64::try_from(length).ok());
        let length = length.ok_or_else(|| unexpected("XLEN"))?;
        let event = packet::executed(&refused, &exec, length, writes);
        self.tell(event.ok_or_else(|| unexpected("EXEC"))?);
        Ok(())
    }

    async fn look_ups(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let reply = self.granted(link, "MGET").await?;
        let values = packet::looked_up(reply).ok_or_else(|| unexpected("MGET"))?;
        self.tell(StoreEvent::LookedUp(values));
        Ok(())
    }

    async fn confirmations(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let wait = self.granted(link, "WAIT").await?;
        let wait_aof = self.granted(link, "WAITAOF").await?;
        let confirmed = checks::confirmed(&wait, &wait_aof);
        self.tell(StoreEvent::Confirmed(
            confirmed.ok_or_else(|| unexpected("WAITAOF"))?,
        ));
        Ok(())
    }

    async fn epoch(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let watched = self.granted(link, "WATCH").await?;
        if !watched.is_status("OK") {
            return Err(unexpected("WATCH"));
        }
        let seen = self.granted(link, "GET").await?;
        let epoch = match &seen {
            Reply::Nil => None,
            seen => {
                let number = seen.text().and_then(|text| text.parse().ok());
                Some(number.ok_or_else(|| unexpected("GET"))?)
            }
        };
        self.tell(StoreEvent::EpochSeen(epoch));
        Ok(())
    }

    async fn write_halt(
        &self,
        link: &mut Link<TcpStream>,
        record: &HaltRecord,
    ) -> Result<(), LinkError> {
        let site = &self.site;
        self.send(link, |packer| {
            packet::pack_halt(&site.keys, record, site.waits, packer)
        })
        .await?;
        self.transaction(link, 1, false).await?;
        if site.waits.durability.is_some() {
            self.confirmations(link).await?;
        }
        Ok(())
    }

    async fn verify(
        &self,
        link: &mut Link<TcpStream>,
        verification: Verification,
    ) -> Result<(), LinkError> {
        let Verification {
            pair,
            suspects,
            memory,
            answer,
        } = verification;
        let keys = &self.site.keys;
        let mut expected = 0;
        self.send(link, |packer| {
            reconcile::suspects_packet(keys, pair, &suspects, packer);
            expected = packer.packed();
            // The transaction used the watch up; without a new one the next commit had no fence.
            packet::pack_watch(keys, packer);
        })
        .await?;
        let mut last = Reply::Nil;
        for _ in 0..expected {
            last = self.granted(link, "EXEC").await?;
        }
        self.epoch(link).await?;
        let remembered = |order: &str| memory.get(order).cloned();
        let judged = reconcile::judge(&last, pair, &suspects, Some(&remembered));
        let issues = judged.map_err(|_| unexpected("EXEC"))?;
        // Nobody may be waiting any more.
        let _ = answer.send(Some(issues));
        self.tell(StoreEvent::Inspected);
        Ok(())
    }
}

/// A future with a limit.
pub(super) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let raced = futures_lite::future::or(async { Some(future.await) }, async {
        glommio::timer::Timer::new(limit).await;
        None
    });
    raced.await.unwrap_or(Err(LinkError::TimedOut))
}

/// Whether a server says that what is to be raised is no number.
fn is_no_counter(words: &str) -> bool {
    words.starts_with("WRONGTYPE") || words.starts_with("ERR value is not an integer")
}

fn lost(error: &LinkError) -> StoreEvent {
    if error.is_full() {
        StoreEvent::Full(format!(
            "the store is out of memory and refuses writes: {error}"
        ))
    } else {
        StoreEvent::Lost(error.to_string())
    }
}

fn not_found(error: &DiscoverError) -> StoreEvent {
    match error {
        DiscoverError::Unreachable { address, error } => unavailable(address, error),
        _ => StoreEvent::Unavailable(error.to_string()),
    }
}

/// A login that is refused does not mend itself.
fn unavailable(address: &str, error: &LinkError) -> StoreEvent {
    let words = error.refusal().unwrap_or_default();
    if ["WRONGPASS", "NOAUTH", "NOPERM"]
        .iter()
        .any(|code| words.starts_with(code))
    {
        return StoreEvent::Misconfigured(format!(
            "store {address}: {error}; set REDIS_USERNAME and REDIS_PASSWORD_FILE to a user that \
             the store knows"
        ));
    }
    StoreEvent::Unavailable(format!("store {address}: {error}"))
}
