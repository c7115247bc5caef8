//! `cell init` on servers that exist already: once, again, and against what it must not change.

mod cell_support;

use cell_support::Line;
use conductor_tools::testbed::{CellServers, Layout};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

fn topology(cell: &CellServers, partition: usize) -> BTreeMap<String, String> {
    topology_of(cell, partition, partition)
}

/// What the server of one partition holds as the topology of another.
fn topology_of(cell: &CellServers, server: usize, partition: usize) -> BTreeMap<String, String> {
    let key = format!("matching:{{matching-p{partition}}}:topology");
    let primary = &cell.store(server).primary;
    primary
        .command(&["HGETALL", &key])
        .expect("the store answers")
}

/// The cell's settings file, with no word of where the stores and the partitions are.
fn without_servers(cell: &CellServers) -> PathBuf {
    let text = fs::read_to_string(cell.settings_file()).expect("it is there");
    let (kept, _) = text
        .split_once("[[partition]]")
        .expect("the servers come last");
    let kept = kept.replace("partition_count = 2\n", "");
    let folder = cell.folder();
    folder
        .secret_file("elsewhere.toml", &kept)
        .expect("written")
}

fn recorded(partition: &str, prefetch: &str) -> BTreeMap<String, String> {
    let fields = [
        ("partition", partition),
        ("partitionCount", "2"),
        ("prefetch", prefetch),
    ];
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

#[test]
fn a_cell_is_set_up_once_and_never_changed() {
    let layout = Layout {
        partitions: 2,
        ..Layout::default()
    };
    let cell = CellServers::start(&layout).expect("the servers start");
    let mut line = Line::new(cell.settings_file());

    let first = line.run(&["--json", "init"]).json(0);
    assert_eq!(
        first["partitions"].as_array().map(Vec::len),
        Some(1),
        "{first}"
    );
    assert_eq!(first["partitions"][0]["topologyWritten"], true);
    assert_eq!(topology(&cell, 0), recorded("0", "512"));
    assert_eq!(
        topology(&cell, 1),
        BTreeMap::new(),
        "only what the settings name"
    );

    let second = line
        .run(&["--json", "init", "--all", "--event-queue", "events.audit"])
        .json(0);
    assert_eq!(
        second["partitions"][0]["topologyWritten"], false,
        "{second}"
    );
    assert_eq!(second["partitions"][1]["topologyWritten"], true);
    let queues = cell
        .rabbit()
        .control(&["list_queues", "name"])
        .expect("rabbitmqctl works");
    for queue in [
        "matching:commands.p0",
        "matching:commands.p0.parked",
        "matching:commands.p1",
        "matching:commands.p1.parked",
        "events.audit",
    ] {
        assert!(
            queues.lines().any(|name| name == queue),
            "{queue}: {queues}"
        );
    }
    let again = line.run(&["init", "--all"]);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(
        again.out.contains("already there, and the same"),
        "{again:?}"
    );

    line.environment
        .push(("MATCHING_PREFETCH".to_owned(), "7".to_owned()));
    let refused = line.run(&["init"]);
    assert_eq!(refused.code, 78, "the settings must change: {refused:?}");
    let words = refused.err.lines().last().unwrap_or_default();
    assert!(
        words.contains("prefetch 512") && words.contains("prefetch 7"),
        "{words}"
    );
    assert!(words.contains("never overwritten"), "{words}");
    assert_eq!(
        topology(&cell, 0),
        recorded("0", "512"),
        "it stands as it was"
    );

    // A server that holds partition 0 of two is no place for partition 2 of three.
    let server = cell.store(0).primary.address();
    let file = without_servers(&cell);
    let elsewhere = Line {
        environment: [
            ("MATCHING_PARTITION", "2".to_owned()),
            ("MATCHING_PARTITION_COUNT", "3".to_owned()),
            ("REDIS_HOST", server.ip().to_string()),
            ("REDIS_PORT", server.port().to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        ..Line::new(&file)
    };
    let refused = elsewhere.run(&["init"]);
    assert_eq!(refused.code, 78, "{refused:?}");
    for words in ["partition 0 of 2", "partition 2 of 3"] {
        assert!(refused.err.contains(words), "{refused:?}");
    }
    assert_eq!(
        topology_of(&cell, 0, 2),
        BTreeMap::new(),
        "nothing is written"
    );

    let wrong = Line {
        environment: vec![("MATCHING_PARTITION".to_owned(), "2".to_owned())],
        ..line
    };
    assert_eq!(
        wrong.run(&["init"]).code,
        78,
        "partition 2 of 2 is a setting to change"
    );
}
