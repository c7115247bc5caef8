//! `cell import lobster`: a LOBSTER message file and its book file into a trace.

use crate::cell::files::{create, is_standard, open, writing};
use crate::cell::output::{Table, table};
use crate::cell::{EXIT_DONE, EXIT_FAILED, Output};
use crate::lobster::{
    Agreement, Imported, Omitted, Options, Origin, Recording, check, convert, read,
};
use crate::trace::write_command;
use anyhow::Context;
use conductor_engine::limits::TIMESTAMP_END;
use conductor_engine::{FastBook, NaiveBook, PairId};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const MILLISECONDS_PER_DAY: u64 = 86_400_000;
const AFTER_HELP: &str = "\
Examples:
  cell import lobster AAPL_2012-06-21_message_10.csv AAPL_2012-06-21_orderbook_10.csv --out t.jsonl
  cell import lobster AAPL_2012-06-21_message_10.csv AAPL_2012-06-21_orderbook_10.csv --check

What was in the book before the file begins is placed first. A visible execution becomes an
immediate-or-cancel order of the other side, with the resting order's price as its limit. A
reduction becomes an amend and a deletion a cancel. Hidden executions are left out and counted.";

/// Make a trace of a LOBSTER recording: its message file and its book file
///
/// Order ids of the recording stay as they are. With --check the trace is also replayed in memory
/// and compared: the best bid and ask after each message with the book file, and every visible
/// execution with the deals that came of it. The command then fails (1) if fewer than 95 % of the
/// rows agree (950 of 999), or if an order that the recording places does not trade exactly as it
/// says.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The message file
    messages: PathBuf,
    /// The book file of the same recording
    book: PathBuf,
    /// Write the trace to this file; `-` writes to stdout, and the report then goes to stderr
    #[arg(long, value_name = "TRACE", required_unless_present = "check")]
    out: Option<PathBuf>,
    /// Replay the trace and compare it with the recording
    #[arg(long)]
    check: bool,
    /// Compare on the slow and obvious book instead of the fast one
    #[arg(long, requires = "check")]
    naive: bool,
    /// The pair that the commands are for
    #[arg(long, default_value_t = 1)]
    pair: u32,
    /// The day of the recording, unless the message file's name holds it
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    day: Option<Day>,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let recording = recording(args)?;
    let Some(day) = args.day.or_else(|| day_in_name(&args.messages)) else {
        anyhow::bail!(
            "the name of {} holds no day; add --day YYYY-MM-DD",
            args.messages.display()
        );
    };
    let options = Options {
        pair: PairId(args.pair),
        midnight: day.0,
    };
    let imported = convert(&recording, options)?;
    if let Some(path) = &args.out {
        write(path, &imported)?;
    }
    let agreement = if args.check {
        Some(if args.naive {
            check::<NaiveBook>(&recording, &imported)?
        } else {
            check::<FastBook>(&recording, &imported)?
        })
    } else {
        None
    };
    let report = Report::of(&recording, &imported, agreement);
    if args.out.as_deref().is_some_and(is_standard) {
        output.note(&report);
    } else {
        output.result(&report)?;
    }
    let holds = report.agreement.as_ref().is_none_or(Agreement::holds);
    Ok(ExitCode::from(if holds { EXIT_DONE } else { EXIT_FAILED }))
}

fn recording(args: &Args) -> anyhow::Result<Recording> {
    let (messages, _) = open(&args.messages)?;
    let (book, _) = open(&args.book)?;
    let files = || {
        let (messages, book) = (args.messages.display(), args.book.display());
        format!("{messages} and {book}")
    };
    read(messages, book).with_context(files)
}

fn write(path: &Path, imported: &Imported) -> anyhow::Result<()> {
    let mut out = create(path)?;
    for each in &imported.commands {
        write_command(&each.command, &mut out).with_context(|| writing(path))?;
    }
    out.flush().with_context(|| writing(path))
}

/// Midnight of a day, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Day(u64);

/// The first part of the file's name that is a day, as in `AAPL_2012-06-21_message_10.csv`.
fn day_in_name(path: &Path) -> Option<Day> {
    let name = path.file_name()?.to_str()?;
    name.split('_').find_map(|part| day(part).ok())
}

fn day(text: &str) -> Result<Day, &'static str> {
    const PROBLEM: &str = "give a day of the years 1970 to 2099 as YYYY-MM-DD";
    let shaped = text.len() == 10
        && text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if !shaped {
        return Err(PROBLEM);
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<u64>().map_err(|_| PROBLEM);
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let days = days_since_1970(year, month, day).ok_or(PROBLEM)?;
    let midnight = days * MILLISECONDS_PER_DAY;
    if midnight >= TIMESTAMP_END {
        return Err(PROBLEM);
    }
    Ok(Day(midnight))
}

fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    const MONTHS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let leap = |year: u64| {
        u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)))
    };
    let index = usize::try_from(month.checked_sub(1)?).ok()?;
    let length = MONTHS.get(index)? + if month == 2 { leap(year) } else { 0 };
    if year < 1970 || day == 0 || day > length {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + leap(year)).sum();
    let months: u64 = MONTHS[..index].iter().sum();
    let leap_day = if month > 2 { leap(year) } else { 0 };
    Some(years + months + leap_day + day - 1)
}

/// What an import came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    messages: usize,
    commands: usize,
    placed_before: usize,
    placed_unseen: usize,
    omitted: Omitted,
    agreement: Option<Agreement>,
    holds: Option<bool>,
}

impl Report {
    fn of(recording: &Recording, imported: &Imported, agreement: Option<Agreement>) -> Self {
        let count = |wanted: fn(Origin) -> bool| {
            let commands = imported.commands.iter();
            commands.filter(|each| wanted(each.origin)).count()
        };
        Self {
            messages: recording.messages.len(),
            commands: imported.commands.len(),
            placed_before: count(|origin| origin == Origin::Before),
            placed_unseen: count(|origin| matches!(origin, Origin::Unseen(_))),
            omitted: imported.omitted,
            holds: agreement.as_ref().map(Agreement::holds),
            agreement,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let omitted = &self.omitted;
        writeln!(out, "{:>8}  messages read", self.messages)?;
        writeln!(out, "{:>8}  commands", self.commands)?;
        writeln!(
            out,
            "{:>8}    for orders that were there before the file begins",
            self.placed_before
        )?;
        writeln!(
            out,
            "{:>8}    for orders that came beyond the levels that the file shows",
            self.placed_unseen
        )?;
        for (count, what) in [
            (omitted.hidden_executions, "hidden executions left out"),
            (omitted.crosses, "auction trades left out"),
            (omitted.halts, "trading halts left out"),
            (
                omitted.without_effect,
                "withdrawals of nothing that is left",
            ),
        ] {
            if count > 0 {
                writeln!(out, "{count:>8}  {what}")?;
            }
        }
        match &self.agreement {
            Some(agreement) => agreement.fmt(out),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "\nBest bid and ask agree with the book file in {} of {} rows; at least {} must.\n\
             Their sizes agree, too, in {}.",
            self.agreeing, self.rows, self.agreeing_min, self.agreeing_in_size
        )?;
        writeln!(
            out,
            "Visible executions as the file says, of orders that it places: {} of {}; of others: \
             {} of {}.",
            self.executions_told_exact,
            self.executions_told,
            self.executions_untold_exact,
            self.executions_untold
        )?;
        if !self.disagreements.is_empty() {
            writeln!(out, "\n{}", disagreements(self).trim_fmt())?;
        }
        if !self.executions_different.is_empty() {
            writeln!(out, "\n{}", executions(self).trim_fmt())?;
        }
        Ok(())
    }
}

fn disagreements(agreement: &Agreement) -> Table {
    let mut table = table(["rows", "side", "book file", "replay", "cause"]);
    let price = |price: &Option<String>| price.clone().unwrap_or_else(|| "none".to_owned());
    let mut by_cause: Vec<_> = agreement.disagreements.iter().collect();
    by_cause.sort_by_key(|each| (each.cause, each.first_row));
    for each in by_cause {
        table.add_row([
            if each.first_row == each.last_row {
                each.first_row.to_string()
            } else {
                format!("{} to {}", each.first_row, each.last_row)
            },
            each.side.to_owned(),
            price(&each.file),
            price(&each.replay),
            each.cause.to_owned(),
        ]);
    }
    table
}

fn executions(agreement: &Agreement) -> Table {
    let mut table = table(["line", "resting order", "file", "deals of the replay"]);
    for each in &agreement.executions_different {
        table.add_row([
            each.line.to_string(),
            each.order.clone(),
            each.file.clone(),
            each.replay.clone(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(day("1970-01-01"), Ok(Day(0)));
        assert_eq!(day("2012-06-21"), Ok(Day(1_340_236_800_000)));
        assert_eq!(day("2000-02-29"), Ok(Day(951_782_400_000)));
        assert_eq!(day("2000-03-01"), Ok(Day(951_868_800_000)));
        for text in [
            "2012-6-21",
            "2012-13-01",
            "2011-02-29",
            "2100-01-01",
            "1969-12-31",
            "2012-01-00",
            "day",
        ] {
            assert!(day(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_day_is_found_in_the_name() {
        let path = Path::new("/data/2013-01-01/AAPL_2012-06-21_message_10.csv");
        assert_eq!(day_in_name(path), day("2012-06-21").ok());
        assert_eq!(day_in_name(Path::new("AAPL_message_10.csv")), None);
    }
}
