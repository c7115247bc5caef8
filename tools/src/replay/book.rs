//! The final book, as it is shown: pairs by number, best level and oldest order first.

use conductor_engine::book::RestingOrder;
use conductor_engine::{Book, Decimal, PairDecimals, PairId, Side};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::collections::BTreeMap;

/// All that rests in a cell. Pairs that traded and hold nothing now are there too, empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BookView {
    /// By pair.
    #[serde(serialize_with = "by_number")]
    pub pairs: BTreeMap<PairId, PairView>,
}

/// Both sides of a pair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PairView {
    /// Buy orders, highest price first.
    pub bids: Vec<QueueView>,
    /// Sell orders, lowest price first.
    pub asks: Vec<QueueView>,
}

/// One price and the orders that wait at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueView {
    /// The price, without trailing zeros.
    pub price: String,
    /// The orders, oldest first.
    pub orders: Vec<OrderView>,
}

/// One order at rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderView {
    /// Its id.
    pub id: String,
    /// What it has left, without trailing zeros.
    pub remaining: String,
}

impl BookView {
    /// The view of several books that share no pair.
    pub fn of<'a, B: Book + 'a>(books: impl Iterator<Item = &'a B>) -> Self {
        let mut pairs = BTreeMap::new();
        for book in books {
            for pair in book.pairs() {
                let Some(decimals) = book.decimals(pair) else {
                    continue;
                };
                let queues = |side| queues(book.orders(pair, side), decimals);
                let (bids, asks) = (queues(Side::Bid), queues(Side::Ask));
                pairs.insert(pair, PairView { bids, asks });
            }
        }
        Self { pairs }
    }

    /// The view as one line of JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a view holds nothing that JSON cannot say")
    }
}

fn queues(orders: Vec<RestingOrder>, decimals: PairDecimals) -> Vec<QueueView> {
    let mut queues: Vec<QueueView> = Vec::new();
    let mut last = None;
    for order in orders {
        let view = OrderView {
            id: order.id.to_string(),
            remaining: Decimal::of_quantity(order.remaining, decimals).to_string(),
        };
        match queues.last_mut().filter(|_| last == Some(order.price)) {
            Some(queue) => queue.orders.push(view),
            None => queues.push(QueueView {
                price: Decimal::of_price(order.price, decimals).to_string(),
                orders: vec![view],
            }),
        }
        last = Some(order.price);
    }
    queues
}

/// A map whose keys are numbers, in their order, spelled as JSON wants keys.
fn by_number<S: Serializer>(
    pairs: &BTreeMap<PairId, PairView>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(pairs.len()))?;
    for (pair, view) in pairs {
        map.serialize_entry(&pair.to_string(), view)?;
    }
    map.end()
}
