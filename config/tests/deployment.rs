//! The deployment files say nothing that the settings would refuse.
//!
//! There is no container engine in a test, so the files are read as text: every variable they set
//! must be a setting, together they must load, and nothing may be published beyond this machine.

use conductor_config::{Environment, Settings, Sources, StoreAddress, keys};
use std::fs;

fn read(name: &str) -> String {
    let path = format!("{}/../docker/{name}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).expect("the deployment file is there")
}

/// The lines `NAME: value` of one block of the compose file.
fn variables<'file>(compose: &'file str, block: &str) -> Vec<(&'file str, &'file str)> {
    let body = compose.split_once(block).expect("the block is there").1;
    let lines = body
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with("  "));
    let pairs = lines.filter_map(|line| line.trim().split_once(": "));
    pairs
        .map(|(name, value)| (name, value.trim_matches('"')))
        .collect()
}

#[test]
fn every_variable_of_the_compose_file_is_a_setting() {
    let compose = read("compose.yml");
    let words = compose.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_');
    let prefixes = ["MATCHING_", "REDIS_", "RABBITMQ_"];
    let ours = |word: &&str| prefixes.iter().any(|prefix| word.starts_with(prefix));
    let mut count = 0;
    for word in words.filter(ours) {
        assert!(
            keys::ALL.iter().any(|key| key.environment() == word),
            "{word}"
        );
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn the_settings_of_the_compose_file_load() {
    let compose = read("compose.yml");
    let secret = tempfile::NamedTempFile::new().expect("a file can be made");
    fs::write(secret.path(), "hunter2").expect("a file can be written");
    let secret = secret.path().to_str().expect("the path is text");
    for (block, number) in [("x-p0: ", "0"), ("x-p1: ", "1")] {
        let shared = variables(&compose, "x-settings: ");
        let own = variables(&compose, block);
        assert!(own.contains(&("MATCHING_PARTITION", number)), "{own:?}");
        let pairs = shared.into_iter().chain(own).map(|(name, value)| {
            (
                name,
                if name.ends_with("_PASSWORD_FILE") {
                    secret
                } else {
                    value
                },
            )
        });
        let environment: Environment = pairs.collect();
        let sources = Sources {
            file: None,
            environment,
        };
        let settings = Settings::load(&sources).expect("the settings are good");
        let StoreAddress::Sentinel { hosts, name } = &settings.partitions[0].store else {
            panic!("the store is found by Sentinel");
        };
        assert_eq!((hosts.len(), name), (3, &format!("matching-p{number}")));
        assert!(compose.contains(&format!("{name}={name}-primary")));
    }
}

#[test]
fn nothing_is_published_beyond_this_machine() {
    let compose = read("compose.yml");
    let mut count = 0;
    for line in compose
        .lines()
        .filter(|line| line.trim().starts_with("ports:"))
    {
        let list = line
            .split_once('[')
            .expect("ports are written in one line")
            .1;
        for port in list.trim_end_matches(']').split(", ") {
            assert!(port.starts_with("\"127.0.0.1:"), "{line}");
            count += 1;
        }
    }
    assert!(count > 4);
}

#[test]
fn a_valkey_server_starts_as_the_boot_checks_ask() {
    let script = read("valkey-start.sh");
    for line in [
        "appendonly yes",
        "appendfsync always",
        "no-appendfsync-on-rewrite no",
        "save \"\"",
        "io-threads 1",
        "maxmemory-policy noeviction",
    ] {
        assert!(script.lines().any(|written| written == line), "{line}");
    }
}

#[test]
fn the_profile_allows_the_ring_and_the_conductor_uses_it() {
    let profile = read("seccomp-io-uring.json");
    for name in [
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "membarrier",
    ] {
        assert!(profile.contains(&format!("\"{name}\"")), "{name}");
    }
    for name in [
        "mount",
        "ptrace",
        "bpf",
        "init_module",
        "unshare",
        "setns",
        "keyctl",
    ] {
        assert!(!profile.contains(&format!("\"{name}\"")), "{name}");
    }
    assert!(read("compose.yml").contains("seccomp=./seccomp-io-uring.json"));
}
