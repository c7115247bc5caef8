//! A histogram as percentile text, exactly as HdrHistogram's own plotter and tools read it.
//!
//! The layout is that of the reference implementation's percentile output: four columns, of which
//! the last is left out where it would be infinite, and three comment lines. Values stay in the
//! unit that they were recorded in, so the plotter's unit is to be set to it.

use hdrhistogram::Histogram;
use std::fmt::Write;

/// Lines for each halving of what is left to a hundred percent, as the reference has it.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// The text.
pub(super) fn text(histogram: &Histogram<u64>) -> String {
    let mut out = String::new();
    write(histogram, &mut out).expect("writing to a string cannot fail");
    out
}

fn write(histogram: &Histogram<u64>, out: &mut String) -> std::fmt::Result {
    let digits = usize::from(histogram.sigfig());
    let [value, percentile, count, inverse] =
        ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"];
    writeln!(
        out,
        "{value:>12} {percentile:>14} {count:>10} {inverse:>14}\n"
    )?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let (value, quantile) = (exact(step.value_iterated_to()), step.quantile_iterated_to());
        write!(out, "{value:12.digits$} {quantile:.12} {total:10}")?;
        if quantile < 1.0 {
            write!(out, " {:14.2}", 1.0 / (1.0 - quantile))?;
        }
        out.push('\n');
    }
    let (mean, deviation) = (histogram.mean(), histogram.stdev());
    let (highest, count) = (exact(histogram.max()), histogram.len());
    let (buckets, sub_buckets) = (histogram.buckets(), sub_buckets(histogram.sigfig()));
    writeln!(
        out,
        "#[Mean    = {mean:12.digits$}, StdDeviation   = {deviation:12.digits$}]"
    )?;
    writeln!(
        out,
        "#[Max     = {highest:12.digits$}, Total count    = {count:12}]"
    )?;
    writeln!(
        out,
        "#[Buckets = {buckets:12}, SubBuckets     = {sub_buckets:12}]"
    )
}

/// As many as tell two values of that many digits apart, rounded up to a power of two.
fn sub_buckets(digits: u8) -> u64 {
    (2 * 10_u64.pow(u32::from(digits))).next_power_of_two()
}

/// Recorded values are far below 2^53.
fn exact(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the reference's port for Python prints for the same recording, but for the second
    /// comment line, which the reference words as here.
    const EXPECTED: &str = "\
       Value     Percentile TotalCount 1/(1-Percentile)

    1200.000 0.000000000000        100           1.00
    1200.000 0.100000000000        100           1.11
";

    fn recorded() -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
        for (value, count) in [(1_200, 100), (3_400, 50), (90_000, 9), (2_500_000, 1)] {
            histogram.record_n(value, count).expect("within the bounds");
        }
        histogram
    }

    #[test]
    fn the_text_is_what_the_plotter_reads() {
        let text = text(&recorded());
        assert!(text.starts_with(EXPECTED), "{text}");
    }
}
