//! A store whose records about the book are not what they must be: the partition halts and says
//! which, or, where a halt cannot be written, waits and says what to mend. It never goes on, and
//! never begins the same load again and again.
//!
//! What is broken is broken by hand in the store, and mended by hand.

mod boot_support;
mod cell_support;
mod live;

use boot_support::refused;
use cell_support::Line;
use conductor_engine::{PairId, PartitionId, Side};
use conductor_io::keys::{Keys, field};
use conductor_tools::testbed::{Instance, Layout};
use live::{LATER, LiveCell, limit, metric, wait_partition};
use std::time::Duration;

const PAIR: u32 = 4;
/// How long a reply may take where a halt is waited for, shown and mended before it.
const PATIENT: Duration = Duration::from_secs(120);
const ASIDE: &str = "a-test-put-it-aside";

struct Bed {
    cell: LiveCell,
    conductor: Instance,
    keys: Keys,
    orders: u32,
}

impl Bed {
    fn store<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = self.cell.store(0).command(words);
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Puts a text where something else must be.
    fn spoil(&self, key: &str) {
        let _: String = self.store(&["RENAME", key, ASIDE]);
        let _: String = self.store(&["SET", key, "a text"]);
    }

    fn mend(&self, key: &str) {
        let _: String = self.store(&["RENAME", ASIDE, key]);
    }

    /// Spoils a record, makes the conductor read it, sees what it says, mends it, and sees the
    /// command go through that waited.
    fn tried(&mut self, key: &str, state: &str, words: &[&str]) {
        self.spoil(key);
        self.tried_spoilt(key, state, words, |bed| bed.mend(key));
    }

    fn tried_spoilt(&mut self, key: &str, state: &str, words: &[&str], mend: impl FnOnce(&Self)) {
        self.orders += 1;
        let claims = metric(&self.conductor, "conductor_claims_total", 0);
        self.cell.close_connections();
        let message = limit(PAIR, 1, &format!("{}", self.orders), Side::Bid, (100, 1));
        let sending = self.cell.send(&[message], PATIENT);
        let shown = wait_partition(&self.conductor, 0, LATER, |shown| {
            let why = shown["why"].as_str().unwrap_or_default();
            shown["state"] == state && words.iter().all(|word| why.contains(word))
        });
        assert_eq!(shown["ready"], false, "{shown}");
        assert_eq!(sending.done(), 0, "{key}: nothing is decided");
        let again = metric(&self.conductor, "conductor_claims_total", 0);
        assert_eq!(again, claims, "{key}: nobody went on");
        mend(self);
        if state == "halted" {
            let resumed = Line::new(self.cell.servers.settings_file())
                .run(&["--json", "resume", "--partition", "0"])
                .json(0);
            assert!(resumed["reason"].is_string(), "{resumed}");
        }
        let sent = sending.finish();
        assert!(sent.replies[0].is_some(), "{key}: it goes on once mended");
        self.conductor.wait_ready(LATER).expect("it is ready again");
    }
}

#[test]
fn a_record_that_cannot_be_read_halts_or_is_named() {
    let cell = LiveCell::start(&Layout::default());
    let conductor = cell.conductor("conductor", &[]);
    let keys = Keys::new(PartitionId(0));
    let mut bed = Bed {
        cell,
        conductor,
        keys: keys.clone(),
        orders: 0,
    };
    // A bid and an ask, so that everything of a pair is there.
    let _ = bed.cell.ask(&limit(PAIR, 1, "bid", Side::Bid, (99, 5)));
    let _ = bed.cell.ask(&limit(PAIR, 1, "ask", Side::Ask, (101, 5)));

    let pair = keys.pair(PairId(PAIR));
    let (asks, bids) = (
        keys.book(PairId(PAIR), Side::Ask),
        keys.book(PairId(PAIR), Side::Bid),
    );
    for key in [keys.pairs(), pair.as_str(), &asks, &bids] {
        bed.tried(key, "halted", &[key, "cannot be read", "WRONGTYPE"]);
    }
    let words = ["the store's cursor cannot be read", "WRONGTYPE"];
    bed.tried(keys.cursor(), "halted", &words);
    bed.tried(
        keys.epoch(),
        "waiting",
        &["the store's epoch cannot be raised", keys.epoch()],
    );
    bed.tried(keys.topology(), "waiting", &[keys.topology(), "WRONGTYPE"]);
    bed.tried(keys.events(), "waiting", &[keys.events(), "WRONGTYPE"]);

    let _: u32 = bed.store(&["SADD", keys.pairs(), "seven"]);
    let words = [keys.pairs(), "a member is no pair"];
    bed.tried_spoilt(keys.pairs(), "halted", &words, |bed| {
        let _: u32 = bed.store(&["SREM", bed.keys.pairs(), "seven"]);
    });

    // A process that begins refuses a topology that it cannot read.
    let prefetch: String = bed.store(&["HGET", keys.topology(), field::PREFETCH]);
    let _: u32 = bed.store(&["HSET", keys.topology(), field::PREFETCH, "many"]);
    let second = bed.cell.unready_conductor("second", &[]);
    refused(second.process()).names(&[keys.topology(), "is no number"]);
    let _: u32 = bed.store(&["HSET", keys.topology(), field::PREFETCH, &prefetch]);
}
