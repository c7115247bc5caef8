//! What somebody gets wrong never stops a partition and is never lost in silence: it is parked, or
//! rejected for the record, and what comes after it trades as if nothing had been.

use conductor_engine::event::{Payload, RejectReason};
use conductor_engine::{Book, FastBook, NaiveBook, Refusal};
use conductor_tools::replay::{Replay, Verdict};
use conductor_tools::trace::TraceReader;

/// What must come of a line that somebody got wrong.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Parked,
    Command(Refusal),
    Order(RejectReason),
    Accepted,
}

fn fate(verdict: &Verdict, payloads: &[Payload]) -> Fate {
    match (verdict, payloads) {
        (Verdict::Parked(_), []) => Fate::Parked,
        (Verdict::New(_), [Payload::CommandRejected { refusal, .. }]) => Fate::Command(*refusal),
        (Verdict::New(_), [Payload::OrderRejected(order)]) => Fate::Order(order.reason),
        (Verdict::New(_), [_, ..]) => Fate::Accepted,
        other => panic!("{other:?}"),
    }
}

/// One bid of a good shape, with some of its text replaced.
fn bid(command: &str, changes: &[(&str, &str)]) -> String {
    let mut line = format!(
        r#"{{"type":"order.place","commandId":"{command}","pairId":4,"timestamp":1767225600000,"order":{{"id":"o-{command}","side":"bid","type":"limit","price":"100","volume":"2","userId":"u-1","priceDecimals":2,"amountDecimals":4,"quoteDecimals":2,"timestamp":1767225600000}}}}"#
    );
    for (from, to) in changes {
        assert!(line.contains(from), "{from} is in {line}");
        line = line.replace(from, to);
    }
    line
}

/// No command at all, or none with an id.
fn parked() -> Vec<String> {
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    vec![
        "not JSON".to_owned(),
        String::new(),
        "[]".to_owned(),
        "\u{feff}{}".to_owned(),
        r#"{"type":"order.cancel"}"#.to_owned(),
        bid("", &[]),
        bid("a b", &[]),
        bid(&"c".repeat(129), &[]),
        format!("\"{}\"", "x".repeat(10 << 20)),
        nested,
    ]
}

/// Commands with an id that break a rule of the wire.
fn malformed() -> Vec<String> {
    let long = "o".repeat(129);
    let deep = format!("\"deep\":{}{},", "[".repeat(10_000), "]".repeat(10_000));
    let mut lines: Vec<String> = [
        ("type", "order.place", "order.plaice"),
        ("field", r#""pairId""#, r#""colour":1,"pairId""#),
        ("nested", r#""pairId""#, &format!("{deep}\"pairId\"")),
        ("twice", r#""pairId""#, r#""pairId":4,"pairId""#),
        ("year", "1767225600000", "7258118400000"),
        ("empty", "o-empty", ""),
        ("long", "o-long", &long),
        ("slash", "o-slash", "o/1"),
        ("pair", r#":4,"timestamp""#, r#":4294967296,"timestamp""#),
        ("scale", r#"priceDecimals":2"#, r#"priceDecimals":13"#),
        ("float", r#""100""#, "100.5"),
    ]
    .map(|(command, from, to)| bid(command, &[(from, to)]))
    .into();
    let numbers = ["-1", "0", "0.00", "1e3", "1_000", " 1", "NaN", "01", "1."];
    for (place, number) in numbers.into_iter().enumerate() {
        let text = format!("\"{number}\"");
        lines.push(bid(&format!("price-{place}"), &[(r#""100""#, &text)]));
        lines.push(bid(&format!("volume-{place}"), &[(r#""2""#, &text)]));
    }
    lines
}

/// Well-formed commands that are refused whole.
fn refused() -> Vec<(String, Refusal)> {
    let ids: Vec<String> = (0..501).map(|number| format!("\"x-{number}\"")).collect();
    let batch = format!(
        r#"{{"type":"orders.replace-batch","commandId":"batch","pairId":4,"timestamp":1,"cancel":[{}],"place":[]}}"#,
        ids.join(",")
    );
    let other = bid("other", &[(r#""pairId""#, r#""partition":3,"pairId""#)]);
    let house = bid("house", &[(r#""u-1""#, "null"), (r#""100""#, r#""200""#)]);
    vec![
        (batch, Refusal::BatchTooLarge),
        (other, Refusal::WrongPartition),
        (house, Refusal::BotAgainstBot),
    ]
}

/// Orders that their pair does not take.
fn unacceptable() -> Vec<(String, RejectReason)> {
    use RejectReason as Why;
    let thirty_zeros = format!("\"1{}\"", "0".repeat(30));
    let (price, volume) = (r#""100""#, r#""2""#);
    let (decimals, others) = (r#"amountDecimals":4"#, r#"amountDecimals":5"#);
    [
        ("ticks", price, r#""10000000000000""#, Why::PriceOutOfRange),
        ("huge-1", price, &thirty_zeros, Why::PriceOutOfRange),
        ("huge-2", volume, &thirty_zeros, Why::VolumeOutOfRange),
        ("fine-1", price, r#""100.001""#, Why::PricePrecision),
        ("fine-2", volume, r#""2.00001""#, Why::VolumePrecision),
        ("differ", decimals, others, Why::DecimalsMismatch),
    ]
    .map(|(command, from, to, why)| (bid(command, &[(from, to)]), why))
    .into()
}

/// A good order of the house, everything that can be wrong, and a good order that meets the first.
fn lines() -> Vec<(String, Fate)> {
    let ask = [
        (r#""bid""#, r#""ask""#),
        (r#""u-1""#, "null"),
        (r#""100""#, r#""150""#),
    ];
    let parked = parked().into_iter().map(|line| (line, Fate::Parked));
    let malformed = malformed()
        .into_iter()
        .map(|line| (line, Refusal::Malformed));
    let refused = malformed
        .chain(refused())
        .map(|(line, refusal)| (line, Fate::Command(refusal)));
    let unacceptable = unacceptable()
        .into_iter()
        .map(|(line, reason)| (line, Fate::Order(reason)));
    let first = [(bid("first", &ask), Fate::Accepted)];
    let last = [(bid("last", &[(r#""100""#, r#""150""#)]), Fate::Accepted)];
    first
        .into_iter()
        .chain(parked)
        .chain(refused)
        .chain(unacceptable)
        .chain(last)
        .collect()
}

#[test]
fn nothing_that_is_sent_stops_a_partition_or_is_lost() {
    let fast = fates(Replay::<FastBook>::new(4));
    let naive = fates(Replay::<NaiveBook>::new(4));
    assert!(fast == naive, "the books differ");
}

/// Sends every line, checks what comes of it, and gives back all events.
fn fates<B: Book>(mut replay: Replay<B>) -> Vec<u8> {
    let lines = lines();
    let trace: Vec<&str> = lines.iter().map(|(line, _)| line.as_str()).collect();
    let trace = trace.join("\n");
    let mut reader = TraceReader::new(trace.as_bytes());
    let mut events = Vec::new();
    for (line, expected) in &lines {
        let read = reader.read().expect("memory can be read").expect("a line");
        let partition = read.destination(4);
        let decided = replay.feed(partition, &read.incoming).expect("no halt");
        let payloads: Vec<Payload> = decided
            .events
            .iter()
            .map(|event| event.payload.clone())
            .collect();
        let shown = &line[..line.len().min(200)];
        assert_eq!(fate(&decided.verdict, &payloads), *expected, "{shown}");
        events.extend_from_slice(decided.canonical);
    }
    assert!(reader.read().expect("memory can be read").is_none());
    let counts = replay.counts();
    assert_eq!((counts.deals, counts.parked), (1, parked().len() as u64));
    assert_eq!(counts.messages, counts.commands + counts.parked);
    events
}
