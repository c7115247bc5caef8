//! Commands as a producer spells them: for the tools, and the inverse of decoding.

use super::json::{decimal_as_written, integer, key, plain, plain_or_null};
use conductor_engine::{Body, Command, Decimal, NewOrder, OrderId, OrderKind, TimeInForce, UserId};

/// A command as one message.
pub fn encode_command(command: &Command) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    key(&mut out, "type");
    plain(&mut out, kind(&command.body));
    key(&mut out, "commandId");
    plain(&mut out, command.id.as_str());
    key(&mut out, "pairId");
    integer(&mut out, u64::from(command.pair.0));
    if let Some(partition) = command.partition {
        key(&mut out, "partition");
        integer(&mut out, u64::from(partition.0));
    }
    key(&mut out, "timestamp");
    integer(&mut out, command.timestamp.milliseconds());
    body(&command.body, &mut out);
    out.push(b'}');
    out
}

const fn kind(body: &Body) -> &'static str {
    match body {
        Body::Place(_) => "order.place",
        Body::Cancel { .. } => "order.cancel",
        Body::Amend { .. } => "order.amend",
        Body::Replace { .. } => "orders.replace-batch",
    }
}

fn body(body: &Body, out: &mut Vec<u8>) {
    match body {
        Body::Place(placed) => {
            key(out, "order");
            order(placed, out);
        }
        Body::Cancel { order } => order_id(order, out),
        Body::Amend {
            order,
            price,
            volume,
        } => {
            order_id(order, out);
            optional_decimal("price", price.as_ref(), out);
            optional_decimal("volume", volume.as_ref(), out);
        }
        Body::Replace { cancel, place } => {
            key(out, "cancel");
            list(cancel, out, |id, out| plain(out, id.as_str()));
            key(out, "place");
            list(place, out, order);
        }
    }
}

fn order_id(order: &OrderId, out: &mut Vec<u8>) {
    key(out, "orderId");
    plain(out, order.as_str());
}

fn optional_decimal(name: &str, decimal: Option<&Decimal>, out: &mut Vec<u8>) {
    if let Some(decimal) = decimal {
        key(out, name);
        decimal_as_written(out, decimal);
    }
}

fn list<T>(entries: &[T], out: &mut Vec<u8>, append: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (place, entry) in entries.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        append(entry, out);
    }
    out.push(b']');
}

fn order(order: &NewOrder, out: &mut Vec<u8>) {
    out.push(b'{');
    key(out, "id");
    plain(out, order.id.as_str());
    key(out, "side");
    plain(out, order.side.name());
    key(out, "type");
    match &order.kind {
        OrderKind::Limit {
            price,
            time_in_force,
        } => {
            plain(out, "limit");
            if *time_in_force != TimeInForce::GoodTillCancelled {
                key(out, "timeInForce");
                plain(out, time_in_force.name());
            }
            key(out, "price");
            decimal_as_written(out, price);
        }
        OrderKind::Market => plain(out, "market"),
    }
    key(out, "volume");
    decimal_as_written(out, &order.volume);
    key(out, "userId");
    plain_or_null(out, order.user.as_ref().map(UserId::as_str));
    key(out, "priceDecimals");
    integer(out, u64::from(order.decimals.price));
    key(out, "amountDecimals");
    integer(out, u64::from(order.decimals.amount));
    key(out, "quoteDecimals");
    integer(out, u64::from(order.decimals.quote));
    key(out, "timestamp");
    integer(out, order.timestamp.milliseconds());
    out.push(b'}');
}
