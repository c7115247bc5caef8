//! The owner's memory beside the oracle, as its admin pages show it.

use super::findings::Findings;
use crate::client::{Pages, PagesError};
use crate::tester::oracle::Oracle;
use conductor_engine::limits::DEPTH_LEVELS_MAX;
use conductor_engine::{Book, Decimal, NaiveBook, PairDecimals, PairId, Side};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Between two questions to a page that cannot answer yet.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Compares every pair of every partition: its levels, and whether memory, index and records agree.
pub(super) async fn compare(
    pages: &Pages,
    oracle: &Oracle,
    findings: &mut Findings,
    give_up: Instant,
) -> Result<(), PagesError> {
    for partition in oracle.partitions() {
        let book = oracle.book(partition);
        for pair in book.pairs() {
            let ask = async |page: String| loop {
                let owner = pages.owner_first(partition);
                match owner.first(&page) {
                    Err(_) if Instant::now() < give_up => tokio::time::sleep(ASK_EVERY).await,
                    answer => break answer,
                }
            };
            let depth = ask(format!("/depth?pairId={pair}&levels={DEPTH_LEVELS_MAX}")).await?;
            compare_depth(book, pair, &depth, findings);
            let reconciled = ask(format!("/reconcile?pairId={pair}")).await?;
            compare_reconciled(book, pair, &reconciled, findings);
        }
    }
    Ok(())
}

fn compare_depth(book: &NaiveBook, pair: PairId, depth: &Value, findings: &mut Findings) {
    let decimals = book.decimals(pair).expect("a pair of a book has decimals");
    for (name, side) in [("bids", Side::Bid), ("asks", Side::Ask)] {
        let expected = levels(book, pair, side, decimals);
        let found = &depth[name];
        findings.compare(*found == expected, || {
            format!("the {name} of pair {pair} in memory: expected {expected}, found {found}")
        });
    }
}

fn levels(book: &NaiveBook, pair: PairId, side: Side, decimals: PairDecimals) -> Value {
    let levels = book.levels(pair, side, DEPTH_LEVELS_MAX);
    let level = |level: &conductor_engine::book::PriceLevel| {
        json!({
            "price": Decimal::of_price(level.price, decimals).to_string(),
            "volume": Decimal::exact(level.lots, decimals.amount).to_string(),
            "orders": level.orders,
        })
    };
    levels.iter().map(level).collect()
}

fn compare_reconciled(book: &NaiveBook, pair: PairId, page: &Value, findings: &mut Findings) {
    let sides = [Side::Bid, Side::Ask];
    let orders: usize = sides
        .iter()
        .map(|side| book.orders(pair, *side).len())
        .sum();
    findings.compare(page["healthy"] == true, || {
        format!("pair {pair} does not reconcile: {page}")
    });
    findings.compare(page["indexedOrders"] == orders, || {
        format!("pair {pair}: {orders} orders rest, and /reconcile says {page}")
    });
}
