//! The records about a cell itself: its topology and its halt.

use super::link::{Link, LinkError, unexpected};
use crate::keys::Keys;
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
        })
        .await?;
    for (command, reply) in ["HGETALL", "HGETALL", "XLEN"].iter().zip(&replies) {
        if let Some(words) = reply.error() {
            let (command, words) = ((*command).to_owned(), words.to_owned());
            return Err(LinkError::Refused { command, words });
        }
    }
    let length = replies[2].integer().ok_or_else(|| unexpected("XLEN"))?;
    Ok(Guards {
        topology: topology(&replies[0])?,
        halted: halted(&replies[1]),
        event_stream: u64::try_from(length).unwrap_or(0),
    })
}

/// A hash's value of one field.
pub fn field<'a>(hash: &'a Reply, name: &str) -> Option<&'a str> {
    let pairs = hash.elements()?.chunks_exact(2);
    let mut found = pairs.filter(|pair| pair[0].text() == Some(name));
    found.next().and_then(|pair| pair[1].text())
}

fn topology(hash: &Reply) -> Result<Option<Topology>, LinkError> {
    if hash.elements().is_none_or(<[Reply]>::is_empty) {
        return Ok(None);
    }
    let read = || {
        Some(Topology {
            partition: field(hash, "partition")?.parse().ok()?,
            partition_count: field(hash, "partitionCount")?.parse().ok()?,
            prefetch: field(hash, "prefetch")?.parse().ok()?,
        })
    };
    read()
        .map(Some)
        .ok_or_else(|| unexpected("HGETALL topology"))
}

/// Whatever stands under the key halts, even if it cannot be read.
fn halted(hash: &Reply) -> Option<HaltRecord> {
    if hash.elements().is_none_or(<[Reply]>::is_empty) {
        return None;
    }
    Some(HaltRecord {
        reason: field(hash, "reason")
            .unwrap_or("no reason is recorded")
            .to_owned(),
        command: field(hash, "command").map(str::to_owned),
        epoch: field(hash, "epoch")
            .and_then(|epoch| epoch.parse().ok())
            .unwrap_or(0),
    })
}
