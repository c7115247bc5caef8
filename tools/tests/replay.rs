//! `cell replay` and what it is made of: the same trace gives the same bytes, on either book, in
//! any number of partitions, and whatever else is in it.
//!
//! The golden trace of `tests/replay` is run through the binary. With `CONDUCTOR_GOLDEN=rewrite`
//! in the environment its events, book and report are written anew instead of compared.

use conductor_engine::{Book, FastBook, NaiveBook, PartitionId};
use conductor_tools::replay::{FastReplay, Replay, Verdict};
use conductor_tools::trace::{TraceReader, write_command};
use conductor_tools::workload::{Mix, Workload, WorkloadOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

/// Runs `cell` and gives back its exit code and what it printed.
fn cell(arguments: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut process = Process::new(env!("CARGO_BIN_EXE_cell"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("cell starts");
    let mut stdin = process.stdin.take().expect("its stdin is ours");
    stdin.write_all(input).expect("cell reads its stdin");
    drop(stdin);
    let done = process.wait_with_output().expect("cell ends");
    let text = |bytes| String::from_utf8(bytes).expect("cell prints text");
    (done.status.code(), text(done.stdout), text(done.stderr))
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/replay")
        .join(name)
}

/// Everything that a replay of a trace shows.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    verdicts: Vec<Verdict>,
    lines: Vec<String>,
    book: String,
    digests: Vec<String>,
}

fn run<B: Book + Default>(partitions: u32, trace: &[u8]) -> Shown {
    let mut replay = Replay::<B>::new(partitions);
    run_on(&mut replay, trace)
}

fn run_on<B: Book>(replay: &mut Replay<B>, trace: &[u8]) -> Shown {
    let (mut verdicts, mut lines) = (Vec::new(), Vec::new());
    let mut reader = TraceReader::new(trace);
    while let Some(line) = reader.read().expect("memory can be read") {
        let partition = line.destination(replay.partition_count());
        let decided = replay.feed(partition, &line.incoming).expect("no halt");
        let text = std::str::from_utf8(decided.canonical).expect("events are text");
        lines.extend(text.lines().map(str::to_owned));
        verdicts.push(decided.verdict);
    }
    replay.audit().expect("a sound book");
    Shown {
        verdicts,
        lines,
        book: replay.view().to_json(),
        digests: replay.digests(),
    }
}

fn trace(options: WorkloadOptions, commands: usize) -> Vec<u8> {
    let workload = Workload::new(options).expect("good options");
    let mut trace = Vec::new();
    for command in workload.take(commands) {
        write_command(&command, &mut trace).expect("memory takes all");
    }
    trace
}

#[test]
fn the_golden_trace_gives_these_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let rewrite = std::env::var("CONDUCTOR_GOLDEN").is_ok_and(|word| word == "rewrite");
    for book in ["--partitions=1", "--naive"] {
        let (events, view) = (folder.path().join("events"), folder.path().join("book"));
        let arguments = [
            "replay",
            data("first.trace.jsonl").to_str().expect("a path"),
            "--events",
            events.to_str().expect("a path"),
            "--book",
            view.to_str().expect("a path"),
            "--json",
            book,
        ]
        .map(str::to_owned);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (code, report, talk) = cell(&arguments, b"");
        assert_eq!((code, talk.as_str()), (Some(0), ""));
        let mut report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let rate = report
            .as_object_mut()
            .expect("an object")
            .remove("commandsPerSecond");
        assert!(rate.is_some_and(|rate| rate.is_u64()));
        let report = serde_json::to_string_pretty(&report).expect("JSON") + "\n";
        let read = |path: &Path| std::fs::read_to_string(path).expect("it was written");
        for (name, now) in [
            ("first.events.jsonl", read(&events)),
            ("first.book.json", read(&view)),
            ("first.report.json", report),
        ] {
            if rewrite {
                std::fs::write(data(name), &now).expect("it can be written");
            }
            assert_eq!(now, read(&data(name)), "{name} with {book}");
        }
    }
}

#[test]
fn the_digest_is_over_the_lines_of_the_events_file() {
    let lines = std::fs::read(data("first.events.jsonl")).expect("the golden events");
    let mut digest = conductor_io::wire::Digest::default();
    for line in lines
        .strip_suffix(b"\n")
        .expect("a last line")
        .split(|byte| *byte == b'\n')
    {
        digest.line(line);
    }
    let report = std::fs::read_to_string(data("first.report.json")).expect("the golden report");
    assert!(report.contains(&digest.hex()), "{report}");
}

#[test]
fn both_books_give_the_same_bytes() {
    let trace = trace(WorkloadOptions::default(), 5_000);
    let fast = run::<FastBook>(1, &trace);
    assert!(fast.lines.len() > 5_000);
    assert!(fast == run::<NaiveBook>(1, &trace), "the books differ");
}

#[test]
fn a_repeat_changes_nothing_and_answers_the_same() {
    let options = WorkloadOptions {
        // An amend of an order that still rests is no repeat under a fresh command id.
        mix: Mix {
            places: 60,
            cancels: 30,
            amends: 0,
            batches: 10,
        },
        ..WorkloadOptions::default()
    };
    let trace = trace(options, 3_000);
    let mut replay = FastReplay::new(1);
    let first = run_on(&mut replay, &trace);
    let (deals, commands) = (replay.counts().deals, replay.counts().commands);
    let second = run_on(&mut replay, &trace);
    assert_eq!(second.lines, Vec::<String>::new());
    assert_eq!(
        (&second.book, &second.digests),
        (&first.book, &first.digests)
    );
    assert_eq!(
        (replay.counts().commands, replay.counts().repeats),
        (commands, commands)
    );
    for (first, second) in first.verdicts.iter().zip(&second.verdicts) {
        let (Verdict::New(first), Verdict::Repeat(second)) = (first, second) else {
            panic!("{first:?} was repeated as {second:?}");
        };
        assert_eq!(first, second);
    }

    let text = String::from_utf8(trace).expect("a trace is text");
    let fresh = text.replace("\"commandId\":\"", "\"commandId\":\"again-");
    let third = run_on(&mut replay, fresh.as_bytes());
    assert_eq!((third.lines.len(), &third.book), (0, &first.book));
    assert_eq!(replay.counts().deals, deals);
    assert!(replay.counts().duplicate_orders > 1_800);
}

#[test]
fn partitions_keep_their_own_sequence_and_share_nothing() {
    let of = |partition_count| {
        let options = WorkloadOptions {
            partition_count,
            ..WorkloadOptions::default()
        };
        trace(options, 4_000)
    };
    let four = run::<FastBook>(4, &of(Some(4)));
    let one = run::<FastBook>(1, &of(None));
    assert_eq!(four.digests.len(), 4);
    assert!(four.book == one.book, "the books differ");
    assert_eq!(four.lines.len(), one.lines.len());
    let mut sequences = [0_u64; 4];
    for line in &four.lines {
        let event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| event[name].as_u64().expect("a number");
        assert_eq!(number("partition"), number("pairId") % 4);
        let sequence = &mut sequences[usize::try_from(number("partition")).expect("small")];
        *sequence += 1;
        assert_eq!(number("sequence"), *sequence);
    }
    assert!(sequences.iter().all(|sequence| *sequence > 0));
}

#[test]
fn a_message_goes_where_a_cell_would_send_it() {
    let of = |fields: &str| {
        format!(r#"{{"type":"order.cancel","commandId":"c",{fields}"timestamp":1,"orderId":"o"}}"#)
    };
    let mut wrong = of(r#""pairId":6,"partition":1,"#);
    wrong.push('\n');
    for (line, partition) in [
        (of(r#""pairId":6,"#), 2),
        (of(r#""pairId":6,"partition":2,"#), 2),
        (wrong.clone(), 1),
        // There is no partition nine.
        (of(r#""pairId":6,"partition":9,"#), 2),
        (of(r#""pairId":7,"colour":1,"#), 3),
        (of(r#""pairId":"7","partition":3,"#), 3),
        (of(r#""pairId":"7","partition":4,"#), 0),
        (of(""), 0),
        ("not JSON".to_owned(), 0),
    ] {
        let mut reader = TraceReader::new(line.as_bytes());
        let read = reader.read().expect("memory can be read").expect("a line");
        assert_eq!(read.destination(4), PartitionId(partition), "{line}");
    }
    let shown = run::<FastBook>(4, wrong.as_bytes());
    assert!(shown.lines[0].contains(r#""partition":1,"pairId":6,"sequence":1"#));
    assert!(shown.lines[0].contains(r#""reason":"wrong-partition""#));
}

#[test]
fn the_last_line_needs_no_end_and_an_end_is_no_line() {
    let read = |text: &str| {
        let mut reader = TraceReader::new(text.as_bytes());
        let mut found = Vec::new();
        while let Some(line) = reader.read().expect("memory can be read") {
            found.push((line.number, line.message.map(<[u8]>::len), line.bytes_read));
        }
        found
    };
    assert_eq!(read(""), []);
    assert_eq!(read("ab\n"), [(1, Some(2), 3)]);
    assert_eq!(
        read("ab\n\ncd"),
        [(1, Some(2), 3), (2, Some(0), 1), (3, Some(2), 2)]
    );
    let limit = 1 << 20;
    let longest = "x".repeat(limit);
    assert_eq!(read(&longest), [(1, Some(limit), limit as u64)]);
    let longer = format!("{longest}x\nok\n");
    assert_eq!(
        read(&longer),
        [(1, None, limit as u64 + 2), (2, Some(2), 3)]
    );
}

#[test]
fn a_trace_can_be_piped_from_the_workload_into_the_replay() {
    let (code, trace, report) = cell(&["workload", "--commands", "500", "--out", "-"], b"");
    assert_eq!((code, trace.lines().count()), (Some(0), 500));
    assert!(report.starts_with("500 commands of seed 1"), "{report}");
    let (code, report, talk) = cell(&["replay", "-"], trace.as_bytes());
    assert_eq!((code, talk.as_str()), (Some(0), ""));
    assert!(report.contains("digest of partition 0: "), "{report}");
}

#[test]
fn mistakes_on_the_command_line_say_what_to_change() {
    let (code, out, talk) = cell(&["replay", "/nowhere/trace"], b"");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        talk.starts_with("error: cannot read /nowhere/trace: "),
        "{talk}"
    );
    assert_eq!(talk.lines().count(), 1);
    for wrong in [
        &["replay"][..],
        &["replay", "-", "--partitions", "0"],
        &["replay", "-", "--events", "-"],
        &["workload"],
        &["nothing"],
    ] {
        assert_eq!(cell(wrong, b"").0, Some(2), "{wrong:?}");
    }
    let (code, _, talk) = cell(&["workload", "--pairs", "0", "--out", "-"], b"");
    assert_eq!(code, Some(1));
    assert!(talk.contains("at least one pair"), "{talk}");
}
