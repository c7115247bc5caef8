//! What a group's writes are to the store, command by command, and that records read back.

use conductor_engine::book::RestingOrder;
use conductor_engine::event::{CommandResult, Event, Payload, Status};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::units::QuoteAmount;
use conductor_engine::{
    CommandId, OrderId, PairDecimals, PairId, PartitionId, Price, Quantity, Refusal, Side,
    Timestamp, UserId,
};
use conductor_io::keys::Keys;
use conductor_io::resp::{Reader, Reply};
use conductor_io::wire::{
    RecordError, StoredRecord, read_cursor, read_pair, read_record, store_writes,
};
use proptest::prelude::*;
use std::sync::Arc;

const DECIMALS: PairDecimals = PairDecimals {
    price: 2,
    amount: 8,
    quote: 2,
};

fn order_id(text: &str) -> OrderId {
    OrderId::new(text).expect("an id")
}

fn command_id(text: &str) -> CommandId {
    CommandId::new(text).expect("an id")
}

fn resting() -> RestingOrder {
    RestingOrder {
        id: order_id("o-1"),
        user: Some(UserId::new("u-7").expect("an id")),
        pair: PairId(12),
        side: Side::Bid,
        price: Price::new(10_025).expect("in range"),
        volume: Quantity::new(200_000_000).expect("in range"),
        remaining: Quantity::new(150_000_000).expect("in range"),
        quote_volume: QuoteAmount(5_012),
        priority: 1_767_225_600_000_000,
        timestamp: Timestamp::new(1_767_225_600_000).expect("before 2100"),
    }
}

/// The commands of the writes, with the partition's prefix taken off each part.
fn commands(writes: &[Write], retention_seconds: Option<u64>) -> Vec<String> {
    let keys = Keys::new(PartitionId(3));
    let mut out = Vec::new();
    let packed = store_writes(&keys, writes, retention_seconds, &mut out);
    let mut reader = Reader::new();
    reader.feed(&out);
    let mut commands = Vec::new();
    while let Some(command) = reader.next().expect("well formed") {
        let parts = command.elements().expect("an array");
        let parts: Vec<&str> = parts
            .iter()
            .map(|part| part.text().expect("text"))
            .collect();
        commands.push(parts.join(" ").replace("matching:{matching-p3}:", "~"));
    }
    assert!(!reader.is_midway());
    assert_eq!(commands.len(), packed);
    commands
}

#[test]
fn pairs_and_accepted_orders() {
    let writes = [
        Write::Pair {
            pair: PairId(12),
            decimals: DECIMALS,
        },
        Write::Accepted {
            order: order_id("o-1"),
            command: command_id("c-1"),
        },
    ];
    assert_eq!(
        commands(&writes, Some(60)),
        [
            "SADD ~pairs 12",
            "HSET ~pair:12 priceDecimals 2 amountDecimals 8 quoteDecimals 2",
            "SET ~accepted-order:o-1 c-1",
        ]
    );
}

#[test]
fn an_order_comes_to_rest_and_changes_and_goes() {
    let order = Arc::new(resting());
    let house = Arc::new(RestingOrder {
        user: None,
        side: Side::Ask,
        price: Price::new(10_000).expect("in range"),
        ..resting()
    });
    let record = "id o-1 pairId 12 side bid type limit price 100.25 remaining 1.5 volume 2 \
                  quoteVolume 50.12 priceDecimals 2 amountDecimals 8 quoteDecimals 2 \
                  timestamp 1767225600000 priority 1767225600000000 userId u-7 role maker \
                  timeInForce gtc";
    let writes = [
        Write::Rest {
            order: Arc::clone(&order),
            decimals: DECIMALS,
        },
        Write::Rest {
            order: house,
            decimals: DECIMALS,
        },
        Write::Reduce {
            order: order_id("o-1"),
            remaining: Quantity::new(100_000_000).expect("in range"),
            quote_volume: QuoteAmount(10_000),
            decimals: DECIMALS,
        },
        Write::Shrink {
            order: order_id("o-1"),
            remaining: Quantity::new(50_000_000).expect("in range"),
            decimals: DECIMALS,
        },
        Write::Remove {
            order: order_id("o-1"),
            pair: PairId(12),
            side: Side::Bid,
            priority: 1_767_225_600_000_000,
        },
        Write::Rewrite {
            member: "7239973654740991:o-1".into(),
            order,
            decimals: DECIMALS,
        },
    ];
    let asks_record = record
        .replace("bid", "ask")
        .replace("100.25", "100")
        .replace("userId u-7 ", "");
    assert_eq!(
        commands(&writes, None),
        [
            &format!("HSET ~order:o-1 {record}"),
            "ZADD ~book:12:bid:rates 100.25 7239973654740991:o-1",
            &format!("HSET ~order:o-1 {asks_record}"),
            "ZADD ~book:12:ask:rates 100 1767225600000000:o-1",
            "HSET ~order:o-1 remaining 1 quoteVolume 100",
            "HSET ~order:o-1 remaining 0.5 volume 0.5",
            "ZREM ~book:12:bid:rates 7239973654740991:o-1 o-1",
            "DEL ~order:o-1",
            "ZREM ~book:12:bid:rates 7239973654740991:o-1",
            "ZADD ~book:12:bid:rates 100.25 7239973654740991:o-1",
            &format!("HSET ~order:o-1 {record}"),
        ]
    );
}

#[test]
fn events_results_and_the_cursor() {
    let event = Event {
        command: command_id("c-1"),
        index: 0,
        pair: None,
        sequence: 42,
        timestamp: None,
        payload: Payload::CommandRejected {
            refusal: Refusal::Malformed,
            detail: None,
        },
    };
    let result = CommandResult {
        command: command_id("c-1"),
        status: Status::Unchanged,
        reason: None,
        outcomes: Vec::new(),
        sequences: None,
    };
    let writes = [
        Write::Event(Arc::new(event)),
        Write::Result(Arc::new(result)),
        Write::Cursor(Cursor {
            sequence: 42,
            priority: 7,
            command: Some(command_id("c-1")),
        }),
        Write::Cursor(Cursor::default()),
    ];
    let result = r#"{"commandId":"c-1","status":"unchanged","reason":null,"outcomes":[],"firstSequence":null,"lastSequence":null}"#;
    let spelled = |set: &str| {
        [
            r#"XADD ~events * event {"eventId":"c-1.0","type":"command.rejected.v1","causationId":"c-1","partition":3,"pairId":null,"sequence":42,"timestamp":null,"payload":{"reason":"malformed","detail":null}}"#.to_owned(),
            set.to_owned(),
            "HSET ~cursor sequence 42 priority 7 commandId c-1".to_owned(),
            "HSET ~cursor sequence 0 priority 0".to_owned(),
        ]
    };
    let for_ever = format!("SET ~processed-command:c-1 {result}");
    assert_eq!(commands(&writes, None), spelled(&for_ever));
    assert_eq!(
        commands(&writes, Some(86_400)),
        spelled(&format!("{for_ever} EX 86400"))
    );
}

fn hash(fields: &[(&str, &str)]) -> Reply {
    let parts = fields.iter().flat_map(|(name, value)| [*name, *value]);
    Reply::Array(parts.map(|part| Reply::Bulk(part.into())).collect())
}

/// A record as the first generation wrote it: no priority, no remainder, no role.
const LEGACY: [(&str, &str); 10] = [
    ("id", "o-1"),
    ("pairId", "12"),
    ("side", "ask"),
    ("type", "limit"),
    ("price", "100.2500"),
    ("volume", "1.50000000"),
    ("priceDecimals", "2"),
    ("amountDecimals", "8"),
    ("quoteDecimals", "2"),
    ("timestamp", "1767225600000"),
];

fn record(fields: &[(&str, &str)]) -> Result<StoredRecord, RecordError> {
    read_record(&hash(fields)).map(|record| record.expect("a record"))
}

#[test]
fn a_record_from_before_our_fields_is_read() {
    let read = record(&LEGACY).expect("a record");
    assert_eq!((read.priority, read.user), (None, None));
    assert_eq!(read.volume, Quantity::new(150_000_000).expect("in range"));
    assert_eq!(read.remaining, read.volume);
    assert_eq!(read.price, Price::new(10_025).expect("in range"));
    assert_eq!(read.quote_volume, QuoteAmount(0));
    let mut extended = LEGACY.to_vec();
    extended.extend([("userId", ""), ("status", "open"), ("remaining", "1")]);
    let read = record(&extended).expect("a record");
    assert_eq!(read.user, None);
    assert_eq!(
        read.remaining,
        Quantity::new(100_000_000).expect("in range")
    );
}

#[test]
fn a_record_that_cannot_be_read_names_its_field() {
    for missing in 0..LEGACY.len() {
        let mut fields = LEGACY.to_vec();
        let (name, _) = fields.remove(missing);
        if name == "type" {
            assert!(record(&fields).is_ok());
        } else {
            assert_eq!(record(&fields), Err(RecordError::Missing(name)));
        }
    }
    for (field, value) in [
        ("id", "a b"),
        ("pairId", "4294967296"),
        ("pairId", "+1"),
        ("side", "BID"),
        ("type", "market"),
        ("price", "100.251"),
        ("price", "0"),
        ("price", "1e3"),
        ("price", "10000000000000"),
        ("volume", "-1"),
        ("volume", "10000000000"),
        ("volume", "0.000000001"),
        ("remaining", ""),
        ("quoteVolume", "0.001"),
        ("priceDecimals", "13"),
        ("quoteDecimals", ""),
        ("timestamp", "4102444800000"),
        ("priority", "9007199254740992"),
        ("userId", "a b"),
    ] {
        let mut fields = LEGACY.to_vec();
        fields.retain(|(name, _)| *name != field);
        fields.push((field, value));
        let error = record(&fields).expect_err(field);
        assert!(
            error.to_string().contains(field),
            "{field} {value}: {error}"
        );
    }
    assert_eq!(read_record(&Reply::Array(Vec::new())), Ok(None));
    assert_eq!(read_record(&Reply::Nil), Err(RecordError::Shape));
    let odd = Reply::Array(vec![Reply::Bulk(b"id".to_vec())]);
    assert_eq!(read_record(&odd), Err(RecordError::Shape));
}

#[test]
fn pairs_and_cursors_are_read_back() {
    let pair = hash(&[
        ("priceDecimals", "2"),
        ("amountDecimals", "8"),
        ("quoteDecimals", "2"),
    ]);
    assert_eq!(read_pair(&pair), Ok(Some(DECIMALS)));
    assert_eq!(read_pair(&Reply::Array(Vec::new())), Ok(None));
    let cursor = hash(&[("sequence", "42"), ("priority", "7"), ("commandId", "c-1")]);
    let expected = Cursor {
        sequence: 42,
        priority: 7,
        command: Some(command_id("c-1")),
    };
    assert_eq!(read_cursor(&cursor), Ok(Some(expected)));
    assert_eq!(read_cursor(&Reply::Array(Vec::new())), Ok(None));
    let half = hash(&[("sequence", "42")]);
    assert_eq!(read_cursor(&half), Err(RecordError::Missing("priority")));
}

fn any_resting() -> impl Strategy<Value = (RestingOrder, PairDecimals)> {
    let decimals =
        (0..=12_u8, 0..=18_u8, 0..=18_u8).prop_map(|(price, amount, quote)| PairDecimals {
            price,
            amount,
            quote,
        });
    let quantity = || {
        (0..1_000_000_000_000_000_000_u64).prop_map(|lots| Quantity::new(lots).expect("in range"))
    };
    let names = ("[A-Za-z0-9._:-]{1,128}", proptest::option::of("[a-z]{1,9}"));
    let place = (any::<u32>(), any::<bool>(), 1..1_000_000_000_000_000_u64);
    let times = (0..9_007_199_254_740_992_u64, 0..4_102_444_800_000_u64);
    let amounts = (quantity(), quantity(), 0..u128::MAX);
    (decimals, names, place, amounts, times).prop_map(
        |(decimals, (id, user), (pair, asks, ticks), (volume, remaining, quote), times)| {
            let order = RestingOrder {
                id: order_id(&id),
                user: user.map(|user| UserId::new(&user).expect("an id")),
                pair: PairId(pair),
                side: if asks { Side::Ask } else { Side::Bid },
                price: Price::new(ticks).expect("in range"),
                volume,
                remaining,
                quote_volume: QuoteAmount(quote),
                priority: times.0,
                timestamp: Timestamp::new(times.1).expect("before 2100"),
            };
            (order, decimals)
        },
    )
}

proptest! {
    #[test]
    fn a_record_reads_back_as_it_was_written((order, decimals) in any_resting()) {
        let keys = Keys::new(PartitionId(0));
        let rest = Write::Rest { order: Arc::new(order.clone()), decimals };
        let mut out = Vec::new();
        prop_assert_eq!(store_writes(&keys, &[rest], None, &mut out), 2);
        let mut reader = Reader::new();
        reader.feed(&out);
        let hset = reader.next().expect("well formed").expect("a command");
        let parts = hset.elements().expect("an array");
        let key = keys.order(&order.id);
        prop_assert_eq!(parts[1].text(), Some(key.as_str()));
        let fields = Reply::Array(parts[2..].to_vec());
        let read = read_record(&fields).expect("readable").expect("a record");
        prop_assert_eq!(read.decimals, decimals);
        let priority = read.priority.expect("a priority");
        prop_assert_eq!(read.resting(priority), order.clone());
        let zadd = reader.next().expect("well formed").expect("a command");
        let member = zadd.elements().expect("an array")[3].text().expect("text");
        let parsed = Keys::parse_member(order.side, member).prefixed.expect("ours");
        prop_assert_eq!((parsed.digits, parsed.order), (order.priority, order.id));
    }
}
