//! Private Sentinels that watch the primaries of a cell.
//!
//! They start only when the test bed says so and are ready only when each of them knows the others
//! and every replica: before that a failover finds nobody to promote. A Sentinel rewrites its own
//! configuration file, so each has its own.

use super::error::{Result, TestbedError};
use super::folder::Folder;
use super::launch::Launch;
use super::ports::Port;
use super::process::Process;
use super::valkey::{Valkey, ask, connect};
use super::versions::Versions;
use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

/// Sentinels find each other by a message every two seconds and replicas by a question every ten.
const READY_WITHIN: Duration = Duration::from_secs(45);
/// How long one look at a Sentinel may take.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// How many Sentinels must agree that a primary is down.
const QUORUM: usize = 2;
/// A primary that is silent for so long is down.
const DOWN_AFTER_MS: u32 = 3_000;
/// After a failover that did not come about, the next is tried after twice this.
const FAILOVER_TIMEOUT_MS: u32 = 10_000;

/// A primary that Sentinels watch.
#[derive(Clone, Copy, Debug)]
pub struct WatchedGroup<'a> {
    /// The name that a client asks for.
    pub name: &'a str,
    /// The server that is the primary now.
    pub primary: &'a Valkey,
    /// How many replicas follow it.
    pub replicas: usize,
}

/// Some Sentinels.
#[derive(Debug)]
pub struct Sentinels {
    members: Vec<(Process, Port)>,
}

impl Sentinels {
    /// Starts so many and waits until each knows the others and every replica.
    pub fn start(
        folder: &Folder,
        versions: &Versions,
        count: usize,
        groups: &[WatchedGroup<'_>],
    ) -> Result<Self> {
        let mut members = Vec::with_capacity(count);
        for number in 1..=count {
            members.push(start_one(
                folder,
                versions,
                &format!("sentinel-{number}"),
                groups,
            )?);
        }
        let sentinels = Self { members };
        for group in groups {
            for number in 0..count {
                sentinels.wait_knowing(number, group)?;
            }
        }
        Ok(sentinels)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The process of one of them, counted from zero.
    pub fn process(&self, number: usize) -> &Process {
        &self.members[number].0
    }

    /// Where they listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.members
            .iter()
            .map(|(_, port)| port.address())
            .collect()
    }

    /// The primary of a group, as one of them sees it.
    pub fn primary(&self, number: usize, group: &str) -> Result<SocketAddr> {
        self.ask_primary(number, group)
            .map_err(|answer| TestbedError::Answer {
                name: self.members[number].0.name().to_owned(),
                answer,
            })
    }

    /// Waits until every running one of them names another primary than this; gives its address.
    pub fn wait_switched(
        &self,
        group: &str,
        from: SocketAddr,
        within: Duration,
    ) -> Result<SocketAddr> {
        super::wait_for(&format!("new primary of {group}"), within, || {
            let running = (0..self.count()).filter(|number| self.process(*number).is_running());
            let seen: Vec<SocketAddr> = running
                .map(|number| self.ask_primary(number, group))
                .collect::<std::result::Result<_, _>>()?;
            match seen.first() {
                Some(first) if *first != from && seen.iter().all(|other| other == first) => {
                    Ok(*first)
                }
                _ => Err(format!("they name {seen:?}")),
            }
        })
    }

    /// The primary of a group as more than half of all Sentinels see it, by those that can answer.
    pub fn agreed_primary(&self, group: &str) -> Result<SocketAddr> {
        self.look_for_primary(group)
            .map_err(|answer| TestbedError::Answer {
                name: "Sentinel".into(),
                answer,
            })
    }

    pub(super) fn look_for_primary(&self, group: &str) -> std::result::Result<SocketAddr, String> {
        let able = (0..self.count()).filter(|number| {
            let process = self.process(*number);
            process.is_running() && !process.is_paused()
        });
        let seen: Vec<_> = able.map(|number| self.ask_primary(number, group)).collect();
        let votes = |one: &SocketAddr| {
            let agree = |other: &&std::result::Result<_, _>| other.as_ref() == Ok(one);
            seen.iter().filter(agree).count()
        };
        let named = seen
            .iter()
            .flatten()
            .find(|one| votes(one) * 2 > self.count());
        named
            .copied()
            .ok_or_else(|| format!("no majority for one primary of {group}: {seen:?}"))
    }

    /// Whether every Sentinel runs, names this primary, finds it and all its replicas well, and
    /// knows all the others.
    pub(super) fn look_whole(&self, group: &WatchedGroup<'_>) -> std::result::Result<(), String> {
        for number in 0..self.count() {
            let name = self.process(number).name();
            let seen = self.ask_primary(number, group.name)?;
            if seen != group.primary.address() {
                return Err(format!("{name} names {seen}"));
            }
            self.look_knowing(number, group)
                .map_err(|told| format!("{name}: {told}"))?;
            let words = ["SENTINEL", "REPLICAS", group.name];
            let replicas: Vec<HashMap<String, String>> = self.look(number, &words)?;
            let flags = replicas.iter().map(|replica| replica.get("flags"));
            let mut unwell = flags.filter(|flags| flags.is_none_or(|flags| flags != "slave"));
            if let Some(flags) = unwell.next() {
                return Err(format!("{name} finds a replica {flags:?}"));
            }
        }
        Ok(())
    }

    fn ask_primary(&self, number: usize, group: &str) -> std::result::Result<SocketAddr, String> {
        let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", group];
        let (host, port): (String, String) = self.look(number, &words)?;
        format!("{host}:{port}")
            .parse()
            .map_err(|_| format!("it names {host} port {port}"))
    }

    fn wait_knowing(&self, number: usize, group: &WatchedGroup<'_>) -> Result<()> {
        let others = self.count() - 1;
        let awaited = format!("view of {others} others and {} replicas", group.replicas);
        self.process(number)
            .wait_for(&awaited, READY_WITHIN, || self.look_knowing(number, group))
    }

    fn look_knowing(
        &self,
        number: usize,
        group: &WatchedGroup<'_>,
    ) -> std::result::Result<(), String> {
        let words = ["SENTINEL", "MASTER", group.name];
        let seen: HashMap<String, String> = self.look(number, &words)?;
        let count = |name| seen.get(name).and_then(|text| text.parse::<usize>().ok());
        let (found, replicas) = (count("num-other-sentinels"), count("num-slaves"));
        let flags = seen.get("flags").map(String::as_str);
        let known =
            found == Some(self.count() - 1) && replicas.is_some_and(|n| n >= group.replicas);
        if known && flags == Some("master") {
            Ok(())
        } else {
            Err(format!(
                "it knows {found:?} others and {replicas:?} replicas ({flags:?})"
            ))
        }
    }

    fn look<T: redis::FromRedisValue>(
        &self,
        number: usize,
        words: &[&str],
    ) -> std::result::Result<T, String> {
        connect(self.members[number].1.address(), None, LOOK_WITHIN)
            .and_then(|mut connection| ask(&mut connection, words))
            .map_err(|error| error.to_string())
    }
}

fn start_one(
    folder: &Folder,
    versions: &Versions,
    name: &str,
    groups: &[WatchedGroup<'_>],
) -> Result<(Process, Port)> {
    let port = Port::take()?;
    let data = folder.subfolder(name)?;
    let mut lines = format!(
        "bind 127.0.0.1\nport {}\ndaemonize no\ndir \"{}\"\n",
        port.number(),
        data.display()
    );
    for WatchedGroup {
        name: group,
        primary,
        ..
    } in groups
    {
        let _ = write!(
            lines,
            "sentinel monitor {group} 127.0.0.1 {} {QUORUM}\n\
             sentinel auth-user {group} sentinel\nsentinel auth-pass {group} {}\n\
             sentinel down-after-milliseconds {group} {DOWN_AFTER_MS}\n\
             sentinel failover-timeout {group} {FAILOVER_TIMEOUT_MS}\n\
             sentinel parallel-syncs {group} 1\n",
            primary.port(),
            primary.users().sentinel(),
        );
    }
    let config = folder.secret_file(&format!("{name}/sentinel.conf"), &lines)?;
    let launch = Launch::new("valkey-sentinel").of(versions).argument(config);
    let process = Process::start(folder, name, launch)?;
    process.wait_for("answer to PING", READY_WITHIN, || {
        connect(port.address(), None, LOOK_WITHIN)
            .and_then(|mut connection| ask::<String>(&mut connection, &["PING"]))
            .map_err(|error| error.to_string())
    })?;
    Ok((process, port))
}
