//! The records about a cell itself: its topology and its halt.

use super::link::{Link, LinkError, is_wrong_type, refused, unexpected};
use super::replication;
use crate::keys::{Keys, field as names};
use crate::resp::Reply;
use conductor_engine::partition::{Guards, HaltRecord, Topology};
use futures_lite::{AsyncRead, AsyncWrite};

/// Reads topology, halt and the length of the event stream.
///
/// # Errors
/// [`LinkError`] when the link failed or a record cannot be read.
pub async fn guards<S: AsyncRead + AsyncWrite + Unpin>(
    link: &mut Link<S>,
    keys: &Keys,
) -> Result<Guards, LinkError> {
    let replies = link
        .ask_all(|packer| {
            packer
                .start(b"HGETALL")
                .part(keys.topology().as_bytes())
                .end();
            packer
                .start(b"HGETALL")
                .part(keys.halted().as_bytes())
                .end();
            packer.start(b"XLEN").part(keys.events().as_bytes()).end();
            packer.start(b"INFO").part(b"replication").end();
        })
        .await?;
    let asked = [
        ("HGETALL", keys.topology()),
        ("HGETALL", keys.halted()),
        ("XLEN", keys.events()),
    ];
    for ((command, key), reply) in asked.into_iter().zip(&replies) {
        match reply.error() {
            // Judged with the halt: whatever stands there halts.
            Some(words) if is_wrong_type(words) && key == keys.halted() => {}
            Some(words) if is_wrong_type(words) => return Err(unreadable(key, words)),
            Some(words) => return Err(refused(command, words)),
            None => {}
        }
    }
    let length = replies[2].integer().ok_or_else(|| unexpected("XLEN"))?;
    Ok(Guards {
        topology: topology(keys, &replies[0])?,
        halted: halted(&replies[1]),
        event_stream: u64::try_from(length).unwrap_or(0),
        history: replies[3].text().and_then(replication::history),
    })
}

/// A hash's value of one field.
pub fn field<'a>(hash: &'a Reply, name: &str) -> Option<&'a str> {
    let pairs = hash.elements()?.chunks_exact(2);
    let mut found = pairs.filter(|pair| pair[0].text() == Some(name));
    found.next().and_then(|pair| pair[1].text())
}

fn unreadable(key: &str, detail: &str) -> LinkError {
    let (key, detail) = (key.to_owned(), detail.to_owned());
    LinkError::Record { key, detail }
}

/// Reads the reply of `HGETALL` of a partition's topology; `None` where there is none.
///
/// # Errors
/// [`LinkError::Record`] when it is there and is no topology.
pub fn topology(keys: &Keys, hash: &Reply) -> Result<Option<Topology>, LinkError> {
    if let Some(words) = hash.error() {
        return Err(unreadable(keys.topology(), words));
    }
    if hash.elements().is_none_or(<[Reply]>::is_empty) {
        return Ok(None);
    }
    let read = || {
        Some(Topology {
            partition: field(hash, names::PARTITION)?.parse().ok()?,
            partition_count: field(hash, names::PARTITION_COUNT)?.parse().ok()?,
            prefetch: field(hash, names::PREFETCH)?.parse().ok()?,
        })
    };
    read()
        .map(Some)
        .ok_or_else(|| unreadable(keys.topology(), "a field is missing, or is no number"))
}

/// Whatever stands under the key halts, even if it cannot be read.
fn halted(hash: &Reply) -> Option<HaltRecord> {
    if let Some(words) = hash.error() {
        return Some(HaltRecord {
            reason: format!("the record of the halt cannot be read: {words}"),
            command: None,
            epoch: 0,
        });
    }
    if hash.elements().is_none_or(<[Reply]>::is_empty) {
        return None;
    }
    Some(HaltRecord {
        reason: field(hash, names::REASON)
            .unwrap_or("no reason is recorded")
            .to_owned(),
        command: field(hash, names::COMMAND).map(str::to_owned),
        epoch: field(hash, names::EPOCH)
            .and_then(|epoch| epoch.parse().ok())
            .unwrap_or(0),
    })
}
