//! Two conductors of one partition on real servers: one works, the other stands by; and whatever
//! happens to the one that works, every command is decided once.
//!
//! No outbox runs here, so the store's stream holds every event that was ever committed: a command
//! that two owners decided would stand in it twice.

mod live;

use conductor_engine::Side;
use conductor_tools::testbed::{
    CellServers, Direction, HoldProxy, Instance, Layout, StoreAddresses, Valkey,
};
use live::{
    Expected, LATER, LiveCell, Message, Sending, TAKE_OVER, assert_same_events, limit, metric,
    partition_of, wait_metric, wait_partition, workload,
};
use std::time::{Duration, Instant};

/// What a standby is allowed while the active conductor holds its connections and is silent: twice
/// the heartbeat of ten seconds, and its own start.
const TAKE_OVER_SILENT: Duration = Duration::from_secs(30);
/// How long a reply may take where something is brought about and looked at before it.
const PATIENT: Duration = Duration::from_secs(60);
/// How long a reply may take where it can be lost with its conductor: one that was acknowledged and
/// not yet handed to the broker.
const IMPATIENT: Duration = Duration::from_secs(4);
/// What a conductor is allowed between SIGTERM and its end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// Messages of one phase, and how many of them are done when something happens.
const PHASE: usize = 1_500;
const HAPPENS_AFTER: usize = 300;

fn messages(seed: u64, commands: usize) -> Vec<Message> {
    let prefix = format!("s{seed}-");
    let commands = workload(seed, &prefix, commands);
    commands
        .iter()
        .map(|command| Message::of(command, 1))
        .collect()
}

fn wait_role(instance: &Instance, role: &str, within: Duration) {
    wait_partition(instance, 0, within, |shown| shown["role"] == role);
}

/// Waits until an instance that had decided nothing has decided something durably.
fn wait_working(instance: &Instance, within: Duration) {
    let working = wait_metric(instance, "conductor_commands_total", 0, 1, within);
    working.unwrap_or_else(|error| panic!("{error}"));
}

/// Messages that are under way, with some of them done.
fn under_load(cell: &LiveCell, messages: &[Message], reply_within: Duration) -> Sending {
    let sending = cell.send(messages, reply_within);
    sending.wait_done(HAPPENS_AFTER, LATER);
    sending
}

/// A reply that was lost with its conductor is not waited for, so the last commands may still be
/// under way: first as many events as there must be, then each of them.
fn assert_stream(cell: &LiveCell, store: &Valkey, expected: &Expected) {
    let waited = store.process().wait_for("every event", LATER, || {
        let found = cell.stream(store, 0).len();
        let due = expected.events(0).len();
        (found >= due)
            .then_some(())
            .ok_or_else(|| format!("{found} of {due} bytes"))
    });
    waited.unwrap_or_else(|error| panic!("{error}"));
    assert_same_events(&cell.stream(store, 0), expected.events(0));
}

#[test]
fn the_standby_takes_over_after_a_kill_a_stop_and_an_end() {
    let cell = LiveCell::start(&Layout::default());
    let mut expected = Expected::new(1);
    let first = cell.conductor("first", &[]);
    let second = cell.conductor("second", &[]);
    wait_role(&second, "standby", LATER);

    // A kill: nobody says goodbye, and the broker sees the connection go.
    let phase = messages(1, PHASE);
    let sending = under_load(&cell, &phase, IMPATIENT);
    wait_role(&first, "active", TAKE_OVER);
    wait_role(&second, "standby", TAKE_OVER);
    first.process().kill().expect("it is killed");
    let killed = Instant::now();
    wait_working(&second, TAKE_OVER);
    assert!(killed.elapsed() < TAKE_OVER, "{:?}", killed.elapsed());
    assert!(
        metric(&second, "conductor_redeliveries_total", 0) > 0,
        "some were under way"
    );
    let replies = expected.feed_all(&phase);
    sending.finish().assert_replies(&replies);
    first.restart().expect("it starts again");
    first.wait_ready(LATER).expect("it is ready");
    wait_role(&first, "standby", LATER);

    // A stop: the sockets stay open, and only the missing heartbeats tell.
    let phase = messages(2, PHASE);
    let sending = under_load(&cell, &phase, IMPATIENT);
    second.process().pause().expect("it is stopped");
    let stopped = Instant::now();
    wait_working(&first, TAKE_OVER_SILENT);
    assert!(
        stopped.elapsed() < TAKE_OVER_SILENT,
        "{:?}",
        stopped.elapsed()
    );
    let replies = expected.feed_all(&phase);
    sending.finish().assert_replies(&replies);
    let begin = second.process().log_length();
    second.process().resume().expect("it goes on");
    second
        .process()
        .wait_for_log_from(begin, "doubt", LATER)
        .expect("it doubts");
    wait_role(&second, "standby", LATER);
    assert_stream(&cell, cell.store(0), &expected);

    // An end in good order: the group in flight is finished and acknowledged.
    let decided = metric(&second, "conductor_commands_total", 0);
    let phase = messages(3, PHASE);
    let sending = under_load(&cell, &phase, IMPATIENT);
    let ended = first.terminate(END_WITHIN).expect("it ends in time");
    assert!(ended.success(), "{ended}: {}", first.process().log_tail(20));
    let working = wait_metric(
        &second,
        "conductor_commands_total",
        0,
        decided + 1,
        TAKE_OVER,
    );
    working.unwrap_or_else(|error| panic!("{error}"));
    let replies = expected.feed_all(&phase);
    sending.finish().assert_replies(&replies);
    assert_stream(&cell, cell.store(0), &expected);
}

/// A conductor whose connections go through proxies.
struct Held<'a> {
    cell: &'a LiveCell,
    store: HoldProxy,
    broker: HoldProxy,
    config: String,
}

impl<'a> Held<'a> {
    fn new(cell: &'a LiveCell) -> Self {
        let store = HoldProxy::start(cell.store(0).address()).expect("a proxy");
        let broker = HoldProxy::start(cell.servers.rabbit().address()).expect("a proxy");
        let mut settings = cell.servers.settings();
        settings.stores = StoreAddresses::Direct(vec![store.address()]);
        settings.brokers = vec![broker.address()];
        let config = settings.write("proxies.toml").expect("it is written");
        Self {
            cell,
            store,
            broker,
            config: config.display().to_string(),
        }
    }

    /// It waits longer for its store than the take-over takes, so that what it learns, it learns
    /// from the fence.
    fn conductor(&self, name: &str) -> Instance {
        let variables = [
            ("CONDUCTOR_CONFIG", self.config.as_str()),
            ("MATCHING_DURABILITY_TIMEOUT_MS", "20000"),
            // The settings hold the outbox's lease against that, in a conductor too.
            ("MATCHING_OUTBOX_LEASE_MS", "60000"),
        ];
        self.cell.unready_conductor(name, &variables)
    }

    /// Makes the broker drop the active consumer's connection while its owner hears nothing of it.
    fn drop_active_consumer(&self) {
        self.broker.hold_all(Direction::ToClient);
        let control = |words: &[&str]| {
            self.cell
                .servers
                .rabbit()
                .control(words)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let fields = |line: &str| -> Vec<String> { line.split('\t').map(str::to_owned).collect() };
        let consumers = control(&[
            "list_consumers",
            "queue_name",
            "channel_pid",
            "activity_status",
        ]);
        let active = consumers
            .lines()
            .map(fields)
            .find(|line| line[0] == "matching:commands.p0" && line[2] == "single_active");
        let active = active.unwrap_or_else(|| panic!("nobody is active: {consumers}"));
        let channels = control(&["list_channels", "pid", "connection"]);
        let channel = channels
            .lines()
            .map(fields)
            .find(|line| line[0] == active[1]);
        let channel = channel.unwrap_or_else(|| panic!("{active:?} is not there: {channels}"));
        control(&["close_connection", &channel[1], "a test closes it"]);
    }
}

/// The first conductor's packet is on its way when the second takes over, decides the same commands
/// and commits them; then the packet arrives.
fn the_packet_arrives_late(held: &Held<'_>, first: &Instance, second: &Instance, messages: usize) {
    held.drop_active_consumer();
    wait_role(second, "active", LATER);
    let working = wait_metric(
        second,
        "conductor_commands_total",
        0,
        messages as u64,
        LATER,
    );
    working.unwrap_or_else(|error| panic!("{error}"));
    assert!(
        held.store.is_holding(),
        "the first one's packet is still on its way"
    );
    let committed = held.cell.stream(held.cell.store(0), 0);

    let begin = first.process().log_length();
    held.store.release();
    let fenced = first
        .process()
        .wait_for_log_from(begin, "the fence held", LATER);
    fenced.unwrap_or_else(|error| panic!("{error}"));
    held.broker.release();
    assert_eq!(
        metric(first, "conductor_fenced_total", 0),
        1,
        "EXEC was nil"
    );
    wait_role(first, "standby", LATER);
    wait_role(second, "active", LATER);
    let after = held.cell.stream(held.cell.store(0), 0);
    assert_same_events(&after, &committed);
}

#[test]
fn a_packet_that_arrives_after_the_take_over_changes_nothing() {
    let cell = LiveCell::start(&Layout::default());
    let mut expected = Expected::new(1);
    let held = Held::new(&cell);

    // One command, which trades.
    let first = held.conductor("first");
    first.wait_ready(LATER).expect("it is ready");
    let maker = limit(1, 1, "maker", Side::Ask, (100, 10));
    let rested = expected.feed(&maker);
    assert_eq!(cell.ask(&maker).as_bytes(), rested);
    let second = cell.conductor("second", &[]);
    wait_role(&second, "standby", LATER);
    held.store.hold_when(b"EXEC");
    let taker = limit(1, 1, "taker", Side::Bid, (100, 4));
    let sending = cell.send(std::slice::from_ref(&taker), PATIENT);
    held.store.wait_holding(LATER).expect("the packet is held");
    the_packet_arrives_late(&held, &first, &second, 1);
    let reply = expected.feed(&taker);
    let sent = sending.finish();
    assert_eq!(sent.assert_replies(&[reply]), 1);
    assert_eq!(
        sent.summary.replies.repeated, 0,
        "the first one answered nobody"
    );
    assert_stream(&cell, cell.store(0), &expected);
    drop((first, second));

    // A whole group: what waits before the owner comes is one.
    let group = messages(4, 200);
    held.store.hold_when(b"MULTI");
    let sending = cell.send(&group, PATIENT);
    cell.wait_queue("matching:commands.p0", "messages_ready", group.len());
    let first = held.conductor("first-of-group");
    held.store.wait_holding(LATER).expect("the packet is held");
    let second = cell.conductor("second-of-group", &[]);
    wait_role(&second, "standby", LATER);
    assert!(
        held.store.held_bytes() > 200 * group.len(),
        "the packet has the whole group"
    );
    the_packet_arrives_late(&held, &first, &second, group.len());
    let replies = expected.feed_all(&group);
    let sent = sending.finish();
    assert_eq!(sent.assert_replies(&replies), group.len());
    assert_eq!(
        sent.summary.replies.repeated, 0,
        "the first one answered nobody"
    );
    assert_stream(&cell, cell.store(0), &expected);
}

#[test]
fn a_replica_that_is_away_stops_the_cell_and_nothing_else() {
    let cell = LiveCell::start(&Layout::default());
    let mut expected = Expected::new(1);
    let conductor = cell.conductor("conductor", &[]);
    let maker = limit(1, 1, "maker", Side::Ask, (100, 10));
    let rested = expected.feed(&maker);
    assert_eq!(cell.ask(&maker).as_bytes(), rested);
    let before = partition_of(&conductor, 0).expect("its pages answer");
    let replica = cell.servers.store(0).replicas[0].process();

    replica.pause().expect("it is stopped");
    let taker = limit(1, 1, "taker", Side::Bid, (100, 4));
    let sending = cell.send(std::slice::from_ref(&taker), PATIENT);
    // Red long before the wait for the disks is over, and then with what the disks said.
    let red = wait_partition(&conductor, 0, LATER, |shown| shown["ready"] == false);
    let why = red["why"].as_str().expect("it says why");
    assert!(why.contains("its disks have not confirmed it"), "{why}");
    wait_partition(&conductor, 0, LATER, |shown| {
        let why = shown["why"].as_str().unwrap_or_default();
        shown["ready"] == false && why.contains("0 of 1 replicas confirmed on disk")
    });
    assert_eq!(conductor.page("/ready").expect("its pages answer").0, 503);
    // It waits again and again, and neither replies nor acknowledges meanwhile.
    let waits = metric(&conductor, "conductor_waits_below_policy_total", 0);
    let again = wait_metric(
        &conductor,
        "conductor_waits_below_policy_total",
        0,
        waits + 2,
        LATER,
    );
    again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(sending.done(), 0, "there is no reply");
    assert_eq!(
        metric(&conductor, "conductor_commands_total", 0),
        1,
        "it is not durable"
    );
    cell.wait_queue("matching:commands.p0", "messages_unacknowledged", 1);
    assert_eq!(sending.done(), 0, "there is still no reply");

    replica.resume().expect("it goes on");
    let reply = expected.feed(&taker);
    assert_eq!(sending.finish().assert_replies(&[reply]), 1);
    conductor.wait_ready(LATER).expect("it is ready again");
    let after = partition_of(&conductor, 0).expect("its pages answer");
    assert_eq!(after["epoch"], before["epoch"], "the same connection");
    assert_eq!(metric(&conductor, "conductor_doubts_total", 0), 0);
    assert_stream(&cell, cell.store(0), &expected);
}

#[test]
fn a_failover_is_waited_out_and_loses_nothing() {
    let cell = LiveCell::start(&Layout {
        sentinels: 3,
        ..Layout::default()
    });
    let mut expected = Expected::new(1);
    let conductor = cell.conductor("conductor", &[]);
    let phase = messages(5, PHASE);
    let sending = under_load(&cell, &phase, PATIENT);
    let group = cell.servers.store(0);
    group.primary.process().kill().expect("it is killed");

    let sentinels = cell.servers.sentinels().expect("Sentinels were asked for");
    let name = CellServers::sentinel_group(0);
    let promoted = sentinels.wait_switched(&name, group.primary.address(), LATER);
    let promoted = promoted.expect("the replica is promoted");
    let red = wait_partition(&conductor, 0, LATER, |shown| {
        shown["why"]
            .as_str()
            .is_some_and(|why| why.contains("0 of 1 replicas"))
    });
    assert_eq!(red["ready"], false);
    let done = sending.done();
    assert!(done < PHASE, "the failover came in the middle");

    group.primary.restart().expect("it is back");
    group
        .primary
        .wait_following(LATER)
        .expect("Sentinel makes it a replica");
    let replies = expected.feed_all(&phase);
    let came = sending.finish().assert_replies(&replies);
    assert!(came > done, "it goes on");
    conductor.wait_ready(LATER).expect("it is ready again");
    let store = group.server_at(promoted).expect("one of ours");
    assert_stream(&cell, store, &expected);
}
