//! A histogram's percentile text, read as HdrHistogram's own plotter reads it.

/// Four columns, of which the last is missing in the last row, and three lines of a footer; the
/// last row counts everything that was recorded.
pub(crate) fn assert_read(text: &str, count: u64) {
    let mut lines = text.lines();
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let header = words(lines.next().expect("a header"));
    assert_eq!(
        header,
        ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    );
    assert_eq!(lines.next(), Some(""), "an empty line follows");
    let rows: Vec<Vec<f64>> = lines
        .by_ref()
        .take_while(|line| !line.starts_with("#[Mean"))
        .map(|line| {
            words(line)
                .iter()
                .map(|word| word.parse().expect("a number"))
                .collect()
        })
        .collect();
    let (last, others) = rows.split_last().expect("rows");
    assert!(
        others.iter().all(|row| row.len() == 4 && row[1] < 1.0),
        "{text}"
    );
    assert_eq!(
        (last.len(), last[1], last[2]),
        (3, 1.0, count as f64),
        "{text}"
    );
    for column in 0..3 {
        assert!(
            rows.is_sorted_by(|left, right| left[column] <= right[column]),
            "{text}"
        );
    }
    let footer: Vec<&str> = lines.collect();
    assert!(
        footer[0].starts_with("#[Max     = ") && footer[0].contains("Total count"),
        "{text}"
    );
    assert!(
        footer[1].starts_with("#[Buckets = ") && footer[1].contains("SubBuckets"),
        "{text}"
    );
    assert_eq!(footer.len(), 2, "{text}");
}
