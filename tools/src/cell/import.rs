//! `cell import`: real order flow into a trace.

mod lobster;

use super::Output;
use clap::Subcommand;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Example:
  cell import lobster AAPL_2012-06-21_message_10.csv AAPL_2012-06-21_orderbook_10.csv --out t.jsonl
  cell replay t.jsonl";

/// Make a trace of recorded order flow
///
/// A trace is what `cell replay` reads and `cell send` sends: commands as JSON, one a line.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    #[command(subcommand)]
    source: Source,
}

/// Where the order flow was recorded.
#[derive(Debug, Subcommand)]
enum Source {
    Lobster(lobster::Args),
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    match &args.source {
        Source::Lobster(args) => lobster::run(args, output),
    }
}
