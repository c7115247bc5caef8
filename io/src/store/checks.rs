//! What a store must be before it is trusted with an acknowledgement.
//!
//! Reading settings is not enough and writing alone is not either: `WAITAOF` on a connection that
//! has not written says yes at once, and says yes with persistence off when it is asked for
//! replicas only. So the settings are read, and at the first connection of a process a key of its
//! own is really written and waited for. And a store must come back from a restart with what it
//! confirmed: the server loads its append-only file as the user `default` and asks for that user's
//! rights at every `EXEC`, so one whose default user was switched off with its rights taken away
//! drops every transaction of the file without a refusal that anybody sees.

use super::link::{Link, LinkError, refused, unexpected};
use super::waits;
use crate::keys::Keys;
use crate::resp::Reply;
use conductor_engine::partition::{Confirmed, Durability};
use futures_lite::{AsyncRead, AsyncWrite};
use std::time::Duration;

/// Why a store will not do.
#[derive(Debug)]
pub enum CheckError {
    /// A setting is wrong; this line says what to change.
    Misconfigured(String),
    /// Something that must be there is not there yet.
    Unavailable(String),
    /// The link failed.
    Link(LinkError),
}

impl From<LinkError> for CheckError {
    fn from(error: LinkError) -> Self {
        if let LinkError::Record { .. } = error {
            return CheckError::Misconfigured(error.to_string());
        }
        match error.refusal() {
            Some(words) if words.starts_with("NOPERM") => CheckError::Misconfigured(format!(
                "the store's user may not do what a conductor needs: {words}; grant it"
            )),
            _ => CheckError::Link(error),
        }
    }
}

/// Each setting, what it must be, and why.
const SETTINGS: [(&str, &str, &str); 5] = [
    (
        "appendonly",
        "yes",
        "without an append-only file nothing is on disk",
    ),
    (
        "appendfsync",
        "always",
        "anything else acknowledges before the disk has it",
    ),
    (
        "no-appendfsync-on-rewrite",
        "no",
        "a rewrite would skip the disk unseen",
    ),
    (
        "io-threads",
        "1",
        "with more, replies of waiting clients can be damaged",
    ),
    (
        "maxmemory-policy",
        "noeviction",
        "an evicted record is a lost order",
    ),
];

/// Reads the settings that the durability policy rests on. In memory mode only eviction matters.
///
/// # Errors
/// [`CheckError::Misconfigured`] names the setting, what it is and what to change it to.
pub async fn settings<S: AsyncRead + AsyncWrite + Unpin>(
    link: &mut Link<S>,
    durable: bool,
) -> Result<(), CheckError> {
    for (name, wanted, why) in SETTINGS {
        if !durable && name != "maxmemory-policy" {
            continue;
        }
        let found = match link.ask(&[b"CONFIG", b"GET", name.as_bytes()]).await {
            Ok(reply) => value_of(&reply),
            // A store that can be rebuilt may not know the setting.
            Err(error) if error.refusal().is_some() && !durable => continue,
            Err(error) => return Err(error.into()),
        };
        match found {
            Some(found) if found == wanted => {}
            None if !durable || name == "io-threads" => {}
            found => {
                let found = found.unwrap_or_else(|| "unknown".to_owned());
                return Err(CheckError::Misconfigured(format!(
                    "the store has {name} {found}: set {name} {wanted} in its configuration ({why})"
                )));
            }
        }
    }
    Ok(())
}

/// Every command that a file of ours may hold, as far as its rights are concerned. In small letters,
/// as rights are written, so that nothing on the wire takes the question for the command.
const IN_THE_FILE: [&[&str]; 15] = [
    &["select", "0"],
    &["multi"],
    &["exec"],
    &["set", KEY, "1"],
    &["incr", KEY],
    &["del", KEY],
    &["pexpireat", KEY, "1"],
    &["hset", KEY, "field", "1"],
    &["hdel", KEY, "field"],
    &["hincrby", KEY, "field", "1"],
    &["sadd", KEY, "member"],
    &["zadd", KEY, "1", "member"],
    &["zrem", KEY, "member"],
    &["xadd", KEY, "*", "field", "1"],
    &["xdel", KEY, "1-1"],
];
/// Stands for a key of the partition.
const KEY: &str = "";

/// Asks whether the server's default user may do what the server does as that user when it loads
/// its append-only file. Nothing is written: it is a question about rights.
///
/// # Errors
/// [`CheckError::Misconfigured`] when a restart would lose transactions.
pub async fn restart<S: AsyncRead + AsyncWrite + Unpin>(
    link: &mut Link<S>,
    keys: &Keys,
) -> Result<(), CheckError> {
    let asking = link.ask_all(|packer| {
        for command in IN_THE_FILE {
            packer.start(b"ACL").part(b"DRYRUN").part(b"default");
            for part in command {
                let part = if *part == KEY { keys.cursor() } else { part };
                packer.part(part.as_bytes());
            }
            packer.end();
        }
    });
    for reply in asking.await? {
        match reply {
            Reply::Error(words) => return Err(refused("ACL DRYRUN", words).into()),
            reply if reply.is_status("OK") => {}
            reply => {
                let words = reply.text().unwrap_or("it was refused");
                return Err(CheckError::Misconfigured(format!(
                    "the store would lose every transaction at its next start, because it loads its \
                     append-only file as the user default, which may not do what is in it ({words}): \
                     switch that user off and leave it its rights, `user default off resetpass ~* &* \
                     +@all`, here and on every replica"
                )));
            }
        }
    }
    Ok(())
}

fn value_of(reply: &Reply) -> Option<String> {
    let elements = reply.elements()?;
    elements.get(1)?.text().map(str::to_owned)
}

/// Writes a key of its own and waits until enough disks have it.
///
/// # Errors
/// [`CheckError::Misconfigured`] from a server without `WAITAOF`, [`CheckError::Unavailable`] when
/// too few disks confirm in time.
pub async fn durability<S: AsyncRead + AsyncWrite + Unpin>(
    link: &mut Link<S>,
    keys: &Keys,
    needed: Durability,
    timeout: Duration,
) -> Result<(), CheckError> {
    let replies = link
        .ask_all(|packer| {
            packer
                .start(b"INCR")
                .part(keys.boot_check().as_bytes())
                .end();
            waits::pack(packer, needed.replicas, timeout);
        })
        .await?;
    for (name, reply) in ["INCR", "WAIT", "WAITAOF"].iter().zip(&replies) {
        let Some(words) = reply.error() else { continue };
        if *name == "WAITAOF" && words.to_lowercase().contains("unknown command") {
            return Err(CheckError::Misconfigured(
                "the store does not know WAITAOF, so it cannot confirm that a write is on disk: use \
                 Valkey 7.2 or newer, or set MATCHING_DURABILITY=memory if the book can be rebuilt \
                 from elsewhere"
                    .to_owned(),
            ));
        }
        return Err(refused(*name, words).into());
    }
    let confirmed = confirmed(&replies[1], &replies[2]).ok_or_else(|| unexpected("WAITAOF"))?;
    if needed.is_met_by(confirmed) {
        return Ok(());
    }
    Err(CheckError::Unavailable(format!(
        "a test write reached too few disks in {} ms ({confirmed}; needed: the primary \
         and {} replicas); start the missing replica",
        timeout.as_millis(),
        needed.replicas
    )))
}

/// What the replies of `WAIT` and `WAITAOF` say.
pub fn confirmed(wait: &Reply, wait_aof: &Reply) -> Option<Confirmed> {
    let counts = wait_aof.elements()?;
    let (local, remote) = (counts.first()?.integer()?, counts.get(1)?.integer()?);
    Some(Confirmed {
        replicas_in_memory: u32::try_from(wait.integer()?).ok()?,
        primary_disk: local >= 1,
        replica_disks: u32::try_from(remote).ok()?,
    })
}
