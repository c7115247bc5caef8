//! What the admin pages of an instance show.

use conductor_tools::testbed::{Instance, Result};
use serde_json::Value;
use std::time::Duration;

/// What `/ready` says of a partition, with its status; nothing while the pages do not answer.
pub(crate) fn partition_of(instance: &Instance, partition: u32) -> Option<Value> {
    let (_, body) = instance.page("/ready").ok()?;
    of_partition(&body, partition)
}

fn of_partition(body: &str, partition: u32) -> Option<Value> {
    let shown: Value = serde_json::from_str(body).ok()?;
    let mut partitions = shown["partitions"].as_array()?.iter();
    partitions
        .find(|each| each["partition"] == partition)
        .cloned()
}

/// Waits until `/ready` says what is wanted of a partition; gives all that it says of it.
pub(crate) fn wait_partition(
    instance: &Instance,
    partition: u32,
    within: Duration,
    mut wanted: impl FnMut(&Value) -> bool,
) -> Value {
    let waited = instance.wait_page("/ready", within, |_, body| {
        of_partition(body, partition).is_some_and(|shown| wanted(&shown))
    });
    let body = waited.unwrap_or_else(|error| panic!("{error}"));
    of_partition(&body, partition).expect("it was just there")
}

/// A figure of a partition; zero where it is not shown.
pub(crate) fn metric(instance: &Instance, name: &str, partition: u32) -> u64 {
    let (_, body) = instance.page("/metrics").expect("the figures are shown");
    figure(&body, name, partition)
}

/// Waits until a figure has become so large.
pub(crate) fn wait_metric(
    instance: &Instance,
    name: &str,
    partition: u32,
    least: u64,
    within: Duration,
) -> Result<()> {
    let waited = instance.wait_page("/metrics", within, |_, body| {
        figure(body, name, partition) >= least
    });
    waited.map(drop)
}

fn figure(body: &str, name: &str, partition: u32) -> u64 {
    let begin = format!("{name}{{partition=\"{partition}\"}} ");
    let found = body.lines().find_map(|line| line.strip_prefix(&begin));
    found.map_or(0, |value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is {value}"))
    })
}
