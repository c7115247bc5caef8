//! A partition that must not go on does not, on any instance and across restarts, until a person
//! lifts it; and a store that was emptied is never taken for a new one. Its neighbour in the same
//! process goes on meanwhile.
//!
//! Two conductors of both partitions share the machine. What is broken is broken by hand in the
//! store, and mended by hand. No outbox runs, so the stream holds every event.

mod cell_support;
mod live;

use cell_support::Line;
use conductor_engine::{CommandId, OrderId, PairId, PartitionId, Side};
use conductor_io::keys::{Keys, field};
use conductor_tools::testbed::{Instance, Layout};
use live::{Expected, LATER, LiveCell, Message, assert_same_events, limit, wait_partition};
use serde_json::Value;
use std::time::Duration;

const PARTITIONS: u32 = 2;
/// A pair of partition 0, which is broken, and one of partition 1, which goes on.
const BROKEN_PAIR: u32 = 0;
const SOUND_PAIR: u32 = 1;
/// How long a reply may take where a halt is waited for, shown and mended before it.
const PATIENT: Duration = Duration::from_secs(240);
const END_WITHIN: Duration = Duration::from_secs(5);
const EXIT_CONFIGURATION: i32 = 78;

/// A cell of two partitions with two conductors that both serve both.
struct Pair {
    first: Instance,
    second: Instance,
    cell: LiveCell,
    expected: Expected,
    keys: Keys,
    sound_orders: u32,
}

impl Pair {
    fn start() -> Self {
        let cell = LiveCell::start(&Layout {
            partitions: PARTITIONS,
            ..Layout::default()
        });
        let shared = [("MATCHING_SHARE_CORES", "true")];
        Self {
            first: cell.conductor("first", &shared),
            second: cell.conductor("second", &shared),
            expected: Expected::new(PARTITIONS),
            keys: Keys::new(PartitionId(0)),
            sound_orders: 0,
            cell,
        }
    }

    fn both(&self) -> [&Instance; 2] {
        [&self.first, &self.second]
    }

    /// Sends an order to a partition that works.
    fn ask(&mut self, message: &Message) {
        let reply = self.expected.feed(message);
        assert_eq!(self.cell.ask(message).as_bytes(), reply);
    }

    /// Partition 1 takes a command and answers it.
    fn neighbour_goes_on(&mut self) {
        self.sound_orders += 1;
        let name = format!("sound-{}", self.sound_orders);
        self.ask(&limit(SOUND_PAIR, PARTITIONS, &name, Side::Bid, (100, 1)));
        for conductor in self.both() {
            wait_partition(conductor, 1, LATER, |shown| shown["ready"] == true);
        }
    }

    /// Both instances are down for partition 0 and say this.
    fn both_say(&self, state: &str, words: &str) {
        for conductor in self.both() {
            let shown = wait_partition(conductor, 0, LATER, |shown| {
                let why = shown["why"].as_str().unwrap_or_default();
                shown["state"] == state && why.contains(words)
            });
            assert_eq!(shown["ready"], false, "{shown}");
            assert_eq!(conductor.page("/ready").expect("the pages answer").0, 503);
        }
    }

    /// Both instances are killed and start again.
    fn restart_both(&self) {
        for conductor in self.both() {
            conductor.restart().expect("it starts again");
        }
    }

    fn both_are_ready(&self) {
        for conductor in self.both() {
            conductor
                .wait_ready(LATER)
                .unwrap_or_else(|error| panic!("{error}"));
        }
    }

    /// Asks the store of partition 0.
    fn store<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.cell.store(0).command(words);
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    fn line(&self, words: &[&str]) -> Value {
        Line::new(self.cell.servers.settings_file())
            .run(words)
            .json(0)
    }

    fn resume(&self) -> Value {
        self.line(&["--json", "resume", "--partition", "0"])
    }

    fn assert_stream(&self) {
        let found = self.cell.stream(self.cell.store(0), 0);
        assert_same_events(&found, self.expected.events(0));
    }

    /// The member of the only order on a side of the broken pair.
    fn member(&self, side: Side) -> String {
        let book = self.keys.book(PairId(BROKEN_PAIR), side);
        let members: Vec<String> = self.store(&["ZRANGE", &book, "0", "-1"]);
        assert_eq!(members.len(), 1, "{members:?}");
        members[0].clone()
    }

    /// Gives the resting ask another price, in its record and in the index.
    fn move_ask(&self, member: &str, price: &str) {
        let book = self.keys.book(PairId(BROKEN_PAIR), Side::Ask);
        let record = self.keys.order(&order("ask"));
        let _: u32 = self.store(&["ZADD", &book, price, member]);
        let _: u32 = self.store(&["HSET", &record, field::PRICE, price]);
    }
}

fn broken(name: &str, side: Side, price_and_volume: (u64, u64)) -> Message {
    limit(BROKEN_PAIR, PARTITIONS, name, side, price_and_volume)
}

fn order(name: &str) -> OrderId {
    OrderId::new(&format!("o-{name}")).expect("letters and digits")
}

fn command(name: &str) -> CommandId {
    CommandId::new(&format!("c-{name}")).expect("letters and digits")
}

#[test]
fn a_crossed_book_keeps_its_partition_down_until_it_is_mended_and_resumed() {
    let mut pair = Pair::start();
    pair.ask(&broken("bid", Side::Bid, (99, 5)));
    pair.ask(&broken("ask", Side::Ask, (101, 5)));
    pair.neighbour_goes_on();
    for conductor in pair.both() {
        assert!(
            conductor
                .terminate(END_WITHIN)
                .expect("it ends in time")
                .success()
        );
    }
    let member = pair.member(Side::Ask);
    pair.move_ask(&member, "98");
    pair.restart_both();
    pair.both_are_ready();

    // The first command makes an owner read the book, and nobody goes on with it.
    let waiting = broken("waiting", Side::Bid, (101, 2));
    let sending = pair.cell.send(std::slice::from_ref(&waiting), PATIENT);
    let crossed = "the book of pair 0 is crossed: bid 99 at or above ask 98";
    pair.both_say("halted", crossed);
    pair.neighbour_goes_on();
    let record: Option<String> = pair.store(&["HGET", pair.keys.halted(), field::REASON]);
    assert_eq!(record.as_deref(), Some(crossed));
    let epoch: u64 = pair.store(&["GET", pair.keys.epoch()]);

    pair.restart_both();
    pair.both_say("halted", crossed);
    pair.neighbour_goes_on();

    // The mend alone lifts nothing.
    pair.move_ask(&member, "101");
    pair.restart_both();
    pair.both_say("halted", crossed);
    assert_eq!(sending.done(), 0, "the command still waits");
    let after: u64 = pair.store(&["GET", pair.keys.epoch()]);
    assert_eq!(after, epoch, "nobody took the partition meanwhile");

    let resumed = pair.resume();
    assert_eq!(resumed["reason"], crossed);
    let reply = pair.expected.feed(&waiting);
    assert_eq!(sending.finish().assert_replies(&[reply]), 1);
    pair.both_are_ready();
    pair.assert_stream();
    pair.neighbour_goes_on();
}

#[test]
fn a_half_applied_transaction_halts_and_its_command_can_be_parked() {
    let mut pair = Pair::start();
    pair.ask(&broken("ask", Side::Ask, (101, 5)));
    let keys = &pair.keys;
    let cursor: Vec<String> = pair.store(&["HGETALL", keys.cursor()]);
    let record = keys.order(&order("poison"));
    let _: String = pair.store(&["SET", &record, "not an order"]);

    let poison = pair.cell.send(
        &[broken("poison", Side::Bid, (99, 1))],
        Duration::from_secs(1),
    );
    pair.both_say("halted", "a transaction was half applied: WRONGTYPE");
    assert_eq!(poison.finish().replies, [None], "it is not answered");
    pair.neighbour_goes_on();
    let follower = broken("follower", Side::Bid, (101, 2));
    let sending = pair.cell.send(std::slice::from_ref(&follower), PATIENT);
    pair.restart_both();
    pair.both_say("halted", "a transaction was half applied: WRONGTYPE");

    // What was applied of it is taken back by hand.
    let keys = &pair.keys;
    let member = pair.member(Side::Bid);
    let book = keys.book(PairId(BROKEN_PAIR), Side::Bid);
    let result = keys.processed_command(&command("poison"));
    let accepted = keys.accepted_order(&order("poison"));
    let _: u32 = pair.store(&["ZREM", &book, &member]);
    let deleted: u32 = pair.store(&["DEL", &record, &result, &accepted]);
    assert_eq!(deleted, 3, "the other writes were applied");
    let last: Vec<(String, Vec<String>)> =
        pair.store(&["XREVRANGE", keys.events(), "+", "-", "COUNT", "1"]);
    let _: u32 = pair.store(&["XDEL", keys.events(), &last[0].0]);
    let mut words = vec!["HSET", keys.cursor()];
    words.extend(cursor.iter().map(String::as_str));
    let _: u32 = pair.store(&words);
    pair.assert_stream();

    let resumed = pair.line(&["--json", "resume", "--partition", "0", "--park", "c-poison"]);
    assert_eq!(resumed["parked"]["commandId"], "c-poison", "{resumed}");
    let reply = pair.expected.feed(&follower);
    assert_eq!(
        sending.finish().assert_replies(&[reply]),
        1,
        "what stood behind it goes on"
    );
    pair.both_are_ready();
    pair.assert_stream();
    pair.cell
        .wait_queue("matching:commands.p0.parked", "messages", 1);
    pair.neighbour_goes_on();
}

#[test]
fn a_store_that_has_gone_back_halts_and_one_without_topology_is_refused() {
    let mut pair = Pair::start();
    pair.ask(&broken("ask", Side::Ask, (101, 50)));
    the_cursor_has_gone_back(&mut pair);
    the_last_record_is_gone(&mut pair);
    the_last_record_is_another_one(&mut pair);
    the_topology_is_gone(&mut pair);
    everything_is_gone(&mut pair);
}

/// Only who saw work acknowledged can miss it, so the first conductor is alone while a command is
/// acknowledged and something of it is taken away. Then it takes ownership anew and halts, and the
/// second one, which saw nothing, honours that.
fn gone_back(pair: &mut Pair, name: &str, take_away: impl FnOnce(&Pair), mend: impl FnOnce(&Pair)) {
    assert!(
        pair.second
            .terminate(END_WITHIN)
            .expect("it ends in time")
            .success()
    );
    pair.ask(&broken(&format!("{name}-before"), Side::Bid, (101, 1)));
    take_away(pair);
    pair.cell.close_connections();
    let waiting = broken(name, Side::Bid, (101, 1));
    let sending = pair.cell.send(std::slice::from_ref(&waiting), PATIENT);
    wait_partition(&pair.first, 0, LATER, |shown| shown["state"] == "halted");
    pair.second.restart().expect("it starts again");
    pair.both_say("halted", "the store has gone back");
    pair.both_say("halted", "acknowledged work is missing");
    pair.neighbour_goes_on();
    assert_eq!(sending.done(), 0, "the command waits");
    mend(pair);
    let _ = pair.resume();
    let reply = pair.expected.feed(&waiting);
    assert_eq!(sending.finish().assert_replies(&[reply]), 1);
    pair.both_are_ready();
    pair.assert_stream();
}

fn the_cursor_has_gone_back(pair: &mut Pair) {
    let cursor = pair.keys.cursor().to_owned();
    let sequence = |pair: &Pair| -> u64 { pair.store(&["HGET", &cursor, field::SEQUENCE]) };
    let add = |pair: &Pair, by: &str| {
        let _: i64 = pair.store(&["HINCRBY", &cursor, field::SEQUENCE, by]);
    };
    gone_back(
        pair,
        "cursor",
        |pair| {
            assert!(sequence(pair) > 1);
            add(pair, "-1");
        },
        |pair| {
            pair.both_say(
                "halted",
                &format!("its last sequence is {}", sequence(pair)),
            );
            add(pair, "1");
        },
    );
}

fn the_last_record_is_gone(pair: &mut Pair) {
    let record = pair.keys.processed_command(&command("record-before"));
    let result = std::cell::RefCell::new(String::new());
    gone_back(
        pair,
        "record",
        |pair| *result.borrow_mut() = pair.store(&["GETDEL", &record]),
        |pair| {
            pair.both_say(
                "halted",
                "the record of command c-record-before is not there",
            );
            let _: String = pair.store(&["SET", &record, &result.borrow()]);
        },
    );
}

/// A command whose record was lost, and which somebody sent again before the loss was seen, has a
/// record: not the one that was acknowledged.
fn the_last_record_is_another_one(pair: &mut Pair) {
    let record = pair.keys.processed_command(&command("another-before"));
    let result = std::cell::RefCell::new(String::new());
    gone_back(
        pair,
        "another",
        |pair| *result.borrow_mut() = pair.store(&["SET", &record, "decided again", "GET"]),
        |pair| {
            pair.both_say(
                "halted",
                "or is not the one that this process saw on its disks",
            );
            let _: String = pair.store(&["SET", &record, &result.borrow()]);
        },
    );
}

/// Without a topology nobody goes on, and with it everybody does: nothing else was done to it.
fn the_topology_is_gone(pair: &mut Pair) {
    let topology = pair.keys.topology().to_owned();
    let written: Vec<String> = pair.store(&["HGETALL", &topology]);
    let _: u32 = pair.store(&["DEL", &topology]);
    pair.cell.close_connections();
    let waiting = broken("topology", Side::Bid, (101, 1));
    let sending = pair.cell.send(std::slice::from_ref(&waiting), PATIENT);
    pair.both_say("waiting", "the store has no topology");
    pair.neighbour_goes_on();
    assert_eq!(sending.done(), 0, "the command waits");
    let mut words = vec!["HSET", topology.as_str()];
    words.extend(written.iter().map(String::as_str));
    let _: u32 = pair.store(&words);
    let reply = pair.expected.feed(&waiting);
    assert_eq!(sending.finish().assert_replies(&[reply]), 1);
    pair.both_are_ready();
    pair.assert_stream();
}

/// The owner finds its fence gone, and then a store that is nobody's.
fn everything_is_gone(pair: &mut Pair) {
    let _: String = pair.store(&["FLUSHALL"]);
    let lost = broken("everything", Side::Bid, (101, 1));
    let sending = pair.cell.send(&[lost], Duration::from_secs(5));
    pair.both_say(
        "waiting",
        "the store has no topology: it was emptied or is the wrong one",
    );
    pair.neighbour_goes_on();
    let written: u64 = pair.store(&["DBSIZE"]);
    assert_eq!(written, 0, "nothing was written into it");
    assert_eq!(sending.finish().replies, [None]);

    pair.restart_both();
    for conductor in pair.both() {
        let ended = conductor
            .process()
            .wait_exit(LATER)
            .expect("it refuses to start");
        assert_eq!(ended.code(), Some(EXIT_CONFIGURATION));
        let log = conductor.process().log();
        let last = log.lines().last().unwrap_or_default();
        assert!(last.contains("the store has no topology"), "{log}");
    }
    assert_eq!(pair.store::<u64>(&["DBSIZE"]), 0, "nor by those that start");
}
