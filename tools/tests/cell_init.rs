//! `cell init` on servers that exist already: once, again, and against what it must not change.

mod cell_support;

use cell_support::Line;
use conductor_tools::testbed::{CellServers, Layout};
use std::collections::BTreeMap;

fn topology(cell: &CellServers, partition: usize) -> BTreeMap<String, String> {
    let key = format!("matching:{{matching-p{partition}}}:topology");
    let primary = &cell.store(partition).primary;
    primary
        .command(&["HGETALL", &key])
        .expect("the store answers")
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
    let words = refused.refusal();
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
