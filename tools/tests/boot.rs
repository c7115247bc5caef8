//! What a conductor refuses to start with, and what it waits for.
//!
//! Whatever a person must change ends the process with 78 and one line that says what. Whatever
//! comes back by itself, such as a server that is not there yet, is waited for, and `/ready` says
//! why. In both cases the records of the cell stay as they were. Here is what needs no broker; what
//! needs a whole cell is in `boot_cell.rs`.

mod boot_support;

use boot_support::{StoreOnly, keys, refused};
use conductor_tools::testbed::{Folder, Instance, Launch, Process, Valkey, ValkeyOptions, binary};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a boot that goes on may take on a machine that is busy.
const SOON: Duration = Duration::from_secs(60);

/// Variables that contradict themselves or each other, and what the line about them must hold.
struct Contradiction {
    variables: Vec<(&'static str, String)>,
    named: Vec<&'static str>,
}

fn contradictions() -> Vec<Contradiction> {
    let cores = std::thread::available_parallelism()
        .expect("there are cores")
        .get();
    let every: Vec<String> = (0..cores).map(|core| core.to_string()).collect();
    let one = |name: &'static str, value: &str, named: &[&'static str]| Contradiction {
        variables: vec![(name, value.to_owned())],
        named: [&[name], named].concat(),
    };
    let two = |partitions: &str, count: &str, named: &[&'static str]| Contradiction {
        variables: vec![
            ("MATCHING_PARTITION", partitions.to_owned()),
            ("MATCHING_PARTITION_COUNT", count.to_owned()),
        ],
        named: named.to_vec(),
    };
    vec![
        two(
            "2",
            "2",
            &["partition 2 does not exist", "0 to 1", "MATCHING_PARTITION"],
        ),
        two(
            &every.join(","),
            &cores.to_string(),
            &["cores", "MATCHING_SHARE_CORES"],
        ),
        one(
            "REDIS_CLUSTER_NODES",
            "a:1,b:2",
            &["Valkey Cluster", "unset it"],
        ),
        one(
            "REDIS_SENTINEL_HOSTS",
            "a:26379",
            &["REDIS_SENTINEL_NAME", "set both or neither"],
        ),
        one(
            "REDIS_SENTINEL_NAME",
            "cell",
            &["REDIS_SENTINEL_HOSTS", "set both or neither"],
        ),
        one(
            "MATCHING_DURABILITY",
            "sometimes",
            &["sometimes", "aof-replicated or memory"],
        ),
        one(
            "MATCHING_PREFECTH",
            "512",
            &["is not a setting", "MATCHING_PREFETCH?"],
        ),
    ]
}

#[test]
fn settings_that_contradict_themselves_are_refused_by_name() {
    let folder = Folder::new().expect("a folder");
    let conductor = || Launch::new(binary("conductor").expect("it is built"));
    for (number, case) in contradictions().into_iter().enumerate() {
        let launch = conductor().variables(case.variables);
        let process = Process::start(&folder, &format!("conductor-{number}"), launch);
        refused(&process.expect("it starts")).names(&case.named);
    }
    let text = "[topology]\nprefecth = 9\n";
    let config = folder.secret_file("conductor.toml", text).expect("written");
    let launch = conductor().argument("--config").argument(config);
    let process = Process::start(&folder, "conductor-file", launch).expect("it starts");
    refused(&process).names(&["conductor.toml line 2", "prefecth"]);
}

#[test]
fn a_store_that_keeps_no_promise_is_refused_setting_by_setting() {
    let cases = [
        ("appendonly no", "appendonly no: set appendonly yes"),
        (
            "appendfsync everysec",
            "appendfsync everysec: set appendfsync always",
        ),
        ("appendfsync no", "appendfsync no: set appendfsync always"),
        (
            "no-appendfsync-on-rewrite yes",
            "no-appendfsync-on-rewrite yes: set no-appendfsync-on-rewrite no",
        ),
        ("io-threads 2", "io-threads 2: set io-threads 1"),
        (
            "maxmemory-policy allkeys-lru",
            "maxmemory-policy allkeys-lru: set maxmemory-policy noeviction",
        ),
    ];
    let bed = StoreOnly::new();
    for (number, (line, expected)) in cases.iter().enumerate() {
        let options = ValkeyOptions::named(format!("store-{number}")).line(*line);
        let store = bed.store(&options);
        bed.write_topology(&store, "1", "512");
        let before = bed.records(&store);
        let refused = bed.refused(&store, &[]);
        refused.names(&["partition 0", &store.address().to_string(), expected]);
        assert_eq!(bed.records(&store), before, "{line}");
    }
}

#[test]
fn a_store_that_would_come_back_empty_is_refused() {
    let bed = StoreOnly::new();
    let store = bed.store(&ValkeyOptions::named("store"));
    bed.write_topology(&store, "1", "512");
    let before = bed.records(&store);
    for rights in ["nocommands", "-xadd", "resetkeys"] {
        let _: String = command(&store, &["ACL", "SETUSER", "default", rights]);
        let refused = bed.refused(&store, &[]);
        refused.names(&[
            "partition 0",
            &store.address().to_string(),
            "lose every transaction at its next start",
            "user default off resetpass ~* &* +@all",
        ]);
        let whole = ["ACL", "SETUSER", "default", "+@all", "~*"];
        let _: String = command(&store, &whole);
    }
    assert_eq!(bed.records(&store), before, "nothing was written");
    let conductor = bed.conductor(&store, &[("MATCHING_DURABILITY", "memory")]);
    wait_for_the_broker(&conductor);
}

#[test]
fn a_server_without_waitaof_is_refused() {
    let version = std::process::Command::new("redis-server")
        .arg("--version")
        .output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match version {
        Ok(version) if version.contains("v=7.0.") => {}
        Ok(version) => {
            return eprintln!("skipped: redis-server is not 7.0 but {}", version.trim());
        }
        Err(error) => return eprintln!("skipped: there is no redis-server here: {error}"),
    }
    let bed = StoreOnly::new();
    let store = bed.store(&ValkeyOptions::named("redis").program("redis-server"));
    bed.write_topology(&store, "1", "512");
    bed.refused(&store, &[]).names(&[
        "does not know WAITAOF",
        "use Valkey 7.2 or newer",
        "MATCHING_DURABILITY=memory",
    ]);
    // The same server will do where the book can be rebuilt from elsewhere.
    let conductor = bed.conductor(&store, &[("MATCHING_DURABILITY", "memory")]);
    wait_for_the_broker(&conductor);
}

#[test]
fn a_store_of_another_cell_is_refused_and_left_alone() {
    let bed = StoreOnly::new();
    let store = bed.store(&ValkeyOptions::named("store"));
    bed.refused(&store, &[]).names(&["topology", "cell init"]);
    assert_eq!(
        bed.records(&store),
        BTreeMap::new(),
        "nothing was written to an unknown store"
    );

    for (count, prefetch, told) in [
        ("2", "512", "partition 0 of 2 with prefetch 512"),
        ("1", "511", "partition 0 of 1 with prefetch 511"),
    ] {
        bed.write_topology(&store, count, prefetch);
        let before = bed.records(&store);
        let refused = bed.refused(&store, &[]);
        refused.names(&[told, "partition 0 of 1 with prefetch 512"]);
        assert_eq!(bed.records(&store), before, "{told}");
    }
    // A store that was set up, and then emptied.
    bed.write_topology(&store, "1", "512");
    let _: String = command(&store, &["FLUSHALL"]);
    bed.refused(&store, &[]).names(&["topology", "cell init"]);
    assert_eq!(bed.records(&store), BTreeMap::new());
}

#[test]
fn a_login_that_is_refused_is_named_without_its_password() {
    let bed = StoreOnly::new();
    let store = bed.store(&ValkeyOptions::named("store"));
    bed.write_topology(&store, "1", "512");
    let wrong = "not-the-password-of-this-store";
    let password_file = bed.folder().secret_file("wrong", wrong).expect("written");
    let file = password_file.display().to_string();
    let refused = bed.refused(&store, &[("REDIS_PASSWORD_FILE", &file)]);
    refused.names(&["WRONGPASS", "REDIS_USERNAME", "REDIS_PASSWORD_FILE"]);
    assert!(!refused.log.contains(wrong), "{}", refused.log);

    let _: String = command(&store, &["ACL", "SETUSER", "conductor", "-config|get"]);
    bed.refused(&store, &[])
        .names(&["may not do", "config|get", "grant it"]);
}

#[test]
fn a_boot_that_goes_on_writes_a_key_of_its_own_and_nothing_else() {
    let bed = StoreOnly::new();
    let store = bed.store(&ValkeyOptions::named("store"));
    let replica = bed.replica(&store, "replica");
    bed.write_topology(&store, "1", "512");
    let _: String = command(&store, &["SET", keys().epoch(), "41"]);
    let before = bed.records(&store);
    let conductor = bed.conductor(&store, &[]);
    wait_for_the_broker(&conductor);
    let mut after = bed.records(&store);
    assert!(
        after.remove(keys().boot_check()).is_some(),
        "the check really wrote"
    );
    assert_eq!(
        after, before,
        "neither epoch nor topology, nor anything else"
    );
    drop(replica);
}

/// Waits until the store was taken for good and only the broker is missing.
fn wait_for_the_broker(conductor: &Instance) {
    let opening = |status, body: &str| status == 503 && partition(body)["state"] == "opening";
    conductor
        .wait_page("/ready", SOON, opening)
        .expect("the store will do");
}

/// One command as the store's administrator.
fn command<T: redis::FromRedisValue>(store: &Valkey, words: &[&str]) -> T {
    store.command(words).expect("the store answers")
}

/// What `/ready` says of its first partition.
fn partition(ready: &str) -> Value {
    let body: Value = serde_json::from_str(ready).unwrap_or_default();
    body["partitions"][0].clone()
}
