//! What a run of commands came to.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Longest time that is told apart, in microseconds: ten minutes.
const LONGEST_US: u64 = 600_000_000;

/// Times from publishing a command to its reply.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_US, 3).expect("the bounds are in order"))
    }
}

impl Latencies {
    /// Adds a time.
    pub fn record(&mut self, waited: Duration) {
        let microseconds = u64::try_from(waited.as_micros()).unwrap_or(LONGEST_US);
        self.0.saturating_record(microseconds.max(1));
    }

    /// Milliseconds that this share of the times, out of one, does not exceed.
    pub fn milliseconds_at(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1_000.0
    }

    /// The longest, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.0.max() as f64 / 1_000.0
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }
}

impl Serialize for Latencies {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct View {
            count: u64,
            p50: f64,
            p99: f64,
            p999: f64,
            max: f64,
        }
        View {
            count: self.count(),
            p50: self.milliseconds_at(0.5),
            p99: self.milliseconds_at(0.99),
            p999: self.milliseconds_at(0.999),
            max: self.longest_ms(),
        }
        .serialize(out)
    }
}

/// Replies by their status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replies {
    /// Something happened.
    pub accepted: u64,
    /// Nothing happened.
    pub unchanged: u64,
    /// The command was refused.
    pub rejected: u64,
    /// The reply is no result.
    pub unreadable: u64,
    /// Awaited and not come in time.
    pub missing: u64,
    /// Come once more, after a new owner answered again.
    pub repeated: u64,
    /// Come once more with other bytes than the first time, which must never be.
    pub contradicting: u64,
}

impl Replies {
    /// Counts a reply that came first.
    pub(super) fn count(&mut self, body: &[u8]) {
        #[derive(serde::Deserialize)]
        struct Status<'a> {
            status: &'a str,
        }
        match serde_json::from_slice::<Status<'_>>(body).map(|read| read.status) {
            Ok("accepted") => self.accepted += 1,
            Ok("unchanged") => self.unchanged += 1,
            Ok("rejected") => self.rejected += 1,
            Ok(_) | Err(_) => self.unreadable += 1,
        }
    }

    /// Those that came, each counted once.
    pub const fn in_all(&self) -> u64 {
        self.accepted + self.unchanged + self.rejected + self.unreadable
    }
}

/// What a run of commands came to.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Messages that were published.
    pub sent: u64,
    /// Messages that a queue has, by the broker's word.
    pub confirmed: u64,
    /// Leading messages of the run that were all confirmed: after a lost connection, go on behind
    /// these. Whatever was sent twice is answered from its record.
    pub confirmed_in_order: u64,
    /// Messages that no queue takes.
    pub returned: u64,
    /// Messages that the broker refused.
    pub refused: u64,
    /// Replies.
    pub replies: Replies,
    /// From the first message to the last reply.
    pub seconds: f64,
    /// Messages confirmed, and answered where they are to be, for each of these seconds.
    pub commands_per_second: f64,
    /// Milliseconds from publishing a message to its reply.
    pub publish_to_reply_ms: Latencies,
}

impl Summary {
    /// Whether every message reached its queue and every awaited reply came, without contradiction.
    pub const fn is_complete(&self) -> bool {
        self.confirmed == self.sent && self.replies.missing == 0 && self.replies.contradicting == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, count: u64| writeln!(out, "{name:<26}{count:>12}");
        row("messages sent", self.sent)?;
        row("  confirmed by the broker", self.confirmed)?;
        let replies = &self.replies;
        for (name, count) in [
            ("  returned: no queue", self.returned),
            ("  refused", self.refused),
        ] {
            if count > 0 {
                row(name, count)?;
            }
        }
        row("replies", replies.in_all())?;
        row("  accepted", replies.accepted)?;
        row("  unchanged", replies.unchanged)?;
        row("  rejected", replies.rejected)?;
        let rare = [
            ("  unreadable", replies.unreadable),
            ("replies missing", replies.missing),
            ("replies repeated", replies.repeated),
            ("  with other bytes", replies.contradicting),
        ];
        for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
            row(name, count)?;
        }
        writeln!(
            out,
            "{:<26}{:>12.0}",
            "commands per second", self.commands_per_second
        )?;
        if self.publish_to_reply_ms.count() > 0 {
            let times = &self.publish_to_reply_ms;
            writeln!(out, "publish to reply, milliseconds")?;
            for (name, value) in [
                ("  p50", times.milliseconds_at(0.5)),
                ("  p99", times.milliseconds_at(0.99)),
                ("  p99.9", times.milliseconds_at(0.999)),
                ("  longest", times.longest_ms()),
            ] {
                writeln!(out, "{name:<26}{value:>12.2}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_by_their_status() {
        let mut replies = Replies::default();
        for body in [
            r#"{"commandId":"c","status":"accepted","outcomes":[]}"#,
            r#"{"commandId":"c","status":"unchanged","outcomes":[]}"#,
            r#"{"commandId":"c","status":"rejected","outcomes":[]}"#,
            r#"{"commandId":"c","status":"odd"}"#,
            "not json",
        ] {
            replies.count(body.as_bytes());
        }
        let counted = (
            replies.accepted,
            replies.unchanged,
            replies.rejected,
            replies.unreadable,
        );
        assert_eq!(counted, (1, 1, 1, 2));
        assert_eq!(replies.in_all(), 5);
    }

    #[test]
    fn a_run_is_complete_only_with_every_confirm_and_every_reply() {
        let mut summary = Summary {
            sent: 2,
            confirmed: 2,
            ..Summary::default()
        };
        assert!(summary.is_complete());
        summary.replies.missing = 1;
        assert!(!summary.is_complete());
        summary.replies.missing = 0;
        summary.confirmed = 1;
        assert!(!summary.is_complete());
    }
}
