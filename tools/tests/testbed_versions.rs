//! The second set of versions: on a Debian 12 host, a whole cell on the servers of a Debian 13 tree.
//!
//! `tools/setup --second-versions` makes the tree. Where the host is another system, or the user is
//! not root, there is no second set, and the tests say so. Where there should be one, a missing tree
//! is a failure.

mod live;
mod second_versions;

use conductor_tools::testbed::{Folder, Layout, Valkey, ValkeyOptions, Versions};
use live::{EventLog, Expected, LATER, LiveCell, Message, assert_same_events, workload};
use second_versions::second_set;
use std::path::Path;

const COMMANDS: usize = 300;

#[test]
fn a_whole_cell_runs_on_the_second_set() {
    let Some(versions) = second_set() else {
        return;
    };
    let cell = LiveCell::start(&Layout {
        sentinels: 3,
        rabbit_nodes: 3,
        versions: Some(versions),
        ..Layout::default()
    });
    the_servers_are_of_debian_13(&cell);

    let events = EventLog::start(&cell);
    let _conductor = cell.conductor("conductor", &[]);
    let _outbox = cell.outbox("outbox", &[]);
    let commands = workload(13, "", COMMANDS);
    let messages: Vec<Message> = commands.iter().map(|one| Message::of(one, 1)).collect();
    let mut expected = Expected::new(1);
    let replies = expected.feed_all(&messages);
    let sent = cell.send(&messages, LATER).finish();
    assert_eq!(sent.assert_replies(&replies), COMMANDS, "all are answered");
    let published = events.wait(0, expected.sequence(0), LATER);
    assert_same_events(&published, expected.events(0));
}

fn the_servers_are_of_debian_13(cell: &LiveCell) {
    let info: String = cell.store(0).command(&["INFO", "server"]).expect("INFO");
    assert!(info.contains("valkey_version:8.1."), "{info}");
    let brokers = cell.servers.brokers();
    let version = brokers
        .evaluate("io:format(\"~s\", [rabbit_misc:version()])")
        .expect("the broker answers");
    assert!(version.starts_with("4."), "{version}");
    let told = brokers.control(&["version"]).expect("rabbitmqctl works");
    assert!(told.contains(&version), "{told}");
}

#[test]
fn a_server_of_the_tree_obeys_and_leaves_nothing_in_it() {
    let Some(versions) = second_set() else {
        return;
    };
    let Versions::Debian13(tree) = &versions else {
        panic!("{versions:?} is no tree");
    };
    let folder = Folder::new().expect("a folder");
    let options = ValkeyOptions {
        versions: Some(versions.clone()),
        ..ValkeyOptions::named("store")
    };
    let store = Valkey::primary(&folder, &options).expect("it starts");
    store
        .command::<()>(&["SET", "kept", "yes"])
        .expect("a write");
    let info: String = store.command(&["INFO", "server"]).expect("INFO");
    assert!(info.contains("valkey_version:8.1."), "{info}");
    let pid: u32 = {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("process_id:"));
        line.and_then(|pid| pid.parse().ok())
            .expect("its process id")
    };
    assert_eq!(
        pid,
        store.process().pid(),
        "signals reach the server itself"
    );
    store.process().pause().expect("it pauses");
    assert!(store.process().is_paused());
    store.process().resume().expect("it resumes");
    store.restart().expect("it comes back after a kill");
    let kept: String = store.command(&["GET", "kept"]).expect("a read");
    assert_eq!(kept, "yes");

    drop((store, folder));
    let empty = |path: &Path| std::fs::read_dir(path).expect("a folder").next().is_none();
    assert!(empty(&tree.join("mnt")), "nothing was left in the tree");
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the list of mounts");
    assert!(!mounts.contains(&tree.display().to_string()), "{mounts}");
}
