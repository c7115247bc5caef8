//! The bytes of a commit packet, and what its replies mean.
//!
//! `MULTI … EXEC · XLEN events · MGET … · WAIT · WAITAOF · WATCH epoch · GET epoch`, in this order
//! and in one write. The look-ups stand before the waits, because a server answers nothing on a
//! connection that is waiting; `WAIT` stands before `WAITAOF`, because a replica that is asked for
//! its disk before it has written says no for a whole second.

use crate::keys::{Keys, field};
use crate::resp::{Packer, Reply};
use crate::store::{is_out_of_memory, waits};
use crate::wire::store_writes;
use conductor_engine::partition::{Durability, Executed, HaltRecord, LookUp, StoreEvent};
use conductor_engine::staging::Write;
use std::time::Duration;

/// What this core waits for behind each of its writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub(super) durability: Option<Durability>,
    pub(super) timeout: Duration,
}

impl Waits {
    /// Appends `WAIT` and `WAITAOF`, unless in memory mode.
    pub(super) fn pack(self, packer: &mut Packer<'_>) {
        let Some(Durability { replicas }) = self.durability else {
            return;
        };
        waits::pack(packer, replicas, self.timeout);
    }
}

/// A packet and how many writes its transaction has.
#[derive(Debug)]
pub(super) struct CommitBytes {
    pub(super) bytes: Vec<u8>,
    pub(super) writes: usize,
    pub(super) look_ups: usize,
}

/// Spells a commit packet into `bytes`, which is emptied first.
pub(super) fn commit(
    keys: &Keys,
    writes: &[Write],
    retention_seconds: Option<u64>,
    look_ups: &[LookUp],
    waits: Waits,
    mut bytes: Vec<u8>,
) -> CommitBytes {
    bytes.clear();
    Packer::new(&mut bytes).start(b"MULTI").end();
    let count = store_writes(keys, writes, retention_seconds, &mut bytes);
    let mut packer = Packer::new(&mut bytes);
    packer.start(b"EXEC").end();
    packer.start(b"XLEN").part(keys.events().as_bytes()).end();
    if !look_ups.is_empty() {
        pack_look_ups(keys, look_ups, &mut packer);
    }
    waits.pack(&mut packer);
    pack_watch(keys, &mut packer);
    CommitBytes {
        bytes,
        writes: count,
        look_ups: look_ups.len(),
    }
}

/// Appends one `MGET` of all the keys.
pub(super) fn pack_look_ups(keys: &Keys, look_ups: &[LookUp], packer: &mut Packer<'_>) {
    packer.start(b"MGET");
    for look_up in look_ups {
        packer.build(|out| match look_up {
            LookUp::Command(command) => keys.write_processed_command(command, out),
            LookUp::Order(order) => keys.write_accepted_order(order, out),
        });
    }
    packer.end();
}

/// Appends `WATCH epoch` and `GET epoch`: watched from before it is read.
pub(super) fn pack_watch(keys: &Keys, packer: &mut Packer<'_>) {
    packer.start(b"WATCH").part(keys.epoch().as_bytes()).end();
    packer.start(b"GET").part(keys.epoch().as_bytes()).end();
}

/// Appends the transaction that writes a halt, and its waits.
pub(super) fn pack_halt(keys: &Keys, record: &HaltRecord, waits: Waits, packer: &mut Packer<'_>) {
    packer.start(b"MULTI").end();
    packer.start(b"HSET").part(keys.halted().as_bytes());
    packer
        .part(field::REASON.as_bytes())
        .part(record.reason.as_bytes());
    if let Some(command) = &record.command {
        packer
            .part(field::COMMAND.as_bytes())
            .part(command.as_bytes());
    }
    packer
        .part(field::EPOCH.as_bytes())
        .part(record.epoch.to_string().as_bytes())
        .end();
    packer.start(b"EXEC").end();
    waits.pack(packer);
}

/// What came of a transaction whose every command was answered before by `queued`.
///
/// `None` when the replies are not those of a transaction.
pub(super) fn executed(
    queued: &[Reply],
    exec: &Reply,
    event_stream: u64,
    writes: usize,
) -> Option<StoreEvent> {
    let refused = queued.iter().find_map(Reply::error);
    Some(match exec {
        Reply::Nil => StoreEvent::Executed(Executed::Fenced),
        Reply::Error(words) => {
            let words = refused.map_or_else(|| words.clone(), |first| format!("{first}; {words}"));
            if is_out_of_memory(&words) {
                StoreEvent::Full(format!(
                    "the store is out of memory and refuses writes: {words}"
                ))
            } else {
                StoreEvent::Executed(Executed::Refused(words))
            }
        }
        Reply::Array(elements) => match elements.iter().find_map(Reply::error) {
            Some(words) => StoreEvent::Executed(Executed::HalfApplied(words.to_owned())),
            None if elements.len() == writes => {
                StoreEvent::Executed(Executed::Committed { event_stream })
            }
            None => return None,
        },
        _ => return None,
    })
}

/// The values of an `MGET`.
pub(super) fn looked_up(reply: Reply) -> Option<Vec<Option<Box<[u8]>>>> {
    let Reply::Array(elements) = reply else {
        return None;
    };
    elements
        .into_iter()
        .map(|element| match element {
            Reply::Nil => Some(None),
            Reply::Bulk(bytes) => Some(Some(bytes.into_boxed_slice())),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simple(text: &str) -> Reply {
        Reply::Simple(text.to_owned())
    }

    #[test]
    fn every_outcome_of_a_transaction_is_told_apart() {
        let queued = [simple("OK"), simple("QUEUED")];
        let judge = |exec: &Reply| executed(&queued, exec, 7, 1);
        let done = |event| Some(StoreEvent::Executed(event));
        let text = |event: Option<StoreEvent>| format!("{event:?}");
        let committed = Executed::Committed { event_stream: 7 };
        assert_eq!(
            text(judge(&Reply::Array(vec![Reply::Integer(1)]))),
            text(done(committed))
        );
        assert_eq!(text(judge(&Reply::Nil)), text(done(Executed::Fenced)));
        let broken = Reply::Array(vec![Reply::Error("WRONGTYPE no".to_owned())]);
        let half = Executed::HalfApplied("WRONGTYPE no".to_owned());
        assert_eq!(text(judge(&broken)), text(done(half)));
        let aborted = "EXECABORT Transaction discarded because of: READONLY You can't write";
        let refused = Executed::Refused(aborted.to_owned());
        assert_eq!(
            text(judge(&Reply::Error(aborted.to_owned()))),
            text(done(refused))
        );
        assert!(
            judge(&Reply::Array(Vec::new())).is_none(),
            "another count is unreadable"
        );
        assert!(judge(&simple("OK")).is_none());
    }

    #[test]
    fn a_full_store_is_no_doubt() {
        let queued = [
            simple("OK"),
            Reply::Error("OOM command not allowed".to_owned()),
        ];
        let exec =
            Reply::Error("EXECABORT Transaction discarded because of previous errors".into());
        assert!(matches!(
            executed(&queued, &exec, 0, 1),
            Some(StoreEvent::Full(_))
        ));
    }
}
