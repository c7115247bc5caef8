//! Entries of the event stream, and the messages that they become.
//!
//! A message's body is the entry's bytes as they are: what was committed is what is published.

use crate::amqp::Outgoing;
use crate::keys::{
    EVENT_EXCHANGE, HEADER_CAUSATION_ID, HEADER_PARTITION, HEADER_PARTITION_OFFSET,
    HEADER_PARTITION_SEQUENCE, field,
};
use crate::resp::Reply;
use crate::wire::decode_event;
use conductor_engine::outbox::Entry;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString};

/// The broker's number for "keep it on disk".
const PERSISTENT: u8 = 2;

/// One entry as it was read.
#[derive(Debug)]
pub(super) struct StreamEntry {
    /// The stream's id for it.
    pub(super) id: String,
    /// Its fields and their values, in turn.
    pub(super) fields: Vec<Vec<u8>>,
    /// What its envelope says, or why it is none.
    pub(super) head: Result<Head, String>,
}

/// What an event's envelope says.
#[derive(Debug)]
pub(super) struct Head {
    event_id: String,
    kind: String,
    causation_id: String,
    partition: u32,
    sequence: u64,
}

impl StreamEntry {
    /// Reads an entry; `None` when the reply is no entry at all.
    pub(super) fn read(reply: Reply) -> Option<Self> {
        let Reply::Array(parts) = reply else {
            return None;
        };
        let [Reply::Bulk(id), Reply::Array(fields)] = <[Reply; 2]>::try_from(parts).ok()? else {
            return None;
        };
        let fields = fields.into_iter().map(|field| match field {
            Reply::Bulk(bytes) => Some(bytes),
            _ => None,
        });
        let fields = fields.collect::<Option<Vec<_>>>()?;
        let head = head(&fields);
        let id = String::from_utf8(id).ok()?;
        Some(Self { id, fields, head })
    }

    /// What the machine needs to know of it.
    pub(super) fn for_machine(&self) -> Entry {
        Entry {
            stream_id: self.id.clone(),
            event: match &self.head {
                Ok(head) => Ok(head.event_id.clone()),
                Err(reason) => Err(reason.clone()),
            },
        }
    }

    /// Its sequence, where it is an event.
    pub(super) fn sequence(&self) -> Option<u64> {
        self.head.as_ref().ok().map(|head| head.sequence)
    }

    /// The message of it; takes the bytes out. `None` where it is no event.
    pub(super) fn take_message(&mut self) -> Option<Outgoing> {
        let head = self.head.as_ref().ok()?;
        let body = std::mem::take(self.fields.get_mut(1)?);
        let mut headers = FieldTable::default();
        let text = |value: &str| AMQPValue::LongString(LongString::from(value));
        let sequence = i64::try_from(head.sequence).unwrap_or(i64::MAX);
        headers.insert(HEADER_CAUSATION_ID.into(), text(&head.causation_id));
        headers.insert(
            HEADER_PARTITION.into(),
            AMQPValue::LongLongInt(i64::from(head.partition)),
        );
        headers.insert(HEADER_PARTITION_OFFSET.into(), text(&self.id));
        headers.insert(
            HEADER_PARTITION_SEQUENCE.into(),
            AMQPValue::LongLongInt(sequence),
        );
        Some(Outgoing {
            exchange: EVENT_EXCHANGE.to_owned(),
            routing_key: head.kind.clone(),
            properties: BasicProperties::default()
                .with_content_type("application/json".into())
                .with_delivery_mode(PERSISTENT)
                .with_message_id(head.event_id.as_str().into())
                .with_headers(headers),
            body,
            mandatory: true,
        })
    }
}

fn head(fields: &[Vec<u8>]) -> Result<Head, String> {
    let [name, bytes] = fields else {
        return Err("the entry is no event: it must have one field, event".to_owned());
    };
    if name != field::EVENT.as_bytes() {
        return Err("the entry is no event: its one field is not event".to_owned());
    }
    let event = decode_event(bytes).map_err(|error| error.to_string())?;
    Ok(Head {
        event_id: event.event_id.to_owned(),
        kind: event.kind.to_owned(),
        causation_id: event.causation_id.to_string(),
        partition: event.partition.0,
        sequence: event.sequence,
    })
}

/// Looks for sequences that are missing. It only tells: the order is the stream's, and what is
/// there is published.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    highest: Option<u64>,
}

/// A place in the stream where the sequence does not go on by one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The stream's id for the entry behind it.
    pub(super) stream_id: String,
    /// The sequence that should have come.
    pub(super) expected: u64,
    /// The one that came.
    pub(super) found: u64,
}

impl Sequences {
    /// Forgets what was read: another worker may have gone on since.
    pub(super) fn forget(&mut self) {
        self.highest = None;
    }

    /// Looks at what was read; each gap is told once, however often it is read.
    pub(super) fn look(&mut self, entries: &[StreamEntry]) -> Vec<Gap> {
        let mut gaps = Vec::new();
        for entry in entries {
            let Some(found) = entry.sequence() else {
                continue;
            };
            match self.highest {
                Some(highest) if found <= highest => continue,
                Some(highest) if found > highest + 1 => gaps.push(Gap {
                    stream_id: entry.id.clone(),
                    expected: highest + 1,
                    found,
                }),
                _ => {}
            }
            self.highest = Some(found);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.as_bytes().to_vec())
    }

    fn entry(id: &str, fields: &[&str]) -> StreamEntry {
        let fields = fields.iter().map(|field| bulk(field)).collect();
        StreamEntry::read(Reply::Array(vec![bulk(id), Reply::Array(fields)])).expect("an entry")
    }

    fn event(sequence: u64) -> String {
        format!(
            r#"{{"eventId":"c-1.0","type":"deal.executed.v1","causationId":"c-1","partition":3,"pairId":12,"sequence":{sequence},"timestamp":1767225600000,"payload":{{}}}}"#
        )
    }

    #[test]
    fn a_message_carries_the_bytes_as_they_are() {
        let bytes = event(42);
        let mut read = entry("7-1", &["event", &bytes]);
        assert_eq!(read.for_machine().event, Ok("c-1.0".to_owned()));
        let message = read.take_message().expect("it is an event");
        assert_eq!(message.body, bytes.as_bytes());
        assert_eq!(message.routing_key, "deal.executed.v1");
        assert_eq!(message.exchange, "matching.events");
        assert!(message.mandatory);
        let properties = message.properties;
        assert_eq!(properties.message_id(), &Some("c-1.0".into()));
        assert_eq!(properties.delivery_mode(), &Some(2));
        let headers = properties.headers().clone().expect("headers");
        let header = |name: &str| headers.inner().get(name).cloned();
        assert_eq!(header("x-partition"), Some(AMQPValue::LongLongInt(3)));
        assert_eq!(
            header("x-partition-sequence"),
            Some(AMQPValue::LongLongInt(42))
        );
        assert_eq!(
            header("x-partition-offset"),
            Some(AMQPValue::LongString("7-1".into()))
        );
        assert_eq!(
            header("x-causation-id"),
            Some(AMQPValue::LongString("c-1".into()))
        );
    }

    #[test]
    fn what_is_no_event_says_why() {
        let bytes = event(1);
        let cases: [&[&str]; 5] = [
            &[],
            &["other", &bytes],
            &["event", &bytes, "more", "x"],
            &["event", "{}"],
            &["event", ""],
        ];
        for fields in cases {
            let mut read = entry("1-0", fields);
            let reason = read.for_machine().event.expect_err("it is no event");
            assert!(reason.contains("no event"), "{fields:?}: {reason}");
            assert!(read.take_message().is_none());
        }
        assert!(StreamEntry::read(Reply::Nil).is_none());
        assert!(StreamEntry::read(Reply::Array(vec![bulk("1-0"), Reply::Nil])).is_none());
    }

    #[test]
    fn a_gap_is_told_once_and_a_repeat_is_none() {
        let read = |numbers: &[u64]| -> Vec<StreamEntry> {
            let entries = numbers.iter();
            entries
                .map(|number| entry(&format!("{number}-0"), &["event", &event(*number)]))
                .collect()
        };
        let mut sequences = Sequences::default();
        assert!(
            sequences.look(&read(&[5, 6, 7])).is_empty(),
            "it may begin anywhere"
        );
        assert!(sequences.look(&read(&[6, 7, 8])).is_empty(), "read again");
        let gap = Gap {
            stream_id: "10-0".to_owned(),
            expected: 9,
            found: 10,
        };
        assert_eq!(sequences.look(&read(&[8, 10, 11])), [gap]);
        assert!(
            sequences.look(&read(&[8, 10, 11])).is_empty(),
            "told already"
        );
        sequences.forget();
        assert!(
            sequences.look(&read(&[20])).is_empty(),
            "another worker went on"
        );
    }
}
