//! What somebody gets wrong: messages that must be parked, or refused for the record, while the
//! next command goes on as if nothing had been.
//!
//! Every kind is spelled from one good order by changing one thing, and none of them may change a
//! book: the workload follows its own market and knows nothing of these.

use conductor_engine::limits::{ID_BYTES_MAX, MESSAGE_BYTES_MAX, TIMESTAMP_END};
use conductor_engine::{OrderId, PairId, PartitionId};

/// What a wrong message is made of.
pub(super) struct Slip<'a> {
    /// Its number.
    pub(super) number: u64,
    /// Its prefix and number, which make its ids its own.
    pub(super) name: &'a str,
    /// A pair of the partition it goes to.
    pub(super) pair: PairId,
    /// A partition that is not the pair's.
    pub(super) elsewhere: PartitionId,
    /// An order id that is used up.
    pub(super) used: Option<&'a OrderId>,
}

/// A kind of wrong message: its name and how it is spelled.
pub(super) type Kind = (&'static str, fn(&Slip<'_>) -> Vec<u8>);

/// Every kind.
pub(super) const KINDS: &[Kind] = &[
    ("no JSON", |slip| format!("no JSON {}", slip.name).into()),
    ("nothing at all", |_| Vec::new()),
    ("a list", |slip| format!("[{}]", slip.number).into()),
    ("a byte order mark", |slip| {
        format!("\u{feff}{}", good(slip)).into()
    }),
    ("two commands at once", |slip| good(slip).repeat(2).into()),
    ("no text", |slip| {
        let mut bytes = good(slip).into_bytes();
        bytes.push(0xff);
        bytes
    }),
    ("lists in lists", |slip| {
        format!("{}{}", "[".repeat(10_000), slip.number).into()
    }),
    ("not a number", |slip| changed(slip, "\"1\"", "NaN")),
    ("no command id", |slip| {
        format!(r#"{{"type":"order.cancel","orderId":"{}"}}"#, slip.number).into()
    }),
    ("a command id with a space", |slip| {
        changed(slip, "\"poison-", "\"poison ")
    }),
    ("a command id that is too long", |slip| {
        let long = format!("\"{}poison-", "x".repeat(ID_BYTES_MAX));
        changed(slip, "\"poison-", &long)
    }),
    ("a command id twice", |slip| {
        let twice = format!(r#"{{"commandId":"poison-{}","#, slip.name);
        good(slip).replacen('{', &twice, 1).into()
    }),
    ("too large", |slip| {
        let mut bytes = good(slip).into_bytes();
        // One in eight: they stay in the parking queue for good.
        if slip.number.is_multiple_of(8) {
            bytes.resize(MESSAGE_BYTES_MAX + 1, b' ');
        } else {
            bytes.insert(0, b'}');
        }
        bytes
    }),
    ("a type that does not exist", |slip| {
        changed(slip, "order.place", "order.plaice")
    }),
    ("a field too many", |slip| {
        changed(slip, "\"pairId\"", "\"colour\":1,\"pairId\"")
    }),
    ("a field twice", |slip| {
        changed(slip, "\"price\":", "\"price\":\"1\",\"price\":")
    }),
    ("no timestamp", |slip| {
        changed(slip, "\"timestamp\":1767225600000,\"order\"", "\"order\"")
    }),
    ("a time after all times", |slip| {
        changed(slip, "1767225600000", &TIMESTAMP_END.to_string())
    }),
    ("a pair that cannot be", |slip| {
        let pair = format!("\"pairId\":{}", slip.pair);
        changed(slip, &pair, "\"pairId\":4294967296")
    }),
    ("an order id with a slash", |slip| {
        changed(slip, "\"order-", "\"order/")
    }),
    ("a side that does not exist", |slip| {
        changed(slip, "\"bid\"", "\"buy\"")
    }),
    ("a price of nothing", |slip| {
        changed(slip, "\"1\"", "\"0.00\"")
    }),
    ("a negative price", |slip| changed(slip, "\"1\"", "\"-1\"")),
    ("an exponent", |slip| changed(slip, "\"1\"", "\"1e3\"")),
    ("a float", |slip| changed(slip, "\"1\"", "1.5")),
    ("a leading zero", |slip| changed(slip, "\"2\"", "\"02\"")),
    ("decimals without end", |slip| {
        changed(slip, "\"priceDecimals\":2", "\"priceDecimals\":13")
    }),
    ("a price that is too fine", |slip| {
        changed(slip, "\"1\"", "\"1.255\"")
    }),
    ("a volume that is too fine", |slip| {
        changed(slip, "\"2\"", "\"0.000000001\"")
    }),
    ("a price beyond all prices", |slip| {
        changed(slip, "\"1\"", "\"10000000000000\"")
    }),
    ("another partition's", |slip| {
        let partition = format!("{{\"partition\":{},", slip.elsewhere);
        good(slip).replacen('{', &partition, 1).into()
    }),
    ("a cancel of what never was", |slip| {
        let order = format!("never-{}", slip.number);
        cancel(slip, &order)
    }),
    ("an order id once more", |slip| match slip.used {
        Some(used) => {
            let own = format!("order-{}", slip.name);
            changed(slip, &own, used.as_str())
        }
        None => cancel(slip, "never"),
    }),
    ("a batch with too many entries", |slip| {
        let cancels: Vec<String> = (0..501).map(|entry| format!("\"never-{entry}\"")).collect();
        format!(
            r#"{{"type":"orders.replace-batch","commandId":"poison-{}","pairId":{},"timestamp":1767225600000,"cancel":[{}],"place":[]}}"#,
            slip.name,
            slip.pair,
            cancels.join(",")
        )
        .into()
    }),
];

/// A good order, which none of the kinds leaves as it is.
fn good(slip: &Slip<'_>) -> String {
    let (name, pair) = (slip.name, slip.pair);
    format!(
        r#"{{"type":"order.place","commandId":"poison-{name}","pairId":{pair},"timestamp":1767225600000,"order":{{"id":"order-{name}","side":"bid","type":"limit","price":"1","volume":"2","userId":"u-1","priceDecimals":2,"amountDecimals":8,"quoteDecimals":2,"timestamp":1767225600000}}}}"#
    )
}

fn changed(slip: &Slip<'_>, from: &str, to: &str) -> Vec<u8> {
    good(slip).replacen(from, to, 1).into()
}

fn cancel(slip: &Slip<'_>, order: &str) -> Vec<u8> {
    format!(
        r#"{{"type":"order.cancel","commandId":"poison-{}","pairId":{},"timestamp":1767225600000,"orderId":"{order}"}}"#,
        slip.name, slip.pair
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tester::oracle::{Decision, Oracle, Shape};
    use crate::tester::start::Start;
    use conductor_engine::Book;
    use std::collections::{BTreeMap, BTreeSet};

    fn slip<'a>(number: u64, name: &'a str, used: Option<&'a OrderId>) -> Slip<'a> {
        Slip {
            number,
            name,
            pair: PairId(4),
            elsewhere: PartitionId(1),
            used,
        }
    }

    /// The first thirteen are no commands, the others are refused; no book is changed by any.
    #[test]
    fn none_of_them_changes_a_book_and_none_is_a_good_order() {
        let shape = Shape {
            partition_count: 2,
            pairs: BTreeMap::new(),
        };
        let mut oracle = Oracle::new(&shape, &Start::nothing(2));
        let here = PartitionId(0);
        let used = OrderId::new("used").expect("an id");
        let first = good(&slip(0, "t-0", None)).replace("order-t-0", "used");
        oracle
            .decide(here, first.as_bytes())
            .expect("it is decided");
        let mut parked = BTreeSet::new();
        for (place, (name, spell)) in KINDS.iter().enumerate() {
            // Both sizes of what is too large.
            for number in [8 * (place as u64 + 1), 8 * (place as u64 + 1) + 1] {
                let own = format!("t-{number}");
                let body = spell(&slip(number, &own, Some(&used)));
                let decided = oracle.decide(here, &body);
                match decided.expect("it is decided") {
                    Decision::Parked => {
                        parked.insert(*name);
                    }
                    Decision::Command { result, .. } => {
                        let text = String::from_utf8(result).expect("text");
                        assert!(!text.contains("accepted"), "{name}: {text}");
                    }
                }
                assert_eq!(oracle.book(here).len(), 1, "{name}");
            }
        }
        assert_eq!(parked.len(), 13, "{parked:?}");
    }
}
