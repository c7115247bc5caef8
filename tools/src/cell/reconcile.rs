//! `cell reconcile`: does a pair's book agree with its store.

use super::pages::PagesArgs;
use super::{EXIT_DONE, EXIT_FAILED, Output, table};
use anyhow::Context;
use conductor_engine::PairId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell reconcile --pair 12
  cell reconcile --pair 12 --json

Each issue is SIDE:ORDER:WHAT. missing-order: the index names an order without a record;
index-mismatch: its record says another pair, side or price; memory-mismatch: the book in memory and
the store differ. Exit code 1: there is an issue, or the book was too long to look at all of it.";

/// Compare a pair's index, its records and the book in memory
///
/// The owner of the pair's partition compares its memory too; a standby compares index and records
/// alone. What looks wrong is read again in one transaction before it is reported, so a book that
/// moves gives no false issue.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The pair
    #[arg(long, value_name = "NUMBER")]
    pair: u32,
    #[command(flatten)]
    pages: PagesArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let pages = args.pages.for_pair(PairId(args.pair))?;
    let reconciled = Reconciled::read(pages.first(&format!("/reconcile?pairId={}", args.pair))?)?;
    output.result(&reconciled)?;
    Ok(ExitCode::from(if reconciled.healthy {
        EXIT_DONE
    } else {
        EXIT_FAILED
    }))
}

/// What the comparison found: the page's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reconciled {
    pub(super) pair_id: u32,
    partition: u32,
    pub(super) indexed_orders: u64,
    scanned_orders: u64,
    truncated: bool,
    pub(super) healthy: bool,
    pub(super) issues: Vec<String>,
}

impl Reconciled {
    pub(super) fn read(answer: Value) -> anyhow::Result<Self> {
        serde_json::from_value(answer).context("the page's answer is no reconciliation")
    }
}

impl fmt::Display for Reconciled {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.healthy {
            "healthy"
        } else {
            "NOT healthy"
        };
        writeln!(
            out,
            "pair {}, partition {}: {verdict}, {} of {} orders compared{}",
            self.pair_id,
            self.partition,
            self.scanned_orders,
            self.indexed_orders,
            if self.truncated {
                " (not all of them)"
            } else {
                ""
            }
        )?;
        if self.issues.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "{}",
            table(
                ["side", "order", "what"],
                self.issues.iter().map(|issue| parts(issue))
            )
        )
    }
}

/// An order's id may hold colons, the words around it do not.
fn parts(issue: &str) -> [String; 3] {
    let (side, rest) = issue.split_once(':').unwrap_or(("", issue));
    let (order, what) = rest.rsplit_once(':').unwrap_or((rest, ""));
    [side.to_owned(), order.to_owned(), what.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issue_is_read_around_its_order() {
        let read = parts("bid:a:b:index-mismatch");
        assert_eq!(read, ["bid", "a:b", "index-mismatch"].map(str::to_owned));
    }
}
