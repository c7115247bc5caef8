//! Reading the whole book from the store: the session's longest job, on the partition's core.
//!
//! Pairs are read one after the other, each side in pages of members with their records. What is
//! there and is not what it must be is told as such and read past: whether it can be true is judged
//! by the machine, once it knows that nobody else was writing. A reply that does not come, or that
//! the server refuses for any other reason, ends the session as everywhere else.

use super::session::{CONNECT_TIMEOUT, PROBE_EVERY, Session, within};
use crate::keys::Keys;
use crate::resp::{Packer, Reply};
use crate::store::{Link, LinkError, is_wrong_type, meta, refused, unexpected};
use crate::wire;
use conductor_engine::limits::LOAD_PAGE_MEMBERS;
use conductor_engine::partition::{
    BookRead, LoadedMember, LoadedPage, Record, Remembered, StoreEvent, StoredOrder,
};
use conductor_engine::staging::Cursor;
use conductor_engine::{OrderId, PairDecimals, PairId, Side};
use glommio::net::TcpStream;
use std::time::Instant;

/// A reply, or what is wrong with the key that was asked for.
type Read = Result<Reply, String>;

impl Session {
    /// Reads the cursor, the book unless its cursor is known, and the halt.
    pub(super) async fn load(
        &self,
        link: &mut Link<TcpStream>,
        remember: Option<Remembered>,
        known: Option<Cursor>,
    ) -> Result<(), LinkError> {
        let before = self.cursor(link).await?;
        if known.is_some_and(|known| before.as_ref() == Ok(&known)) {
            return self.end_load(link, before, remember, BookRead::Known).await;
        }
        self.book(link, None).await?;
        let after = self.cursor(link).await?;
        let read = stillness(&before, &after);
        self.end_load(link, after, remember, read).await
    }

    /// Reads the book in advance. Once a second the connection is tried as an idle one is, and a
    /// cursor that has moved ends the read: what was read is of no use any more.
    pub(super) async fn prepare(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        let before = self.cursor(link).await?;
        let mut looking = Looking {
            before: before.clone().ok(),
            last: Instant::now(),
        };
        let whole = self.book(link, Some(&mut looking)).await?;
        let after = self.cursor(link).await?;
        let read = match whole {
            true => stillness(&before, &after),
            false => BookRead::Moving,
        };
        self.end_load(link, after, None, read).await
    }

    async fn end_load(
        &self,
        link: &mut Link<TcpStream>,
        cursor: Result<Cursor, String>,
        remember: Option<Remembered>,
        read: BookRead,
    ) -> Result<(), LinkError> {
        let remembered = match remember {
            Some(seen) => self.remembers(link, &seen).await?,
            None => true,
        };
        let guards = within(CONNECT_TIMEOUT, meta::guards(link, &self.site.keys)).await?;
        self.tell(StoreEvent::LoadComplete {
            cursor,
            remembered,
            halted: guards.halted,
            read,
        });
        Ok(())
    }

    /// Reads every pair; whether it came to the end, which it always does unless it looks around.
    async fn book(
        &self,
        link: &mut Link<TcpStream>,
        mut looking: Option<&mut Looking>,
    ) -> Result<bool, LinkError> {
        for pair in self.pairs(link).await? {
            let decimals = self.decimals(link, pair).await?;
            for side in [Side::Ask, Side::Bid] {
                let looking = looking.as_deref_mut();
                if !self.side(link, pair, decimals, side, looking).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Where the store stands, or why that cannot be read.
    pub(super) async fn cursor(
        &self,
        link: &mut Link<TcpStream>,
    ) -> Result<Result<Cursor, String>, LinkError> {
        let key = self.site.keys.cursor().as_bytes();
        let cursor = self.read(link, &[b"HGETALL", key]).await?;
        Ok(cursor.and_then(|hash| read_cursor(&hash)))
    }

    /// Asks for a record; a key that holds something of another kind is no failure of the session.
    async fn read(&self, link: &mut Link<TcpStream>, parts: &[&[u8]]) -> Result<Read, LinkError> {
        let asked = within(self.reply_limit(), link.ask(parts)).await;
        match asked {
            Err(LinkError::Refused { words, .. }) if is_wrong_type(&words) => Ok(Err(words)),
            asked => asked.map(Ok),
        }
    }

    fn unreadable(&self, key: &str, detail: String) {
        let what = key.to_owned();
        self.tell(StoreEvent::Unreadable { what, detail });
    }

    async fn pairs(&self, link: &mut Link<TcpStream>) -> Result<Vec<PairId>, LinkError> {
        let key = self.site.keys.pairs();
        let members = match self.read(link, &[b"SMEMBERS", key.as_bytes()]).await? {
            Ok(members) => members,
            Err(detail) => {
                self.unreadable(key, detail);
                return Ok(Vec::new());
            }
        };
        let members = members.elements().ok_or_else(|| unexpected("SMEMBERS"))?;
        let mut pairs = Vec::with_capacity(members.len());
        for member in members {
            match member.text().and_then(|text| text.parse().ok()) {
                Some(pair) => pairs.push(PairId(pair)),
                None => self.unreadable(key, format!("a member is no pair: {member:?}")),
            }
        }
        pairs.sort_unstable();
        Ok(pairs)
    }

    async fn decimals(
        &self,
        link: &mut Link<TcpStream>,
        pair: PairId,
    ) -> Result<Option<PairDecimals>, LinkError> {
        let key = self.site.keys.pair(pair);
        let hash = self.read(link, &[b"HGETALL", key.as_bytes()]).await?;
        let decimals =
            hash.and_then(|hash| wire::read_pair(&hash).map_err(|error| error.to_string()));
        Ok(decimals.unwrap_or_else(|detail| {
            self.unreadable(&key, detail);
            None
        }))
    }

    /// Whether the last command that was seen on disks has its record, and the one it was given.
    async fn remembers(
        &self,
        link: &mut Link<TcpStream>,
        seen: &Remembered,
    ) -> Result<bool, LinkError> {
        let key = self.site.keys.processed_command(&seen.command);
        let stored = self.read(link, &[b"GET", key.as_bytes()]).await?;
        Ok(match (stored, &seen.result) {
            (Ok(Reply::Bulk(found)), Some(result)) => {
                let mut expected = Vec::new();
                wire::encode_result(result, &mut expected);
                found == expected
            }
            (Ok(Reply::Bulk(_)), None) => true,
            _ => false,
        })
    }

    /// Reads one side, best first. While the server looks the records of a page up, the page before
    /// it is handed on.
    async fn side(
        &self,
        link: &mut Link<TcpStream>,
        pair: PairId,
        decimals: Option<PairDecimals>,
        side: Side,
        mut looking: Option<&mut Looking>,
    ) -> Result<bool, LinkError> {
        let tell = |(found, records): (Vec<Found>, Vec<Reply>)| {
            let mut records = records.into_iter();
            let members = found.into_iter();
            let members = members.map(|found| found.with_records(&mut records));
            self.tell(StoreEvent::Page(LoadedPage {
                pair,
                decimals,
                side,
                members: members.collect(),
            }));
        };
        let (mut from, mut members, mut read) = (0, Vec::new(), None);
        let mut more = true;
        while more {
            if let Some(looking) = looking.as_deref_mut()
                && looking.is_due()
                && self.probe(link).await? != looking.before
            {
                return Ok(false);
            }
            let asked = self.ask_page(link, pair, side, from, &members).await?;
            read.take().map(tell);
            let (records, range) = within(self.reply_limit(), asked.answer(link)).await?;
            // The first page has no members yet, and brings the decimals of an empty side.
            read = Some((members, records));
            members = self.members(pair, side, range)?;
            from += members.len();
            more = !members.is_empty();
        }
        read.map(tell);
        Ok(true)
    }

    /// Asks for the records of some members, and for the members that follow.
    async fn ask_page(
        &self,
        link: &mut Link<TcpStream>,
        pair: PairId,
        side: Side,
        from: usize,
        members: &[Found],
    ) -> Result<Asked, LinkError> {
        let keys = &self.site.keys;
        let range: &[u8] = match side {
            Side::Ask => b"ZRANGE",
            Side::Bid => b"ZREVRANGE",
        };
        let mut packet = Vec::new();
        let mut packer = Packer::new(&mut packet);
        for order in members.iter().flat_map(|found| &found.candidates) {
            packer
                .start(b"HGETALL")
                .build(|out| keys.write_order(&order.id, out))
                .end();
        }
        let records = packer.packed();
        let (first, last) = (from.to_string(), (from + LOAD_PAGE_MEMBERS - 1).to_string());
        packer
            .start(range)
            .part(keys.book(pair, side).as_bytes())
            .part(first.as_bytes())
            .part(last.as_bytes())
            .end();
        within(self.reply_limit(), link.send(&packet)).await?;
        Ok(Asked { records })
    }

    /// The members of a page; a key that holds something of another kind has none.
    fn members(&self, pair: PairId, side: Side, range: Reply) -> Result<Vec<Found>, LinkError> {
        if let Reply::Error(words) = range {
            if is_wrong_type(&words) {
                self.unreadable(&self.site.keys.book(pair, side), words);
                return Ok(Vec::new());
            }
            return Err(refused("ZRANGE", words));
        }
        let members = range.elements().ok_or_else(|| unexpected("ZRANGE"))?;
        Ok(members
            .iter()
            .map(|member| Found::of(side, member))
            .collect())
    }
}

/// A page that was asked for.
struct Asked {
    records: usize,
}

impl Asked {
    /// The records, and the reply to the range behind them.
    async fn answer(self, link: &mut Link<TcpStream>) -> Result<(Vec<Reply>, Reply), LinkError> {
        let mut records = Vec::with_capacity(self.records);
        for _ in 0..self.records {
            let record = link.reply().await?;
            match record {
                Reply::Error(words) if !is_wrong_type(&words) => {
                    return Err(refused("HGETALL", words));
                }
                record => records.push(record),
            }
        }
        Ok((records, link.reply().await?))
    }
}

/// Whether two looks at the cursor are the same.
fn stillness(before: &Result<Cursor, String>, after: &Result<Cursor, String>) -> BookRead {
    match before == after {
        true => BookRead::Still,
        false => BookRead::Moving,
    }
}

/// Looks at the connection during a long read.
struct Looking {
    /// Where the store stood before it.
    before: Option<Cursor>,
    last: Instant,
}

impl Looking {
    /// Whether it is time for the next one, which is then taken to be made.
    fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= PROBE_EVERY;
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// What a reply to `HGETALL cursor` says; a store without one stands at the beginning.
pub(super) fn read_cursor(hash: &Reply) -> Result<Cursor, String> {
    if let Some(words) = hash.error() {
        return Err(words.to_owned());
    }
    let cursor = wire::read_cursor(hash).map_err(|error| error.to_string())?;
    Ok(cursor.unwrap_or_default())
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
    if let Some(words) = reply.error() {
        return Record::Unreadable(words.to_owned());
    }
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
