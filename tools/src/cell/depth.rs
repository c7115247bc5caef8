//! `cell depth`: the best levels of a pair.

use super::pages::PagesArgs;
use super::{EXIT_DONE, Output, table};
use anyhow::Context;
use conductor_engine::PairId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::process::ExitCode;

const AFTER_HELP: &str = "\
Examples:
  cell depth --pair 12
  cell depth --pair 12 --levels 50 --json
  cell depth --pair 12 --admin http://127.0.0.1:9601 --admin http://127.0.0.1:9611

Only the conductor that owns the pair's partition has its book; of several, that one answers.";

/// Show the best levels of a pair's book, as its owner has them in memory
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The pair
    #[arg(long, value_name = "NUMBER")]
    pair: u32,
    /// Levels of each side
    #[arg(long, value_name = "COUNT", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    levels: u32,
    #[command(flatten)]
    pages: PagesArgs,
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let pages = args.pages.for_pair(PairId(args.pair))?;
    let page = format!("/depth?pairId={}&levels={}", args.pair, args.levels);
    let answer = pages.first(&page)?;
    output.result(&Depth::read(answer)?)?;
    Ok(ExitCode::from(EXIT_DONE))
}

/// The best levels of a pair: the page's answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Depth {
    pub(super) pair_id: u32,
    partition: u32,
    pub(super) bids: Vec<Level>,
    pub(super) asks: Vec<Level>,
}

/// One price and what rests there.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Level {
    pub(super) price: String,
    pub(super) volume: String,
    pub(super) orders: u64,
}

impl Depth {
    pub(super) fn read(answer: Value) -> anyhow::Result<Self> {
        serde_json::from_value(answer).context("the page's answer is no depth")
    }
}

impl fmt::Display for Depth {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "pair {}, partition {}", self.pair_id, self.partition)?;
        let cells = |level: Option<&Level>| match level {
            Some(level) => [
                level.orders.to_string(),
                level.volume.clone(),
                level.price.clone(),
            ],
            None => [const { String::new() }; 3],
        };
        let rows = (0..self.bids.len().max(self.asks.len())).map(|place| {
            let [bid_orders, bid_volume, bid] = cells(self.bids.get(place));
            let [ask_orders, ask_volume, ask] = cells(self.asks.get(place));
            [bid_orders, bid_volume, bid, ask, ask_volume, ask_orders]
        });
        let head = ["orders", "volume", "bid", "ask", "volume", "orders"];
        writeln!(out, "{}", table(head, rows))
    }
}
