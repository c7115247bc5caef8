//! Events in their canonical form: what the stream holds, what is published, what is digested.
//!
//! The order of the keys is part of the contract with every consumer and every digest ever kept.

use super::json::{decimal, escaped, integer, integer_or_null, key, plain, plain_or_null};
use conductor_engine::event::{Closed, Deal, Event, OrderRejected, Payload, Standing};
use conductor_engine::limits::PRIORITY_DIGITS;
use conductor_engine::{OrderId, PartitionId, Side, UserId};
use std::io::Write;

/// Appends an event in its canonical form.
pub fn encode_event(event: &Event, partition: PartitionId, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"eventId\":\"");
    out.extend_from_slice(event.command.as_str().as_bytes());
    out.push(b'.');
    integer(out, u64::from(event.index));
    out.push(b'"');
    key(out, "type");
    plain(out, event.payload.kind());
    key(out, "causationId");
    plain(out, event.command.as_str());
    key(out, "partition");
    integer(out, u64::from(partition.0));
    key(out, "pairId");
    integer_or_null(out, event.pair.map(|pair| u64::from(pair.0)));
    key(out, "sequence");
    integer(out, event.sequence);
    key(out, "timestamp");
    integer_or_null(out, event.timestamp.map(|time| time.milliseconds()));
    key(out, "payload");
    out.push(b'{');
    payload(&event.payload, out);
    out.extend_from_slice(b"}}");
}

fn payload(payload: &Payload, out: &mut Vec<u8>) {
    match payload {
        Payload::Deal(event) => deal(event, out),
        Payload::Rested(event) | Payload::Amended(event) => standing(event, out),
        Payload::Closed(event) => closed(event, out),
        Payload::OrderRejected(event) => order_rejected(event, out),
        Payload::CommandRejected { refusal, detail } => {
            key(out, "reason");
            plain(out, refusal.code());
            key(out, "detail");
            match detail {
                Some(detail) => escaped(out, detail),
                None => out.extend_from_slice(b"null"),
            }
        }
    }
}

fn deal(event: &Deal, out: &mut Vec<u8>) {
    key(out, "makerOrderId");
    plain(out, event.maker.as_str());
    key(out, "takerOrderId");
    plain(out, event.taker.as_str());
    key(out, "makerUserId");
    plain_or_null(out, event.maker_user.as_ref().map(UserId::as_str));
    key(out, "takerUserId");
    plain_or_null(out, event.taker_user.as_ref().map(UserId::as_str));
    key(out, "takerSide");
    plain(out, event.taker_side.name());
    key(out, "price");
    decimal(out, &event.price);
    key(out, "volume");
    decimal(out, &event.volume);
    key(out, "quoteVolume");
    decimal(out, &event.quote_volume);
    key(out, "makerRemaining");
    decimal(out, &event.maker_remaining);
    key(out, "takerRemaining");
    decimal(out, &event.taker_remaining);
}

fn standing(event: &Standing, out: &mut Vec<u8>) {
    whose(&event.order, event.user.as_ref(), event.side, out);
    key(out, "price");
    decimal(out, &event.price);
    key(out, "remaining");
    decimal(out, &event.remaining);
    key(out, "priority");
    write!(
        out,
        "\"{:0width$}\"",
        event.priority,
        width = PRIORITY_DIGITS
    )
    .expect("a vector takes all bytes");
}

fn closed(event: &Closed, out: &mut Vec<u8>) {
    whose(&event.order, event.user.as_ref(), event.side, out);
    key(out, "reason");
    plain(out, event.reason.code());
    key(out, "remaining");
    decimal(out, &event.remaining);
}

fn order_rejected(event: &OrderRejected, out: &mut Vec<u8>) {
    whose(&event.order, event.user.as_ref(), event.side, out);
    key(out, "reason");
    plain(out, event.reason.code());
    key(out, "remaining");
    decimal(out, &event.remaining);
}

/// The three keys that all events of one order begin with.
fn whose(order: &OrderId, user: Option<&UserId>, side: Side, out: &mut Vec<u8>) {
    key(out, "orderId");
    plain(out, order.as_str());
    key(out, "userId");
    plain_or_null(out, user.map(UserId::as_str));
    key(out, "side");
    plain(out, side.name());
}
