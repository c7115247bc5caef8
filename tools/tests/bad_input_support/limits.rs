//! Limits, each at both of its sides.

use super::{Cases, Fate, order};
use conductor_engine::limits::{BATCH_ENTRIES_MAX, ID_BYTES_MAX, MESSAGE_BYTES_MAX, TIMESTAMP_END};
use serde_json::{Value, json};

pub(super) fn add(cases: &mut Cases) {
    numbers(cases);
    ranges(cases);
    decimals(cases);
    times(cases);
    pairs(cases);
    lengths(cases);
    batches(cases);
    sizes(cases);
}

/// Texts that are no decimal above zero.
fn numbers(cases: &mut Cases) {
    for field in ["price", "volume"] {
        let pointer = format!("/order/{field}");
        let detail = if field == "price" {
            "order.price"
        } else {
            "order.volume"
        };
        for text in [
            "-1", "0", "0.00", "1e3", "1E3", "1_000", " 1", "1 ", "NaN", "Infinity", "+1", "01",
            "00.5", "1.", ".5", "", ".", "0x10", "1,5", "١", "1.2.3",
        ] {
            cases.order(&pointer, json!(text), Fate::Refused("malformed", detail));
        }
        for value in [
            json!(1),
            json!(1.5),
            json!(true),
            Value::Null,
            json!({}),
            json!(["1"]),
        ] {
            cases.order(&pointer, value, Fate::Refused("malformed", detail));
        }
    }
}

/// 10^15 ticks and 10^18 lots are too many, one less is not.
fn ranges(cases: &mut Cases) {
    let thirty_zeros = format!("1{}", "0".repeat(30));
    let ask = |cases: &mut Cases, price: &str, volume: &str, fate| {
        let id = cases.id();
        let mut command = order(&id);
        command["order"]["side"] = json!("ask");
        command["order"]["price"] = json!(price);
        command["order"]["volume"] = json!(volume);
        cases.command(id, &command, fate);
    };
    let (price, volume) = ("price-out-of-range", "volume-out-of-range");
    ask(cases, "10000000000000.00", "1", Fate::Rejected(price));
    ask(cases, "10000000000000", "1", Fate::Rejected(price));
    ask(cases, "9999999999999.99", "1", Fate::Accepted);
    ask(cases, &thirty_zeros, "1", Fate::Rejected(price));
    ask(
        cases,
        "9000000000000",
        "10000000000",
        Fate::Rejected(volume),
    );
    ask(
        cases,
        "9000000000000",
        "9999999999.99999999",
        Fate::Accepted,
    );
    ask(
        cases,
        "9000000000000",
        &thirty_zeros,
        Fate::Rejected(volume),
    );
    ask(cases, "9000000000000", "0.00000001", Fate::Accepted);
}

fn decimals(cases: &mut Cases) {
    for (field, detail, most) in [
        ("priceDecimals", "order.priceDecimals", 12),
        ("amountDecimals", "order.amountDecimals", 18),
        ("quoteDecimals", "order.quoteDecimals", 18),
    ] {
        let pointer = format!("/order/{field}");
        for value in [
            json!(most + 1),
            json!(-1),
            json!(2.5),
            json!("2"),
            Value::Null,
            json!(256),
        ] {
            cases.order(&pointer, value, Fate::Refused("malformed", detail));
        }
    }
    // Pairs of their own: the finest that there can be, and the coarsest.
    for (pair, [price, amount, quote], ticks, lots) in [
        (
            100,
            [12, 18, 18],
            "999.999999999999",
            "0.999999999999999999",
        ),
        (101, [0, 0, 0], "999999999999999", "999999999999999999"),
    ] {
        let id = cases.id();
        let mut command = order(&id);
        command["pairId"] = json!(pair);
        let fields = [
            ("priceDecimals", json!(price)),
            ("amountDecimals", json!(amount)),
            ("quoteDecimals", json!(quote)),
            ("price", json!(ticks)),
            ("volume", json!(lots)),
        ];
        for (name, value) in fields {
            command["order"][name] = value;
        }
        cases.command(id, &command, Fate::Accepted);
    }
}

/// The last moment comes last in the burst's own pair: what is let in after it comes after it.
fn times(cases: &mut Cases) {
    for pointer in ["/timestamp", "/order/timestamp"] {
        let detail = if pointer == "/timestamp" {
            "timestamp"
        } else {
            "order.timestamp"
        };
        for value in [
            json!(7_258_118_400_000_u64),
            json!(TIMESTAMP_END),
            json!(-1),
            json!(0.5),
            json!("1767225600000"),
            Value::Null,
            json!(u64::MAX),
            json!(1e300),
        ] {
            cases.order(pointer, value, Fate::Refused("malformed", detail));
        }
        cases.order(pointer, json!(0), Fate::Accepted);
        cases.order(pointer, json!(TIMESTAMP_END - 1), Fate::Accepted);
    }
}

fn pairs(cases: &mut Cases) {
    for value in [
        json!(-1),
        json!(4_294_967_296_u64),
        json!("7"),
        json!(7.5),
        Value::Null,
    ] {
        cases.order("/pairId", value, Fate::Refused("malformed", "pairId"));
    }
    cases.order("/pairId", json!(0), Fate::Accepted);
    cases.order("/pairId", json!(u32::MAX), Fate::Accepted);
}

fn lengths(cases: &mut Cases) {
    let longest = |first: &str| format!("{first}{}", "x".repeat(ID_BYTES_MAX - first.len()));
    let id = longest("c");
    let mut command = order(&id);
    command["order"]["id"] = json!(longest("o"));
    command["order"]["userId"] = json!(longest("u"));
    cases.command(id, &command, Fate::Accepted);
    let every = "AZaz09._:-";
    let mut command = order(every);
    command["order"]["id"] = json!(every);
    command["order"]["userId"] = json!(every);
    cases.command(every.to_owned(), &command, Fate::Accepted);
    for field in ["id", "userId"] {
        let detail = if field == "id" {
            "order.id"
        } else {
            "order.userId"
        };
        let pointer = format!("/order/{field}");
        cases.order(
            &pointer,
            json!(longest("o") + "x"),
            Fate::Refused("malformed", detail),
        );
    }
}

fn batches(cases: &mut Cases) {
    let most = BATCH_ENTRIES_MAX;
    for (cancels, places, fate) in [
        (most + 1, 0, Fate::Refused("batch-too-large", "501")),
        (0, most + 1, Fate::Refused("batch-too-large", "501")),
        (
            most / 2,
            most / 2 + 1,
            Fate::Refused("batch-too-large", "501"),
        ),
        (most, 0, Fate::Accepted),
        (0, most, Fate::Accepted),
        (most / 2, most / 2, Fate::Accepted),
    ] {
        let id = cases.id();
        let place: Vec<Value> = (0..places)
            .map(|number| order(&format!("{id}-{number}"))["order"].clone())
            .collect();
        let cancel: Vec<String> = (0..cancels)
            .map(|number| format!("o-{id}-{number}"))
            .collect();
        let batch = json!({
            "type": "orders.replace-batch", "commandId": id, "pairId": 7,
            "timestamp": 1_767_225_600_000_u64, "cancel": cancel, "place": place,
        });
        cases.command(id, &batch, fate);
    }
}

/// A message's last byte that is still read, and far beyond it.
fn sizes(cases: &mut Cases) {
    let padded = |id: &str, bytes: usize| {
        let mut body = order(id).to_string().into_bytes();
        body.resize(bytes, b' ');
        body
    };
    let id = cases.id();
    let body = padded(&id, MESSAGE_BYTES_MAX);
    cases.raw(id, body, Fate::Accepted);
    for bytes in [MESSAGE_BYTES_MAX + 1, 10_000_000] {
        cases.parked(padded("too-long", bytes), "bytes");
    }
    cases.parked(vec![b'['; 10 << 20], "bytes");
}
