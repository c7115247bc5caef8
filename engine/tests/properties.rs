//! What must hold of any sequence of commands.
//!
//! Sequences come from [`generate`]: few prices, pairs, users and ids, so that everything meets
//! everything. [`support::Twins`] holds both books and a model of the store together after each
//! command; [`ledger`] is a consumer that knows only the events; [`oracle`] decides the same
//! commands a third time, with decimal numbers and a list.
//!
//! The invariants that any book must keep, and who looks after them here:
//!
//! 1. every member in a price index has a record: `support::store`
//! 2. every open record has one member, on the correct side: `support::store`
//! 3. executed buy volume equals executed sell volume, trade by trade: `ledger`
//! 4. no remaining volume is negative: `ledger`
//! 5. orders at one price come back in submission order: `support::store` and `oracle`

#[path = "properties/generate.rs"]
mod generate;
#[path = "properties/ledger.rs"]
mod ledger;
#[path = "properties/oracle.rs"]
mod oracle;
#[path = "properties/spell.rs"]
mod spell;
mod support;

use conductor_engine::units::{Price, Quantity, quote_amount};
use conductor_engine::{Decimal, Incoming, PairDecimals, Side};
use generate::{Driver, Move, cell, moves};
use ledger::Ledger;
use oracle::Oracle;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rust_decimal::{Decimal as Exact, RoundingStrategy};
use std::collections::BTreeMap;
use support::{Decided, Twins};

fn config(cases: u32) -> Config {
    Config {
        failure_persistence: None,
        ..Config::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(1000))]

    #[test]
    fn any_sequence_keeps_every_invariant(moves in prop::collection::vec(moves(), 1..80)) {
        run(&moves, |_, _| {});
    }
}

proptest! {
    #![proptest_config(config(24))]

    /// Long enough for slots and levels to be used again many times over.
    #[test]
    fn a_long_sequence_keeps_every_invariant(moves in prop::collection::vec(moves(), 600..900)) {
        run(&moves, |_, _| {});
    }
}

proptest! {
    #![proptest_config(config(4096))]

    /// Within the 28 digits that the oracle can hold.
    #[test]
    fn quote_amounts_are_those_of_decimal_arithmetic(
        ticks in 1_u64..1_000_000_000_000_000,
        lots in 1_u64..1_000_000_000_000,
        price in 0_u8..=12,
        amount in 0_u8..=12,
        quote in 0_u8..=18,
    ) {
        let decimals = PairDecimals { price, amount, quote };
        let (ticks, lots) = (Price::new(ticks).unwrap(), Quantity::new(lots).unwrap());
        let written = |decimal: Decimal| decimal.to_string().parse::<Exact>().unwrap();
        let product = written(Decimal::of_price(ticks, decimals))
            .checked_mul(written(Decimal::of_quantity(lots, decimals)))
            .unwrap();
        for (maker, strategy) in [
            (Side::Ask, RoundingStrategy::AwayFromZero),
            (Side::Bid, RoundingStrategy::ToZero),
        ] {
            let expected = product.round_dp_with_strategy(quote.into(), strategy);
            let rounded = quote_amount(lots, ticks, decimals, maker);
            let rounded = Decimal::of_quote(rounded, decimals).to_string();
            prop_assert_eq!(rounded, expected.normalize().to_string());
        }
    }
}

/// A generator that never reaches a rule does not test it.
#[test]
fn the_sequences_reach_every_outcome_often() {
    let mut runner = TestRunner::deterministic();
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    for _ in 0..60 {
        let tree = prop::collection::vec(moves(), 60..80).new_tree(&mut runner);
        run(&tree.expect("a sequence").current(), |_, decided| {
            let mut seen = vec![decided.result.status.code()];
            seen.extend(decided.result.reason.map(|reason| reason.code()));
            seen.extend(decided.events.iter().map(|event| event.payload.kind()));
            for outcome in &decided.result.outcomes {
                seen.push(outcome.kind.code());
                seen.extend(outcome.reason.map(|reason| reason.code()));
            }
            for word in seen {
                *counts.entry(word).or_default() += 1;
            }
        });
    }
    let words = [
        "accepted",
        "unchanged",
        "rejected",
        "deal.executed.v1",
        "order.rested.v1",
        "order.amended.v1",
        "order.closed.v1",
        "order.rejected.v1",
        "command.rejected.v1",
        "filled",
        "rested",
        "cancelled",
        "amended",
        "ioc-remainder",
        "duplicate-order",
        "already-closed",
        "unknown-order",
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
    for word in words {
        let count = counts.get(word).copied().unwrap_or_default();
        assert!(count >= 10, "{word} came up {count} times: {counts:?}");
    }
}

/// Sends a sequence and checks everything after each command.
fn run(moves: &[Move], mut look: impl FnMut(&Incoming, &Decided)) {
    let mut twins = Twins::new(cell());
    let (mut driver, mut ledger) = (Driver::default(), Ledger::default());
    let mut oracle = Oracle::new(cell());
    for step in moves {
        let incoming = driver.message(step, twins.book());
        let decided = twins.take(&incoming);
        oracle.check(&incoming, &decided);
        ledger.follow(&incoming, &decided);
        ledger.check_against(twins.book());
        look(&incoming, &decided);
    }
}
