//! What the machine did, moment by moment, so that a slow command can be explained.
//!
//! A thread looks ten times a second: whether a store rewrites its file, how much longer processes
//! have waited for the disk and for a processor (the kernel's pressure figures, where it keeps
//! them). Slow commands that were due close to one another are one episode.

use crate::connection::{Connection, StoreAt};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Slow commands that were due so close to one another belong together.
const EPISODE_GAP: Duration = Duration::from_millis(500);

/// One look.
#[derive(Clone, Copy, Debug, Default)]
struct Moment {
    at: Duration,
    primary_rewrites: bool,
    replica_rewrites: bool,
    /// Since the machine began: some process waited for the disk, all of them did, some waited for
    /// a processor.
    disk_some: Option<Duration>,
    disk_all: Option<Duration>,
    processor_some: Option<Duration>,
}

/// Looks until it is asked for what it saw.
#[derive(Debug)]
pub(crate) struct Watcher {
    ended: Arc<AtomicBool>,
    began: Instant,
    thread: JoinHandle<Vec<Moment>>,
}

impl Watcher {
    /// Begins.
    pub(crate) fn start(primary: StoreAt, replica: Option<StoreAt>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ended);
        let began = Instant::now();
        let thread = std::thread::spawn(move || {
            let mut stores = [
                Connection::open(&primary).ok(),
                replica.and_then(|replica| Connection::open(&replica).ok()),
            ];
            let mut moments = Vec::new();
            while !until.load(Ordering::Acquire) {
                let [primary_rewrites, replica_rewrites] = stores.each_mut().map(rewrites);
                moments.push(Moment {
                    at: began.elapsed(),
                    primary_rewrites,
                    replica_rewrites,
                    disk_some: pressure("io", "some"),
                    disk_all: pressure("io", "full"),
                    processor_some: pressure("cpu", "some"),
                });
                std::thread::sleep(LOOK_EVERY);
            }
            moments
        });
        Self {
            ended,
            began,
            thread,
        }
    }

    /// Ends, and says of each episode of slow commands what it saw; their times are counted from
    /// that moment.
    pub(crate) fn explain(self, from: Instant, slow: &[(Duration, Duration)]) -> Vec<Episode> {
        self.ended.store(true, Ordering::Release);
        let mut moments = self.thread.join().unwrap_or_default();
        let earlier = from.saturating_duration_since(self.began);
        for moment in &mut moments {
            moment.at = moment.at.saturating_sub(earlier);
        }
        let mut episodes = episodes(slow);
        for episode in &mut episodes {
            episode.see(&moments);
        }
        episodes
    }
}

/// Slow commands that were due close to one another, and what the machine did meanwhile.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Episode {
    /// When the first of them was due, and when the last was answered.
    from_seconds: f64,
    until_seconds: f64,
    commands: usize,
    longest_seconds: f64,
    primary_rewrote: bool,
    replica_rewrote: bool,
    /// Of the time, in hundredths: some process waited for the disk, all that could run did, some
    /// waited for a processor.
    disk_some_percent: Option<f64>,
    disk_all_percent: Option<f64>,
    processor_some_percent: Option<f64>,
}

impl Episode {
    fn see(&mut self, moments: &[Moment]) {
        let (from, until) = (self.from_seconds, self.until_seconds);
        let before = moments.partition_point(|it| it.at.as_secs_f64() < from);
        let after = moments.partition_point(|it| it.at.as_secs_f64() <= until);
        let last = after.min(moments.len().saturating_sub(1));
        let Some(seen) = moments.get(before.saturating_sub(1)..=last) else {
            return;
        };
        self.primary_rewrote = seen.iter().any(|it| it.primary_rewrites);
        self.replica_rewrote = seen.iter().any(|it| it.replica_rewrites);
        let (Some(first), Some(end)) = (seen.first(), seen.last()) else {
            return;
        };
        let span = (end.at - first.at).as_secs_f64().max(f64::EPSILON);
        let share = |of: fn(&Moment) -> Option<Duration>| {
            let waited = of(end)?.checked_sub(of(first)?)?;
            Some(100.0 * waited.as_secs_f64() / span)
        };
        self.disk_some_percent = share(|it| it.disk_some);
        self.disk_all_percent = share(|it| it.disk_all);
        self.processor_some_percent = share(|it| it.processor_some);
    }

    /// In one line.
    pub(crate) fn line(&self) -> String {
        let mut line = format!(
            "{} commands due from {:.2} s on, answered by {:.2} s, the longest in {:.0} ms:",
            self.commands,
            self.from_seconds,
            self.until_seconds,
            self.longest_seconds * 1_000.0
        );
        if self.primary_rewrote {
            line.push_str(" the primary rewrote its file;");
        }
        if self.replica_rewrote {
            line.push_str(" the replica rewrote its file;");
        }
        let shares = [
            ("some process waited for the disk", self.disk_some_percent),
            ("all that could run waited for it", self.disk_all_percent),
            ("some waited for a processor", self.processor_some_percent),
        ];
        for (what, share) in shares {
            if let Some(share) = share {
                let _ = write!(line, " {what} {share:.0} % of the time;");
            }
        }
        line.pop();
        line
    }
}

fn episodes(slow: &[(Duration, Duration)]) -> Vec<Episode> {
    let mut sorted = slow.to_vec();
    sorted.sort_unstable();
    let mut episodes: Vec<Episode> = Vec::new();
    let mut due_last = Duration::ZERO;
    for (due, took) in sorted {
        let (until, took) = ((due + took).as_secs_f64(), took.as_secs_f64());
        match episodes.last_mut() {
            Some(episode) if due - due_last <= EPISODE_GAP => {
                episode.commands += 1;
                episode.until_seconds = episode.until_seconds.max(until);
                episode.longest_seconds = episode.longest_seconds.max(took);
            }
            _ => episodes.push(Episode {
                from_seconds: due.as_secs_f64(),
                until_seconds: until,
                commands: 1,
                longest_seconds: took,
                ..Episode::default()
            }),
        }
        due_last = due;
    }
    episodes
}

fn rewrites(store: &mut Option<Connection>) -> bool {
    let asked = store
        .as_mut()
        .and_then(|store| store.info("persistence", "aof_rewrite_in_progress").ok());
    asked.is_some_and(|answer| answer.trim() == "1")
}

/// How long processes have waited for something since the machine began.
fn pressure(of: &str, whom: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/pressure/{of}")).ok()?;
    let line = text.lines().find(|line| line.starts_with(whom))?;
    let (_, total) = line.split_once("total=")?;
    Some(Duration::from_micros(total.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn slow_commands_close_to_one_another_are_one_episode() {
        let slow = [
            (ms(1_100), ms(300)),
            (ms(1_000), ms(900)),
            (ms(5_000), ms(260)),
        ];
        let mut found = episodes(&slow);
        assert_eq!(
            found.iter().map(|it| it.commands).collect::<Vec<_>>(),
            [2, 1]
        );
        assert!((found[0].until_seconds - 1.9).abs() < 1e-9);
        let moment = |at, primary_rewrites, waited| Moment {
            at: ms(at),
            primary_rewrites,
            disk_some: Some(ms(waited)),
            ..Moment::default()
        };
        found[0].see(&[
            moment(0, true, 0),
            moment(900, false, 10),
            moment(1_400, true, 260),
            moment(1_900, false, 510),
            moment(4_000, true, 510),
        ]);
        assert!(found[0].primary_rewrote && !found[0].replica_rewrote);
        let line = found[0].line();
        assert!(
            line.contains("the primary rewrote its file") && line.ends_with("of the time"),
            "{line}"
        );
        assert_eq!(found[0].disk_all_percent, None);
        found[1].see(&[]);
        assert!(found[1].line().ends_with("260 ms"), "{}", found[1].line());
    }
}
