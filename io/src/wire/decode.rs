//! From bytes to a command that is valid by construction.
//!
//! Two passes. The fast one reads a message straight into its types and stops at the first thing
//! that is not exactly as it must be; it builds no tree, copies no string, and every well-formed
//! command goes through it alone. Only what it stops at is read again, by [`explain`], which
//! finds out whether there is a command id to refuse, and says what to change. The fast pass
//! alone decides what is accepted. Objects are objects: the array that a derived reader would
//! take for one is refused, as are unknown, repeated and missing fields, and null but for
//! `userId`.

use super::explain::explain;
use super::spelled::{CommandKind, Entries, OrderType, Spelled};
use conductor_engine::limits::{BATCH_ENTRIES_MAX, MESSAGE_BYTES_MAX};
use conductor_engine::{
    Body, Command, CommandId, Decimal, Incoming, NewOrder, OrderId, OrderKind, PairDecimals,
    PairId, PartitionId, Side, TimeInForce, Timestamp, UserId,
};
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use std::fmt;

/// What a message is. Never fails and never panics, whatever the bytes.
pub fn decode(bytes: &[u8]) -> Incoming {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Incoming::Unusable(format!(
            "the message has {} bytes; send at most {MESSAGE_BYTES_MAX}",
            bytes.len()
        ));
    }
    match serde_json::from_slice(bytes) {
        Ok(Message(command)) => Incoming::Command(command),
        Err(_) => explain(bytes),
    }
}

/// A whole command, read by the fast pass.
struct Message(Command);

/// A whole order, read by the fast pass; the pass that explains uses it as the judge of one.
pub(super) struct Order(pub(super) NewOrder);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum MessageKey {
    Type,
    CommandId,
    PairId,
    Partition,
    Timestamp,
    Order,
    OrderId,
    Price,
    Volume,
    Cancel,
    Place,
}

#[derive(Default)]
struct MessageFields {
    kind: Option<Spelled<CommandKind>>,
    command: Option<Spelled<CommandId>>,
    pair: Option<u32>,
    partition: Option<u32>,
    timestamp: Option<u64>,
    order: Option<Order>,
    order_id: Option<Spelled<OrderId>>,
    price: Option<Spelled<Decimal>>,
    volume: Option<Spelled<Decimal>>,
    cancel: Option<Entries<Spelled<OrderId>>>,
    place: Option<Entries<Order>>,
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum OrderKey {
    Id,
    Side,
    Type,
    Price,
    Volume,
    UserId,
    PriceDecimals,
    AmountDecimals,
    QuoteDecimals,
    Timestamp,
    TimeInForce,
}

#[derive(Default)]
struct OrderFields {
    id: Option<Spelled<OrderId>>,
    side: Option<Spelled<Side>>,
    kind: Option<Spelled<OrderType>>,
    price: Option<Spelled<Decimal>>,
    volume: Option<Spelled<Decimal>>,
    user: Option<Option<Spelled<UserId>>>,
    price_decimals: Option<u8>,
    amount_decimals: Option<u8>,
    quote_decimals: Option<u8>,
    timestamp: Option<u64>,
    time_in_force: Option<Spelled<TimeInForce>>,
}

/// Reads a value into its slot, unless the slot is taken.
fn put<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
    slot: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(A::Error::custom("a field is named twice"));
    }
    *slot = Some(map.next_value()?);
    Ok(())
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(MessageVisitor)
    }
}

struct MessageVisitor;

impl<'de> Visitor<'de> for MessageVisitor {
    type Value = Message;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a command")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
        let mut fields = MessageFields::default();
        while let Some(key) = map.next_key()? {
            match key {
                MessageKey::Type => put(&mut fields.kind, &mut map),
                MessageKey::CommandId => put(&mut fields.command, &mut map),
                MessageKey::PairId => put(&mut fields.pair, &mut map),
                MessageKey::Partition => put(&mut fields.partition, &mut map),
                MessageKey::Timestamp => put(&mut fields.timestamp, &mut map),
                MessageKey::Order => put(&mut fields.order, &mut map),
                MessageKey::OrderId => put(&mut fields.order_id, &mut map),
                MessageKey::Price => put(&mut fields.price, &mut map),
                MessageKey::Volume => put(&mut fields.volume, &mut map),
                MessageKey::Cancel => put(&mut fields.cancel, &mut map),
                MessageKey::Place => put(&mut fields.place, &mut map),
            }?;
        }
        let command = fields.command();
        command.ok_or_else(|| A::Error::custom("the fields are no command"))
    }
}

impl MessageFields {
    fn command(self) -> Option<Message> {
        Some(Message(Command {
            pair: PairId(self.pair?),
            partition: self.partition.map(PartitionId),
            timestamp: Timestamp::new(self.timestamp?)?,
            id: self.command?.0,
            body: BodyFields {
                order: self.order,
                order_id: self.order_id,
                price: self.price,
                volume: self.volume,
                cancel: self.cancel,
                place: self.place,
            }
            .body(self.kind?.0)?,
        }))
    }
}

/// The fields that depend on what the command asks for.
struct BodyFields {
    order: Option<Order>,
    order_id: Option<Spelled<OrderId>>,
    price: Option<Spelled<Decimal>>,
    volume: Option<Spelled<Decimal>>,
    cancel: Option<Entries<Spelled<OrderId>>>,
    place: Option<Entries<Order>>,
}

impl BodyFields {
    /// `None` when a field lacks or one is there that this kind does not take.
    fn body(self, kind: CommandKind) -> Option<Body> {
        let unwanted = match kind {
            CommandKind::Place => self.names_an_order() || self.alters() || self.lists(),
            CommandKind::Cancel => self.order.is_some() || self.alters() || self.lists(),
            CommandKind::Amend => self.order.is_some() || self.lists(),
            CommandKind::Replace => self.order.is_some() || self.names_an_order() || self.alters(),
        };
        if unwanted {
            return None;
        }
        Some(match kind {
            CommandKind::Place => Body::Place(self.order?.0),
            CommandKind::Cancel => Body::Cancel {
                order: self.order_id?.0,
            },
            CommandKind::Amend => Body::Amend {
                order: self.order_id?.0,
                price: self.price.map(|price| price.0),
                volume: self.volume.map(|volume| volume.0),
            },
            CommandKind::Replace => {
                let (cancel, place) = (self.cancel?.0, self.place?.0);
                if cancel.len() + place.len() > BATCH_ENTRIES_MAX {
                    return None;
                }
                Body::Replace {
                    cancel: cancel.into_iter().map(|id| id.0).collect(),
                    place: place.into_iter().map(|order| order.0).collect(),
                }
            }
        })
    }

    const fn names_an_order(&self) -> bool {
        self.order_id.is_some()
    }

    const fn alters(&self) -> bool {
        self.price.is_some() || self.volume.is_some()
    }

    const fn lists(&self) -> bool {
        self.cancel.is_some() || self.place.is_some()
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_map(OrderVisitor)
    }
}

struct OrderVisitor;

impl<'de> Visitor<'de> for OrderVisitor {
    type Value = Order;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an order")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Order, A::Error> {
        let mut fields = OrderFields::default();
        while let Some(key) = map.next_key()? {
            match key {
                OrderKey::Id => put(&mut fields.id, &mut map),
                OrderKey::Side => put(&mut fields.side, &mut map),
                OrderKey::Type => put(&mut fields.kind, &mut map),
                OrderKey::Price => put(&mut fields.price, &mut map),
                OrderKey::Volume => put(&mut fields.volume, &mut map),
                OrderKey::UserId => put(&mut fields.user, &mut map),
                OrderKey::PriceDecimals => put(&mut fields.price_decimals, &mut map),
                OrderKey::AmountDecimals => put(&mut fields.amount_decimals, &mut map),
                OrderKey::QuoteDecimals => put(&mut fields.quote_decimals, &mut map),
                OrderKey::Timestamp => put(&mut fields.timestamp, &mut map),
                OrderKey::TimeInForce => put(&mut fields.time_in_force, &mut map),
            }?;
        }
        let order = fields.order();
        order.ok_or_else(|| A::Error::custom("the fields are no order"))
    }
}

impl OrderFields {
    fn order(self) -> Option<Order> {
        let decimals = PairDecimals {
            price: self.price_decimals?,
            amount: self.amount_decimals?,
            quote: self.quote_decimals?,
        };
        let kind = match (self.kind?.0, self.price, self.time_in_force) {
            (OrderType::Limit, Some(price), time_in_force) => OrderKind::Limit {
                price: price.0,
                time_in_force: time_in_force.map_or(TimeInForce::GoodTillCancelled, |word| word.0),
            },
            (OrderType::Market, None, None) => OrderKind::Market,
            _ => return None,
        };
        Some(Order(NewOrder {
            id: self.id?.0,
            user: self.user.flatten().map(|user| user.0),
            side: self.side?.0,
            kind,
            volume: self.volume?.0,
            decimals: Some(decimals).filter(|decimals| decimals.in_range())?,
            timestamp: Timestamp::new(self.timestamp?)?,
        }))
    }
}
