//! What Prometheus would read.

use super::super::tests::{report, status};
use super::*;
use crate::admin::{PartitionIo, QueueCounts};
use conductor_engine::PartitionId;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

fn scraped() -> String {
    let mut io = PartitionIo {
        broker_connected: true,
        ..PartitionIo::default()
    };
    io.queue = Some(QueueCounts {
        messages: 11,
        consumers: 2,
    });
    io.steps.record(Step::Reply, Duration::from_micros(30), 4);
    let answering = Look {
        partition: PartitionId(0),
        core: Some(1),
        report: Ok(report(status(Role::Active, "owning", None))),
        io: io.clone(),
    };
    let silent = Look {
        partition: PartitionId(3),
        core: Some(2),
        report: Err(crate::admin::ask::Silence::Late),
        io,
    };
    let store = Some(StoreMemory {
        used_bytes: 1_048_576,
        max_bytes: 0,
    });
    text(Scrape(vec![
        Shown {
            look: answering,
            store,
        },
        Shown {
            look: silent,
            store: None,
        },
    ]))
}

/// Name with labels, and the value.
fn samples(text: &str) -> HashMap<&str, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let sample = |line| {
        let (name, value) = str::rsplit_once(line, ' ').expect("a name and a value");
        (name, value.parse().expect("a number"))
    };
    let found: Vec<_> = lines.map(sample).collect();
    let by_name: HashMap<_, _> = found.iter().copied().collect();
    assert_eq!(by_name.len(), found.len(), "no sample is there twice");
    by_name
}

#[test]
fn every_sample_has_its_partition_and_every_family_its_help_and_type() {
    let text = scraped();
    let mut described = HashSet::new();
    for line in text.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "HELP", name, help] => {
                assert!(help.ends_with('.') && described.insert(*name), "{line}");
            }
            ["#", "TYPE", name, kind] => {
                assert!(described.contains(name), "{line}");
                assert!(["counter", "gauge", "histogram"].contains(kind), "{line}");
            }
            _ => {
                let name = line.split('{').next().expect("a name");
                let parts = ["_bucket", "_sum", "_count"];
                let family = parts.iter().find_map(|part| name.strip_suffix(part));
                let known =
                    described.contains(name) || family.is_some_and(|it| described.contains(it));
                assert!(known && line.contains("{partition=\""), "{line}");
            }
        }
    }
    assert!(samples(&text).len() > 200);
}

#[test]
fn figures_are_those_of_the_report() {
    let text = scraped();
    let samples = samples(&text);
    for (name, value) in [
        ("conductor_ready{partition=\"0\"}", 1.0),
        ("conductor_commands_total{partition=\"0\"}", 9.0),
        ("conductor_doubts_total{partition=\"0\"}", 2.0),
        ("conductor_failures_total{partition=\"0\"}", 2.0),
        ("conductor_epoch{partition=\"0\"}", 7.0),
        ("conductor_durable_sequence{partition=\"0\"}", 42.0),
        ("conductor_orders{partition=\"0\"}", 3.0),
        ("conductor_event_stream_entries{partition=\"0\"}", 5.0),
        ("conductor_mailbox_depth{partition=\"0\"}", 4.0),
        ("conductor_last_command_seconds{partition=\"0\"}", 0.0025),
        ("conductor_queue_messages{partition=\"0\"}", 11.0),
        (
            "conductor_store_used_memory_bytes{partition=\"0\"}",
            1_048_576.0,
        ),
        ("conductor_role{partition=\"0\",role=\"active\"}", 1.0),
        ("conductor_role{partition=\"0\",role=\"standby\"}", 0.0),
        ("conductor_state{partition=\"0\",state=\"owning\"}", 1.0),
        (
            "conductor_group_commands_bucket{partition=\"0\",le=\"4\"}",
            1.0,
        ),
        (
            "conductor_step_seconds_count{partition=\"0\",step=\"match\"}",
            10.0,
        ),
        (
            "conductor_step_seconds_bucket{partition=\"0\",step=\"reply\",le=\"2.5e-05\"}",
            0.0,
        ),
        (
            "conductor_step_seconds_bucket{partition=\"0\",step=\"reply\",le=\"5e-05\"}",
            4.0,
        ),
        (
            "conductor_step_seconds_bucket{partition=\"0\",step=\"reply\",le=\"+Inf\"}",
            4.0,
        ),
    ] {
        assert_eq!(samples.get(name), Some(&value), "{name}\n{text}");
    }
}

#[test]
fn what_only_a_silent_core_knows_is_left_out() {
    let text = scraped();
    let samples = samples(&text);
    assert_eq!(samples.get("conductor_ready{partition=\"3\"}"), Some(&0.0));
    assert_eq!(
        samples.get("conductor_role{partition=\"3\",role=\"unknown\"}"),
        Some(&1.0)
    );
    assert_eq!(
        samples.get("conductor_replies_sent_total{partition=\"3\"}"),
        Some(&0.0)
    );
    for absent in [
        "conductor_commands_total",
        "conductor_epoch",
        "conductor_store_used_memory_bytes",
    ] {
        let name = format!("{absent}{{partition=\"3\"}}");
        assert_eq!(samples.get(name.as_str()), None, "{name}");
    }
}

#[test]
fn buckets_never_fall_and_end_with_the_count() {
    let text = scraped();
    let mut last: HashMap<String, f64> = HashMap::new();
    for line in text.lines().filter(|line| line.contains("_bucket{")) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let (_, rest) = name.split_once("le=\"").expect("a bound");
        let (bound, _) = rest.split_once('"').expect("its end");
        let series = name.replace(&format!("le=\"{bound}\""), "");
        let value: f64 = value.parse().expect("a number");
        assert!(
            last.insert(series, value)
                .is_none_or(|before| before <= value),
            "{line}"
        );
    }
    assert!(last.len() > 10);
}
