//! The store beside the oracle: every record, every index, and nothing else.

use super::AuditError;
use super::findings::Findings;
use crate::client::{Store, StoreError};
use crate::tester::oracle::Oracle;
use crate::tester::start::Standing;
use conductor_engine::book::RestingOrder;
use conductor_engine::{Book, Decimal, NaiveBook, PairDecimals, PairId, Side};
use conductor_io::keys::Keys;
use conductor_io::resp::Reply;
use conductor_io::wire::{read_pair, read_record};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Keys that one step of the scan may look at.
const SCAN_KEYS: &str = "5000";
/// Records that one packet reads.
const RECORDS: usize = 500;

/// Compares where a partition stands: cursor, halt, and that nothing waits in its streams.
pub(super) async fn standing(
    store: &mut Store,
    oracle: &Oracle,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let partition = store.keys().partition();
    let (expected, found) = (oracle.cursor(partition).clone(), store.cursor().await?);
    findings.compare(expected == found, || {
        format!("cursor of partition {partition}: expected {expected:?}, found {found:?}")
    });
    let guards = store.guards().await?;
    findings.compare(guards.halted.is_none(), || {
        format!("partition {partition} is halted: {:?}", guards.halted)
    });
    findings.compare(guards.event_stream == 0, || {
        format!(
            "partition {partition}: {} events wait in the stream and were never published",
            guards.event_stream
        )
    });
    let dead_letter = store.keys().dead_letter().to_owned();
    let replies = store
        .ask_all(|packer| packer.start(b"XLEN").part(dead_letter.as_bytes()).end())
        .await?;
    findings.compare(replies[0].integer() == Some(0), || {
        format!("partition {partition}: entries were put among the dead letters")
    });
    Ok(())
}

/// Compares a partition's whole book: pairs and their decimals, indexes, records.
pub(super) async fn book(
    store: &mut Store,
    oracle: &Oracle,
    before: &Standing,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let keys = store.keys().clone();
    let book = oracle.book(keys.partition());
    let pairs = book.pairs();
    let replies = store
        .ask_all(|packer| {
            packer
                .start(b"SMEMBERS")
                .part(keys.pairs().as_bytes())
                .end();
            for pair in &pairs {
                packer
                    .start(b"HGETALL")
                    .part(keys.pair(*pair).as_bytes())
                    .end();
            }
        })
        .await?;
    let members = replies[0].elements().unwrap_or_default();
    let found: BTreeSet<&str> = members.iter().filter_map(Reply::text).collect();
    let held = before.pairs.iter().map(u32::to_string);
    let texts: Vec<String> = pairs.iter().map(ToString::to_string).chain(held).collect();
    let expected: BTreeSet<&str> = texts.iter().map(String::as_str).collect();
    findings.compare(expected == found, || {
        format!(
            "the pairs of partition {}: expected {expected:?}, found {found:?}",
            keys.partition()
        )
    });
    for (pair, reply) in pairs.iter().zip(&replies[1..]) {
        let expected = book.decimals(*pair);
        let found = read_pair(reply).ok().flatten();
        findings.compare(expected == found, || {
            format!("the decimals of pair {pair}: expected {expected:?}, found {found:?}")
        });
        let decimals = expected.expect("a pair of a book has decimals");
        for side in [Side::Bid, Side::Ask] {
            index(store, book, (*pair, side), decimals, findings).await?;
        }
    }
    Ok(())
}

/// Compares one side's price index, and the record of each of its orders.
async fn index(
    store: &mut Store,
    book: &NaiveBook,
    (pair, side): (PairId, Side),
    decimals: PairDecimals,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let keys = store.keys().clone();
    let orders = book.orders(pair, side);
    let mut expected: BTreeMap<String, f64> = BTreeMap::new();
    for order in &orders {
        let price = Decimal::of_price(order.price, decimals).to_string();
        let score = price.parse().expect("a price is a number");
        expected.insert(Keys::member(side, order.priority, &order.id), score);
    }
    let key = keys.book(pair, side);
    let replies = store
        .ask_all(|packer| {
            packer
                .start(b"ZRANGE")
                .part(key.as_bytes())
                .part(b"0")
                .part(b"-1")
                .part(b"WITHSCORES")
                .end();
        })
        .await?;
    let elements = replies[0].elements().unwrap_or_default();
    let mut found: BTreeMap<&str, f64> = elements
        .chunks_exact(2)
        .filter_map(|pair| Some((pair[0].text()?, pair[1].text()?.parse().ok()?)))
        .collect();
    for (member, score) in &expected {
        let stands = found.remove(member.as_str());
        findings.compare(stands == Some(*score), || {
            format!("{key}, member {member}: expected score {score}, found {stands:?}")
        });
    }
    for (member, score) in found {
        findings
            .differ(|| format!("{key}: member {member} (score {score}) is none of the oracle's"));
    }
    for chunk in orders.chunks(RECORDS) {
        records(store, chunk, decimals, findings).await?;
    }
    Ok(())
}

async fn records(
    store: &mut Store,
    orders: &[RestingOrder],
    decimals: PairDecimals,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let keys = store.keys().clone();
    let replies = store
        .ask_all(|packer| {
            for order in orders {
                packer
                    .start(b"HGETALL")
                    .build(|key| keys.write_order(&order.id, key))
                    .end();
            }
        })
        .await?;
    for (order, reply) in orders.iter().zip(&replies) {
        let found = read_record(reply);
        let equal = matches!(&found, Ok(Some(record)) if record.decimals == decimals
            && record.priority == Some(order.priority)
            && record.clone().resting(order.priority) == *order);
        findings.compare(equal, || {
            format!(
                "record {}: expected {order:?}, found {found:?}",
                keys.order(&order.id)
            )
        });
    }
    Ok(())
}

/// How many keys of each kind a partition has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::tester) struct Found {
    /// `processed-command:`
    pub(super) results: u64,
    /// `accepted-order:`
    pub(super) accepted: u64,
    /// `order:`
    pub(super) records: u64,
    /// One that nobody knows.
    foreign: Option<String>,
}

/// Looks at every key of a store: as many as there must be, and none that nobody knows. Results are
/// not counted where they expire.
pub(super) async fn keys(
    store: &mut Store,
    expected: &Found,
    results_expire: bool,
    findings: &mut Findings,
) -> Result<(), AuditError> {
    let partition = store.keys().partition();
    let found = count_keys(store).await?;
    for (what, expected, found) in [
        ("results", expected.results, found.results),
        ("used order ids", expected.accepted, found.accepted),
        ("order records", expected.records, found.records),
    ] {
        let counts = !results_expire || what != "results";
        findings.compare(!counts || expected == found, || {
            format!("partition {partition} keeps {found} {what}, expected {expected}")
        });
    }
    if let Some(foreign) = found.foreign {
        findings.differ(|| format!("partition {partition} has a key that nobody knows: {foreign}"));
    }
    Ok(())
}

/// Counts the keys of each kind.
pub(in crate::tester) async fn count_keys(store: &mut Store) -> Result<Found, StoreError> {
    let mut seen = Seen::new(store.keys());
    let mut cursor = "0".to_owned();
    loop {
        let replies = store
            .ask_all(|packer| {
                packer
                    .start(b"SCAN")
                    .part(cursor.as_bytes())
                    .part(b"COUNT")
                    .part(SCAN_KEYS.as_bytes())
                    .end();
            })
            .await?;
        let Some([next, page]) = replies[0].elements() else {
            return Err(StoreError::Link {
                partition: store.keys().partition(),
                error: conductor_io::store::unexpected("SCAN"),
            });
        };
        for key in page.elements().unwrap_or_default() {
            seen.key(&String::from_utf8_lossy(key.bytes().unwrap_or_default()));
        }
        cursor = next.text().unwrap_or("0").to_owned();
        if cursor == "0" {
            return Ok(seen.found());
        }
    }
}

/// The keys that a scan showed, each counted once: a scan may show one twice. Of millions of keys
/// only a hash is kept.
struct Seen {
    prefixes: [String; 3],
    known: String,
    results: HashSet<u64>,
    accepted: HashSet<u64>,
    records: HashSet<u64>,
    foreign: Option<String>,
}

impl Seen {
    fn new(keys: &Keys) -> Self {
        let id = conductor_engine::CommandId::new("x").expect("an id");
        let order = conductor_engine::OrderId::new("x").expect("an id");
        let cut = |key: String| key[..key.len() - 1].to_owned();
        let pairs = keys.pairs();
        Self {
            prefixes: [
                cut(keys.processed_command(&id)),
                cut(keys.accepted_order(&order)),
                cut(keys.order(&order)),
            ],
            known: pairs[..pairs.len() - "pairs".len()].to_owned(),
            results: HashSet::new(),
            accepted: HashSet::new(),
            records: HashSet::new(),
            foreign: None,
        }
    }

    fn found(self) -> Found {
        let count = |kind: &HashSet<u64>| kind.len() as u64;
        Found {
            results: count(&self.results),
            accepted: count(&self.accepted),
            records: count(&self.records),
            foreign: self.foreign,
        }
    }

    fn key(&mut self, key: &str) {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        let [results, accepted, records] = &self.prefixes;
        if key.starts_with(results.as_str()) {
            self.results.insert(hash);
        } else if key.starts_with(accepted.as_str()) {
            self.accepted.insert(hash);
        } else if key.starts_with(records.as_str()) {
            self.records.insert(hash);
        } else if !key.starts_with(&self.known) && self.foreign.is_none() {
            self.foreign = Some(key.to_owned());
        }
    }
}
