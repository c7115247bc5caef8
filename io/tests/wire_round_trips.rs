//! What is encoded decodes to itself, and no bytes at all can make a decoder panic or disagree
//! with itself.

use conductor_engine::limits::{BATCH_ENTRIES_MAX, DETAIL_BYTES_MAX, TIMESTAMP_END};
use conductor_engine::{
    Body, Command, CommandId, Decimal, Incoming, NewOrder, OrderId, OrderKind, PairDecimals,
    PairId, PartitionId, Side, TimeInForce, Timestamp, UserId,
};
use conductor_io::wire::{decode, decode_event, decode_result, encode_command};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const ID: &str = "[A-Za-z0-9._:-]{1,128}";

fn order_id() -> impl Strategy<Value = OrderId> {
    ID.prop_map(|text| OrderId::new(&text).expect("an id"))
}

fn decimal() -> impl Strategy<Value = Decimal> {
    "(0|[1-9][0-9]{0,45})(\\.[0-9]{1,45})?"
        .prop_filter_map("zero", |text| Decimal::parse(&text).ok())
}

fn timestamp() -> impl Strategy<Value = Timestamp> {
    (0..TIMESTAMP_END).prop_map(|time| Timestamp::new(time).expect("before 2100"))
}

fn order_kind() -> impl Strategy<Value = OrderKind> {
    let limit = (decimal(), any::<bool>()).prop_map(|(price, rests)| OrderKind::Limit {
        price,
        time_in_force: if rests {
            TimeInForce::GoodTillCancelled
        } else {
            TimeInForce::ImmediateOrCancel
        },
    });
    prop_oneof![limit, Just(OrderKind::Market)]
}

fn new_order() -> impl Strategy<Value = NewOrder> {
    let user = option::of(ID.prop_map(|text| UserId::new(&text).expect("an id")));
    let side = prop_oneof![Just(Side::Ask), Just(Side::Bid)];
    let decimals =
        (0..=12_u8, 0..=18_u8, 0..=18_u8).prop_map(|(price, amount, quote)| PairDecimals {
            price,
            amount,
            quote,
        });
    (
        order_id(),
        user,
        side,
        order_kind(),
        decimal(),
        decimals,
        timestamp(),
    )
        .prop_map(
            |(id, user, side, kind, volume, decimals, timestamp)| NewOrder {
                id,
                user,
                side,
                kind,
                volume,
                decimals,
                timestamp,
            },
        )
}

fn body() -> impl Strategy<Value = Body> {
    let amend = (order_id(), option::of(decimal()), option::of(decimal()));
    let replace = (vec(order_id(), 0..6), vec(new_order(), 0..4));
    prop_oneof![
        new_order().prop_map(Body::Place),
        order_id().prop_map(|order| Body::Cancel { order }),
        amend.prop_map(|(order, price, volume)| Body::Amend {
            order,
            price,
            volume
        }),
        replace.prop_map(|(cancel, place)| Body::Replace { cancel, place }),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    let id = ID.prop_map(|text| CommandId::new(&text).expect("an id"));
    let partition = option::of(any::<u32>().prop_map(PartitionId));
    let pair = any::<u32>().prop_map(PairId);
    (id, pair, partition, timestamp(), body()).prop_map(|(id, pair, partition, timestamp, body)| {
        Command {
            id,
            pair,
            partition,
            timestamp,
            body,
        }
    })
}

/// Values that a field of a command may be given, right and wrong ones.
fn json_value() -> impl Strategy<Value = String> {
    let words = [
        "null",
        "true",
        "0",
        "1",
        "-1",
        "1.5",
        "1e3",
        "4294967296",
        "4102444800000",
        "\"\"",
        "\"o-1\"",
        "\"1\"",
        "\"0\"",
        "\"1e3\"",
        "\"bid\"",
        "\"limit\"",
        "\"market\"",
        "\"ioc\"",
        "\"order.place\"",
        "\"order.cancel\"",
        "\"order.amend\"",
        "\"orders.replace-batch\"",
        "[]",
        "{}",
        "[\"o-1\"]",
        "[1]",
        "\"\\ud800\"",
        "\"\\u0031\"",
        "13",
        "19",
    ];
    proptest::sample::select(words.to_vec()).prop_map(str::to_owned)
}

/// One field of one object of the message replaced, removed, repeated or added.
fn mutated() -> impl Strategy<Value = String> {
    let names = [
        "type",
        "commandId",
        "pairId",
        "partition",
        "timestamp",
        "order",
        "orderId",
        "price",
        "volume",
        "cancel",
        "place",
        "id",
        "side",
        "userId",
        "priceDecimals",
        "amountDecimals",
        "quoteDecimals",
        "timeInForce",
        "x",
    ];
    let name = proptest::sample::select(names.to_vec());
    (
        command(),
        name,
        json_value(),
        0..4_u8,
        any::<prop::sample::Index>(),
    )
        .prop_map(|(command, name, value, how, place)| {
            let text = String::from_utf8(encode_command(&command)).expect("JSON is text");
            let key = format!("\"{name}\":");
            let added = format!("{key}{value}");
            match (text.find(&key), how) {
                (Some(found), 0) => {
                    let end = text[found..]
                        .find([',', '}'])
                        .map_or(text.len(), |end| found + end);
                    format!("{}{added}{}", &text[..found], &text[end..])
                }
                (Some(found), 1) => {
                    format!(
                        "{}\"renamed\":{}",
                        &text[..found],
                        &text[found + key.len()..]
                    )
                }
                _ => {
                    let opens: Vec<usize> = text.match_indices('{').map(|(at, _)| at).collect();
                    let at = opens[place.index(opens.len())] + 1;
                    format!("{}{added},{}", &text[..at], &text[at..])
                }
            }
        })
}

proptest! {
    #[test]
    fn a_command_decodes_to_itself(command in command()) {
        let bytes = encode_command(&command);
        prop_assert_eq!(decode(&bytes), Incoming::Command(command));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
        let _ = decode_event(&bytes);
        let _ = decode_result(&bytes);
    }

    #[test]
    fn a_flipped_byte_never_panics_and_never_loses_a_reason(
        command in command(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = encode_command(&command);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        match decode(&bytes) {
            Incoming::Command(_) => {}
            Incoming::Refused(refused) => {
                prop_assert!(!refused.detail.contains("cannot be read"), "{}", refused.detail);
                prop_assert!(refused.detail.len() <= DETAIL_BYTES_MAX);
            }
            Incoming::Unusable(reason) => prop_assert!(reason.len() <= DETAIL_BYTES_MAX),
        }
    }

    #[test]
    fn whatever_is_refused_is_explained(text in mutated()) {
        match decode(text.as_bytes()) {
            Incoming::Command(command) => {
                // Accepted, so it must be a command that its own encoding gives again.
                let again = decode(&encode_command(&command));
                prop_assert_eq!(again, Incoming::Command(command));
            }
            Incoming::Refused(refused) => {
                prop_assert!(!refused.detail.contains("cannot be read"), "{}", refused.detail);
            }
            Incoming::Unusable(_) => {}
        }
    }
}

#[test]
fn the_largest_batch_fits_a_message_with_ordinary_names() {
    let order = |number: usize| NewOrder {
        id: OrderId::new(&format!("0b7d3ee2-94e4-4d5c-9d41-{number:012}")).expect("an id"),
        user: Some(UserId::new("0b7d3ee2-94e4-4d5c-9d41-000000000000").expect("an id")),
        side: Side::Ask,
        kind: OrderKind::Limit {
            price: Decimal::parse("123456.78").expect("a decimal"),
            time_in_force: TimeInForce::ImmediateOrCancel,
        },
        volume: Decimal::parse("1234.56789012").expect("a decimal"),
        decimals: PairDecimals {
            price: 2,
            amount: 8,
            quote: 10,
        },
        timestamp: Timestamp::new(1_767_225_600_000).expect("before 2100"),
    };
    let command = Command {
        id: CommandId::new("c-1").expect("an id"),
        pair: PairId(12),
        partition: None,
        timestamp: Timestamp::new(1_767_225_600_000).expect("before 2100"),
        body: Body::Replace {
            cancel: Vec::new(),
            place: (0..BATCH_ENTRIES_MAX).map(order).collect(),
        },
    };
    assert_eq!(
        decode(&encode_command(&command)),
        Incoming::Command(command)
    );
}
