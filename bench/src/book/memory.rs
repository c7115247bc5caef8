//! What this thread has allocated, and what a resting order takes of it.
//!
//! The counts are the allocator's own and by its size classes, so that what it rounds up counts.

use super::market::{DECIMALS, PAIR};
use conductor_engine::book::RestingOrder;
use conductor_engine::units::{Price, Quantity, QuoteAmount};
use conductor_engine::{Book, FastBook, OrderId, Side, Timestamp, UserId};
use serde::Serialize;
use tikv_jemalloc_ctl::thread;

/// Prices that the orders are spread over.
const PRICES: u64 = 10_000;
/// The start of 2026.
const TIME: Timestamp = Timestamp::new(1_767_225_600_000).expect("before the year 2100");

/// How much this thread had allocated at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocated(u64);

impl Allocated {
    #[inline]
    pub(crate) fn now() -> Self {
        Self(counter().0)
    }

    /// Bytes that it has allocated since, freed or not.
    #[inline]
    pub(crate) fn since(self) -> u64 {
        counter().0 - self.0
    }
}

thread_local! {
    static COUNTERS: (thread::ThreadLocal<u64>, thread::ThreadLocal<u64>) = (
        thread::allocatedp::read().expect("the allocator counts"),
        thread::deallocatedp::read().expect("the allocator counts"),
    );
}

/// Bytes allocated and freed by this thread.
#[inline]
fn counter() -> (u64, u64) {
    COUNTERS.with(|(allocated, freed)| (allocated.get(), freed.get()))
}

/// Bytes of one resting order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PerOrder {
    pub(crate) orders: usize,
    pub(crate) ids: &'static str,
    pub(crate) bytes: f64,
}

/// With ids and owners as long as a number, and as long as a UUID.
pub(crate) fn per_order(orders: usize) -> [PerOrder; 2] {
    let short = |number: usize| (format!("o-{number}"), format!("u-{number}"));
    let long = |number: usize| {
        (
            format!("{number:08x}-0000-4000-8000-{number:012x}"),
            format!("{number:08x}-0000-4000-9000-{number:012x}"),
        )
    };
    [
        measure(orders, "up to 23 characters", short),
        measure(orders, "UUIDs", long),
    ]
}

fn measure(orders: usize, ids: &'static str, name: fn(usize) -> (String, String)) -> PerOrder {
    let before = counter();
    let mut book = FastBook::default();
    book.fix_decimals(PAIR, DECIMALS);
    for number in 0..orders {
        let (id, user) = name(number);
        let order = order(number as u64, &id, &user);
        book.begin();
        book.insert(order).expect("each id rests once");
        book.keep();
    }
    let after = counter();
    let live = (after.0 - before.0) - (after.1 - before.1);
    assert_eq!(book.len(), orders);
    PerOrder {
        orders,
        ids,
        bytes: crate::figures::ratio(live, orders as u64),
    }
}

fn order(number: u64, id: &str, user: &str) -> RestingOrder {
    let volume = Quantity::new(1 + number % 1_000).expect("far below the end");
    RestingOrder {
        id: OrderId::new(id).expect("letters and digits"),
        user: Some(UserId::new(user).expect("letters and digits")),
        pair: PAIR,
        side: Side::Ask,
        price: Price::new(1 + number % PRICES).expect("far below the end"),
        volume,
        remaining: volume,
        quote_volume: QuoteAmount::default(),
        priority: number + 1,
        timestamp: TIME,
    }
}
