//! Bad input, each with its exact destination: nothing stops a partition, nothing is lost.

use conductor_engine::command::RefusedCommand;
use conductor_engine::limits::{
    BATCH_ENTRIES_MAX, DETAIL_BYTES_MAX, MESSAGE_BYTES_MAX, TIMESTAMP_END,
};
use conductor_engine::{
    Body, Command, Incoming, OrderKind, PairId, PartitionId, Refusal, TimeInForce, Timestamp,
};
use conductor_io::wire::decode;

const PLACE: &str = r#"{"type":"order.place","commandId":"c-1","pairId":12,"partition":3,"timestamp":1767225600000,"order":{"id":"o-1","side":"bid","type":"limit","price":"100.25","volume":"2","userId":"u-7","priceDecimals":2,"amountDecimals":8,"quoteDecimals":2,"timestamp":1767225600000}}"#;
const MARKET: &str = r#"{"type":"order.place","commandId":"c-1","pairId":12,"timestamp":1,"order":{"id":"o-1","side":"ask","type":"market","volume":"2","userId":null,"priceDecimals":2,"amountDecimals":8,"quoteDecimals":2,"timestamp":1}}"#;
const CANCEL: &str =
    r#"{"type":"order.cancel","commandId":"c-1","pairId":12,"timestamp":1,"orderId":"o-1"}"#;
const AMEND: &str = r#"{"type":"order.amend","commandId":"c-1","pairId":12,"timestamp":1,"orderId":"o-1","price":"100.30","volume":"1"}"#;
const BATCH: &str = r#"{"type":"orders.replace-batch","commandId":"c-1","pairId":12,"timestamp":1,"cancel":["o-1"],"place":[]}"#;

fn command(text: &str) -> Command {
    match decode(text.as_bytes()) {
        Incoming::Command(command) => command,
        other => panic!("{text} is {other:?}"),
    }
}

fn refused(text: &str) -> RefusedCommand {
    match decode(text.as_bytes()) {
        Incoming::Refused(refused) => {
            assert_eq!(refused.id.as_str(), "c-1", "{text}");
            assert!(refused.detail.len() <= DETAIL_BYTES_MAX, "{text}");
            assert!(refused.detail.is_ascii(), "{}", refused.detail);
            assert!(
                !refused.detail.contains("cannot be read"),
                "{text} is not explained: {}",
                refused.detail
            );
            refused
        }
        other => panic!("{text} is {other:?}"),
    }
}

fn malformed(text: &str) -> String {
    let refused = refused(text);
    assert_eq!(refused.refusal, Refusal::Malformed, "{text}");
    refused.detail
}

fn unusable(bytes: &[u8]) -> String {
    match decode(bytes) {
        Incoming::Unusable(reason) => {
            assert!(!reason.is_empty() && reason.len() <= DETAIL_BYTES_MAX);
            reason
        }
        other => panic!("{} is {other:?}", String::from_utf8_lossy(bytes)),
    }
}

/// `from` replaced once; it must be there.
fn altered(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "{text} has no {from}");
    text.replacen(from, to, 1)
}

#[test]
fn well_formed_commands_are_taken() {
    let place = command(PLACE);
    assert_eq!(place.pair, PairId(12));
    assert_eq!(place.partition, Some(PartitionId(3)));
    let Body::Place(order) = &place.body else {
        panic!("{place:?}");
    };
    assert_eq!(
        order.user.as_ref().map(ToString::to_string),
        Some("u-7".into())
    );
    let Body::Place(order) = command(MARKET).body else {
        panic!("no place");
    };
    assert_eq!((order.kind, order.user), (OrderKind::Market, None));
    for text in [CANCEL, AMEND, BATCH] {
        assert_eq!(command(text).partition, None);
    }
}

#[test]
fn what_may_be_left_out_may_be_left_out() {
    command(&altered(PLACE, r#""partition":3,"#, ""));
    command(&altered(PLACE, r#""userId":"u-7","#, ""));
    command(&altered(AMEND, r#","price":"100.30""#, ""));
    command(&altered(AMEND, r#","volume":"1""#, ""));
    command(&altered(AMEND, r#","price":"100.30","volume":"1""#, ""));
    command(&altered(BATCH, r#"["o-1"]"#, "[]"));
}

#[test]
fn keys_come_in_any_order_and_strings_may_hold_escapes() {
    let turned = r#" { "orderId" : "o-\u0031", "timestamp":1 ,"pairId":12,"commandId":"c\u002d1", "\u0074ype":"order.cancel" } "#;
    assert_eq!(command(turned), command(CANCEL));
}

#[test]
fn a_limit_order_says_what_becomes_of_its_rest() {
    for (word, expected) in [
        ("gtc", TimeInForce::GoodTillCancelled),
        ("ioc", TimeInForce::ImmediateOrCancel),
    ] {
        let with = format!(r#""type":"limit","timeInForce":"{word}""#);
        let Body::Place(order) = command(&altered(PLACE, r#""type":"limit""#, &with)).body else {
            panic!("no place");
        };
        let OrderKind::Limit { time_in_force, .. } = order.kind else {
            panic!("no limit");
        };
        assert_eq!(time_in_force, expected);
    }
}

#[test]
fn what_is_no_command_is_unusable() {
    let cases: [(&[u8], &str); 12] = [
        (b"", "not JSON"),
        (b"hello", "not JSON"),
        (b"{\"commandId\":\"c-1\"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\"c-1\"", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{}", "has no commandId"),
        (b"{\"commandId\":\"c-1\",}", "not JSON"),
        (b"{'commandId':'c-1'}", "not JSON"),
        (b"{\"commandId\":\"c-1\",\"type\":NaN}", "not JSON"),
        (b"{\"commandId\":\"c-1\",\"type\":\"\xff\"}", "not UTF-8"),
        (b"\xef\xbb\xbf{\"commandId\":\"c-1\"}", "not JSON"),
    ];
    for (bytes, reason) in cases {
        assert!(unusable(bytes).contains(reason), "{}", unusable(bytes));
    }
    for trailing in ["x", "{}", "\0", CANCEL] {
        let reason = unusable(format!("{CANCEL}{trailing}").as_bytes());
        assert!(reason.contains("not JSON: trailing characters"), "{reason}");
    }
}

#[test]
fn a_command_id_that_cannot_be_used_makes_no_command() {
    let given = r#""commandId":"c-1""#;
    let long = format!(r#""commandId":"{}""#, "c".repeat(129));
    let cases = [
        (r#""commandId":"""#, "commandId is empty"),
        (long.as_str(), "commandId is longer"),
        (r#""commandId":"a b""#, "commandId holds a character"),
        (r#""commandId":"ä""#, "commandId holds a character"),
        (r#""commandId":"a/b""#, "commandId holds a character"),
        (r#""commandId":"{a}""#, "commandId holds a character"),
        (r#""commandId":"a\n""#, "commandId holds a character"),
        (r#""commandId":"\ud800""#, "commandId holds an escape"),
        (r#""commandId":1"#, "commandId must be a JSON string"),
        (r#""commandId":null"#, "commandId must be a JSON string"),
        (r#""commandId":["c-1"]"#, "commandId must be a JSON string"),
        (r#""commandId":"c-1","commandId":"c-1""#, "twice"),
        (r#""commandId":"c-1","command\u0049d":"c-2""#, "twice"),
        (r#""commandid":"c-1""#, "has no commandId"),
    ];
    for (replacement, reason) in cases {
        let given = unusable(altered(CANCEL, given, replacement).as_bytes());
        assert!(given.contains(reason), "{replacement}: {given}");
    }
    command(&altered(
        CANCEL,
        given,
        &format!(r#""commandId":"{}""#, "c".repeat(128)),
    ));
}

#[test]
fn a_message_may_have_one_mebibyte() {
    let padded = |bytes: usize| format!("{CANCEL}{}", " ".repeat(bytes - CANCEL.len()));
    command(&padded(MESSAGE_BYTES_MAX));
    let reason = unusable(padded(MESSAGE_BYTES_MAX + 1).as_bytes());
    assert_eq!(
        reason,
        "the message has 1048577 bytes; send at most 1048576"
    );
    unusable(padded(10_000_000).as_bytes());
}

#[test]
fn unknown_repeated_and_missing_fields_are_named() {
    let cases = [
        (
            altered(CANCEL, "order.cancel", "order.destroy"),
            "type must be one of order.place, order.cancel, order.amend, orders.replace-batch",
        ),
        (
            altered(CANCEL, r#""type":"order.cancel","#, ""),
            r#"the command lacks the field "type"; add it"#,
        ),
        (
            altered(CANCEL, r#""pairId":12"#, r#""pairId":12,"colour":"red""#),
            r#"the command has the field "colour", which order.cancel does not take; leave it out"#,
        ),
        (
            altered(CANCEL, r#""pairId":12"#, r#""pairId":12,"price":"1""#),
            r#"the command has the field "price", which order.cancel does not take; leave it out"#,
        ),
        (
            altered(
                CANCEL,
                r#""orderId":"o-1""#,
                r#""orderId":"o-1","orderId":"o-1""#,
            ),
            r#"the command names the field "orderId" twice; name it once"#,
        ),
        (
            altered(CANCEL, r#","orderId":"o-1""#, ""),
            r#"the command lacks the field "orderId"; add it"#,
        ),
        (
            altered(PLACE, r#""side":"bid""#, r#""side":"bid","side":"bid""#),
            r#"order names the field "side" twice; name it once"#,
        ),
        (
            altered(PLACE, r#","quoteDecimals":2"#, ""),
            r#"order lacks the field "quoteDecimals"; add it"#,
        ),
        (
            altered(PLACE, r#"2,"timestamp":1767225600000}}"#, "2}}"),
            r#"order lacks the field "timestamp"; add it"#,
        ),
        (
            altered(PLACE, r#""side":"bid""#, r#""side":"bid","postOnly":true"#),
            r#"order has the field "postOnly", which a limit order does not take; leave it out"#,
        ),
        (
            altered(BATCH, r#","place":[]"#, ""),
            r#"the command lacks the field "place"; add it"#,
        ),
    ];
    for (text, detail) in cases {
        assert_eq!(malformed(&text), detail, "{text}");
    }
}

#[test]
fn a_market_order_has_no_price_and_a_limit_order_has_one() {
    let cases = [
        (
            altered(MARKET, r#""volume":"2""#, r#""volume":"2","price":"1""#),
            r#"order has the field "price", which a market order does not take; leave it out"#,
        ),
        (
            altered(MARKET, r#""volume":"2""#, r#""volume":"2","price":null"#),
            r#"order has the field "price", which a market order does not take; leave it out"#,
        ),
        (
            altered(
                MARKET,
                r#""volume":"2""#,
                r#""volume":"2","timeInForce":"ioc""#,
            ),
            r#"order has the field "timeInForce", which a market order does not take; leave it out"#,
        ),
        (
            altered(PLACE, r#""price":"100.25","#, ""),
            r#"order lacks the field "price"; add it"#,
        ),
        (
            altered(
                PLACE,
                r#""type":"limit""#,
                r#""type":"limit","timeInForce":"fok""#,
            ),
            "order.timeInForce must be one of gtc, ioc",
        ),
        (
            altered(PLACE, r#""type":"limit""#, r#""type":"stop""#),
            "order.type must be one of limit, market",
        ),
        (
            altered(PLACE, r#""side":"bid""#, r#""side":"BID""#),
            "order.side must be one of ask, bid",
        ),
    ];
    for (text, detail) in cases {
        assert_eq!(malformed(&text), detail, "{text}");
    }
}

#[test]
fn decimals_are_strings_above_zero() {
    for bad in [
        "-1", "+1", "1e3", "1_000", " 1", "1 ", "NaN", "Infinity", "", ".", "1.", ".5", "01",
        "0x1", "1,5", "１",
    ] {
        for (field, good) in [("price", "100.25"), ("volume", "2")] {
            let good = format!(r#""{field}":"{good}""#);
            let text = altered(PLACE, &good, &format!(r#""{field}":"{bad}""#));
            let detail = malformed(&text);
            let expected = format!("order.{field} is not a plain decimal such as \"12.5\"");
            assert!(detail.starts_with(&expected), "{text}: {detail}");
        }
    }
    for zero in ["0", "0.0", "0.00000000000000000000000000000000000000000000"] {
        let text = altered(PLACE, r#""volume":"2""#, &format!(r#""volume":"{zero}""#));
        assert_eq!(malformed(&text), "order.volume must be above zero");
        let text = altered(AMEND, r#""volume":"1""#, &format!(r#""volume":"{zero}""#));
        assert_eq!(malformed(&text), "volume must be above zero");
    }
    for wrong in ["2", "2.0", "null", "true", "[]", "{}", "1e400"] {
        let text = altered(PLACE, r#""volume":"2""#, &format!(r#""volume":{wrong}"#));
        assert_eq!(
            malformed(&text),
            "order.volume must be a JSON string, in quotes"
        );
    }
}

#[test]
fn numbers_that_fit_no_pair_are_for_the_book_to_reject() {
    let thirty_zeros = format!("1{}", "0".repeat(30));
    let million_digits = "9".repeat(MESSAGE_BYTES_MAX - PLACE.len());
    for price in ["10000000000000", "1.001", &thirty_zeros, &million_digits] {
        command(&altered(PLACE, "100.25", price));
    }
}

#[test]
fn whole_numbers_are_whole_and_in_their_range() {
    let cases = [
        ("priceDecimals", "2", "12", "13"),
        ("amountDecimals", "8", "18", "19"),
        ("quoteDecimals", "2", "18", "19"),
    ];
    for (field, given, last, first_beyond) in cases {
        let set = |to: &str| {
            altered(
                PLACE,
                &format!(r#""{field}":{given}"#),
                &format!(r#""{field}":{to}"#),
            )
        };
        command(&set(last));
        command(&set("0"));
        for bad in [
            first_beyond,
            "-1",
            "2.0",
            "2e0",
            "\"2\"",
            "null",
            "-0",
            "256",
            "1e400",
        ] {
            let expected = format!(
                "order.{field} must be a whole JSON number from 0 to {last}, without quotes"
            );
            assert_eq!(malformed(&set(bad)), expected);
        }
    }
    let last = TIMESTAMP_END - 1;
    for bad in [
        "4102444800000",
        "7258118400000",
        "-1",
        "1.5",
        "\"1\"",
        "null",
    ] {
        let text = altered(PLACE, r#"1767225600000}}"#, &format!("{bad}}}}}"));
        let expected =
            format!("order.timestamp must be a whole JSON number from 0 to {last}, without quotes");
        assert_eq!(malformed(&text), expected);
        assert_eq!(refused(&text).timestamp, Timestamp::new(1_767_225_600_000));
    }
    for bad in ["4294967296", "-1", "3.0", "\"3\"", "null"] {
        let text = altered(PLACE, r#""partition":3"#, &format!(r#""partition":{bad}"#));
        assert!(malformed(&text).starts_with("partition must be a whole JSON number"));
    }
}

#[test]
fn a_refusal_gives_pair_and_time_where_they_can_be_read() {
    let pair = |to: &str| refused(&altered(CANCEL, r#""pairId":12"#, to)).pair;
    for bad in ["4294967296", "-1", "12.0", "\"12\"", "null", "[12]"] {
        assert_eq!(pair(&format!(r#""pairId":{bad}"#)), None, "{bad}");
    }
    assert_eq!(pair(r#""pairId":12,"pairId":12"#), None);
    assert_eq!(pair(r#""pairId":4294967295,"x":1"#), Some(PairId(u32::MAX)));
    let time = |to: &str| refused(&altered(CANCEL, r#""timestamp":1"#, to)).timestamp;
    for bad in [
        "7258118400000",
        "4102444800000",
        "-1",
        "1.0",
        "\"1\"",
        "null",
    ] {
        assert_eq!(time(&format!(r#""timestamp":{bad}"#)), None, "{bad}");
    }
    assert_eq!(time(r#""timestamp":1,"x":1"#), Timestamp::new(1));
    let neither = refused(r#"{"commandId":"c-1"}"#);
    assert_eq!((neither.pair, neither.timestamp), (None, None));
}

#[test]
fn ids_of_orders_and_users_follow_the_same_rules() {
    for bad in ["", "a b", "ä", "a/b", &"x".repeat(129)] {
        let set = |text: &str, from: &str, field: &str| {
            malformed(&altered(text, from, &format!(r#""{field}":"{bad}""#)))
        };
        assert!(set(PLACE, r#""id":"o-1""#, "id").starts_with("order.id "));
        assert!(set(PLACE, r#""userId":"u-7""#, "userId").starts_with("order.userId "));
        assert!(set(CANCEL, r#""orderId":"o-1""#, "orderId").starts_with("orderId "));
        let text = altered(BATCH, "\"o-1\"", &format!(r#""o-0","{bad}""#));
        assert!(malformed(&text).starts_with("cancel[1] "));
    }
    let text = altered(PLACE, r#""id":"o-1""#, r#""id":7"#);
    assert_eq!(
        malformed(&text),
        "order.id must be a JSON string, in quotes"
    );
}

#[test]
fn an_object_is_not_an_array_and_an_array_is_no_object() {
    let order = &PLACE[PLACE.find(r#"{"id""#).expect("an order")..PLACE.len() - 1];
    for bad in ["[]", "null", "\"o-1\"", "7"] {
        assert_eq!(
            malformed(&PLACE.replace(order, bad)),
            "order must be an object; describe an order"
        );
    }
    let positional = r#"["o-1","bid","limit","1","2",null,2,8,2,1]"#;
    malformed(&PLACE.replace(order, positional));
    let placing = |entry: &str| altered(BATCH, r#""place":[]"#, &format!(r#""place":[{entry}]"#));
    command(&placing(order));
    assert_eq!(
        malformed(&placing(&format!(
            "{order},{}",
            order.replace("100.25", "0")
        ))),
        "place[1].price must be above zero"
    );
    for bad in ["{}", "null", "\"o-1\""] {
        let text = altered(BATCH, r#"["o-1"]"#, bad);
        assert_eq!(
            malformed(&text),
            "cancel must be an array; send an empty one for no entries"
        );
    }
}

#[test]
fn a_batch_has_at_most_500_entries_whatever_they_are() {
    let batch = |cancels: usize, places: usize, place: &str| {
        let cancel: Vec<String> = (0..cancels).map(|each| format!("\"o-{each}\"")).collect();
        let places = vec![place; places];
        format!(
            r#"{{"type":"orders.replace-batch","commandId":"c-1","pairId":12,"timestamp":1,"cancel":[{}],"place":[{}]}}"#,
            cancel.join(","),
            places.join(",")
        )
    };
    let order = &MARKET[MARKET.find(r#"{"id""#).expect("an order")..MARKET.len() - 1];
    for (cancels, places) in [(500, 0), (0, 500), (250, 250)] {
        command(&batch(cancels, places, order));
    }
    for (cancels, places) in [(501, 0), (0, 501), (250, 251), (500, 500)] {
        for entry in [order, "0", "{}", r#"{"id":7}"#] {
            let refused = refused(&batch(cancels, places, entry));
            assert_eq!(refused.refusal, Refusal::BatchTooLarge);
            let entries = cancels + places;
            let expected =
                format!("the batch has {entries} entries; send at most 500 in one command");
            assert_eq!(refused.detail, expected);
            assert_eq!(refused.pair, Some(PairId(12)));
        }
    }
    assert_eq!(BATCH_ENTRIES_MAX, 500);
    let many = batch(0, 400_000, "0");
    assert_eq!(refused(&many).refusal, Refusal::BatchTooLarge);
}

#[test]
fn nesting_of_any_depth_is_judged_like_anything_else() {
    let depth = 10_000;
    let arrays = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for deep in [&arrays, &objects] {
        unusable(deep.as_bytes());
        unusable(format!(r#"{{"commandId":{deep}}}"#).as_bytes());
        for field in [
            "type",
            "pairId",
            "timestamp",
            "partition",
            "order",
            "orderId",
            "x",
        ] {
            malformed(&format!(r#"{{"commandId":"c-1","{field}":{deep}}}"#));
        }
        malformed(&altered(
            PLACE,
            r#""price":"100.25""#,
            &format!(r#""price":{deep}"#),
        ));
        malformed(&altered(
            PLACE,
            r#""userId":"u-7""#,
            &format!(r#""userId":{deep}"#),
        ));
        malformed(&altered(BATCH, r#"["o-1"]"#, &format!("[{deep}]")));
        malformed(&altered(
            BATCH,
            r#""place":[]"#,
            &format!(r#""place":[{deep}]"#),
        ));
        malformed(&altered(
            CANCEL,
            r#""pairId":12"#,
            &format!(r#""pairId":12,"x":{deep}"#),
        ));
    }
    let open = "[".repeat(500_000);
    unusable(open.as_bytes());
    unusable(format!(r#"{{"commandId":"c-1","x":{open}"#).as_bytes());
}

#[test]
fn a_sentence_repeats_little_of_what_was_sent() {
    let name = format!("\\u0000\\\"ä<{}", "n".repeat(100_000));
    let text = altered(
        CANCEL,
        r#""pairId":12"#,
        &format!(r#""pairId":12,"{name}":1"#),
    );
    let detail = malformed(&text);
    assert!(
        detail.starts_with("the command has the field \"???<nnn"),
        "{detail}"
    );
    assert!(detail.len() < 200, "{detail}");
    let text = altered(CANCEL, "order.cancel", &"x".repeat(100_000));
    assert!(malformed(&text).len() < 200);
}
