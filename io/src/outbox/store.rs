//! What the outbox asks of a partition's store.
//!
//! Each function is one packet and its replies on the partition's own connection, within a time
//! limit. A reply that is missing, is refused or is not what it must be makes the connection
//! useless: what has happened is unknown then, and the machine starts again from the head.

use super::entry::StreamEntry;
use super::plan::{ANSWER_WITHIN, Outcome, Plan, StoreError, StoreLink, Wait, connect, within};
use crate::keys::field;
use crate::resp::{Packer, Reply};
use crate::store::{checks, waits};
use conductor_engine::partition::Confirmed;
use std::time::Duration;

/// How long one wait for events lasts, in milliseconds.
const EVENTS_WITHIN_MS: &str = "1000";
/// How long giving up a lease may take when the process ends.
const RELEASE_WITHIN: Duration = Duration::from_secs(1);

/// Takes the lease or renews it, unless another worker has it. Either is a write, so that a wait
/// for disks behind it is one for everything that the connection has seen before.
const LEASE: &str = "local holder = redis.call('GET', KEYS[1]) \
    if holder == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end \
    if holder then return 0 end \
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return 2";
/// Gives the lease up, unless another worker has it.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('DEL', KEYS[1]) end return 0";

/// Whose the lease is, after it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Another worker's.
    Another,
    /// Ours, as it was.
    Kept,
    /// Ours, and it was nobody's before: another worker may have had it in between.
    Taken,
}

impl Hold {
    /// Whether it is ours now.
    pub(super) const fn is_ours(self) -> bool {
        !matches!(self, Hold::Another)
    }
}

/// What one read brought.
#[derive(Debug)]
pub(super) struct Read {
    /// Entries from the head.
    pub(super) entries: Vec<StreamEntry>,
    /// Whose the lease is.
    pub(super) lease: Hold,
    /// Entries in the stream.
    pub(super) stream_length: u64,
}

/// Takes the lease, or renews it.
pub(super) async fn take_lease(link: &mut StoreLink, plan: &Plan) -> Outcome<Hold> {
    let replies = ask(link, ANSWER_WITHIN, |packer| lease(packer, plan)).await?;
    held(&replies[0])
}

/// Gives the lease up, on a connection of its own where there is none.
pub(super) async fn release_lease(link: Option<StoreLink>, plan: &Plan) -> Outcome<StoreLink> {
    let releasing = async {
        let mut link = match link {
            Some(link) => link,
            None => connect(plan).await?,
        };
        let replies = ask(&mut link, ANSWER_WITHIN, |packer| {
            packer.start(b"EVAL").part(RELEASE.as_bytes()).part(b"1");
            packer.part(plan.keys.outbox_lease().as_bytes());
            packer.part(plan.worker.as_bytes()).end();
        });
        accepted(&replies.await?)?;
        Ok(link)
    };
    within(RELEASE_WITHIN, releasing).await
}

/// Sends the packet of one read and takes its replies, but for those of the wait for disks, which
/// [`confirmed`] takes.
pub(super) async fn read(
    link: &mut StoreLink,
    plan: &Plan,
    delete: &[(String, String)],
    count: usize,
) -> Outcome<Read> {
    let mut packet = Vec::new();
    let mut packer = Packer::new(&mut packet);
    if !delete.is_empty() {
        packer.start(b"MULTI").end();
        pack_deletion(&mut packer, plan, delete);
        packer.start(b"EXEC").end();
    }
    let transaction = packer.packed();
    // The server takes a count of zero for no limit at all or for nil, depending on its age.
    if count > 0 {
        packer.start(b"XRANGE").part(plan.keys.events().as_bytes());
        packer
            .part(b"-")
            .part(b"+")
            .part(b"COUNT")
            .part(count.to_string().as_bytes())
            .end();
    }
    lease(&mut packer, plan);
    packer
        .start(b"XLEN")
        .part(plan.keys.events().as_bytes())
        .end();
    let expected = packer.packed();
    if let Some(wait) = plan.wait {
        waits::pack(&mut packer, wait.replicas, wait.timeout);
    }
    let exchanging = async {
        link.send(&packet).await?;
        take(link, expected).await
    };
    let mut replies = within(ANSWER_WITHIN, exchanging).await?;
    let mut rest = replies.split_off(transaction);
    if transaction > 0 {
        executed(&replies)?;
    }
    accepted(&rest)?;
    let length = rest.pop().and_then(|reply| reply.integer());
    let lease = held(&rest.pop().unwrap_or(Reply::Nil))?;
    let entries = match rest.pop() {
        Some(Reply::Array(entries)) => entries.into_iter().map(StreamEntry::read).collect(),
        None => Some(Vec::new()),
        Some(_) => None,
    };
    match (
        entries,
        length.and_then(|length| u64::try_from(length).ok()),
    ) {
        (Some(entries), Some(stream_length)) => Ok(Read {
            entries,
            lease,
            stream_length,
        }),
        _ => Err(odd("the event stream cannot be read")),
    }
}

/// The replies of a wait for disks that was sent already.
pub(super) async fn confirmed(link: &mut StoreLink, wait: Wait) -> Outcome<Confirmed> {
    let replies = within(wait.limit(), take(link, 2)).await?;
    counted(&replies)
}

/// Renews the lease and waits for disks once more.
pub(super) async fn await_disks(
    link: &mut StoreLink,
    plan: &Plan,
    wait: Wait,
) -> Outcome<(Hold, Confirmed)> {
    let replies = ask(link, wait.limit(), |packer| {
        lease(packer, plan);
        waits::pack(packer, wait.replicas, wait.timeout);
    });
    let replies = replies.await?;
    Ok((held(&replies[0])?, counted(&replies[1..])?))
}

/// Waits until the stream has an entry, for a second at most.
pub(super) async fn await_events(link: &mut StoreLink, plan: &Plan) -> Outcome<()> {
    let replies = ask(link, ANSWER_WITHIN, |packer| {
        packer
            .start(b"XREAD")
            .part(b"COUNT")
            .part(b"1")
            .part(b"BLOCK");
        packer.part(EVENTS_WITHIN_MS.as_bytes()).part(b"STREAMS");
        packer.part(plan.keys.events().as_bytes()).part(b"0").end();
    });
    accepted(&replies.await?)
}

/// Moves entries to the dead letters with all their fields, each with its reason.
pub(super) async fn dead_letter(
    link: &mut StoreLink,
    plan: &Plan,
    letters: &[(StreamEntry, String)],
) -> Outcome<()> {
    let replies = ask(link, ANSWER_WITHIN, |packer| {
        packer.start(b"MULTI").end();
        for (entry, reason) in letters {
            packer
                .start(b"XADD")
                .part(plan.keys.dead_letter().as_bytes())
                .part(b"*");
            for part in &entry.fields {
                packer.part(part);
            }
            packer
                .part(field::REASON.as_bytes())
                .part(reason.as_bytes())
                .end();
        }
        packer.start(b"XDEL").part(plan.keys.events().as_bytes());
        for (entry, _) in letters {
            packer.part(entry.id.as_bytes());
        }
        packer.end();
        packer.start(b"EXEC").end();
    });
    executed(&replies.await?)
}

/// Deletes what was confirmed and counts one more try of what failed, or neither.
pub(super) async fn settle(
    link: &mut StoreLink,
    plan: &Plan,
    delete: &[(String, String)],
    failed: Option<&str>,
) -> Outcome<()> {
    let replies = ask(link, ANSWER_WITHIN, |packer| {
        packer.start(b"MULTI").end();
        pack_deletion(packer, plan, delete);
        if let Some(event) = failed {
            packer
                .start(b"HINCRBY")
                .part(plan.keys.outbox_attempts().as_bytes());
            packer.part(event.as_bytes()).part(b"1").end();
        }
        packer.start(b"EXEC").end();
    });
    executed(&replies.await?)
}

fn lease(packer: &mut Packer<'_>, plan: &Plan) {
    packer.start(b"EVAL").part(LEASE.as_bytes()).part(b"1");
    packer
        .part(plan.keys.outbox_lease().as_bytes())
        .part(plan.worker.as_bytes());
    packer
        .part(plan.lease.as_millis().to_string().as_bytes())
        .end();
}

fn pack_deletion(packer: &mut Packer<'_>, plan: &Plan, delete: &[(String, String)]) {
    if delete.is_empty() {
        return;
    }
    packer.start(b"XDEL").part(plan.keys.events().as_bytes());
    for (stream_id, _) in delete {
        packer.part(stream_id.as_bytes());
    }
    packer.end();
    packer
        .start(b"HDEL")
        .part(plan.keys.outbox_attempts().as_bytes());
    for (_, event) in delete {
        packer.part(event.as_bytes());
    }
    packer.end();
}

async fn ask(
    link: &mut StoreLink,
    limit: Duration,
    pack: impl FnOnce(&mut Packer<'_>),
) -> Outcome<Vec<Reply>> {
    within(limit, async { Ok(link.ask_all(pack).await?) }).await
}

async fn take(link: &mut StoreLink, count: usize) -> Outcome<Vec<Reply>> {
    let mut replies = Vec::with_capacity(count);
    for _ in 0..count {
        replies.push(link.reply().await?);
    }
    Ok(replies)
}

/// No reply is a refusal.
fn accepted(replies: &[Reply]) -> Outcome<()> {
    match replies.iter().find_map(Reply::first_error) {
        Some(words) => Err(StoreError::Lost(format!(
            "the server refused a command: {words}"
        ))),
        None => Ok(()),
    }
}

/// A transaction was executed, and every part of it was.
fn executed(replies: &[Reply]) -> Outcome<()> {
    accepted(replies)?;
    match replies.last() {
        Some(Reply::Array(_)) => Ok(()),
        _ => Err(odd("a transaction was not executed")),
    }
}

fn held(reply: &Reply) -> Outcome<Hold> {
    accepted(std::slice::from_ref(reply))?;
    match reply.integer() {
        Some(0) => Ok(Hold::Another),
        Some(1) => Ok(Hold::Kept),
        Some(2) => Ok(Hold::Taken),
        _ => Err(odd("the lease cannot be read")),
    }
}

fn counted(replies: &[Reply]) -> Outcome<Confirmed> {
    accepted(replies)?;
    match replies {
        [wait, wait_aof] => checks::confirmed(wait, wait_aof),
        _ => None,
    }
    .ok_or_else(|| odd("the wait for disks cannot be read"))
}

fn odd(what: &str) -> StoreError {
    StoreError::Lost(format!("{what}: the server answered something unexpected"))
}
