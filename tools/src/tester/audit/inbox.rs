//! The inbox's projection beside the oracle's book.

use super::AuditError;
use super::findings::Findings;
use crate::tester::oracle::Oracle;
use crate::tester::record::Record;
use conductor_engine::book::RestingOrder;
use conductor_engine::{Book, Decimal, PairDecimals, PartitionId, Side};
use conductor_io::wire::decode_event;
use rust_decimal::Decimal as Amount;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Trades of each pair, as the oracle's events say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Traded(BTreeMap<u32, (u64, Amount, Amount)>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deal<'a> {
    volume: &'a str,
    quote_volume: &'a str,
}

impl Traded {
    /// Adds an event, if it is a trade.
    pub(super) fn add(&mut self, event: &[u8]) {
        let event = decode_event(event).expect("the oracle's events are events");
        if event.kind != "deal.executed.v1" {
            return;
        }
        let deal: Deal<'_> =
            serde_json::from_str(event.payload.get()).expect("the oracle's deals are deals");
        let pair = event.pair.expect("a trade has a pair").0;
        let number = |text| Amount::from_str_exact(text).unwrap_or_default();
        let sum = self.0.entry(pair).or_default();
        sum.0 += 1;
        sum.1 += number(deal.volume);
        sum.2 += number(deal.quote_volume);
    }

    /// How many trades there were.
    pub(super) fn deals(&self) -> u64 {
        self.0.values().map(|sum| sum.0).sum()
    }
}

/// An order as a consumer knows it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    partition: u32,
    pair: u32,
    side: String,
    user: Option<String>,
    price: String,
    remaining: String,
    priority: u64,
}

impl Row {
    fn of(order: &RestingOrder, decimals: PairDecimals, partition: PartitionId) -> Self {
        Self {
            partition: partition.0,
            pair: order.pair.0,
            side: order.side.name().to_owned(),
            user: order.user.as_ref().map(ToString::to_string),
            price: Decimal::of_price(order.price, decimals).to_string(),
            remaining: Decimal::of_quantity(order.remaining, decimals).to_string(),
            priority: order.priority,
        }
    }
}

/// Compares the projection: what rests.
pub(super) fn resting(record: &Record, oracle: &Oracle) -> Result<Findings, AuditError> {
    let mut findings = Findings::default();
    let reading = || -> rusqlite::Result<BTreeMap<String, Row>> {
        let query = "SELECT order_id, partition, pair, side, user, price, remaining, priority
                     FROM resting";
        let mut statement = record.connection().prepare(query)?;
        let rows = statement.query_map([], |row| {
            let order = Row {
                partition: row.get(1)?,
                pair: row.get(2)?,
                side: row.get(3)?,
                user: row.get(4)?,
                price: row.get(5)?,
                remaining: row.get(6)?,
                priority: row.get(7)?,
            };
            Ok((row.get(0)?, order))
        })?;
        rows.collect()
    };
    let mut rows = reading().map_err(|error| record.failed(error))?;
    for partition in oracle.partitions() {
        let book = oracle.book(partition);
        for pair in book.pairs() {
            let decimals = book.decimals(pair).expect("a pair of a book has decimals");
            for side in [Side::Bid, Side::Ask] {
                for order in book.orders(pair, side) {
                    let expected = Row::of(&order, decimals, partition);
                    let found = rows.remove(order.id.as_str());
                    findings.compare(found.as_ref() == Some(&expected), || {
                        format!(
                            "the inbox's order {}: expected {expected:?}, found {found:?}",
                            order.id
                        )
                    });
                }
            }
        }
    }
    for (order, row) in rows {
        findings.differ(|| format!("the inbox's order {order} does not rest: {row:?}"));
    }
    Ok(findings)
}

/// Compares the projection: what traded.
pub(super) fn traded(record: &Record, expected: &Traded) -> Result<Findings, AuditError> {
    let reading = || -> rusqlite::Result<Traded> {
        let query = "SELECT pair, deals, volume, quote_volume FROM traded";
        let mut statement = record.connection().prepare(query)?;
        let number = |text: String| Amount::from_str_exact(&text).unwrap_or_default();
        let rows = statement.query_map([], |row| {
            let sums = (row.get(1)?, number(row.get(2)?), number(row.get(3)?));
            Ok((row.get(0)?, sums))
        })?;
        rows.collect::<rusqlite::Result<_>>().map(Traded)
    };
    let mut found = reading().map_err(|error| record.failed(error))?;
    let mut findings = Findings::default();
    for (pair, sums) in &expected.0 {
        let row = found.0.remove(pair);
        findings.compare(row == Some(*sums), || {
            format!("the inbox's trades of pair {pair}: expected {sums:?}, found {row:?}")
        });
    }
    for (pair, sums) in found.0 {
        findings
            .differ(|| format!("the inbox has trades of pair {pair} that never were: {sums:?}"));
    }
    Ok(findings)
}
