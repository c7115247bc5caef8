//! `conductor-tester chaos` on real servers: a short run is clean, what is broken by hand is found,
//! and a run that fails says how to have it again.

mod second_versions;

use conductor_engine::{CommandId, PartitionId};
use conductor_io::keys::Keys;
use conductor_tools::client::Pages;
use conductor_tools::tester::audit::audit;
use conductor_tools::tester::chaos::site::{Site, SiteOptions};
use conductor_tools::tester::traffic::{Traffic, TrafficError, TrafficOptions};
use serde_json::Value;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// More than anything takes on a machine that is busy.
const LATER: Duration = Duration::from_secs(120);

fn tester(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_conductor-tester"))
        .args(arguments)
        .output()
        .expect("the tester runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `chaos` and gives its report, which must be without a failure.
#[track_caller]
fn clean(arguments: &[&str]) -> Value {
    let ran = tester(&[&["--json", "chaos"], arguments].concat());
    let (said, told) = (text(&ran.stdout), text(&ran.stderr));
    assert!(ran.status.success(), "{said}\n{told}");
    let report: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(report["failure"], Value::Null, "{said}");
    let checks = report["audit"]["checks"]
        .as_array()
        .expect("there was an audit");
    assert!(checks.iter().all(|check| check["holds"] == true), "{said}");
    report
}

#[test]
fn six_faults_under_load_and_the_four_sides_are_equal() {
    six_faults("host");
}

#[test]
fn six_faults_on_the_second_set_of_versions() {
    if second_versions::second_set().is_some() {
        six_faults("debian-13");
    }
}

fn six_faults(versions: &str) {
    let kinds = [
        "conductor-kill",
        "outbox-kill",
        "primary-kill",
        "replica-pause",
        "broker-connections-cut",
        "store-connections-cut",
    ];
    let mut arguments = vec!["--faults", "6", "--seed", "1", "--versions", versions];
    arguments.extend(kinds.iter().flat_map(|kind| ["--only", kind]));
    let report = clean(&arguments);
    let faults = report["faults"].as_array().expect("a list");
    let mut struck: Vec<&str> = faults.iter().filter_map(|it| it["kind"].as_str()).collect();
    struck.sort_unstable();
    let mut all = kinds;
    all.sort_unstable();
    assert_eq!(struck, all, "each kind once");
    assert!(
        report["traffic"]["progress"]["events"].as_u64() > Some(0),
        "{report}"
    );
}

/// A stored result is deleted by hand, as a store would do that forgets what it promised to keep.
#[test]
fn a_record_that_goes_missing_during_the_run_is_found() {
    let site = Site::start(&SiteOptions {
        partitions: 1,
        replicas: 1,
        durable_replicas: 1,
        nodes: 1,
        versions: None,
        small_disk: None,
    })
    .expect("the site starts");
    let traffic = Traffic::start(site.settings(), TrafficOptions::new(site.record()));
    let traffic = traffic.expect("there is traffic");
    let answered = |count| {
        let waited = traffic.wait_acknowledged(Instant::now(), count, LATER);
        waited.unwrap_or_else(|error| panic!("{error}"));
    };
    answered(100);
    let primary = site
        .servers()
        .current_primary(0)
        .expect("there is a primary");
    let any = CommandId::new("X").expect("an id");
    let pattern = Keys::new(PartitionId(0))
        .processed_command(&any)
        .replace('X', "*");
    let (_, keys): (String, Vec<String>) = primary
        .command(&["SCAN", "0", "MATCH", &pattern, "COUNT", "100000"])
        .expect("the store answers");
    let key = &keys[keys.len() / 2];
    let gone: u64 = primary.command(&["DEL", key]).expect("it is deleted");
    assert_eq!(gone, 1);
    answered(50);

    let finished = match traffic.finish(LATER) {
        Ok(finished) => finished,
        // The command was sent once more and decided again, which the oracle heard of.
        Err(TrafficError::Violation(found)) => return println!("{found}"),
        Err(other) => panic!("{other}"),
    };
    let pages = Pages::new(site.pages());
    let found =
        audit(site.settings(), &pages, &finished.record, LATER).expect("all sides are there");
    assert!(!found.is_clean(), "{found}");
    let difference = found.first_difference.as_deref().unwrap_or_default();
    let command = key.rsplit("processed-command:").next().unwrap_or_default();
    assert!(difference.contains(command), "{command}: {difference}");
}

#[test]
fn every_kind_is_listed_and_a_wrong_one_is_refused() {
    let listed = text(&tester(&["chaos", "--list"]).stdout);
    for kind in conductor_tools::tester::chaos::kind::FaultKind::all() {
        assert!(listed.contains(kind.name()), "{kind} is not in {listed}");
    }
    let refused = tester(&["chaos", "--only", "conductor"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("--list"),
        "{}",
        text(&refused.stderr)
    );
    let refused = tester(&["chaos", "--only", "broker-node-kill"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("--nodes 3"),
        "{}",
        text(&refused.stderr)
    );
}

/// Long: every kind, twice, on three nodes, some of them overlapping.
#[test]
fn every_kind_twice_on_three_nodes() {
    if std::env::var_os("CONDUCTOR_TEST_LONG").is_none() {
        eprintln!("left out; CONDUCTOR_TEST_LONG=1 asks for it");
        return;
    }
    let report = clean(&[
        "--faults",
        "38",
        "--seed",
        "2",
        "--nodes",
        "3",
        "--overlap",
        "10",
    ]);
    let kinds = report["kinds"].as_array().expect("a list");
    for kind in kinds {
        assert!(kind["count"].as_u64() >= Some(2), "{kind}");
    }
}
