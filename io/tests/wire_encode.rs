//! The canonical spelling of events and results, letter by letter and against `serde_json`.

use conductor_engine::event::{
    CloseReason, Closed, CommandResult, Deal, Event, OrderRejected, Outcome, OutcomeKind, Payload,
    Reason, RejectReason, Standing, Status,
};
use conductor_engine::{
    CommandId, Decimal, OrderId, PairId, PartitionId, Refusal, Side, Timestamp, UserId,
};
use conductor_io::wire::{EnvelopeError, decode_event, decode_result, encode_event, encode_result};
use proptest::prelude::*;
use serde_json::{Value, json};

fn order(text: &str) -> OrderId {
    OrderId::new(text).expect("an id")
}

fn user(text: &str) -> Option<UserId> {
    Some(UserId::new(text).expect("an id"))
}

fn decimal(text: &str) -> Decimal {
    Decimal::parse_or_zero(text).expect("a decimal")
}

fn event(payload: Payload) -> Event {
    Event {
        command: CommandId::new("c-1").expect("an id"),
        index: 0,
        pair: Some(PairId(12)),
        sequence: 42,
        timestamp: Timestamp::new(1_767_225_600_000),
        payload,
    }
}

fn encoded(event: &Event) -> String {
    let mut out = Vec::new();
    encode_event(event, PartitionId(3), &mut out);
    String::from_utf8(out).expect("JSON is text")
}

fn envelope(kind: &str, payload: &str) -> String {
    format!(
        r#"{{"eventId":"c-1.0","type":"{kind}","causationId":"c-1","partition":3,"pairId":12,"sequence":42,"timestamp":1767225600000,"payload":{payload}}}"#
    )
}

#[test]
fn a_deal() {
    let deal = Deal {
        maker: order("o-1"),
        taker: order("o-2"),
        maker_user: None,
        taker_user: user("u-7"),
        taker_side: Side::Bid,
        price: decimal("100.250"),
        volume: decimal("2.00000000"),
        quote_volume: decimal("200.5"),
        maker_remaining: decimal("0.00"),
        taker_remaining: decimal("0.00000001"),
    };
    let payload = r#"{"makerOrderId":"o-1","takerOrderId":"o-2","makerUserId":null,"takerUserId":"u-7","takerSide":"bid","price":"100.25","volume":"2","quoteVolume":"200.5","makerRemaining":"0","takerRemaining":"0.00000001"}"#;
    assert_eq!(
        encoded(&event(Payload::Deal(deal))),
        envelope("deal.executed.v1", payload)
    );
}

#[test]
fn how_an_order_stands() {
    let standing = Standing {
        order: order("o-1"),
        user: None,
        side: Side::Ask,
        price: decimal("100"),
        remaining: decimal("2.50"),
        priority: 1_000,
    };
    let payload = r#"{"orderId":"o-1","userId":null,"side":"ask","price":"100","remaining":"2.5","priority":"0000000000001000"}"#;
    assert_eq!(
        encoded(&event(Payload::Rested(standing.clone()))),
        envelope("order.rested.v1", payload)
    );
    assert_eq!(
        encoded(&event(Payload::Amended(standing))),
        envelope("order.amended.v1", payload)
    );
}

#[test]
fn how_an_order_ends() {
    let closed = |reason| {
        Payload::Closed(Closed {
            order: order("o-1"),
            user: user("u-7"),
            side: Side::Bid,
            reason,
            remaining: decimal("1"),
        })
    };
    for (reason, code) in [
        (CloseReason::Filled, "filled"),
        (CloseReason::Cancelled, "cancelled"),
        (CloseReason::IocRemainder, "ioc-remainder"),
    ] {
        let payload = format!(
            r#"{{"orderId":"o-1","userId":"u-7","side":"bid","reason":"{code}","remaining":"1"}}"#
        );
        assert_eq!(
            encoded(&event(closed(reason))),
            envelope("order.closed.v1", &payload)
        );
    }
    let rejected = Payload::OrderRejected(OrderRejected {
        order: order("o-1"),
        user: user("u-7"),
        side: Side::Bid,
        reason: RejectReason::VolumeOutOfRange,
        remaining: decimal(&format!("1{}", "0".repeat(60))),
    });
    let payload = format!(
        r#"{{"orderId":"o-1","userId":"u-7","side":"bid","reason":"volume-out-of-range","remaining":"1{}"}}"#,
        "0".repeat(60)
    );
    assert_eq!(
        encoded(&event(rejected)),
        envelope("order.rejected.v1", &payload)
    );
}

#[test]
fn a_rejected_command_of_which_little_is_known() {
    let rejected = Event {
        pair: None,
        timestamp: None,
        index: 7,
        ..event(Payload::CommandRejected {
            refusal: Refusal::Malformed,
            detail: None,
        })
    };
    assert_eq!(
        encoded(&rejected),
        r#"{"eventId":"c-1.7","type":"command.rejected.v1","causationId":"c-1","partition":3,"pairId":null,"sequence":42,"timestamp":null,"payload":{"reason":"malformed","detail":null}}"#
    );
}

#[test]
fn a_result_with_and_without_events() {
    let mut result = CommandResult {
        command: CommandId::new("c-1").expect("an id"),
        status: Status::Accepted,
        reason: None,
        outcomes: vec![Outcome {
            order: order("o-1"),
            kind: OutcomeKind::Rested,
            remaining: Some(decimal("2.00")),
            reason: None,
        }],
        sequences: Some((42, 42)),
    };
    let encoded = |result: &CommandResult| {
        let mut out = Vec::new();
        encode_result(result, &mut out);
        String::from_utf8(out).expect("JSON is text")
    };
    assert_eq!(
        encoded(&result),
        r#"{"commandId":"c-1","status":"accepted","reason":null,"outcomes":[{"orderId":"o-1","outcome":"rested","remaining":"2","reason":null}],"firstSequence":42,"lastSequence":42}"#
    );
    result.outcomes.push(Outcome {
        order: order("o-2"),
        kind: OutcomeKind::Rejected,
        remaining: None,
        reason: Some(RejectReason::PricePrecision),
    });
    result.status = Status::Rejected;
    result.reason = Some(Reason::Command(Refusal::BotAgainstBot));
    result.sequences = None;
    let text = encoded(&result);
    assert_eq!(
        text,
        r#"{"commandId":"c-1","status":"rejected","reason":"bot-against-bot","outcomes":[{"orderId":"o-1","outcome":"rested","remaining":"2","reason":null},{"orderId":"o-2","outcome":"rejected","remaining":null,"reason":"price-precision"}],"firstSequence":null,"lastSequence":null}"#
    );
    let view = decode_result(text.as_bytes()).expect("a result");
    assert_eq!(serde_json::to_string(&view).expect("a result"), text);
}

#[test]
fn an_envelope_is_read_back() {
    let text = envelope("order.later.v2", r#"{"new":[1]}"#);
    let read = decode_event(text.as_bytes()).expect("an event");
    assert_eq!((read.event_id, read.kind), ("c-1.0", "order.later.v2"));
    assert_eq!((read.causation_id.as_str(), read.index), ("c-1", 0));
    assert_eq!(
        (read.partition, read.pair),
        (PartitionId(3), Some(PairId(12)))
    );
    assert_eq!(read.sequence, 42);
    assert_eq!(read.timestamp, Timestamp::new(1_767_225_600_000));
    assert_eq!(read.payload.get(), r#"{"new":[1]}"#);
}

#[test]
fn what_is_no_envelope_is_an_error() {
    let good = envelope("order.closed.v1", "{}");
    assert!(decode_event(good.as_bytes()).is_ok());
    for (from, to) in [
        (r#""c-1.0""#, r#""c-1.00""#),
        (r#""c-1.0""#, r#""c-1.+1""#),
        (r#""c-1.0""#, r#""c-2.0""#),
        (r#""c-1.0""#, r#""c-1""#),
        (r#""c-1.0""#, r#""c-1.4294967296""#),
        (r#""causationId":"c-1""#, r#""causationId":"c 1""#),
        (r#""sequence":42"#, r#""sequence":0"#),
        (r#""sequence":42"#, r#""sequence":"42""#),
        (r#""pairId":12,"#, ""),
        (r#""pairId":12"#, r#""pairId":4294967296"#),
        (
            r#""timestamp":1767225600000"#,
            r#""timestamp":4102444800000"#,
        ),
        (r#""timestamp":1767225600000,"#, ""),
        (r#""partition":3"#, r#""partition":3,"partition":3"#),
        (r#""partition":3"#, r#""partition":3,"more":3"#),
        (r#""payload":{}"#, r#""payload":[]"#),
        (r#""payload":{}"#, r#""payload":null"#),
        ("order.closed.v1", "order closed"),
        ("order.closed.v1", ""),
        (r#""payload":{}}"#, r#""payload":{}}}"#),
    ] {
        assert!(good.contains(from), "{from}");
        let bad = good.replacen(from, to, 1);
        assert!(decode_event(bad.as_bytes()).is_err(), "{bad}");
    }
    for bad in [
        "",
        "{}",
        "hello",
        r#"["c-1.0","order.closed.v1","c-1",3,12,42,1,{}]"#,
    ] {
        assert!(decode_event(bad.as_bytes()).is_err(), "{bad}");
    }
    let zero = good.replacen(r#""sequence":42"#, r#""sequence":0"#, 1);
    let error = decode_event(zero.as_bytes()).expect_err("no envelope");
    assert!(matches!(error, EnvelopeError::Field { .. }));
    assert_eq!(
        error.to_string(),
        "the entry is no event: its sequence is zero; the first is 1"
    );
}

proptest! {
    #[test]
    fn any_detail_is_escaped_as_serde_json_does(detail in ".*", sequence in 1..u64::MAX) {
        let rejected = Event {
            sequence,
            ..event(Payload::CommandRejected {
                refusal: Refusal::WrongPartition,
                detail: Some(detail.clone()),
            })
        };
        let text = encoded(&rejected);
        let quoted = serde_json::to_string(&detail).expect("text");
        let expected_end = format!(r#""detail":{quoted}}}}}"#);
        prop_assert!(text.ends_with(&expected_end));
        let value: Value = serde_json::from_str(&text).expect("JSON");
        prop_assert_eq!(value, json!({
            "eventId": "c-1.0",
            "type": "command.rejected.v1",
            "causationId": "c-1",
            "partition": 3,
            "pairId": 12,
            "sequence": sequence,
            "timestamp": 1_767_225_600_000_u64,
            "payload": {"reason": "wrong-partition", "detail": detail},
        }));
        prop_assert!(decode_event(text.as_bytes()).is_ok());
    }
}
