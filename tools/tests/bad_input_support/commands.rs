//! Shapes, words and ids.

use super::{Cases, Fate, nested, order};
use serde_json::{Value, json};

const DEEP: usize = 10_000;

/// Ids that break the rule of an id: its length or its characters.
fn bad_ids() -> Vec<String> {
    let mut ids: Vec<String> = [
        "", "a b", " a", "a ", "a/b", "ä", "a\nb", "a\u{0}b", "a\"b", "💥",
    ]
    .map(str::to_owned)
    .into();
    ids.push("i".repeat(129));
    ids
}

pub(super) fn add(cases: &mut Cases) {
    no_commands(cases);
    no_command_ids(cases);
    words_and_fields(cases);
    ids(cases);
    kinds(cases);
    rules_of_the_book(cases);
}

fn no_commands(cases: &mut Cases) {
    for body in [
        "",
        " ",
        "not json",
        "{\"type\":",
        "{}{}",
        "{} x",
        "{'a':1}",
        "\u{feff}{}",
    ] {
        cases.parked(body, "");
    }
    for body in [
        "[]",
        "7",
        "null",
        "\"order.place\"",
        "[\"order.place\",\"c-1\"]",
    ] {
        cases.parked(body, "");
    }
    let not_a_number = order("nan").to_string().replace("\"1.25\"", "NaN");
    cases.parked(not_a_number, "");
    cases.parked(b"\0\xff\xfe".to_vec(), "");
    let mut no_text = order("no-text")
        .to_string()
        .replace("u-7", "u-?")
        .into_bytes();
    let place = no_text
        .iter()
        .position(|byte| *byte == b'?')
        .expect("it was put there");
    no_text[place] = 0xff;
    cases.parked(no_text, "");
    cases.parked(nested(DEEP), "");
    cases.parked("[".repeat(DEEP), "");
    cases.parked("{\"a\":".repeat(DEEP), "");
}

fn no_command_ids(cases: &mut Cases) {
    for id in bad_ids() {
        cases.parked(order(&id).to_string(), "commandId");
    }
    for value in [Value::Null, json!(7), json!(["c"]), json!({"c": 1})] {
        let mut command = order("x");
        command["commandId"] = value;
        cases.parked(command.to_string(), "commandId");
    }
    let good = order("c-1").to_string();
    cases.parked(good.replace("\"commandId\":\"c-1\",", ""), "commandId");
    let twice = good.replace(
        "\"commandId\":\"c-1\"",
        "\"commandId\":\"c-1\",\"commandId\":\"c-1\"",
    );
    cases.parked(twice, "commandId");
    cases.parked(good.replace("\"c-1\"", "\"\\ud800\""), "commandId");
}

fn words_and_fields(cases: &mut Cases) {
    let malformed = |detail| Fate::Refused("malformed", detail);
    for kind in ["order.flip", "Order.Place", "order.place ", ""] {
        cases.order("/type", json!(kind), malformed("type"));
    }
    cases.order("/type", json!(7), malformed("type"));
    cases.order("/type!", Value::Null, malformed("\"type\""));
    cases.order("/extra", json!(1), malformed("\"extra\""));
    cases.order("/orderId", json!("o-1"), malformed("\"orderId\""));
    cases.order("/order/extra", json!(1), malformed("\"extra\""));
    cases.order("/order", json!(["o-1"]), malformed("order"));
    cases.order("/order", json!("o-1"), malformed("order"));
    for field in ["pairId!", "timestamp!", "order!"] {
        cases.order(
            &format!("/{field}"),
            Value::Null,
            malformed("lacks the field"),
        );
    }
    for field in [
        "id!",
        "side!",
        "type!",
        "price!",
        "volume!",
        "priceDecimals!",
        "timestamp!",
    ] {
        cases.order(
            &format!("/order/{field}"),
            Value::Null,
            malformed("lacks the field"),
        );
    }
    for side in ["buy", "BID", ""] {
        cases.order("/order/side", json!(side), malformed("order.side"));
    }
    cases.order("/order/type", json!("stop"), malformed("order.type"));
    cases.order(
        "/order/timeInForce",
        json!("fok"),
        malformed("order.timeInForce"),
    );
    cases.order("/order/type", json!("market"), malformed("\"price\""));

    let id = cases.id();
    let twice = order(&id)
        .to_string()
        .replace("\"price\"", "\"price\":\"1\",\"price\"");
    cases.raw(id, twice.into_bytes(), malformed("\"price\" twice"));
    for (field, by) in [
        ("extra", nested(DEEP)),
        ("extra", "{\"a\":".repeat(DEEP) + "1" + &"}".repeat(DEEP)),
    ] {
        let id = cases.id();
        let deep = order(&id)
            .to_string()
            .replacen('{', &format!("{{\"{field}\":{by},"), 1);
        cases.raw(id, deep.into_bytes(), malformed("\"extra\""));
    }
    let id = cases.id();
    let deep = order(&id).to_string().replace("\"1.25\"", &nested(DEEP));
    cases.raw(id, deep.into_bytes(), malformed("order.price"));
}

fn ids(cases: &mut Cases) {
    let malformed = |detail| Fate::Refused("malformed", detail);
    for id in bad_ids() {
        cases.order("/order/id", json!(id), malformed("order.id"));
        cases.order("/order/userId", json!(id), malformed("order.userId"));
        let command = cases.id();
        let mut cancel = order(&command);
        cancel.as_object_mut().expect("an object").remove("order");
        cancel["type"] = json!("order.cancel");
        cancel["orderId"] = json!(id);
        cases.command(command, &cancel, malformed("orderId"));
    }
    cases.order("/order/id", json!(7), malformed("order.id"));
    cases.order("/order/userId", json!(7), malformed("order.userId"));
}

/// Amends and batches.
fn kinds(cases: &mut Cases) {
    let of = |id: &str, kind: &str, more: Value| {
        let mut command = json!({
            "type": kind, "commandId": id, "pairId": 7, "timestamp": 1_767_225_600_000_u64,
        });
        let fields = command.as_object_mut().expect("an object");
        fields.extend(more.as_object().expect("an object").clone());
        command
    };
    // The good orders around have been placed; the first of them rests at 1.25.
    for (field, text) in [
        ("price", "0"),
        ("price", "1e3"),
        ("volume", "-1"),
        ("volume", "1."),
    ] {
        let id = cases.id();
        let amend = of(
            &id,
            "order.amend",
            json!({"orderId": "o-good-0", field: text}),
        );
        cases.command(id, &amend, Fate::Refused("malformed", field));
    }
    for (field, text) in [("price", "1.255"), ("volume", "0.000000001")] {
        let id = cases.id();
        let amend = of(
            &id,
            "order.amend",
            json!({"orderId": "o-good-0", field: text}),
        );
        cases.command(id, &amend, Fate::Refused("malformed", field));
    }
    let id = cases.id();
    let mut entry = order("entry")["order"].clone();
    entry["price"] = json!("01");
    let batch = json!({"cancel": [], "place": [order("first")["order"].clone(), entry]});
    let batch = of(&id, "orders.replace-batch", batch);
    cases.command(id, &batch, Fate::Refused("malformed", "place[1].price"));
    for (cancel, place) in [
        (json!(null), json!([])),
        (json!([]), json!({})),
        (json!("o"), json!([])),
    ] {
        let id = cases.id();
        let batch = of(
            &id,
            "orders.replace-batch",
            json!({"cancel": cancel, "place": place}),
        );
        cases.command(id, &batch, Fate::Refused("malformed", ""));
    }
}

/// What only the book can refuse.
fn rules_of_the_book(cases: &mut Cases) {
    cases.order("/partition", json!(1), Fate::Refused("wrong-partition", ""));
    for partition in [json!(-1), json!("0"), json!(0.5), json!(4_294_967_296_u64)] {
        cases.order(
            "/partition",
            partition,
            Fate::Refused("malformed", "partition"),
        );
    }
    let house = |id: &str, side: &str| {
        let mut command = order(id);
        command["pairId"] = json!(9);
        command["order"]["side"] = json!(side);
        command["order"]["userId"] = Value::Null;
        command
    };
    let id = cases.id();
    cases.command(id.clone(), &house(&id, "ask"), Fate::Accepted);
    let id = cases.id();
    cases.command(
        id.clone(),
        &house(&id, "bid"),
        Fate::Refused("bot-against-bot", ""),
    );
    for (field, value) in [
        ("priceDecimals", 3),
        ("amountDecimals", 7),
        ("quoteDecimals", 3),
    ] {
        let pointer = format!("/order/{field}");
        cases.order(&pointer, json!(value), Fate::Rejected("decimals-mismatch"));
    }
    cases.order(
        "/order/price",
        json!("1.255"),
        Fate::Rejected("price-precision"),
    );
    cases.order(
        "/order/volume",
        json!("0.000000001"),
        Fate::Rejected("volume-precision"),
    );
}
