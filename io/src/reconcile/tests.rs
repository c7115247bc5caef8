//! Tables of what index, record and memory say, and the verdict.

use super::*;
use crate::resp::Reader;
use conductor_engine::PartitionId;

const PAIR: PairId = PairId(12);
const PRIORITY: u64 = 1_767_225_600_000_000;

fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

fn own_member(side: Side) -> String {
    Keys::member(side, PRIORITY, &OrderId::new("o-1").expect("an id"))
}

/// The record of ask `o-1`, 2 at 100.25, with some fields changed; an empty value takes one out.
fn record_with(changes: &[(&str, &str)]) -> Reply {
    let mut fields: Vec<(String, String)> = [
        ("id", "o-1"),
        ("pairId", "12"),
        ("side", "ask"),
        ("type", "limit"),
        ("price", "100.25"),
        ("remaining", "2"),
        ("volume", "3"),
        ("quoteVolume", "100.25"),
        ("priceDecimals", "2"),
        ("amountDecimals", "8"),
        ("quoteDecimals", "2"),
        ("timestamp", "1767225600000"),
        ("priority", "1767225600000000"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    for (name, value) in changes {
        fields.retain(|(field, _)| field != name);
        if !value.is_empty() {
            fields.push(((*name).to_owned(), (*value).to_owned()));
        }
    }
    Reply::Array(
        fields
            .iter()
            .flat_map(|(name, value)| [bulk(name), bulk(value)])
            .collect(),
    )
}

fn no_record() -> Reply {
    Reply::Array(Vec::new())
}

fn view() -> OrderView {
    OrderView {
        id: OrderId::new("o-1").expect("an id"),
        side: Side::Ask,
        price: "100.25".to_owned(),
        remaining: "2".to_owned(),
        priority: PRIORITY,
    }
}

/// The verdict on one member of the asks; its own name is a candidate too and has no record.
fn verdict(
    member: &str,
    score: Option<&str>,
    record: Reply,
    memory: Option<Option<OrderView>>,
) -> Option<IssueKind> {
    let suspect = member_suspect(Side::Ask, member);
    let mut replies = vec![score.map_or(Reply::Nil, bulk), record];
    while replies.len() < reads(std::slice::from_ref(&suspect)) {
        replies.push(no_record());
    }
    let lookup = |order: &str| memory.clone().flatten().filter(|_| order == "o-1");
    let lookup: Option<Memory<'_>> = if memory.is_some() {
        Some(&lookup)
    } else {
        None
    };
    let issues = judge(&Reply::Array(replies), PAIR, &[suspect], lookup).expect("an answer");
    assert!(issues.len() <= 1);
    issues.first().map(|issue| issue.kind)
}

#[test]
fn index_and_record_are_compared_with_and_without_memory() {
    use IssueKind::{IndexMismatch, MissingOrder};
    let own = own_member(Side::Ask);
    let table: [(&str, &str, Reply, Option<IssueKind>); 12] = [
        ("as it should be", "100.25", record_with(&[]), None),
        (
            "trailing zeros",
            "100.25",
            record_with(&[("price", "100.2500")]),
            None,
        ),
        (
            "zeros within the decimals",
            "100.2",
            record_with(&[("price", "100.20")]),
            None,
        ),
        ("no record", "100.25", no_record(), Some(MissingOrder)),
        (
            "another pair",
            "100.25",
            record_with(&[("pairId", "13")]),
            Some(IndexMismatch),
        ),
        (
            "another side",
            "100.25",
            record_with(&[("side", "bid")]),
            Some(IndexMismatch),
        ),
        (
            "another price",
            "100.24",
            record_with(&[]),
            Some(IndexMismatch),
        ),
        (
            "another id",
            "100.25",
            record_with(&[("id", "o-2")]),
            Some(IndexMismatch),
        ),
        (
            "another place",
            "100.25",
            record_with(&[("priority", "7")]),
            Some(IndexMismatch),
        ),
        (
            "no priority yet",
            "100.25",
            record_with(&[("priority", "")]),
            None,
        ),
        (
            "no number",
            "100.25",
            record_with(&[("remaining", "two")]),
            Some(IndexMismatch),
        ),
        (
            "no hash",
            "100.25",
            Reply::Error("WRONGTYPE".to_owned()),
            Some(IndexMismatch),
        ),
    ];
    for (what, score, record, expected) in table {
        assert_eq!(verdict(&own, Some(score), record, None), expected, "{what}");
    }
}

/// What is told, the member's score, the record, what memory has, and the verdict.
type Row = (
    &'static str,
    Option<&'static str>,
    Reply,
    Option<OrderView>,
    Option<IssueKind>,
);

#[test]
fn memory_is_compared_where_the_index_is_sound() {
    use IssueKind::{IndexMismatch, MemoryMismatch, MissingOrder};
    let own = own_member(Side::Ask);
    let changed = |change: fn(&mut OrderView)| {
        let mut view = view();
        change(&mut view);
        Some(view)
    };
    let table: [Row; 12] = [
        (
            "as it should be",
            Some("100.25"),
            record_with(&[]),
            Some(view()),
            None,
        ),
        ("gone from all three", None, no_record(), None, None),
        (
            "not in memory",
            Some("100.25"),
            record_with(&[]),
            None,
            Some(MemoryMismatch),
        ),
        (
            "record alone",
            None,
            record_with(&[]),
            None,
            Some(MemoryMismatch),
        ),
        (
            "memory alone",
            None,
            no_record(),
            Some(view()),
            Some(MemoryMismatch),
        ),
        (
            "not in the index",
            None,
            record_with(&[]),
            Some(view()),
            Some(MemoryMismatch),
        ),
        (
            "no record",
            Some("100.25"),
            no_record(),
            Some(view()),
            Some(MissingOrder),
        ),
        (
            "another remainder",
            Some("100.25"),
            record_with(&[("remaining", "1.5")]),
            Some(view()),
            Some(MemoryMismatch),
        ),
        (
            "another price",
            Some("100.25"),
            record_with(&[]),
            changed(|view| view.price = "100.2".to_owned()),
            Some(MemoryMismatch),
        ),
        (
            "another side",
            Some("100.25"),
            record_with(&[]),
            changed(|view| view.side = Side::Bid),
            Some(MemoryMismatch),
        ),
        (
            "another place",
            Some("100.25"),
            record_with(&[("priority", "")]),
            Some(view()),
            Some(MemoryMismatch),
        ),
        (
            "another score",
            Some("100.24"),
            record_with(&[]),
            Some(view()),
            Some(IndexMismatch),
        ),
    ];
    for (what, score, record, memory, expected) in table {
        assert_eq!(
            verdict(&own, score, record, Some(memory)),
            expected,
            "{what}"
        );
    }
}

#[test]
fn an_order_that_moved_since_it_was_suspected_is_no_issue() {
    let mut moved = view();
    moved.priority = PRIORITY + 5;
    let record = || record_with(&[("priority", "1767225600000005")]);
    let own = own_member(Side::Ask);
    assert_eq!(
        verdict(&own, None, record(), Some(Some(moved.clone()))),
        None
    );
    // The member that it left behind is one, if it still stands.
    let left = verdict(&own, Some("100.25"), record(), Some(Some(moved)));
    assert_eq!(left, Some(IssueKind::IndexMismatch));
}

#[test]
fn members_in_older_forms_are_no_issue_until_an_owner_has_rewritten_them() {
    let older = || record_with(&[("priority", "")]);
    assert_eq!(
        verdict("0001767225600000:o-1", Some("100.25"), older(), None),
        None
    );
    assert_eq!(verdict("o-1", Some("100.25"), older(), None), None);
    let beside = verdict("o-1", Some("100.25"), record_with(&[]), Some(Some(view())));
    assert_eq!(
        beside,
        Some(IssueKind::IndexMismatch),
        "it stands beside its own member"
    );
}

#[test]
fn a_member_that_is_no_order_is_named_whole() {
    let suspect = member_suspect(Side::Bid, "no member");
    assert_eq!(suspect.order, "no member");
    let exec = Reply::Array(vec![bulk("1")]);
    let issues = judge(&exec, PAIR, &[suspect], None).expect("an answer");
    assert_eq!(issues[0].to_string(), "bid:no member:missing-order");
}

#[test]
fn a_bare_id_that_looks_like_a_member_is_decided_by_its_record() {
    let name = "1767225600000000:o-1";
    let suspect = member_suspect(Side::Ask, name);
    let record = record_with(&[("id", name), ("priority", "")]);
    let exec = Reply::Array(vec![bulk("100.25"), no_record(), record]);
    assert_eq!(judge(&exec, PAIR, &[suspect], None), Ok(Vec::new()));
}

#[test]
fn what_memory_has_is_looked_for_under_its_own_member() {
    let mut bid = view();
    bid.side = Side::Bid;
    let suspect = memory_suspect(&bid);
    assert_eq!(
        suspect.member.as_deref(),
        Some(own_member(Side::Bid).as_str())
    );
    let record = record_with(&[("side", "bid")]);
    let lookup = |order: &str| (order == "o-1").then(|| bid.clone());
    for (score, issues) in [(bulk("100.25"), 0), (Reply::Nil, 1)] {
        let exec = Reply::Array(vec![score, record.clone(), no_record()]);
        let judged = judge(&exec, PAIR, std::slice::from_ref(&suspect), Some(&lookup));
        assert_eq!(judged.expect("an answer").len(), issues);
    }
    let nameless = Suspect {
        member: None,
        ..suspect
    };
    let exec = Reply::Array(vec![no_record()]);
    let issues = judge(&exec, PAIR, &[nameless], Some(&lookup)).expect("an answer");
    assert_eq!(issues[0].to_string(), "bid:o-1:memory-mismatch");
}

#[test]
fn the_packet_asks_exactly_what_is_judged() {
    let keys = Keys::new(PartitionId(0));
    let suspects = [
        member_suspect(Side::Ask, &own_member(Side::Ask)),
        member_suspect(Side::Bid, "no member"),
        Suspect {
            side: Side::Bid,
            member: None,
            order: "o-9".to_owned(),
        },
    ];
    let mut packet = Vec::new();
    let mut packer = Packer::new(&mut packet);
    suspects_packet(&keys, PAIR, &suspects, &mut packer);
    assert_eq!(packer.packed(), reads(&suspects) + 2);
    let mut reader = Reader::new();
    reader.feed(&packet);
    let mut words = Vec::new();
    while let Some(command) = reader.next().expect("whole commands") {
        words.push(
            command.elements().expect("parts")[0]
                .text()
                .expect("text")
                .to_owned(),
        );
    }
    assert_eq!(
        words,
        [
            "MULTI", "ZSCORE", "HGETALL", "HGETALL", "ZSCORE", "HGETALL", "EXEC"
        ]
    );
}

#[test]
fn a_reply_that_answers_something_else_is_refused() {
    let suspects = [member_suspect(Side::Ask, "o-1")];
    let judged = |reply: Reply| judge(&reply, PAIR, &suspects, None);
    assert_eq!(judged(Reply::Nil), Err(JudgeError::NotRun));
    assert!(matches!(
        judged(Reply::Error("ERR".to_owned())),
        Err(JudgeError::Refused(_))
    ));
    let short = judged(Reply::Array(vec![Reply::Nil]));
    assert_eq!(
        short,
        Err(JudgeError::Length {
            found: 1,
            expected: 2
        })
    );
}
