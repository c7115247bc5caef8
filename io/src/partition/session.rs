//! The partition's one connection to its store, as a task on the partition's core.
//!
//! Jobs are done one after the other in the order in which they were given; what comes of each is
//! reported as it comes, so that a transaction's look-ups are known while its disks are still
//! waited for. The first failure ends the session: what the store has done is unknown then. Every
//! reply has a limit, after which the connection is dropped, never asked again.

use super::local::LocalQueue;
use super::packet::{self, CommitBytes, Waits};
use super::socket::Dialler;
use crate::keys::Keys;
use crate::messages::{Issue, OrderView, Suspect};
use crate::reconcile;
use crate::resp::{Packer, Reply};
use crate::store::checks::{self, CheckError};
use crate::store::discover::{self, DiscoverError, Logins, Primary};
use crate::store::{Link, LinkError, meta, unexpected};
use crate::wire;
use conductor_config::{Login, StoreAddress};
use conductor_engine::limits::LOAD_PAGE_MEMBERS;
use conductor_engine::partition::{
    HaltRecord, LoadedMember, LoadedPage, LookUp, Record, StoreEvent, StoredOrder, Topology,
};
use conductor_engine::{CommandId, OrderId, PairId, Side};
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
    Load { remember: Option<CommandId> },
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
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a connection may be idle before it is tried.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// How long any reply may take beyond the waits that stand before it.
const REPLY_MARGIN: Duration = Duration::from_millis(1_500);

/// One session.
pub(super) struct Session {
    site: Rc<Site>,
    number: u64,
    jobs: LocalQueue<Job>,
    told: LocalQueue<Told>,
}

impl Session {
    pub(super) const fn new(
        site: Rc<Site>,
        number: u64,
        jobs: LocalQueue<Job>,
        told: LocalQueue<Told>,
    ) -> Self {
        Self {
            site,
            number,
            jobs,
            told,
        }
    }

    /// Connects, then does jobs until something fails or the task is dropped.
    pub(super) async fn run(self, first: bool) {
        let mut link = match self.open(first).await {
            Ok(link) => link,
            Err(event) => return self.tell(event),
        };
        loop {
            let done = match self.next_job().await {
                Some(job) => self.perform(&mut link, job).await,
                None => self.probe(&mut link).await,
            };
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
    /// before the next command needs it.
    async fn probe(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let role = within(CONNECT_TIMEOUT, link.ask(&[b"ROLE"])).await?;
        let elements = role.elements().unwrap_or_default();
        if elements.first().and_then(Reply::text) != Some("master") {
            return Err(unexpected("ROLE: it is a primary no longer"));
        }
        let replicas = elements
            .get(2)
            .and_then(Reply::elements)
            .map_or(0, <[Reply]>::len);
        let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
        self.tell(StoreEvent::Probed { replicas });
        Ok(())
    }

    fn tell(&self, event: StoreEvent) {
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
            Job::Load { remember } => self.load(link, remember).await,
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
        within(self.site.waits.timeout * 2 + REPLY_MARGIN, link.reply()).await
    }

    /// A reply that is a failure of the whole session when the server refuses.
    async fn granted(&self, link: &mut Link<TcpStream>, command: &str) -> Result<Reply, LinkError> {
        match self.reply(link).await? {
            Reply::Error(words) => Err(LinkError::Refused {
                command: command.to_owned(),
                words,
            }),
            reply => Ok(reply),
        }
    }

    async fn raise_epoch(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let key = self.site.keys.epoch().as_bytes();
        self.send(link, |packer| packer.start(b"INCR").part(key).end())
            .await?;
        let reply = self.granted(link, "INCR").await?;
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

    async fn load(
        &self,
        link: &mut Link<TcpStream>,
        remember: Option<CommandId>,
    ) -> Result<(), LinkError> {
        let keys = &self.site.keys;
        for pair in self.pairs(link).await? {
            let key = keys.pair(pair);
            let hash = self.ask(link, &[b"HGETALL", key.as_bytes()]).await?;
            let decimals = wire::read_pair(&hash).map_err(|_| unexpected("HGETALL pair"))?;
            for side in [Side::Ask, Side::Bid] {
                let mut from = 0;
                loop {
                    let members = self.page(link, pair, side, from).await?;
                    let (read, full) = (members.len(), members.len() == LOAD_PAGE_MEMBERS);
                    self.tell(StoreEvent::Page(LoadedPage {
                        pair,
                        decimals,
                        side,
                        members,
                    }));
                    from += read;
                    if !full {
                        break;
                    }
                }
            }
        }
        let hash = self
            .ask(link, &[b"HGETALL", keys.cursor().as_bytes()])
            .await?;
        let cursor = wire::read_cursor(&hash).map_err(|error| error.to_string());
        let remembered = match remember {
            Some(command) => {
                let key = keys.processed_command(&command);
                self.ask(link, &[b"EXISTS", key.as_bytes()])
                    .await?
                    .integer()
                    == Some(1)
            }
            None => true,
        };
        let cursor = cursor.map(Option::unwrap_or_default);
        let guards = within(CONNECT_TIMEOUT, meta::guards(link, keys)).await?;
        self.tell(StoreEvent::LoadComplete {
            cursor,
            remembered,
            halted: guards.halted,
        });
        Ok(())
    }

    async fn ask(&self, link: &mut Link<TcpStream>, parts: &[&[u8]]) -> Result<Reply, LinkError> {
        within(self.site.waits.timeout * 2 + REPLY_MARGIN, link.ask(parts)).await
    }

    async fn pairs(&self, link: &mut Link<TcpStream>) -> Result<Vec<PairId>, LinkError> {
        let reply = self
            .ask(link, &[b"SMEMBERS", self.site.keys.pairs().as_bytes()])
            .await?;
        let members = reply.elements().ok_or_else(|| unexpected("SMEMBERS"))?;
        let pairs = members
            .iter()
            .map(|member| member.text()?.parse().ok().map(PairId));
        let mut pairs: Vec<PairId> = pairs
            .collect::<Option<_>>()
            .ok_or_else(|| unexpected("SMEMBERS"))?;
        pairs.sort_unstable();
        Ok(pairs)
    }

    /// One page of members with their records, best first.
    async fn page(
        &self,
        link: &mut Link<TcpStream>,
        pair: PairId,
        side: Side,
        from: usize,
    ) -> Result<Vec<LoadedMember>, LinkError> {
        let key = self.site.keys.book(pair, side);
        let range: &[u8] = match side {
            Side::Ask => b"ZRANGE",
            Side::Bid => b"ZREVRANGE",
        };
        let (first, last) = (from.to_string(), (from + LOAD_PAGE_MEMBERS - 1).to_string());
        let parts: [&[u8]; 4] = [range, key.as_bytes(), first.as_bytes(), last.as_bytes()];
        let reply = self.ask(link, &parts).await?;
        let members = reply.elements().ok_or_else(|| unexpected("ZRANGE"))?;
        let found: Vec<Found> = members
            .iter()
            .map(|member| Found::of(side, member))
            .collect();
        let records = self.records(link, &found).await?;
        let mut records = records.into_iter();
        Ok(found
            .into_iter()
            .map(|found| found.with_records(&mut records))
            .collect())
    }

    async fn records(
        &self,
        link: &mut Link<TcpStream>,
        found: &[Found],
    ) -> Result<Vec<Reply>, LinkError> {
        let keys = &self.site.keys;
        let asking = link.ask_all(|packer| {
            for order in found.iter().flat_map(|found| found.candidates.iter()) {
                packer
                    .start(b"HGETALL")
                    .build(|out| keys.write_order(&order.id, out))
                    .end();
            }
        });
        within(self.site.waits.timeout * 2 + REPLY_MARGIN, asking).await
    }
}

/// A member and the orders that it may mean, the likeliest first.
struct Found {
    member: String,
    candidates: Vec<Candidate>,
}

struct Candidate {
    id: OrderId,
    digits: Option<u64>,
}

impl Found {
    fn of(side: Side, member: &Reply) -> Self {
        let bytes = member.bytes().unwrap_or_default();
        let member = String::from_utf8_lossy(bytes).into_owned();
        let meaning = Keys::parse_member(side, &member);
        let prefixed = meaning.prefixed.map(|prefixed| Candidate {
            id: prefixed.order,
            digits: Some(prefixed.digits),
        });
        let bare = meaning.bare.map(|id| Candidate { id, digits: None });
        Self {
            member,
            candidates: prefixed.into_iter().chain(bare).collect(),
        }
    }

    /// The first candidate that has a record decides.
    fn with_records(self, replies: &mut impl Iterator<Item = Reply>) -> LoadedMember {
        let mut decided = None;
        for candidate in self.candidates {
            let Some(reply) = replies.next() else { break };
            let record = record_of(&candidate.id, &reply);
            if decided.is_none() && !matches!(record, Record::Missing) {
                decided = Some((candidate.digits, record));
            }
        }
        let (priority, record) = decided.unwrap_or((None, Record::Missing));
        LoadedMember {
            member: self.member,
            priority,
            record,
        }
    }
}

fn record_of(id: &OrderId, reply: &Reply) -> Record {
    match wire::read_record(reply) {
        Ok(None) => Record::Missing,
        Ok(Some(stored)) if stored.id != *id => Record::Foreign,
        Ok(Some(stored)) => {
            let (decimals, priority) = (stored.decimals, stored.priority);
            let order = stored.resting(priority.unwrap_or(0));
            Record::Order(Box::new(StoredOrder {
                order,
                decimals,
                priority,
            }))
        }
        Err(error) => Record::Unreadable(error.to_string()),
    }
}

/// A future with a limit.
async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let raced = futures_lite::future::or(async { Some(future.await) }, async {
        glommio::timer::Timer::new(limit).await;
        None
    });
    raced.await.unwrap_or(Err(LinkError::TimedOut))
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
