//! What settings become: the defaults, the order of strength, and what each value turns into.

use conductor_config::{
    CoreInventory, Durability, GroupBounds, Settings, Sources, StoreAddress, keys,
};
use conductor_engine::partition::Topology;
use conductor_engine::{PairDecimals, PairId, PartitionId};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conductor.toml");

fn load(file: Option<&Path>, environment: &[(&str, &str)]) -> Settings {
    let environment = environment.iter().copied().collect();
    let sources = Sources {
        file: file.map(Path::to_owned),
        environment,
    };
    Settings::load(&sources).expect("the settings are good")
}

/// Loads a text as the settings file.
fn load_text(text: &str, environment: &[(&str, &str)]) -> Settings {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("conductor.toml");
    fs::write(&path, text).expect("a file can be written");
    load(Some(&path), environment)
}

fn stores(settings: &Settings) -> Vec<(PartitionId, StoreAddress)> {
    settings
        .partitions
        .iter()
        .map(|it| (it.id, it.store.clone()))
        .collect()
}

fn direct(host: &str, port: u16) -> StoreAddress {
    StoreAddress::Direct {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn the_defaults_are_these() {
    let settings = load(None, &[]);
    assert_eq!(
        settings.topology(PartitionId(0)),
        Topology {
            partition: 0,
            partition_count: 1,
            prefetch: 512
        }
    );
    assert_eq!(
        stores(&settings),
        [(PartitionId(0), direct("127.0.0.1", 6_379))]
    );
    assert_eq!(nodes(&settings), ["127.0.0.1:5672"]);
    assert_eq!(settings.broker.virtual_host, "/");
    assert_eq!(settings.broker.username, "guest");
    assert_eq!(settings.broker.password.expose(), "guest");
    assert_eq!(
        (settings.store_login, settings.sentinel_login),
        (None, None)
    );
    let timeout = Duration::from_millis(2_000);
    assert_eq!(
        settings.durability,
        Durability::AofReplicated {
            replicas: 1,
            timeout
        }
    );
    assert_eq!(
        settings.group,
        GroupBounds {
            commands_max: 256,
            writes_max: 16_384
        }
    );
    assert_eq!(settings.result_retention, None);
    assert_eq!(settings.event_stream_entries_max, 1_000_000);
    assert_eq!(settings.watchdog, Duration::from_secs(30));
    assert_eq!(settings.spin, Duration::ZERO);
    assert_eq!(settings.admin_address.to_string(), "127.0.0.1:9601");
    assert_eq!(settings.outbox.admin_address.to_string(), "127.0.0.1:9602");
    assert_eq!(
        (settings.outbox.window, settings.outbox.batch),
        (1_024, 1_024)
    );
    assert_eq!(settings.outbox.lease, Duration::from_secs(10));
    assert!(settings.pairs.is_empty());
}

#[test]
fn the_example_file_is_the_defaults() {
    assert_eq!(load(Some(Path::new(EXAMPLE)), &[]), load(None, &[]));
}

#[test]
fn the_example_file_explains_every_setting_by_both_names() {
    let text = fs::read_to_string(EXAMPLE).expect("the example is there");
    let mut section = String::new();
    let mut written = Vec::new();
    for line in text.lines() {
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            section = name.to_owned();
        } else if let Some((name, _)) = line.trim_start_matches("# ").split_once(" = ") {
            written.push((section.clone(), name.to_owned()));
        }
    }
    for key in keys::ALL {
        assert!(text.contains(key.environment()), "{key}");
        let place = (key.section().to_owned(), key.name().to_owned());
        assert!(written.contains(&place), "{key}");
    }
}

#[test]
fn the_optional_lines_of_the_example_file_are_good_settings() {
    let text = fs::read_to_string(EXAMPLE).expect("the example is there");
    let section = |from: &str, to: &str| {
        let rest = text.split_once(from).expect("the section begins").1;
        let body = rest.split_once(to).expect("the section ends").0;
        let lines = body.lines().filter_map(|line| line.strip_prefix("# "));
        let settings = lines.filter(|line| line.contains(" = ") && !line.contains("password"));
        format!("{from}\n{}\n", settings.collect::<Vec<_>>().join("\n")).replace("# ", "")
    };
    let sentinel = section("\n[sentinel]\n", "\n[durability]\n") + "password = \"secret\"\n";
    let cores = section("\n[cores]\n", "\n[group]\n") + &section("\n[results]\n", "\n[events]\n");
    let pair = section("\n# [[pair]]\n", "quote_decimals = 2\n") + "quote_decimals = 2\n";
    let settings = load_text(&(sentinel + &cores + &pair), &[]);
    let StoreAddress::Sentinel { hosts, name } = &settings.partitions[0].store else {
        panic!("it is found by Sentinel");
    };
    assert_eq!((hosts.len(), name.as_str()), (3, "matching-p0"));
    assert_eq!(
        settings.result_retention,
        Some(Duration::from_secs(2_592_000))
    );
    let decimals = PairDecimals {
        price: 2,
        amount: 8,
        quote: 2,
    };
    assert_eq!(settings.pairs.get(&PairId(12)), Some(&decimals));
    let server = section("\n# [[partition]]\n", "\n# The decimals of a pair");
    assert_eq!(
        stores(&load_text(&server, &[])),
        [(PartitionId(0), direct("valkey-p0", 6_379))]
    );
}

#[test]
fn the_environment_is_stronger_than_the_file_and_the_file_than_the_default() {
    let text = "[topology]\nprefetch = 8\npartition_count = 4\n[group]\ncommands_max = 2";
    let settings = load_text(
        text,
        &[("MATCHING_PREFETCH", "16"), ("MATCHING_PARTITION", "3")],
    );
    assert_eq!(settings.prefetch, 16);
    assert_eq!(settings.partition_count, 4);
    assert_eq!(settings.partitions[0].id, PartitionId(3));
    assert_eq!(
        settings.group,
        GroupBounds {
            commands_max: 2,
            writes_max: 16_384
        }
    );
}

#[test]
fn a_file_named_by_the_caller_is_stronger_than_one_named_in_the_environment() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let write = |name: &str, text: &str| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, text).expect("a file can be written");
        path
    };
    let named = write("named.toml", "[topology]\nprefetch = 8");
    let other = write("other.toml", "[topology]\nprefetch = 16");
    let environment = [(
        "CONDUCTOR_CONFIG",
        other.to_str().expect("the path is text"),
    )];
    assert_eq!(load(Some(&named), &environment).prefetch, 8);
    assert_eq!(load(None, &environment).prefetch, 16);
}

#[test]
fn every_environment_name_is_read() {
    let settings = load(
        None,
        &[
            ("MATCHING_PARTITION_COUNT", "4"),
            ("MATCHING_PARTITION", "1, 3"),
            ("MATCHING_PREFETCH", "1"),
            ("MATCHING_DURABILITY", "aof-replicated"),
            ("MATCHING_DURABILITY_TIMEOUT_MS", "500"),
            ("MATCHING_REPLICAS", "2"),
            ("MATCHING_GROUP_COMMANDS_MAX", "1"),
            ("MATCHING_GROUP_WRITES_MAX", "2048"),
            ("MATCHING_RESULT_RETENTION_SECONDS", "60"),
            ("MATCHING_EVENT_STREAM_ENTRIES_MAX", "7"),
            ("MATCHING_WATCHDOG_MS", "1000"),
            ("MATCHING_SPIN_US", "50"),
            ("MATCHING_ADMIN_ADDRESS", "[::1]:1"),
            ("MATCHING_OUTBOX_ADMIN_ADDRESS", "0.0.0.0:2"),
            ("MATCHING_OUTBOX_WINDOW", "3"),
            ("MATCHING_OUTBOX_BATCH", "4"),
            ("MATCHING_OUTBOX_LEASE_MS", "5000"),
            ("REDIS_HOST", "valkey-p{partition}"),
            ("REDIS_PORT", "6380"),
        ],
    );
    let expected = [
        (PartitionId(1), direct("valkey-p1", 6_380)),
        (PartitionId(3), direct("valkey-p3", 6_380)),
    ];
    assert_eq!(stores(&settings), expected);
    assert_eq!((settings.partition_count, settings.prefetch), (4, 1));
    let timeout = Duration::from_millis(500);
    assert_eq!(
        settings.durability,
        Durability::AofReplicated {
            replicas: 2,
            timeout
        }
    );
    assert_eq!(
        settings.group,
        GroupBounds {
            commands_max: 1,
            writes_max: 2_048
        }
    );
    assert_eq!(settings.result_retention, Some(Duration::from_secs(60)));
    assert_eq!(settings.event_stream_entries_max, 7);
    assert_eq!(settings.watchdog, Duration::from_secs(1));
    assert_eq!(settings.spin, Duration::from_micros(50));
    assert_eq!(settings.admin_address.to_string(), "[::1]:1");
    assert_eq!(settings.outbox.admin_address.to_string(), "0.0.0.0:2");
    assert_eq!((settings.outbox.window, settings.outbox.batch), (3, 4));
    assert_eq!(settings.outbox.lease, Duration::from_secs(5));
}

#[test]
fn cores_come_from_the_environment_and_only_a_conductor_asks_for_them() {
    let pairs = [("MATCHING_IO_CORE", "3"), ("MATCHING_CORES", "2")];
    let sources = Sources {
        file: None,
        environment: pairs.into_iter().collect(),
    };
    let inventory = CoreInventory(vec![2, 3]);
    let (_, cores) = Settings::load_with_cores(&sources, &inventory).expect("the cores are there");
    assert_eq!((cores.io, cores.partitions), (3, vec![2]));
    let elsewhere = CoreInventory(vec![0, 1]);
    assert!(Settings::load_with_cores(&sources, &elsewhere).is_err());
    assert!(Settings::load(&sources).is_ok());
}

#[test]
fn sentinels_are_found_by_a_name_for_each_partition() {
    let settings = load(
        None,
        &[
            ("MATCHING_PARTITION_COUNT", "2"),
            ("MATCHING_PARTITION", "0,1"),
            ("REDIS_SENTINEL_HOSTS", "a:26379,[::1]:26380"),
            ("REDIS_SENTINEL_NAME", "matching-p{partition}"),
        ],
    );
    let hosts = vec![("a".to_owned(), 26_379), ("::1".to_owned(), 26_380)];
    for (id, store) in stores(&settings) {
        let name = format!("matching-p{id}");
        assert_eq!(
            store,
            StoreAddress::Sentinel {
                hosts: hosts.clone(),
                name
            }
        );
    }
}

#[test]
fn one_partition_may_have_a_sentinel_name_without_a_number_in_braces() {
    let environment = [
        ("REDIS_SENTINEL_HOSTS", "a:26379"),
        ("REDIS_SENTINEL_NAME", "matching-p0"),
    ];
    let store = &load(None, &environment).partitions[0].store;
    assert!(matches!(store, StoreAddress::Sentinel { name, .. } if name == "matching-p0"));
}

#[test]
fn an_address_in_the_environment_replaces_one_of_the_other_kind_in_the_file() {
    let sentinel = [
        ("REDIS_SENTINEL_HOSTS", "a:26379"),
        ("REDIS_SENTINEL_NAME", "m"),
    ];
    let settings = load_text("[store]\nhost = \"valkey\"\nport = 1", &sentinel);
    assert!(matches!(
        settings.partitions[0].store,
        StoreAddress::Sentinel { .. }
    ));
    let text = "[sentinel]\nhosts = [\"a:26379\"]\nname = \"m\"";
    let settings = load_text(text, &[("REDIS_HOST", "::1")]);
    assert_eq!(settings.partitions[0].store, direct("::1", 6_379));
}

#[test]
fn a_partition_may_have_a_server_of_its_own() {
    let text = "[topology]\npartition_count = 3\npartitions = [0, 1]\n[store]\nhost = \"all\"\n\
                [[partition]]\nnumber = 1\nhost = \"own\"\nport = 7000\n\
                [[partition]]\nnumber = 2\nhost = \"not-served\"";
    let expected = [
        (PartitionId(0), direct("all", 6_379)),
        (PartitionId(1), direct("own", 7_000)),
    ];
    assert_eq!(stores(&load_text(text, &[])), expected);
}

#[test]
fn passwords_come_from_a_file_and_are_never_printed() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("password");
    fs::write(&path, "hunter2\r\n").expect("a file can be written");
    let path = path.to_str().expect("the path is text");
    let settings = load(
        None,
        &[
            ("RABBITMQ_USERNAME", "cell"),
            ("RABBITMQ_PASSWORD_FILE", path),
            ("REDIS_USERNAME", "conductor"),
            ("REDIS_PASSWORD", "hunter2"),
            ("REDIS_SENTINEL_USERNAME", "watcher"),
            ("REDIS_SENTINEL_PASSWORD_FILE", path),
        ],
    );
    assert_eq!(settings.broker.password.expose(), "hunter2");
    let store = settings.store_login.as_ref().expect("there is a login");
    assert_eq!(
        (store.username.as_deref(), store.password.expose()),
        (Some("conductor"), "hunter2")
    );
    let sentinel = settings.sentinel_login.as_ref().expect("there is a login");
    assert_eq!(sentinel.password.expose(), "hunter2");
    let shown = format!("{settings:?} {settings:#?}");
    assert!(shown.contains("<hidden>") && !shown.contains("hunter2"));
}

#[test]
fn the_environment_is_never_printed_with_its_values() {
    let pairs = [("REDIS_PASSWORD", "hunter2"), ("HOME", "/root")];
    let sources = Sources {
        file: None,
        environment: pairs.into_iter().collect(),
    };
    let shown = format!("{sources:?}");
    assert!(shown.contains("REDIS_PASSWORD"));
    assert!(!shown.contains("hunter2") && !shown.contains("HOME"));
}

#[test]
fn a_password_in_the_environment_replaces_a_password_file_in_the_file() {
    let text = "[store]\npassword_file = \"/nowhere\"";
    let settings = load_text(text, &[("REDIS_PASSWORD", "hunter2")]);
    assert_eq!(
        settings
            .store_login
            .expect("there is a login")
            .password
            .expose(),
        "hunter2"
    );
}

#[test]
fn memory_is_a_policy_that_asks_for_no_replica() {
    let environment = [
        ("MATCHING_DURABILITY", "memory"),
        ("MATCHING_REPLICAS", "0"),
    ];
    assert_eq!(load(None, &environment).durability, Durability::Memory);
}

#[test]
fn a_broker_address_may_leave_out_its_port_and_its_virtual_host() {
    let load = |uri: &str| load(None, &[("RABBITMQ_URI", uri)]);
    let short = load("amqp://rabbit");
    assert_eq!(nodes(&short), ["rabbit:5672"]);
    assert_eq!(short.broker.virtual_host, "/");
    let long = load("amqp://[::1]:1234/ex%2Fchange");
    assert_eq!(nodes(&long), ["[::1]:1234"]);
    assert_eq!(long.broker.virtual_host, "ex/change");
}

#[test]
fn a_broker_of_several_nodes_is_a_list_or_one_text_with_commas() {
    let expected = ["a:5672", "b:1234", "[::1]:5672"];
    let uris = ["amqp://a/cell", "amqp://b:1234/cell", "amqp://[::1]/cell"];
    for text in [
        format!("[broker]\nuri = {uris:?}"),
        format!("[broker]\nuri = {:?}", uris.join(", ")),
    ] {
        let settings = load_text(&text, &[]);
        assert_eq!(nodes(&settings), expected, "{text}");
        assert_eq!(settings.broker.virtual_host, "cell");
        let one = load_text(&text, &[("RABBITMQ_URI", "amqp://c")]);
        assert_eq!(nodes(&one), ["c:5672"], "the environment replaces the list");
    }
    let settings = load(None, &[("RABBITMQ_URI", &uris.join(","))]);
    assert_eq!(nodes(&settings), expected);
}

fn nodes(settings: &Settings) -> Vec<String> {
    settings
        .broker
        .nodes
        .iter()
        .map(ToString::to_string)
        .collect()
}
