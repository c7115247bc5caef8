//! From a histogram with a thousand buckets a decade to the few that Prometheus keeps.
//!
//! The bounds are the same on every conductor and never change while it runs, so that sums over
//! partitions and times mean something. A recorded value is known to a thousandth; one within that
//! of a bound may be counted on either side of it.

use hdrhistogram::Histogram;

/// Upper bounds in the unit that was recorded, and what one of these is in the unit that is shown.
pub(super) struct Scale {
    bounds: &'static [u64],
    unit: f64,
}

/// From 5 µs to 10 s, recorded in nanoseconds.
pub(super) const STEPS: Scale = Scale {
    bounds: &[
        5_000,
        10_000,
        25_000,
        50_000,
        100_000,
        250_000,
        500_000,
        1_000_000,
        2_500_000,
        5_000_000,
        10_000_000,
        25_000_000,
        50_000_000,
        100_000_000,
        250_000_000,
        500_000_000,
        1_000_000_000,
        2_500_000_000,
        5_000_000_000,
        10_000_000_000,
    ],
    unit: 1e9,
};
/// From 1 ms to an hour, recorded in milliseconds.
pub(super) const AGES: Scale = Scale {
    bounds: &[
        1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
        900_000, 3_600_000,
    ],
    unit: 1e3,
};
/// From one command to the largest group that may be configured.
pub(super) const GROUPS: Scale = Scale {
    bounds: &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096],
    unit: 1.0,
};

/// What Prometheus is told of a histogram.
pub(super) struct Buckets {
    /// Upper bounds, and what lies between each and the one before it.
    pub(super) counts: Vec<(f64, u64)>,
    pub(super) sum: f64,
    pub(super) total: u64,
}

impl Buckets {
    pub(super) fn of(histogram: &Histogram<u64>, scale: &Scale) -> Self {
        let bound = |bound: &u64| (*bound as f64 / scale.unit, 0);
        let mut counts: Vec<(f64, u64)> = scale.bounds.iter().map(bound).collect();
        let mut sum = 0.0;
        for recorded in histogram.iter_recorded() {
            let (highest, count) = (recorded.value_iterated_to(), recorded.count_at_value());
            let lowest = histogram.lowest_equivalent(highest);
            sum += histogram.median_equivalent(highest) as f64 / scale.unit * count as f64;
            let place = scale.bounds.partition_point(|bound| *bound < lowest);
            if let Some((_, counted)) = counts.get_mut(place) {
                *counted += count;
            }
        }
        Self {
            counts,
            sum,
            total: histogram.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive_and_what_is_above_all_of_them_is_only_in_the_total() {
        let mut groups = Histogram::<u64>::new_with_bounds(1, 100_000, 3).expect("bounds");
        for commands in [1, 2, 3, 4, 5, 1_000] {
            groups.record(commands).expect("within the bounds");
        }
        groups.record_n(50_000, 2).expect("within the bounds");
        let buckets = Buckets::of(&groups, &GROUPS);
        let of = |bound: f64| {
            buckets
                .counts
                .iter()
                .find(|(each, _)| *each == bound)
                .map(|it| it.1)
        };
        assert_eq!(
            [of(1.0), of(2.0), of(4.0), of(8.0)],
            [Some(1), Some(1), Some(2), Some(1)]
        );
        assert_eq!(
            (of(1_024.0), of(4_096.0), buckets.total),
            (Some(1), Some(0), 8)
        );
        assert!((buckets.sum - 101_015.0).abs() < 101.0, "{}", buckets.sum);
    }

    #[test]
    fn a_value_on_a_bound_counts_below_it_in_every_unit() {
        for scale in [STEPS, AGES] {
            let mut times =
                Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("bounds");
            for bound in scale.bounds {
                times.record(*bound).expect("within the bounds");
            }
            let buckets = Buckets::of(&times, &scale);
            assert!(
                buckets.counts.iter().all(|(_, count)| *count == 1),
                "{:?}",
                buckets.counts
            );
        }
    }
}
