//! Events as the outbox and consumers read them: the envelope judged, the payload left as it is.
//!
//! An entry that is no envelope is an error here and goes to the dead letters; nothing else does.
//! New event types pass: what a payload means is between its producer and its consumers.

use conductor_engine::limits::ID_BYTES_MAX;
use conductor_engine::{CommandId, PairId, PartitionId, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// One event, with its payload unread.
#[derive(Clone, Debug)]
pub struct EventEnvelope<'a> {
    /// `<causationId>.<index>`.
    pub event_id: &'a str,
    /// The type, which is also the routing key.
    pub kind: &'a str,
    /// The command that caused it.
    pub causation_id: CommandId,
    /// Its place among its command's events.
    pub index: u32,
    /// Its partition.
    pub partition: PartitionId,
    /// Its pair; `None` where a refused command's could not be read.
    pub pair: Option<PairId>,
    /// Its gapless number within the partition, from one.
    pub sequence: u64,
    /// Its command's time; `None` where it could not be read.
    pub timestamp: Option<Timestamp>,
    /// What happened, as an unread object.
    pub payload: &'a RawValue,
}

/// Why an entry is no envelope.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is no JSON object with exactly an envelope's fields.
    #[error("the entry is no event: {0}")]
    Json(#[from] serde_json::Error),
    /// One of its fields cannot be what it says.
    #[error("the entry is no event: its {field} {problem}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw<'a> {
    event_id: &'a str,
    r#type: &'a str,
    causation_id: &'a str,
    partition: u32,
    #[serde(deserialize_with = "there")]
    pair_id: Option<u32>,
    sequence: u64,
    #[serde(deserialize_with = "there")]
    timestamp: Option<u64>,
    #[serde(borrow)]
    payload: &'a RawValue,
}

/// A value that may be null but not absent.
fn there<'de, D: Deserializer<'de>, T: Deserialize<'de>>(source: D) -> Result<Option<T>, D::Error> {
    Option::deserialize(source)
}

/// Reads an event's envelope.
///
/// # Errors
/// [`EnvelopeError`] when the bytes are no event in our envelope.
pub fn decode_event(bytes: &[u8]) -> Result<EventEnvelope<'_>, EnvelopeError> {
    if bytes.first() != Some(&b'{') {
        return Err(fault("first byte", "is not that of an object"));
    }
    let raw: Raw<'_> = serde_json::from_slice(bytes)?;
    let causation_id = CommandId::new(raw.causation_id)
        .map_err(|_| fault("causationId", "is no command's name"))?;
    let index = raw
        .event_id
        .strip_prefix(raw.causation_id)
        .and_then(|rest| rest.strip_prefix('.'))
        .and_then(index)
        .ok_or_else(|| fault("eventId", "is not its causationId, a point and a number"))?;
    if !is_type(raw.r#type) {
        return Err(fault("type", "is no routing key of an event"));
    }
    if raw.sequence == 0 {
        return Err(fault("sequence", "is zero; the first is 1"));
    }
    let timestamp = raw.timestamp.map(|time| {
        Timestamp::new(time).ok_or_else(|| fault("timestamp", "is not below the year 2100"))
    });
    if !raw.payload.get().starts_with('{') {
        return Err(fault("payload", "is not an object"));
    }
    Ok(EventEnvelope {
        event_id: raw.event_id,
        kind: raw.r#type,
        causation_id,
        index,
        partition: PartitionId(raw.partition),
        pair: raw.pair_id.map(PairId),
        sequence: raw.sequence,
        timestamp: timestamp.transpose()?,
        payload: raw.payload,
    })
}

const fn fault(field: &'static str, problem: &'static str) -> EnvelopeError {
    EnvelopeError::Field { field, problem }
}

/// A number as we write it, without plus or leading zero.
fn index(text: &str) -> Option<u32> {
    let number: u32 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn is_type(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    !text.is_empty() && text.len() <= ID_BYTES_MAX && text.bytes().all(allowed)
}
