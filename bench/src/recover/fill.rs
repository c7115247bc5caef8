//! A store as it is after a long life: orders at rest, and the records of commands and orders that
//! are never deleted.

use crate::connection::Connection;
use anyhow::ensure;
use conductor_engine::book::RestingOrder;
use conductor_engine::event::{CommandResult, Outcome, OutcomeKind, Status};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::units::QuoteAmount;
use conductor_engine::{
    CommandId, Decimal, OrderId, PairDecimals, PairId, PartitionId, Price, Quantity, Side,
    Timestamp, UserId,
};
use conductor_io::keys::Keys;
use conductor_io::wire::store_writes;
use std::sync::Arc;

pub(crate) const DECIMALS: PairDecimals = PairDecimals {
    price: 2,
    amount: 8,
    quote: 2,
};
/// The pairs over which the orders are spread.
pub(crate) const PAIRS: u32 = 8;
/// The start of 2026.
const START: u64 = 1_767_225_600_000;
const MID_TICKS: u64 = 1_000_000;
/// Prices of one side.
const PRICES: u64 = 5_000;
/// Writes that are sent before their replies are taken.
const AT_ONCE: usize = 2_000;

/// Fills an empty store with so many orders at rest, and with so many records of commands and
/// orders in all: each resting order brings two.
pub(crate) fn fill(store: &mut Connection, resting: u64, records: u64) -> anyhow::Result<()> {
    let mut filling = Filling {
        store,
        keys: Keys::new(PartitionId(0)),
        writes: Vec::new(),
    };
    for pair in 0..PAIRS {
        let (pair, decimals) = (PairId(pair), DECIMALS);
        filling.add(Write::Pair { pair, decimals })?;
    }
    let orders = (records / 2).max(resting);
    for number in 0..orders {
        if number < resting {
            let order = Arc::new(order(number));
            let decimals = DECIMALS;
            filling.add(Write::Rest { order, decimals })?;
        }
        let (order, command) = (order_id(number), command_id(number));
        filling.add(Write::Accepted {
            order: order.clone(),
            command: command.clone(),
        })?;
        filling.add(Write::Result(Arc::new(result(number, order, command))))?;
    }
    filling.add(Write::Cursor(Cursor {
        sequence: orders.max(1),
        priority: priority(orders),
        command: Some(command_id(orders.saturating_sub(1))),
    }))?;
    filling.flush()
}

struct Filling<'a> {
    store: &'a mut Connection,
    keys: Keys,
    writes: Vec<Write>,
}

impl Filling<'_> {
    fn add(&mut self, write: Write) -> anyhow::Result<()> {
        self.writes.push(write);
        if self.writes.len() >= AT_ONCE {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let mut bytes = Vec::new();
        let count = store_writes(&self.keys, &self.writes, None, &mut bytes);
        self.writes.clear();
        self.store.send(&bytes)?;
        for _ in 0..count {
            let reply = self.store.reply()?;
            ensure!(
                reply.error().is_none(),
                "the store refuses a write: {reply:?}"
            );
        }
        Ok(())
    }
}

fn priority(number: u64) -> u64 {
    START * 1_000 + number + 1
}

fn order_id(number: u64) -> OrderId {
    OrderId::new(&format!("o-{number:018}")).expect("letters and digits")
}

fn command_id(number: u64) -> CommandId {
    CommandId::new(&format!("c-{number:018}")).expect("letters and digits")
}

fn time(number: u64) -> Timestamp {
    Timestamp::new(START + number).expect("before the year 2100")
}

fn order(number: u64) -> RestingOrder {
    let step = 1 + number / u64::from(2 * PAIRS) % PRICES;
    let (side, ticks) = match number / u64::from(PAIRS) % 2 {
        0 => (Side::Ask, MID_TICKS + step),
        _ => (Side::Bid, MID_TICKS - step),
    };
    let volume = Quantity::new(100_000_000).expect("far below the end");
    RestingOrder {
        id: order_id(number),
        user: Some(UserId::new(&format!("u-{:06}", number % 10_000)).expect("an id")),
        pair: PairId(u32::try_from(number % u64::from(PAIRS)).unwrap_or_default()),
        side,
        price: Price::new(ticks).expect("near the mid"),
        volume,
        remaining: volume,
        quote_volume: QuoteAmount::default(),
        priority: priority(number),
        timestamp: time(0),
    }
}

fn result(number: u64, order: OrderId, command: CommandId) -> CommandResult {
    let remaining = Decimal::exact(1, 0);
    CommandResult {
        command,
        status: Status::Accepted,
        reason: None,
        outcomes: vec![Outcome {
            order,
            kind: OutcomeKind::Rested,
            remaining: Some(remaining),
            reason: None,
        }],
        sequences: Some((number + 1, number + 1)),
    }
}
