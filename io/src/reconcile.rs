//! Does one side of the book agree with the other: index, records and memory.
//!
//! The comparison is a pure function of replies, so that both who ask can share it: the partition's
//! core, which reads suspects again at a moment when its memory and the store must agree, and the
//! admin page on the I/O core, which scans a moving book and only ever collects suspects.
//! [`suspects_packet`] is what is asked in one transaction and [`judge`] what its reply means.
//! Nothing here may call an issue what is only a member in an older form, and nothing may be
//! reported that was not read in one transaction.
//!
//! The transaction writes nothing, but like every `EXEC` it ends all watches of its connection.

use crate::keys::Keys;
use crate::messages::{Issue, IssueKind, OrderView, Suspect};
use crate::resp::{Packer, Reply};
use crate::wire::{RecordError, StoredRecord, read_record};
use conductor_engine::{Decimal, OrderId, PairId, Side};

/// What memory has of an order of the pair at hand, by its id; `None` where it does not rest there.
pub type Memory<'a> = &'a dyn Fn(&str) -> Option<OrderView>;

/// Why a reply says nothing about the suspects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JudgeError {
    /// A watched key had changed.
    #[error("the store did not run the transaction, because a watched key had changed")]
    NotRun,
    /// The transaction was refused.
    #[error("the store refused the transaction: {0}")]
    Refused(String),
    /// The reply belongs to something else.
    #[error("the store answered the transaction with {found} replies instead of {expected}")]
    Length {
        /// How many there are.
        found: usize,
        /// How many were asked for.
        expected: usize,
    },
}

/// Appends `MULTI`, the suspects' members and records, and `EXEC`.
pub fn suspects_packet(keys: &Keys, pair: PairId, suspects: &[Suspect], packer: &mut Packer<'_>) {
    packer.start(b"MULTI").end();
    pack_reads(keys, pair, suspects, packer);
    packer.start(b"EXEC").end();
}

/// What is wrong with the suspects, by the reply of the `EXEC` of [`suspects_packet`] and by memory
/// as it was when that was sent. Without memory only index and records are compared.
///
/// # Errors
/// [`JudgeError`] when the reply does not answer that packet.
pub fn judge(
    exec: &Reply,
    pair: PairId,
    suspects: &[Suspect],
    memory: Option<Memory<'_>>,
) -> Result<Vec<Issue>, JudgeError> {
    match exec {
        Reply::Array(replies) => {
            let verdicts = verdicts(replies, pair, suspects, memory)?;
            Ok(verdicts.into_iter().flatten().collect())
        }
        Reply::Nil => Err(JudgeError::NotRun),
        Reply::Error(words) => Err(JudgeError::Refused(words.clone())),
        _ => Err(JudgeError::Length {
            found: 0,
            expected: reads(suspects),
        }),
    }
}

/// A member of the index as something to look at.
pub fn member_suspect(side: Side, member: &str) -> Suspect {
    let order = candidates_of(side, Some(member), member).next();
    let order = order.map_or_else(
        || member.to_owned(),
        |candidate| candidate.order.to_string(),
    );
    Suspect {
        side,
        member: Some(member.to_owned()),
        order,
    }
}

/// An order that memory has as something to look at, with the member that it must have.
pub fn memory_suspect(view: &OrderView) -> Suspect {
    let member = Keys::member(view.side, view.priority, &view.id);
    Suspect {
        side: view.side,
        member: Some(member),
        order: view.id.to_string(),
    }
}

/// The reads of [`suspects_packet`] without the transaction around them.
pub(crate) fn pack_reads(keys: &Keys, pair: PairId, suspects: &[Suspect], packer: &mut Packer<'_>) {
    for suspect in suspects {
        if let Some(member) = &suspect.member {
            packer
                .start(b"ZSCORE")
                .build(|key| keys.write_book(pair, suspect.side, key))
                .part(member.as_bytes())
                .end();
        }
        for candidate in candidates(suspect) {
            packer
                .start(b"HGETALL")
                .build(|key| keys.write_order(&candidate.order, key))
                .end();
        }
    }
}

/// What the replies of [`pack_reads`] say of each suspect.
///
/// # Errors
/// [`JudgeError::Length`] when they answer something else.
pub(crate) fn verdicts(
    replies: &[Reply],
    pair: PairId,
    suspects: &[Suspect],
    memory: Option<Memory<'_>>,
) -> Result<Vec<Option<Issue>>, JudgeError> {
    let (found, expected) = (replies.len(), reads(suspects));
    if found != expected {
        return Err(JudgeError::Length { found, expected });
    }
    let mut replies = replies.iter();
    let mut verdict = |suspect: &Suspect| {
        let score = suspect.member.as_ref().and_then(|_| score(replies.next()));
        let found = Found::decide(suspect, &mut replies, memory);
        let reading = Reading {
            pair,
            suspect,
            score,
            found: &found,
        };
        let kind = reading.verdict(memory)?;
        Some(Issue {
            side: suspect.side,
            order: found.order,
            kind,
        })
    };
    Ok(suspects.iter().map(&mut verdict).collect())
}

/// An order that a member may mean.
struct Candidate {
    order: OrderId,
    digits: Option<u64>,
}

fn candidates(suspect: &Suspect) -> impl Iterator<Item = Candidate> {
    candidates_of(suspect.side, suspect.member.as_deref(), &suspect.order)
}

fn candidates_of(side: Side, member: Option<&str>, order: &str) -> impl Iterator<Item = Candidate> {
    let meaning = Keys::parse_member(side, member.unwrap_or(order));
    let prefixed = meaning.prefixed.filter(|_| member.is_some());
    let prefixed = prefixed.map(|it| Candidate {
        order: it.order,
        digits: Some(it.digits),
    });
    let bare = meaning.bare.map(|order| Candidate {
        order,
        digits: None,
    });
    prefixed.into_iter().chain(bare)
}

/// How many replies the reads of these suspects have.
fn reads(suspects: &[Suspect]) -> usize {
    let of =
        |suspect: &Suspect| usize::from(suspect.member.is_some()) + candidates(suspect).count();
    suspects.iter().map(of).sum()
}

fn score(reply: Option<&Reply>) -> Option<f64> {
    reply?.text()?.parse().ok()
}

/// What the store has under an order's key.
enum Record {
    Missing,
    Unreadable,
    Order(Box<StoredRecord>),
}

/// The order that a suspect is about.
struct Found {
    order: String,
    digits: Option<u64>,
    record: Record,
}

impl Found {
    /// As at load, the first candidate that has a record decides; where none has, the first that
    /// memory knows; else the first.
    fn decide<'a>(
        suspect: &Suspect,
        replies: &mut impl Iterator<Item = &'a Reply>,
        memory: Option<Memory<'_>>,
    ) -> Self {
        let mut decided: Option<(u8, Self)> = None;
        for candidate in candidates(suspect) {
            let order = candidate.order.as_str().to_owned();
            let record = record(replies.next().map(read_record));
            let weight = match (&record, memory) {
                (Record::Missing, Some(memory)) if memory(&order).is_some() => 1,
                (Record::Missing, _) => 0,
                _ => 2,
            };
            if decided.as_ref().is_none_or(|(best, _)| weight > *best) {
                decided = Some((
                    weight,
                    Self {
                        order,
                        digits: candidate.digits,
                        record,
                    },
                ));
            }
        }
        let nothing = || Self {
            order: suspect.order.clone(),
            digits: None,
            record: Record::Missing,
        };
        decided.map_or_else(nothing, |(_, found)| found)
    }
}

fn record(read: Option<Result<Option<StoredRecord>, RecordError>>) -> Record {
    match read {
        None | Some(Ok(None)) => Record::Missing,
        Some(Err(_)) => Record::Unreadable,
        Some(Ok(Some(record))) => Record::Order(Box::new(record)),
    }
}

/// Everything that was read of one suspect.
struct Reading<'a> {
    pair: PairId,
    suspect: &'a Suspect,
    /// Of the suspect's member, where it stands in the index.
    score: Option<f64>,
    found: &'a Found,
}

impl Reading<'_> {
    fn verdict(&self, memory: Option<Memory<'_>>) -> Option<IssueKind> {
        self.of_index()
            .or_else(|| self.of_memory(memory?(&self.found.order).as_ref()))
    }

    /// What an index and its records say without any memory.
    fn of_index(&self) -> Option<IssueKind> {
        let score = self.score?;
        match &self.found.record {
            Record::Missing => Some(IssueKind::MissingOrder),
            Record::Order(record) if self.agrees(record, score) => None,
            Record::Order(_) | Record::Unreadable => Some(IssueKind::IndexMismatch),
        }
    }

    fn agrees(&self, record: &StoredRecord, score: f64) -> bool {
        let price = Decimal::of_price(record.price, record.decimals).to_string();
        // A record from before priorities were kept has its place by other means.
        let placed = match (self.found.digits, record.priority) {
            (Some(digits), Some(priority)) => digits == priority,
            _ => true,
        };
        placed && self.belongs(record) && price.parse() == Ok(score)
    }

    fn belongs(&self, record: &StoredRecord) -> bool {
        record.pair == self.pair
            && record.side == self.suspect.side
            && record.id.as_str() == self.found.order
    }

    /// What the store and memory say of each other, where the index itself is sound.
    fn of_memory(&self, view: Option<&OrderView>) -> Option<IssueKind> {
        match (view, &self.found.record) {
            (None, Record::Order(record)) => {
                self.belongs(record).then_some(IssueKind::MemoryMismatch)
            }
            (None, Record::Missing | Record::Unreadable) => None,
            (Some(_), Record::Missing | Record::Unreadable) => Some(IssueKind::MemoryMismatch),
            (Some(view), Record::Order(record)) => {
                if self.belongs(record) && same(view, record) {
                    self.of_place(view)
                } else {
                    Some(IssueKind::MemoryMismatch)
                }
            }
        }
    }

    /// The order's own member must stand, and no other may.
    fn of_place(&self, view: &OrderView) -> Option<IssueKind> {
        let member = self.suspect.member.as_deref()?;
        let own = Keys::member(view.side, view.priority, &view.id) == member;
        match (own, self.score.is_some()) {
            (true, false) => Some(IssueKind::MemoryMismatch),
            (false, true) => Some(IssueKind::IndexMismatch),
            _ => None,
        }
    }
}

fn same(view: &OrderView, record: &StoredRecord) -> bool {
    view.side == record.side
        && Some(view.priority) == record.priority
        && view.price == Decimal::of_price(record.price, record.decimals).to_string()
        && view.remaining == Decimal::of_quantity(record.remaining, record.decimals).to_string()
}

#[cfg(test)]
mod tests;
