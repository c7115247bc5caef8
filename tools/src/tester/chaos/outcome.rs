//! What came of each fault, and of each kind in all.

use super::kind::FaultKind;
use crate::cell::table;
use serde::Serialize;
use std::fmt;

/// What came of one fault.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Its place in the run, from one.
    pub number: u64,
    /// Its kind.
    #[serde(serialize_with = "as_name")]
    pub kind: FaultKind,
    /// Whom it struck.
    pub target: String,
    /// How long it was to last.
    pub planned: String,
    /// When it struck, in seconds from the beginning of the run.
    pub at_seconds: f64,
    /// How long it lasted.
    pub held_ms: u64,
    /// The longest time without an answer, from the strike until the site was whole.
    pub silence_ms: u64,
    /// From the strike until the site was whole and acknowledged.
    pub whole_ms: u64,
    /// Whether Sentinel promoted a replica meanwhile.
    pub failed_over: bool,
    /// The faults that struck together with it.
    pub overlapping: Vec<u64>,
    /// Nodes of the broker that hung in their start afterwards and were started once more.
    pub started_again: Vec<String>,
}

impl Outcome {
    /// The silence that is the cell's own: what a process stands still by the tester's hand, or a
    /// broker is kept from reading, is not.
    fn own_silence_ms(&self) -> u64 {
        if self.kind.is_pause() || self.kind == FaultKind::MemoryAlarm {
            self.silence_ms.saturating_sub(self.held_ms)
        } else {
            self.silence_ms
        }
    }

    fn is_within_aim(&self) -> bool {
        self.own_silence_ms() <= self.kind.facts().aim_seconds * 1_000
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:>4} {:<22} {:<20} {} · no answer for {} · whole after {}",
            self.number,
            self.kind,
            self.target,
            self.planned,
            Seconds(self.silence_ms),
            Seconds(self.whole_ms),
        )?;
        if self.failed_over {
            write!(out, " · failed over")?;
        }
        for other in &self.overlapping {
            write!(out, " · together with {other}")?;
        }
        for node in &self.started_again {
            write!(out, " · {node} hung in its start and was started once more")?;
        }
        Ok(())
    }
}

/// Milliseconds, shown as seconds.
pub(super) struct Seconds(pub(super) u64);

impl fmt::Display for Seconds {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{:02} s", self.0 / 1_000, self.0 % 1_000 / 10)
    }
}

/// What came of all faults of one kind.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KindRow {
    /// The kind.
    #[serde(serialize_with = "as_name")]
    pub kind: FaultKind,
    /// How many there were.
    pub count: usize,
    /// How many of them ended with another primary.
    pub failovers: usize,
    /// The median of the longest times without an answer.
    pub median_ms: u64,
    /// The longest of them.
    pub worst_ms: u64,
    /// The median from the strike until the site was whole.
    pub whole_median_ms: u64,
    /// What is aimed at, over what a pause itself lasts.
    pub aim_ms: u64,
    /// How many were within the aim.
    pub within_aim: usize,
}

/// A row for each kind that struck. Faults that overlapped share a silence that neither caused
/// alone, so they count as struck and are left out of the times, unless there are no others.
pub fn by_kind(outcomes: &[Outcome]) -> Vec<KindRow> {
    let row = |kind: FaultKind| {
        let all: Vec<&Outcome> = outcomes.iter().filter(|it| it.kind == kind).collect();
        let alone = all.iter().any(|it| it.overlapping.is_empty());
        let timed = || all.iter().filter(|it| !alone || it.overlapping.is_empty());
        (!all.is_empty()).then(|| KindRow {
            kind,
            count: all.len(),
            failovers: all.iter().filter(|it| it.failed_over).count(),
            median_ms: median(timed().map(|it| it.silence_ms).collect()),
            worst_ms: timed().map(|it| it.silence_ms).max().unwrap_or(0),
            whole_median_ms: median(timed().map(|it| it.whole_ms).collect()),
            aim_ms: kind.facts().aim_seconds * 1_000,
            within_aim: all.iter().filter(|it| it.is_within_aim()).count(),
        })
    };
    FaultKind::all().filter_map(row).collect()
}

/// The rows as people read them.
pub(super) fn kind_table(rows: &[KindRow]) -> impl fmt::Display {
    let head = [
        "fault",
        "struck",
        "failovers",
        "no answer, median",
        "worst",
        "whole, median",
        "aim",
        "within it",
    ];
    let row = |row: &KindRow| {
        [
            row.kind.to_string(),
            row.count.to_string(),
            row.failovers.to_string(),
            Seconds(row.median_ms).to_string(),
            Seconds(row.worst_ms).to_string(),
            Seconds(row.whole_median_ms).to_string(),
            Seconds(row.aim_ms).to_string(),
            row.within_aim.to_string(),
        ]
    };
    table(head, rows.iter().map(row))
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or(0)
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands out references"
)]
fn as_name<S: serde::Serializer>(kind: &FaultKind, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(kind.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(kind: FaultKind, silence_ms: u64, held_ms: u64) -> Outcome {
        Outcome {
            number: 1,
            kind,
            target: "somebody".into(),
            planned: "for a moment".into(),
            at_seconds: 0.0,
            held_ms,
            silence_ms,
            whole_ms: silence_ms + 1,
            failed_over: false,
            overlapping: Vec::new(),
            started_again: Vec::new(),
        }
    }

    #[test]
    fn a_pause_is_not_held_against_the_cell_and_a_kill_is() {
        let paused = outcome(FaultKind::ConductorPause, 9_000, 6_000);
        let killed = outcome(FaultKind::ConductorKill, 9_000, 6_000);
        let rows = by_kind(&[paused, killed]);
        assert_eq!(rows.len(), 2);
        assert_eq!(
            (rows[0].kind, rows[0].within_aim),
            (FaultKind::ConductorKill, 0)
        );
        assert_eq!(
            (rows[1].kind, rows[1].within_aim),
            (FaultKind::ConductorPause, 1)
        );
    }

    #[test]
    fn the_median_and_the_worst_are_of_faults_that_struck_alone() {
        let mut all: Vec<Outcome> = [100, 300, 200]
            .map(|silence| outcome(FaultKind::OutboxKill, silence, 0))
            .into();
        let mut together = outcome(FaultKind::OutboxKill, 20_000, 0);
        together.overlapping.push(9);
        all.push(together);
        let row = &by_kind(&all)[0];
        assert_eq!((row.count, row.median_ms, row.worst_ms), (4, 200, 300));
    }
}
