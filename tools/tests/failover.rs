//! One primary with two replicas under three Sentinels, and what the durability policy makes of a
//! node that dies or comes back: with one confirming replica the cell goes on by itself when a node
//! dies, with two it waits and says why, and a primary that was only paused can cost acknowledged
//! work, which then halts the partition instead of being passed over.
//!
//! No outbox runs here, so the store's stream holds every event that was ever committed.

mod live;

use conductor_tools::testbed::{CellServers, Instance, Layout, StoreGroup, Valkey, wait_for};
use live::{
    Expected, LATER, LiveCell, Message, Sending, assert_same_events, metric, partition_of,
    wait_partition, workload,
};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// How long a reply may take where a store fails over before it comes.
const PATIENT: Duration = Duration::from_secs(120);
/// From the death of a primary to the next acknowledged command, without a hand: Sentinel's three
/// seconds of silence, its election, and a claim on the promoted store.
const GOES_ON_WITHIN: Duration = Duration::from_secs(30);
const PHASE: usize = 4_000;
const HAPPENS_AFTER: usize = 300;

fn messages(seed: u64) -> Vec<Message> {
    let commands = workload(seed, &format!("s{seed}-"), PHASE);
    commands
        .iter()
        .map(|command| Message::of(command, 1))
        .collect()
}

/// A cell with two replicas, of which so many must confirm.
struct Guarded {
    cell: LiveCell,
    config: String,
}

impl Guarded {
    fn start(confirming: usize) -> Self {
        let cell = LiveCell::start(&Layout {
            replicas: 2,
            sentinels: 3,
            ..Layout::default()
        });
        let mut settings = cell.servers.settings();
        settings.replicas = confirming;
        let file = settings.write("policy.toml").expect("it is written");
        let config = file.display().to_string();
        Self { cell, config }
    }

    fn conductor(&self, variables: &[(&str, &str)]) -> Instance {
        let mut all = vec![("CONDUCTOR_CONFIG", self.config.as_str())];
        all.extend_from_slice(variables);
        self.cell.conductor("conductor", &all)
    }

    fn group(&self) -> &StoreGroup {
        self.cell.servers.store(0)
    }

    /// Messages that are under way, with some of them done.
    fn under_load(&self, messages: &[Message]) -> Sending {
        let sending = self.cell.send(messages, PATIENT);
        sending.wait_done(HAPPENS_AFTER, LATER);
        sending
    }

    /// Waits until the Sentinels name another primary than this one.
    fn wait_promoted(&self, old: SocketAddr) -> &Valkey {
        let sentinels = self.cell.servers.sentinels().expect("they were asked for");
        let promoted = sentinels.wait_switched(&CellServers::sentinel_group(0), old, LATER);
        let address = promoted.unwrap_or_else(|error| panic!("{error}"));
        let store = self.group().server_at(address);
        store.expect("it is one of ours")
    }

    /// Waits until one of the replicas calls itself the primary, which the other one hears of a
    /// moment later.
    fn wait_primary_among_replicas(&self) -> &Valkey {
        let replicas = &self.group().replicas;
        let promoted = wait_for("a promoted replica", LATER, || {
            let primary = replicas.iter().position(|replica| {
                let shown = replica.command::<String>(&["INFO", "replication"]);
                shown.is_ok_and(|shown| shown.contains("role:master"))
            });
            primary.ok_or_else(|| "both follow".to_owned())
        });
        &replicas[promoted.unwrap_or_else(|error| panic!("{error}"))]
    }

    fn assert_stream(&self, store: &Valkey, expected: &Expected) {
        assert_same_events(&self.cell.stream(store, 0), expected.events(0));
    }
}

/// What `/ready` gives as the reason once the partition is not ready and the reason has this in it.
fn wait_why(conductor: &Instance, part: &str) -> String {
    let red = wait_partition(conductor, 0, LATER, |shown| {
        shown["why"].as_str().is_some_and(|why| why.contains(part))
    });
    assert_eq!(red["ready"], false);
    red["why"].as_str().expect("it was just there").to_owned()
}

#[test]
fn with_one_confirming_of_two_replicas_a_killed_primary_is_replaced_without_a_hand() {
    let guarded = Guarded::start(1);
    let conductor = guarded.conductor(&[]);
    let phase = messages(1);
    let sending = guarded.under_load(&phase);
    let old = &guarded.group().primary;
    old.process().kill().expect("it is killed");
    let (killed, done) = (Instant::now(), sending.done());
    assert!(done < PHASE, "the kill came in the middle");

    let promoted = guarded.wait_promoted(old.address());
    let seen = sending.done();
    sending.wait_done(seen + 1, GOES_ON_WITHIN);
    println!("acknowledged again {:?} after the kill", killed.elapsed());
    let mut expected = Expected::new(1);
    let replies = expected.feed_all(&phase);
    let came = sending.finish().assert_replies(&replies);
    assert_eq!(came, PHASE, "no reply was lost, since the conductor lived");
    conductor.wait_ready(LATER).expect("it is ready");
    assert!(!old.process().is_running(), "nobody started it again");
    guarded.assert_stream(promoted, &expected);
}

/// What came of a primary that was paused and went on.
enum Outcome {
    /// Every command was acknowledged, and every acknowledged one is there.
    WentOn,
    /// The partition halted, with this reason.
    Halted(String),
}

fn outcome(conductor: &Instance, sending: &Sending) -> Outcome {
    let waited = wait_for("end of the phase or halt", PATIENT, || {
        if sending.done() == PHASE {
            return Ok(Outcome::WentOn);
        }
        let shown = partition_of(conductor, 0).ok_or("its pages do not answer")?;
        match (shown["state"].as_str(), shown["why"].as_str()) {
            (Some("halted"), Some(why)) => Ok(Outcome::Halted(why.to_owned())),
            _ => Err(shown.to_string()),
        }
    });
    waited.unwrap_or_else(|error| panic!("{error}"))
}

/// The conductor waits for its reply longer than the failover takes, so it is still waiting when
/// the old primary goes on and answers as if nothing had happened; and for a moment the second
/// replica still follows that one and confirms.
#[test]
fn a_paused_primary_that_comes_back_loses_nothing_unsaid() {
    let guarded = Guarded::start(1);
    let conductor = guarded.conductor(&[
        ("MATCHING_DURABILITY_TIMEOUT_MS", "20000"),
        ("MATCHING_OUTBOX_LEASE_MS", "60000"),
    ]);
    let phase = messages(2);
    let sending = guarded.under_load(&phase);
    let old = &guarded.group().primary;
    old.process().pause().expect("it is stopped");
    let promoted = guarded.wait_primary_among_replicas();
    old.process().resume().expect("it goes on");

    let mut expected = Expected::new(1);
    expected.feed_all(&phase);
    let mut end = outcome(&conductor, &sending);
    // What the old primary acknowledged to the last is missed when the next command is decided.
    let next = messages(5);
    if matches!(end, Outcome::WentOn) {
        old.wait_following(LATER).expect("Sentinel demotes it");
        expected.feed_all(&next);
        end = outcome(&conductor, &guarded.cell.send(&next, PATIENT));
    }
    match end {
        Outcome::WentOn => {
            println!("nothing acknowledged was missing, and the cell went on");
            guarded.assert_stream(promoted, &expected);
        }
        Outcome::Halted(why) => {
            println!("{why}");
            assert!(why.contains("the store has gone back"), "{why}");
            assert!(why.contains("acknowledged work is missing"), "{why}");
            let stream = guarded.cell.stream(promoted, 0);
            assert!(
                expected.events(0).starts_with(&stream),
                "what the promoted store has is right as far as it goes"
            );
            assert_eq!(metric(&conductor, "conductor_halts_total", 0), 1);
        }
    }
}

#[test]
fn with_two_confirming_replicas_the_cell_waits_for_the_one_that_is_away() {
    let guarded = Guarded::start(2);
    let conductor = guarded.conductor(&[]);
    let phase = messages(3);
    let sending = guarded.under_load(&phase);
    let away = &guarded.group().replicas[0];
    away.process().kill().expect("it is killed");
    let why = wait_why(&conductor, "1 of 2 replicas confirmed on disk");
    println!("{why}");
    let done = sending.done();
    assert!(done < PHASE, "the kill came in the middle");
    // It waits again and again, and acknowledges nothing meanwhile.
    let waits = metric(&conductor, "conductor_waits_below_policy_total", 0);
    let again = live::wait_metric(
        &conductor,
        "conductor_waits_below_policy_total",
        0,
        waits + 2,
        LATER,
    );
    again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sending.done(), done, "nothing was acknowledged");

    away.restart().expect("it is back");
    let mut expected = Expected::new(1);
    let replies = expected.feed_all(&phase);
    assert_eq!(sending.finish().assert_replies(&replies), PHASE);
    conductor.wait_ready(LATER).expect("it is ready again");
    guarded.assert_stream(&guarded.group().primary, &expected);
}

/// The promoted one has everything, but only one replica is left to confirm.
#[test]
fn with_two_confirming_replicas_a_failover_is_waited_out() {
    let guarded = Guarded::start(2);
    let conductor = guarded.conductor(&[]);
    let phase = messages(4);
    let sending = guarded.under_load(&phase);
    let old = &guarded.group().primary;
    old.process().kill().expect("it is killed");
    let promoted = guarded.wait_promoted(old.address());
    println!("{}", wait_why(&conductor, "1 of 2 replicas"));
    let done = sending.done();
    assert!(done < PHASE, "the kill came in the middle");

    old.restart().expect("it is back");
    let mut expected = Expected::new(1);
    let replies = expected.feed_all(&phase);
    assert_eq!(sending.finish().assert_replies(&replies), PHASE);
    conductor.wait_ready(LATER).expect("it is ready again");
    guarded.assert_stream(promoted, &expected);
}
