//! Reading the whole book from the store: the session's longest job, on the partition's core.
//!
//! Pairs are read one after the other, each side in pages of members with their records. What is
//! there and is not what it must be is told as such and read past: whether it can be true is judged
//! by the machine, once it knows that nobody else was writing. A reply that does not come, or that
//! the server refuses for any other reason, ends the session as everywhere else.

use super::session::{CONNECT_TIMEOUT, REPLY_MARGIN, Session, within};
use crate::keys::Keys;
use crate::resp::Reply;
use crate::store::{Link, LinkError, is_wrong_type, meta, unexpected};
use crate::wire;
use conductor_engine::limits::LOAD_PAGE_MEMBERS;
use conductor_engine::partition::{
    BookRead, LoadedMember, LoadedPage, Record, Remembered, StoreEvent, StoredOrder,
};
use conductor_engine::staging::Cursor;
use conductor_engine::{OrderId, PairDecimals, PairId, Side};
use glommio::net::TcpStream;

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
        let keys = &self.site.keys;
        let before = self.cursor(link).await?;
        let (cursor, read) = if known.is_some_and(|known| before.as_ref() == Ok(&known)) {
            (before, BookRead::Known)
        } else {
            self.book(link).await?;
            let after = self.cursor(link).await?;
            let read = match after == before {
                true => BookRead::Still,
                false => BookRead::Moving,
            };
            (after, read)
        };
        let remembered = match remember {
            Some(seen) => self.remembers(link, &seen).await?,
            None => true,
        };
        let guards = within(CONNECT_TIMEOUT, meta::guards(link, keys)).await?;
        self.tell(StoreEvent::LoadComplete {
            cursor,
            remembered,
            halted: guards.halted,
            read,
        });
        Ok(())
    }

    async fn book(&self, link: &mut Link<TcpStream>) -> Result<(), LinkError> {
        for pair in self.pairs(link).await? {
            let decimals = self.decimals(link, pair).await?;
            for side in [Side::Ask, Side::Bid] {
                self.side(link, pair, decimals, side).await?;
            }
        }
        Ok(())
    }

    /// Where the store stands, or why that cannot be read.
    pub(super) async fn cursor(
        &self,
        link: &mut Link<TcpStream>,
    ) -> Result<Result<Cursor, String>, LinkError> {
        let key = self.site.keys.cursor().as_bytes();
        let cursor = self.read(link, &[b"HGETALL", key]).await?;
        Ok(cursor
            .and_then(|hash| wire::read_cursor(&hash).map_err(|error| error.to_string()))
            .map(Option::unwrap_or_default))
    }

    /// Asks for a record; a key that holds something of another kind is no failure of the session.
    async fn read(&self, link: &mut Link<TcpStream>, parts: &[&[u8]]) -> Result<Read, LinkError> {
        let asked = within(self.site.waits.timeout * 2 + REPLY_MARGIN, link.ask(parts)).await;
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

    async fn side(
        &self,
        link: &mut Link<TcpStream>,
        pair: PairId,
        decimals: Option<PairDecimals>,
        side: Side,
    ) -> Result<(), LinkError> {
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
                return Ok(());
            }
        }
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
        let reply = match self.read(link, &parts).await? {
            Ok(reply) => reply,
            Err(detail) => {
                self.unreadable(&key, detail);
                return Ok(Vec::new());
            }
        };
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
        let replies = within(self.site.waits.timeout * 2 + REPLY_MARGIN, asking).await?;
        let refused = |words: &&str| !is_wrong_type(words);
        match replies.iter().filter_map(Reply::error).find(refused) {
            None => Ok(replies),
            Some(words) => Err(LinkError::Refused {
                command: "HGETALL".to_owned(),
                words: words.to_owned(),
            }),
        }
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
