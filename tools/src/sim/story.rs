//! The story of a run: one line a step, in the words of the steps. A line that a fault brought about
//! is marked.

use super::clock::{SECOND, Time};
use super::node::{Node, NodeRole};
use super::world::Actor;

/// One line.
#[derive(Clone, Debug)]
struct Line {
    time: Time,
    who: String,
    what: String,
    times: u32,
    fault: bool,
}

/// What has happened, or nothing where nobody listens.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    lines: Option<Vec<Line>>,
}

impl Story {
    /// A story that is told.
    pub(super) const fn told() -> Self {
        Self {
            lines: Some(Vec::new()),
        }
    }

    pub(super) const fn is_told(&self) -> bool {
        self.lines.is_some()
    }

    /// Adds a line that a fault brought about.
    pub(super) fn add_fault(&mut self, time: Time, who: String, what: String) {
        let Some(lines) = &mut self.lines else { return };
        lines.push(Line {
            time,
            who,
            what,
            times: 1,
            fault: true,
        });
    }

    /// Adds a line; a wait that goes on is counted.
    pub(super) fn add(&mut self, time: Time, who: String, what: String) {
        let Some(lines) = &mut self.lines else { return };
        let waits = ["waiting", "not durable", "another outbox"];
        let recent = lines.iter_mut().rev().take(REPEATS_WITHIN);
        let mut recent = recent.filter(|line| waits.iter().any(|it| line.what.starts_with(it)));
        if let Some(same) = recent.find(|line| line.who == who && line.what == what) {
            same.times += 1;
        } else {
            lines.push(Line {
                time,
                who,
                what,
                times: 1,
                fault: false,
            });
        }
    }

    /// An outbox publishes an event; several in a row are one line.
    pub(super) fn add_publication(&mut self, time: Time, who: &str, sequence: u64, kind: &str) {
        let Some(lines) = &mut self.lines else { return };
        if let Some(line) = lines.last_mut().filter(|line| line.who == who)
            && let Some(words) = line.what.strip_prefix(PUBLISHES)
        {
            let last = words
                .split([' ', ',', ':'])
                .rfind(|word| word.parse::<u64>().is_ok());
            if last.and_then(|last| last.parse().ok()) == sequence.checked_sub(1) {
                let first = words.split([' ', ',']).next().unwrap_or_default();
                line.what = format!("{PUBLISHES}{first} to {sequence}");
                return;
            }
        }
        self.add(
            time,
            who.to_owned(),
            format!("{PUBLISHES}{sequence} ({kind})"),
        );
    }

    /// The lines as they are shown.
    pub(super) fn lines(&self) -> Vec<String> {
        let Some(lines) = &self.lines else {
            return Vec::new();
        };
        let shown = lines.iter().map(|line| {
            let (seconds, micros) = (line.time / SECOND, line.time % SECOND);
            let times = match line.times {
                1 => String::new(),
                times => format!(" ({times} times)"),
            };
            let mark = if line.fault { '!' } else { ' ' };
            format!(
                "{seconds:3}.{micros:06} s {mark} {:<16}  {}{times}",
                line.who, line.what
            )
        });
        shown.collect()
    }
}

const PUBLISHES: &str = "publishes event ";

/// A wait that is told again within the last few lines is counted there.
const REPEATS_WITHIN: usize = 6;

/// What everybody is called.
#[derive(Debug)]
pub(super) struct Names {
    primaries: Vec<bool>,
}

impl Names {
    pub(super) fn of(nodes: &[Node]) -> Self {
        Self {
            primaries: nodes
                .iter()
                .map(|node| node.role == NodeRole::Primary)
                .collect(),
        }
    }

    pub(super) fn actor(&self, actor: Actor) -> String {
        match actor {
            Actor::Conductor(place) => format!("conductor {}", letter(place)),
            Actor::Outbox(place) => format!("outbox {}", letter(place)),
        }
    }

    /// A node and what it is now.
    pub(super) fn node(&self, place: usize) -> String {
        let role = if self.primaries[place] {
            "primary"
        } else {
            "replica"
        };
        format!("node {} ({role})", place + 1)
    }
}

fn letter(place: usize) -> char {
    if place == 0 { 'A' } else { 'B' }
}
