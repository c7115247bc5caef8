//! Speeds and times as figures.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// So many of something in that time, a second.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rate for people needs no more digits than a double has"
)]
pub(crate) fn rate(count: usize, elapsed: Duration) -> u64 {
    (count as f64 / elapsed.as_secs_f64().max(f64::EPSILON)) as u64
}

/// How many times as much.
#[expect(
    clippy::cast_precision_loss,
    reason = "a ratio for people needs no more digits than a double has"
)]
pub(crate) fn ratio(more: u64, less: u64) -> f64 {
    more as f64 / (less as f64).max(f64::EPSILON)
}

/// Several runs of the same thing.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Rates {
    pub(crate) median: u64,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) runs: Vec<u64>,
}

impl Rates {
    /// Of at least one run, in the order in which they were made.
    pub(crate) fn of(runs: Vec<u64>) -> Self {
        let mut sorted = runs.clone();
        sorted.sort_unstable();
        let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
        Self {
            median: at(sorted.len() / 2),
            least: at(0),
            most: at(sorted.len().saturating_sub(1)),
            runs,
        }
    }
}

/// A figure of partition 0 on a page of figures.
pub(crate) fn scraped(page: &str, name: &str) -> Option<u64> {
    let start = format!("{name}{{partition=\"0\"}} ");
    let found = page.lines().find_map(|line| line.strip_prefix(&start));
    found?.trim().parse().ok()
}

/// Percentiles of times, in microseconds.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) longest: f64,
}

/// A histogram of nanoseconds, up to a minute, with three digits.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are good")
}

/// Counts a time into a histogram of nanoseconds.
pub(crate) fn record(histogram: &mut Histogram<u64>, time: Duration) {
    let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record(nanoseconds.max(1));
}

impl Times {
    pub(crate) fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| microseconds(histogram.value_at_quantile(quantile));
        Self {
            count: histogram.len(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            longest: microseconds(histogram.max()),
        }
    }

    /// p50, p90, p99, p99.9 and the longest, for a table.
    pub(crate) fn cells(&self) -> [String; 5] {
        [self.p50, self.p90, self.p99, self.p999, self.longest].map(shown)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times of a run are far below 2^53 nanoseconds"
)]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1_000.0
}

fn shown(microseconds: f64) -> String {
    if microseconds < 10.0 {
        format!("{microseconds:.2}")
    } else {
        format!("{microseconds:.0}")
    }
}
