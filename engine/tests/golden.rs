//! Golden traces: books that a trader can read and agree with.
//!
//! Each file of `tests/golden` is prose (lines that begin with `#`), commands in the language of
//! [`script`], `----`, and what must come of them: each command's result, its events one a line,
//! and the book as a ladder. A blank line ends a block; the next block goes on with the same book.
//!
//! Every trace runs on the fast book and on the naive book at once. With `CONDUCTOR_GOLDEN=rewrite`
//! in the environment the files are written anew instead of compared; read the difference before
//! you keep it.

mod script;
mod support;

use conductor_engine::matching::Cell;
use conductor_engine::{Book, PartitionId};
use script::{Line, Reader, draw_book, draw_decided};
use std::path::{Path, PathBuf};
use support::Twins;

const DIVIDER: &str = "----";

#[test]
fn every_trace_reads_as_it_was_agreed() {
    let rewrite = std::env::var("CONDUCTOR_GOLDEN").is_ok_and(|word| word == "rewrite");
    let mut different = Vec::new();
    for path in traces() {
        let agreed = read(&path);
        let now = run(&agreed);
        if now == agreed {
            continue;
        }
        if rewrite {
            std::fs::write(&path, &now).expect("a trace can be written");
        } else {
            different.push(difference(&path, &agreed, &now));
        }
    }
    assert!(
        different.is_empty(),
        "{}\nIf the new text is right, run again with CONDUCTOR_GOLDEN=rewrite.",
        different.join("\n")
    );
}

/// What nobody shows, nobody has agreed to.
#[test]
fn the_traces_show_every_word_of_the_rules() {
    let all: String = traces().iter().map(|path| shown(&read(path))).collect();
    let words = [
        "deal.executed",
        "order.rested",
        "order.amended",
        "order.closed",
        "order.rejected",
        "command.rejected",
        " accepted",
        " unchanged",
        " rejected",
        " filled",
        " rested",
        " cancelled",
        " amended",
        " ioc-remainder",
        " duplicate-order",
        " already-closed",
        " unknown-order",
        "insufficient-liquidity",
        "decimals-mismatch",
        "price-precision",
        "volume-precision",
        "price-out-of-range",
        "volume-out-of-range",
        "malformed",
        "wrong-partition",
        "bot-against-bot",
        "batch-too-large",
    ];
    let missing: Vec<&str> = words
        .into_iter()
        .filter(|word| !all.contains(word))
        .collect();
    assert!(missing.is_empty(), "no trace shows {missing:?}");
}

/// A page that shows a book shows one that was run.
#[test]
fn the_rules_page_shows_a_trace_as_it_is() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = read(&folder.join("README.md"));
    let trace = read(&folder.join("tests/golden/00-a-first-look.txt"));
    assert!(page.contains(&format!("```text\n{trace}```")));
}

fn traces() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let entries = std::fs::read_dir(&folder).expect("the folder of traces");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable entry").path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "txt"))
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "there are no traces in {folder:?}");
    paths
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}

/// The lines behind the dividers.
fn shown(trace: &str) -> String {
    let blocks = trace.split("\n\n");
    let shown = blocks.filter_map(|block| block.split_once(DIVIDER));
    shown.map(|(_, output)| output).collect()
}

/// The whole text of a trace, with what comes of its commands now.
fn run(trace: &str) -> String {
    let mut reader = Reader::default();
    let mut cell = Cell::single();
    let mut twins: Option<Twins> = None;
    let mut blocks = Vec::new();
    for block in trace.trim_end().split("\n\n") {
        let asked: Vec<&str> = block.lines().take_while(|line| *line != DIVIDER).collect();
        let mut text: Vec<String> = asked.iter().map(|line| (*line).to_owned()).collect();
        let mut output = Vec::new();
        for line in asked.iter().filter(|line| !line.starts_with('#')) {
            match reader.read(line) {
                Line::Decimals => {}
                Line::Cell { partition, count } => {
                    assert!(twins.is_none(), "the cell is set behind a command: {line}");
                    cell.partition = PartitionId(partition);
                    cell.partition_count = count;
                }
                Line::Configure { pair, decimals } => {
                    assert!(twins.is_none(), "a pair is set behind a command: {line}");
                    cell.pairs.insert(pair, decimals);
                }
                Line::Message(incoming) => {
                    let twins = twins.get_or_insert_with(|| Twins::new(cell.clone()));
                    output.extend(draw_decided(&twins.take(&incoming)));
                }
            }
        }
        if let Some(twins) = twins.as_ref().filter(|_| !output.is_empty()) {
            let pairs = twins.book().pairs();
            let books = pairs.iter().flat_map(|pair| draw_book(twins.book(), *pair));
            text.push(DIVIDER.to_owned());
            text.extend(output.into_iter().chain(books));
        }
        blocks.push(text.join("\n"));
    }
    blocks.join("\n\n") + "\n"
}

/// The first line that differs, with its number.
fn difference(path: &Path, agreed: &str, now: &str) -> String {
    let name = path.file_name().unwrap_or_default().display();
    let (mut old, mut new) = (agreed.lines(), now.lines());
    for number in 1.. {
        let (left, right) = (old.next(), new.next());
        if left != right || left.is_none() {
            let end = "(the end)";
            let (left, right) = (left.unwrap_or(end), right.unwrap_or(end));
            return format!("{name}, line {number}\n  agreed: {left}\n  now:    {right}");
        }
    }
    unreachable!("one of two different texts has a line that differs")
}
