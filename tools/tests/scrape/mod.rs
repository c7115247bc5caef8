//! A scrape, read as strictly as Prometheus reads one: every sample belongs to a family that was
//! announced with a help and a type, and every histogram adds up.

use std::collections::{BTreeMap, BTreeSet};

/// A sample's labels.
pub(crate) type Labels = BTreeMap<String, String>;

/// One scrape.
#[derive(Debug, Default)]
pub(crate) struct Scrape {
    /// The type of each family.
    kinds: BTreeMap<String, String>,
    samples: Vec<(String, Labels, f64)>,
}

impl Scrape {
    /// Reads the text; anything that is not as it must be fails the test.
    pub(crate) fn read(text: &str) -> Self {
        let mut scrape = Self::default();
        let mut helped = BTreeSet::new();
        for line in text.lines() {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words.as_slice() {
                ["#", "HELP", family, help] if !help.is_empty() => {
                    assert!(
                        helped.insert((*family).to_owned()),
                        "{family} is announced twice"
                    );
                }
                ["#", "TYPE", family, kind] => {
                    assert!(["counter", "gauge", "histogram"].contains(kind), "{line}");
                    scrape
                        .kinds
                        .insert((*family).to_owned(), (*kind).to_owned());
                }
                ["#", ..] => panic!("a comment of another kind: {line}"),
                _ => scrape.samples.push(sample(line)),
            }
        }
        assert!(text.ends_with('\n'), "the last line has no end");
        let families: BTreeSet<String> = scrape.kinds.keys().cloned().collect();
        assert_eq!(helped, families, "every family has a help and a type");
        let mut seen = BTreeSet::new();
        for (name, labels, _) in &scrape.samples {
            scrape.kind_of(name);
            assert!(
                seen.insert((name, labels)),
                "{name}{labels:?} is there twice"
            );
        }
        scrape
    }

    /// The type of the family that a sample belongs to.
    fn kind_of(&self, name: &str) -> &str {
        let parts = ["", "_bucket", "_sum", "_count"];
        let families = parts.iter().filter_map(|part| name.strip_suffix(part));
        let mut kinds = families.filter_map(|family| self.kinds.get(family));
        kinds
            .next()
            .unwrap_or_else(|| panic!("{name} belongs to no family"))
    }

    /// The value of the only sample with this name and at least these labels.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted = |found: &Labels| {
            labels
                .iter()
                .all(|(label, value)| found.get(*label).is_some_and(|it| it == value))
        };
        let mut found = self
            .samples
            .iter()
            .filter(|(it, found, _)| it == name && wanted(found));
        let value = found.next().map(|(_, _, value)| *value);
        assert!(
            found.next().is_none(),
            "{name}{labels:?} means several samples"
        );
        value
    }

    /// Every sample says which partition it is of.
    pub(crate) fn assert_labelled(&self) {
        for (name, labels, _) in &self.samples {
            assert!(labels.contains_key("partition"), "{name}{labels:?}");
        }
    }

    /// A histogram's count, after its buckets were seen to add up to it.
    pub(crate) fn histogram(&self, family: &str, labels: &[(&str, &str)]) -> f64 {
        assert_eq!(
            self.kinds.get(family).map(String::as_str),
            Some("histogram"),
            "{family}"
        );
        let count = self.value(&format!("{family}_count"), labels);
        let count = count.unwrap_or_else(|| panic!("{family}{labels:?} has no count"));
        let sum = self
            .value(&format!("{family}_sum"), labels)
            .expect("a histogram has a sum");
        assert!(
            (sum > 0.0) == (count > 0.0),
            "{family}{labels:?}: {count} come to {sum}"
        );
        let bucket = format!("{family}_bucket");
        let named = |found: &Labels| {
            labels
                .iter()
                .all(|(label, value)| found.get(*label).is_some_and(|it| it == value))
        };
        let buckets = self
            .samples
            .iter()
            .filter(|(name, found, _)| *name == bucket && named(found));
        let bounds: Vec<(f64, f64)> = buckets
            .map(|(_, found, value)| (number(&found["le"]), *value))
            .collect();
        let ascending = bounds
            .windows(2)
            .all(|two| two[0].0 < two[1].0 && two[0].1 <= two[1].1);
        assert!(
            ascending && bounds.len() > 5,
            "{family}{labels:?}: {bounds:?}"
        );
        assert_eq!(
            bounds.last(),
            Some(&(f64::INFINITY, count)),
            "{family}{labels:?}"
        );
        count
    }
}

/// `name{label="value",…} value`
fn sample(line: &str) -> (String, Labels, f64) {
    let (series, value) = line
        .rsplit_once(' ')
        .unwrap_or_else(|| panic!("no value: {line}"));
    let (name, rest) = series.split_once('{').unwrap_or((series, "}"));
    let sound = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    assert!(sound(name), "{line}");
    let inside = rest
        .strip_suffix('}')
        .unwrap_or_else(|| panic!("no end of labels: {line}"));
    let pairs = inside.split(',').filter(|pair| !pair.is_empty());
    let labels = pairs.map(|pair| {
        let (label, quoted) = pair.split_once('=').unwrap_or_else(|| panic!("{line}"));
        let value = quoted
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        assert!(sound(label), "{line}");
        (
            label.to_owned(),
            value
                .unwrap_or_else(|| panic!("no quotes: {line}"))
                .to_owned(),
        )
    });
    (name.to_owned(), labels.collect(), number(value))
}

fn number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        text => text
            .parse()
            .unwrap_or_else(|_| panic!("{text} is no number")),
    }
}
