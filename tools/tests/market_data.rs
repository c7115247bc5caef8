//! Recorded order flow through a real cell: `cell import`, `cell send` and `cell replay` agree to
//! the byte.
//!
//! The recording of `tests/import` is made up. A real one goes the same way where
//! `CONDUCTOR_LOBSTER_DIR` names a folder with its two files. No outbox runs here, so the stream of
//! the store holds every event that the cell ever committed.

mod cell_support;
mod live;
mod raw_messages;

use cell_support::Line;
use conductor_tools::testbed::{Instance, Layout};
use live::{LATER, LiveCell, assert_same_events, metric};
use raw_messages::{replay, stored_book};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A recording and where it goes: each has a partition of its own in one cell.
struct Recording {
    messages: PathBuf,
    book: PathBuf,
    pair: u32,
    partition: u32,
    /// Every visible execution of an order that the recording itself places, where that is known.
    executions: Option<u64>,
}

fn made_up() -> Recording {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import");
    Recording {
        messages: folder.join("SYNTHETIC_2020-01-02_message_3.csv"),
        book: folder.join("SYNTHETIC_2020-01-02_orderbook_3.csv"),
        pair: 12,
        partition: 0,
        executions: None,
    }
}

/// The real one, where there is one on this machine.
fn real() -> Option<Recording> {
    let folder = PathBuf::from(std::env::var_os("CONDUCTOR_LOBSTER_DIR")?);
    let named = |part: &str| {
        let mut files = fs::read_dir(&folder).expect("a folder").flatten();
        let found = files.find(|file| file.file_name().to_string_lossy().contains(part));
        found
            .unwrap_or_else(|| panic!("no {part} file in {}", folder.display()))
            .path()
    };
    let (messages, book) = (named("_message_"), named("_orderbook_"));
    Some(Recording {
        messages,
        book,
        pair: 13,
        partition: 1,
        executions: Some(94),
    })
}

/// A path as an argument.
fn word(path: &Path) -> &str {
    path.to_str().expect("paths of tests are text")
}

#[test]
fn recorded_order_flow_gives_the_same_events_and_book_as_a_replay() {
    let live = LiveCell::start(&Layout {
        partitions: 2,
        ..Layout::default()
    });
    let conductor = live.conductor("conductor", &[]);
    let mut recordings = vec![made_up()];
    match real() {
        Some(real) => recordings.push(real),
        None => eprintln!("without a real recording: CONDUCTOR_LOBSTER_DIR names no folder"),
    }
    for recording in &recordings {
        through(&live, &conductor, recording);
    }
}

fn through(live: &LiveCell, conductor: &Instance, recording: &Recording) {
    let run = Run {
        live,
        conductor,
        recording,
        line: Line::new(live.servers.settings_file()),
    };
    let trace = run.import();
    let once = run.send(&trace, "first.replies");
    run.assert_as_replayed(&trace, &once);
    let events = run.events();

    let twice = run.send(&trace, "second.replies");
    assert!(
        once == twice,
        "a command that is sent again has its first reply, byte for byte"
    );
    assert_eq!(run.events(), events, "and changes nothing");
    let commands = once.lines().count() as u64;
    assert_eq!(run.counted("conductor_duplicate_commands_total"), commands);

    run.send_with_fresh_ids(&trace);
}

struct Run<'a> {
    live: &'a LiveCell,
    conductor: &'a Instance,
    recording: &'a Recording,
    line: Line<'a>,
}

impl Run<'_> {
    fn file(&self, name: &str) -> PathBuf {
        let name = format!("p{}.{name}", self.recording.partition);
        self.live.servers.folder().path().join(name)
    }

    /// The recording as a trace, held against the recording itself.
    fn import(&self) -> PathBuf {
        let trace = self.file("trace");
        let (messages, book) = (word(&self.recording.messages), word(&self.recording.book));
        let pair = self.recording.pair.to_string();
        let words = [
            "--json", "import", "lobster", messages, book, "--pair", &pair, "--check",
        ];
        let report = self
            .line
            .run(&[&words[..], &["--out", word(&trace)]].concat())
            .json(0);
        let agreement = &report["agreement"];
        assert_eq!(
            agreement["executionsTold"], agreement["executionsToldExact"],
            "{agreement}"
        );
        if let Some(executions) = self.recording.executions {
            assert_eq!(agreement["executionsTold"], executions);
        }
        trace
    }

    /// Sends a trace; gives its replies, one a line.
    fn send(&self, trace: &Path, name: &str) -> String {
        let replies = self.file(name);
        let words = ["--json", "send", word(trace), "--replies", word(&replies)];
        let summary = self.line.run(&words).json(0);
        let replies = fs::read_to_string(replies).expect("the replies are written");
        assert_eq!(
            summary["confirmed"].as_u64(),
            Some(replies.lines().count() as u64)
        );
        assert!(
            replies.lines().all(|reply| !reply.is_empty()),
            "every command has its reply"
        );
        replies
    }

    fn events(&self) -> String {
        let partition = self.recording.partition;
        let events = self.live.stream(self.live.store(partition), partition);
        String::from_utf8(events).expect("events are text")
    }

    fn counted(&self, name: &str) -> u64 {
        metric(self.conductor, name, self.recording.partition)
    }

    /// Events, replies, stored book and book in memory are what the engine alone makes of it.
    fn assert_as_replayed(&self, trace: &Path, replies: &str) {
        let (events, book) = (self.file("events"), self.file("book"));
        let words = ["--json", "replay", word(trace), "--partitions", "2"];
        let files = ["--events", word(&events), "--book", word(&book)];
        let report = self.line.run(&[&words[..], &files].concat()).json(0);
        assert!(
            report["deals"].as_u64().is_some_and(|deals| deals > 0),
            "{report}"
        );
        let expected = fs::read(events).expect("the events are written");
        assert_same_events(self.events().as_bytes(), &expected);

        let alone = replay(&lines(trace), 2);
        let results: Vec<String> = alone.results.into_iter().flatten().collect();
        assert!(
            replies.lines().eq(results.iter()),
            "a reply differs from its result"
        );

        let book = fs::read_to_string(book).expect("the book is written");
        let partition = self.recording.partition;
        let stored = stored_book(self.live.store(partition), partition);
        assert_eq!(stored.to_json(), book.trim_end());
        self.assert_memory(&alone.book);
    }

    /// The pages show the same book, and find nothing wrong with it.
    fn assert_memory(&self, book: &conductor_tools::replay::BookView) {
        let pair = self.recording.pair;
        let page = |page: String| -> Value {
            let (status, body) = self.conductor.page(&page).expect("it answers");
            assert_eq!(status, 200, "{body}");
            serde_json::from_str(&body).expect("JSON")
        };
        let view = &book.pairs[&conductor_engine::PairId(pair)];
        let depth = page(format!("/depth?pairId={pair}&levels=1000"));
        let mut orders = 0;
        for (name, queues) in [("bids", &view.bids), ("asks", &view.asks)] {
            let told = |level: &Value| (level["price"].clone(), level["orders"].clone());
            let shown: Vec<_> = depth[name]
                .as_array()
                .expect("levels")
                .iter()
                .map(told)
                .collect();
            let levels = queues
                .iter()
                .map(|queue| (queue.price.clone(), queue.orders.len()));
            let expected: Vec<_> = levels.map(|(price, n)| (price.into(), n.into())).collect();
            assert_eq!(shown, expected, "{name}");
            orders += queues.iter().map(|queue| queue.orders.len()).sum::<usize>();
        }
        let reconciled = page(format!("/reconcile?pairId={pair}"));
        assert_eq!(reconciled["healthy"], true, "{reconciled}");
        assert_eq!(reconciled["indexedOrders"], orders);
    }

    /// The same orders under command ids that nobody has seen: their own ids are used up.
    fn send_with_fresh_ids(&self, trace: &Path) {
        let once = lines(trace);
        let fresh: Vec<Vec<u8>> = once.iter().map(|line| with_fresh_id(line)).collect();
        let path = self.file("fresh");
        fs::write(&path, [fresh.join(&b'\n'), vec![b'\n']].concat()).expect("a trace is written");
        let before = (self.counted("conductor_deals_total"), replay(&once, 2));
        let replies = self.send(&path, "fresh.replies");
        assert_eq!(self.counted("conductor_deals_total"), before.0, "no deal");

        let after = replay(&[once, fresh].concat(), 2);
        assert_eq!(
            after.counts.deals, before.1.counts.deals,
            "no deal in the engine either"
        );
        let expected = &after.events[&self.recording.partition];
        assert_same_events(self.events().as_bytes(), expected);
        let skipped = replies.matches("\"outcome\":\"duplicate-order\"").count() as u64;
        assert!(skipped > 0);
        assert_eq!(skipped, after.counts.duplicate_orders);
        assert_eq!(self.counted("conductor_duplicate_orders_total"), skipped);
        self.conductor.wait_ready(LATER).expect("it goes on");
    }
}

fn lines(trace: &Path) -> Vec<Vec<u8>> {
    let trace = fs::read(trace).expect("a trace");
    let lines = trace.split(|byte| *byte == b'\n');
    lines
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect()
}

fn with_fresh_id(line: &[u8]) -> Vec<u8> {
    let line = String::from_utf8(line.to_vec()).expect("commands are text");
    line.replacen("\"commandId\":\"", "\"commandId\":\"again:", 1)
        .into_bytes()
}
