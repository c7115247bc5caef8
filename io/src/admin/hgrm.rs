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
pub fn text(histogram: &Histogram<u64>) -> String {
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

    /// The percentiles are where the reference puts them; counts, values, mean, deviation and
    /// buckets are also what its Python port prints for this recording.
    const EXPECTED: &str = "       Value     Percentile TotalCount 1/(1-Percentile)

    1200.000 0.000000000000         10           1.00
    1200.000 0.100000000000         10           1.11
    1200.000 0.200000000000         10           1.25
    1200.000 0.300000000000         10           1.43
    1200.000 0.400000000000         10           1.67
    1200.000 0.500000000000         10           2.00
    1200.000 0.550000000000         10           2.22
    3401.000 0.600000000000         15           2.50
    3401.000 0.650000000000         15           2.86
    3401.000 0.700000000000         15           3.33
    3401.000 0.750000000000         15           4.00
    3401.000 0.775000000000         15           4.44
    3401.000 0.800000000000         15           5.00
    3401.000 0.825000000000         15           5.71
    3401.000 0.850000000000         15           6.67
    3401.000 0.875000000000         15           8.00
   90047.000 0.887500000000         16           8.89
   90047.000 0.900000000000         16          10.00
   90047.000 0.912500000000         16          11.43
   90047.000 0.925000000000         16          13.33
   90047.000 0.937500000000         16          16.00
 2500607.000 0.943750000000         17          17.78
 2500607.000 1.000000000000         17
#[Mean    =   154035.588, StdDeviation   =   586752.625]
#[Max     =  2500607.000, Total count    =           17]
#[Buckets =           26, SubBuckets     =         2048]
";

    fn recorded(times: &[(u64, u64)]) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
        for (value, count) in times {
            histogram
                .record_n(*value, *count)
                .expect("within the bounds");
        }
        histogram
    }

    #[test]
    fn the_text_is_laid_out_as_the_reference_has_it() {
        let recorded = recorded(&[(1_200, 10), (3_400, 5), (90_000, 1), (2_500_000, 1)]);
        assert_eq!(text(&recorded), EXPECTED);
    }

    #[test]
    fn the_plotter_finds_four_columns_in_every_line_that_it_draws() {
        let text = text(&recorded(&[(7, 9), (60_000_000_000, 1)]));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let columns = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let drawn: Vec<_> = lines
            .map(columns)
            .filter(|columns| columns.len() == 4)
            .collect();
        let numbers = drawn.iter().skip(1);
        let parsed = numbers.filter(|row| row.iter().all(|text| text.parse::<f64>().is_ok()));
        assert!(
            parsed.count() == drawn.len() - 1 && drawn.len() > 5,
            "{text}"
        );
    }

    #[test]
    fn a_step_that_was_never_taken_gives_a_text_without_lines_to_draw() {
        let text = text(&recorded(&[]));
        assert!(text.contains("Total count    =            0]"), "{text}");
    }
}
