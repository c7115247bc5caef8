//! The inbox: every event once, and what a consumer makes of it, in one transaction.
//!
//! An event is written under its partition and sequence and under its id, and the projection (what
//! rests, what traded) changes with it or not at all. Only then is it acknowledged, so a consumer
//! that dies in between sees it again and drops it: a sequence at or below the last must bring the
//! same bytes. Other bytes mean that the store went back behind what was published; a sequence that
//! skips one means that an event was lost. Both end the run.
//!
//! The projection is made from events alone. That it equals the book in the end proves that a
//! consumer can follow a market without ever asking for it.

use super::record::{About, Record, RecordError};
use conductor_engine::PartitionId;
use conductor_io::wire::{EnvelopeError, EventEnvelope, decode_event};
use rusqlite::{OptionalExtension, Transaction, params};
use rust_decimal::Decimal;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Why an event must not be taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum InboxError {
    /// It is no event.
    #[error(transparent)]
    NoEvent(#[from] EnvelopeError),
    /// Its payload is not what its type says.
    #[error("event {event_id} cannot be read: {error}")]
    Payload {
        /// The event.
        event_id: String,
        /// What is wrong.
        error: serde_json::Error,
    },
    /// One or more are missing before it.
    #[error(
        "partition {partition}: event {found} came where {expected} was due; those between are \
         missing"
    )]
    Gap {
        /// The partition.
        partition: PartitionId,
        /// The sequence that was due.
        expected: u64,
        /// The sequence that came.
        found: u64,
    },
    /// Its sequence was there before with other bytes.
    #[error(
        "partition {partition}: event {sequence} ({event_id}) was there before with another \
         content: the store has gone back behind what was published"
    )]
    WentBack {
        /// The partition.
        partition: PartitionId,
        /// The sequence.
        sequence: u64,
        /// The id that it has now.
        event_id: String,
    },
    /// Its id was there before under another sequence.
    #[error("partition {partition}: event {event_id} came under two sequences, now {sequence}")]
    TwoSequences {
        /// The partition.
        partition: PartitionId,
        /// The sequence that it has now.
        sequence: u64,
        /// Its id.
        event_id: String,
    },
    /// The file.
    #[error("the inbox cannot be written: {0}")]
    File(#[from] rusqlite::Error),
}

/// Where the inbox stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inbox {
    /// The last event of before the run.
    before: BTreeMap<PartitionId, u64>,
    last: BTreeMap<PartitionId, u64>,
    pub(super) fresh: u64,
    pub(super) repeated: u64,
}

impl Inbox {
    /// Where the record's inbox stands.
    pub(super) fn of(record: &Record, about: &About) -> Result<Self, RecordError> {
        let reading = || -> rusqlite::Result<BTreeMap<PartitionId, u64>> {
            let query = "SELECT partition, max(sequence) FROM event GROUP BY partition";
            let mut statement = record.connection().prepare(query)?;
            let rows =
                statement.query_map([], |row| Ok((PartitionId(row.get(0)?), row.get(1)?)))?;
            rows.collect()
        };
        let partitions = (0..about.partition_count).map(PartitionId);
        let before = partitions.map(|it| (it, about.start.of(it).sequence));
        Ok(Self {
            before: before.collect(),
            last: reading().map_err(|error| record.failed(error))?,
            ..Self::default()
        })
    }

    /// The last sequence of a partition.
    pub(super) fn last(&self, partition: PartitionId) -> u64 {
        let last = self.last.get(&partition);
        last.copied().unwrap_or_else(|| self.before(partition))
    }

    fn before(&self, partition: PartitionId) -> u64 {
        self.before.get(&partition).copied().unwrap_or_default()
    }

    /// Takes one event. What it says here counts only once the transaction is kept: on any failure
    /// both are to be thrown away.
    ///
    /// # Errors
    /// [`InboxError`], after which nothing more is to be taken.
    pub(super) fn take(
        &mut self,
        transaction: &Transaction<'_>,
        body: &[u8],
    ) -> Result<(), InboxError> {
        let event = decode_event(body)?;
        let (partition, sequence) = (event.partition, event.sequence);
        let expected = self.last(partition) + 1;
        if sequence > expected {
            return Err(InboxError::Gap {
                partition,
                expected,
                found: sequence,
            });
        }
        if sequence < expected {
            self.repeated += 1;
            if sequence <= self.before(partition) {
                return Ok(());
            }
            return same_as_before(transaction, &event, body);
        }
        insert(transaction, &event, body)?;
        project(transaction, &event)?;
        self.fresh += 1;
        self.last.insert(partition, sequence);
        Ok(())
    }
}

fn same_as_before(
    transaction: &Transaction<'_>,
    event: &EventEnvelope<'_>,
    body: &[u8],
) -> Result<(), InboxError> {
    let query = "SELECT body FROM event WHERE partition = ?1 AND sequence = ?2";
    let mut statement = transaction.prepare_cached(query)?;
    let before: Option<Vec<u8>> = statement
        .query_row(params![event.partition.0, event.sequence], |row| row.get(0))
        .optional()?;
    if before.as_deref() == Some(body) {
        return Ok(());
    }
    Err(InboxError::WentBack {
        partition: event.partition,
        sequence: event.sequence,
        event_id: event.event_id.to_owned(),
    })
}

fn insert(
    transaction: &Transaction<'_>,
    event: &EventEnvelope<'_>,
    body: &[u8],
) -> Result<(), InboxError> {
    let query = "INSERT INTO event VALUES (?1, ?2, ?3, ?4)";
    let mut statement = transaction.prepare_cached(query)?;
    let values = params![event.partition.0, event.sequence, event.event_id, body];
    statement.execute(values).map_err(|error| match error {
        rusqlite::Error::SqliteFailure(failure, _)
            if failure.code == rusqlite::ErrorCode::ConstraintViolation =>
        {
            InboxError::TwoSequences {
                partition: event.partition,
                sequence: event.sequence,
                event_id: event.event_id.to_owned(),
            }
        }
        error => InboxError::File(error),
    })?;
    Ok(())
}

/// How an order stands.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Standing<'a> {
    order_id: &'a str,
    user_id: Option<&'a str>,
    side: &'a str,
    price: &'a str,
    remaining: &'a str,
    priority: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deal<'a> {
    maker_order_id: &'a str,
    maker_remaining: &'a str,
    volume: &'a str,
    quote_volume: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Closed<'a> {
    order_id: &'a str,
}

fn project(transaction: &Transaction<'_>, event: &EventEnvelope<'_>) -> Result<(), InboxError> {
    let payload = event.payload.get();
    let unreadable = |error| InboxError::Payload {
        event_id: event.event_id.to_owned(),
        error,
    };
    match event.kind {
        "order.rested.v1" | "order.amended.v1" => {
            let standing = serde_json::from_str(payload).map_err(unreadable)?;
            rest(transaction, event, &standing)?;
        }
        "deal.executed.v1" => {
            let deal = serde_json::from_str(payload).map_err(unreadable)?;
            trade(transaction, event, &deal)?;
        }
        "order.closed.v1" => {
            let closed: Closed<'_> = serde_json::from_str(payload).map_err(unreadable)?;
            let query = "DELETE FROM resting WHERE order_id = ?1";
            transaction
                .prepare_cached(query)?
                .execute([closed.order_id])?;
        }
        _ => {}
    }
    Ok(())
}

fn rest(
    transaction: &Transaction<'_>,
    event: &EventEnvelope<'_>,
    standing: &Standing<'_>,
) -> rusqlite::Result<()> {
    let query = "INSERT OR REPLACE INTO resting VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let priority: u64 = standing.priority.parse().unwrap_or(u64::MAX >> 1);
    let pair = event.pair.map(|pair| pair.0);
    transaction.prepare_cached(query)?.execute(params![
        standing.order_id,
        event.partition.0,
        pair,
        standing.side,
        standing.user_id,
        standing.price,
        standing.remaining,
        priority
    ])?;
    Ok(())
}

fn trade(
    transaction: &Transaction<'_>,
    event: &EventEnvelope<'_>,
    deal: &Deal<'_>,
) -> rusqlite::Result<()> {
    let query = "UPDATE resting SET remaining = ?2 WHERE order_id = ?1";
    transaction
        .prepare_cached(query)?
        .execute([deal.maker_order_id, deal.maker_remaining])?;
    let pair = event.pair.map(|pair| pair.0);
    let query = "SELECT deals, volume, quote_volume FROM traded WHERE pair = ?1";
    let sum = |row: &rusqlite::Row<'_>, column| -> rusqlite::Result<Decimal> {
        Ok(number(row.get_ref(column)?.as_str()?))
    };
    let (deals, volume, quote) = transaction
        .prepare_cached(query)?
        .query_row([pair], |row| Ok((row.get(0)?, sum(row, 1)?, sum(row, 2)?)))
        .optional()?
        .unwrap_or((0_u64, Decimal::ZERO, Decimal::ZERO));
    let query = "INSERT OR REPLACE INTO traded VALUES (?1, ?2, ?3, ?4)";
    transaction.prepare_cached(query)?.execute(params![
        pair,
        deals + 1,
        (volume + number(deal.volume)).normalize().to_string(),
        (quote + number(deal.quote_volume)).normalize().to_string()
    ])?;
    Ok(())
}

/// What cannot be read counts as nothing; the audit's sum then differs.
fn number(text: &str) -> Decimal {
    Decimal::from_str_exact(text).unwrap_or_default()
}

#[cfg(test)]
mod tests;
