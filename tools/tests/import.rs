//! `cell import lobster`: a recording becomes a trace that trades as the recording says.
//!
//! The recording of `tests/import` is made up, three levels deep. It has every kind of message,
//! orders that were there before it begins, one that came beyond its levels, and one that it never
//! names. A real recording is held against its trace where `CONDUCTOR_LOBSTER_DIR` names a folder
//! with its two files.

use conductor_engine::{FastBook, NaiveBook, PairId};
use conductor_tools::lobster::{Agreement, Imported, Options, Recording, check, convert, read};
use conductor_tools::trace::write_command;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Midnight of the recording's day.
const MIDNIGHT: u64 = 1_577_923_200_000;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/import")
        .join(name)
}

fn messages() -> PathBuf {
    data("SYNTHETIC_2020-01-02_message_3.csv")
}

fn book() -> PathBuf {
    data("SYNTHETIC_2020-01-02_orderbook_3.csv")
}

fn import(messages: &Path, book: &Path) -> (Recording, Imported) {
    let open = |path: &Path| BufReader::new(File::open(path).expect("a file"));
    let recording = read(open(messages), open(book)).expect("a recording");
    let options = Options {
        pair: PairId(1),
        midnight: MIDNIGHT,
    };
    let imported = convert(&recording, options).expect("a trace");
    (recording, imported)
}

/// What the binary says of a recording, as JSON, and how it ends.
fn cell(messages: &Path, book: &Path, more: &[&str]) -> (Option<i32>, serde_json::Value) {
    let done = Command::new(env!("CARGO_BIN_EXE_cell"))
        .args(["--json", "import", "lobster"])
        .args([messages, book])
        .args(more)
        .output()
        .expect("cell runs");
    let report = serde_json::from_slice(&done.stdout).unwrap_or_default();
    (done.status.code(), report)
}

#[test]
fn the_made_up_recording_trades_as_it_says() {
    let (recording, imported) = import(&messages(), &book());
    let agreement = check::<FastBook>(&recording, &imported).expect("no halt");
    let disagreement = &agreement.disagreements;
    let rows: Vec<usize> = disagreement.iter().map(|each| each.first_row).collect();
    // An order that no message names is the best bid there.
    assert_eq!(rows, [40, 42]);
    for each in disagreement {
        assert_eq!((each.side, each.file.as_deref()), ("bid", Some("99.5")));
        assert_eq!(each.replay, None);
        assert!(each.cause.starts_with("an order that no message places"));
    }
    let expected = Agreement {
        rows: 43,
        agreeing: 41,
        agreeing_in_size: 41,
        agreeing_min: 41,
        disagreements: agreement.disagreements.clone(),
        executions_told: 9,
        executions_told_exact: 9,
        executions_untold: 9,
        executions_untold_exact: 9,
        executions_different: Vec::new(),
    };
    assert_eq!(agreement, expected);
    assert_eq!(
        check::<NaiveBook>(&recording, &imported).expect("no halt"),
        expected
    );
}

#[test]
fn what_was_there_before_comes_first_and_what_came_unseen_later() {
    let (_, imported) = import(&messages(), &book());
    let lines: Vec<String> = imported
        .commands
        .iter()
        .map(|each| {
            let mut line = Vec::new();
            write_command(&each.command, &mut line).expect("memory takes all");
            String::from_utf8(line).expect("a trace is text")
        })
        .collect();
    let text = |name: &str, line: &str| {
        let rest = line.split(&format!("\"{name}\":\"")).nth(1)?;
        rest.split('"').next().map(str::to_owned)
    };
    let placed: Vec<[String; 3]> = lines[..10]
        .iter()
        .map(|line| ["id", "price", "volume"].map(|name| text(name, line).unwrap_or_default()))
        .collect();
    let expected = [
        // Eleven trades before twelve, and thirteen is known by its executions alone.
        ["11", "100.2", "50"],
        ["12", "100.2", "30"],
        ["13", "100.3", "100"],
        // Five of the level's twenty-five belong to nobody that the messages name.
        ["14", "100.4", "20"],
        ["before-ask-1004000", "100.4", "5"],
        ["21", "100", "40"],
        ["22", "100", "60"],
        ["23", "99.9", "10"],
        // The first row does not reach down to it, but nothing rules it out.
        ["24", "99.8", "70"],
        // The file's first message.
        ["31", "100.1", "5"],
    ];
    assert_eq!(placed, expected);
    let unseen = lines.iter().position(|line| line.contains(r#""id":"45""#));
    assert!(unseen.is_some_and(|place| place > 20), "{unseen:?}");
    let reduced = r#""orderId":"32","volume":"10"}"#;
    assert!(
        lines
            .iter()
            .any(|line| line.contains("order.amend") && line.contains(reduced))
    );
    let time = "\"timestamp\":1577957400017";
    assert!(lines[9].contains(time), "{}", lines[9]);
    let omitted = imported.omitted;
    assert_eq!((omitted.hidden_executions, omitted.halts), (1, 1));
    assert_eq!((omitted.crosses, omitted.without_effect), (0, 0));
}

#[test]
fn the_command_writes_the_trace_and_fails_when_too_little_agrees() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.jsonl");
    let out = ["--out", trace.to_str().expect("a path")];
    let (code, report) = cell(&messages(), &book(), &out);
    assert_eq!(code, Some(0));
    let written = std::fs::read_to_string(&trace).expect("a trace");
    assert_eq!(report["commands"], written.lines().count());
    assert_eq!(report["agreement"], serde_json::Value::Null);
    let (code, report) = cell(&messages(), &book(), &["--check"]);
    assert_eq!((code, &report["holds"]), (Some(0), &true.into()));

    // One row more that differs is one too many: an order that rests is missing in row 30.
    let rows = std::fs::read_to_string(book()).expect("a book file");
    let mut rows: Vec<String> = rows.lines().map(str::to_owned).collect();
    let (best, others) = rows[29].split_once(',').expect("columns");
    assert_eq!(best, "1003600");
    rows[29] = format!("1003700,{others}");
    let altered = folder.path().join("book.csv");
    std::fs::write(&altered, rows.join("\n")).expect("it can be written");
    let (code, report) = cell(&messages(), &altered, &["--check", "--naive"]);
    assert_eq!((code, &report["holds"]), (Some(1), &false.into()));
    let found = report["agreement"]["disagreements"]
        .as_array()
        .expect("a list");
    let in_row_30: Vec<_> = found.iter().filter(|each| each["firstRow"] == 30).collect();
    let [only] = in_row_30.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(
        (&only["file"], &only["replay"]),
        (&"100.37".into(), &"100.36".into())
    );
    let cause = only["cause"].as_str().expect("a cause");
    assert!(
        cause.starts_with("the book file no longer shows"),
        "{cause}"
    );
}

#[test]
fn a_recording_without_a_day_asks_for_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let plain = folder.path().join("messages.csv");
    std::fs::copy(messages(), &plain).expect("a copy");
    assert_eq!(cell(&plain, &book(), &["--check"]).0, Some(1));
    let (code, _) = cell(&plain, &book(), &["--check", "--day", "2020-01-02"]);
    assert_eq!(code, Some(0));
    assert_eq!(
        cell(&plain, &book(), &["--check", "--day", "yesterday"]).0,
        Some(2)
    );
    assert_eq!(cell(&plain, &book(), &[]).0, Some(2));
}

/// The public sample: 999 messages, of which 94 trade an order that the file itself places.
#[test]
fn the_real_recording_agrees() {
    let Some(folder) = std::env::var_os("CONDUCTOR_LOBSTER_DIR").map(PathBuf::from) else {
        eprintln!("skipped: set CONDUCTOR_LOBSTER_DIR to a folder with a LOBSTER recording");
        return;
    };
    let find = |part: &str| {
        let entries = std::fs::read_dir(&folder).expect("the folder can be read");
        let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let named = |path: &PathBuf| path.to_string_lossy().contains(part);
        paths.find(named).expect("both files are in the folder")
    };
    let (recording, imported) = import(&find("_message_"), &find("_orderbook_"));
    let fast = check::<FastBook>(&recording, &imported).expect("no halt");
    assert!(fast.holds(), "{fast}");
    assert_eq!(
        check::<NaiveBook>(&recording, &imported).expect("no halt"),
        fast
    );
}
