use super::*;
use crate::tester::record::{About, Record};
use crate::tester::start::Start;
use std::path::Path;
use tempfile::TempDir;

fn about() -> About {
    About {
        seed: 1,
        partition_count: 2,
        event_queue: "q".to_owned(),
        prefix: String::new(),
        start: Start::nothing(2),
    }
}

fn record() -> (TempDir, Record) {
    let folder = tempfile::tempdir().expect("a folder");
    let record = Record::create(&folder.path().join("record"), &about()).expect("it is made");
    (folder, record)
}

fn reopened(path: &Path) -> (Record, Inbox) {
    let (record, about) = Record::open(path).expect("it is there");
    let inbox = Inbox::of(&record, &about).expect("it reads");
    (record, inbox)
}

fn event(sequence: u64, command: &str, kind: &str, payload: &str) -> Vec<u8> {
    format!(
        r#"{{"eventId":"{command}.0","type":"{kind}","causationId":"{command}","partition":1,"pairId":3,"sequence":{sequence},"timestamp":5,"payload":{payload}}}"#
    )
    .into_bytes()
}

fn rested(sequence: u64, order: &str) -> Vec<u8> {
    let payload = format!(
        r#"{{"orderId":"{order}","userId":null,"side":"ask","price":"10","remaining":"2","priority":"000000000000000{sequence}"}}"#
    );
    event(sequence, order, "order.rested.v1", &payload)
}

fn dealt(sequence: u64, maker: &str, left: &str) -> Vec<u8> {
    let payload = format!(
        r#"{{"makerOrderId":"{maker}","takerOrderId":"t","makerUserId":null,"takerUserId":"u","takerSide":"bid","price":"10","volume":"0.5","quoteVolume":"5","makerRemaining":"{left}","takerRemaining":"0"}}"#
    );
    event(
        sequence,
        &format!("d-{sequence}"),
        "deal.executed.v1",
        &payload,
    )
}

fn take_all(record: &mut Record, inbox: &mut Inbox, events: &[Vec<u8>]) -> Result<(), InboxError> {
    let transaction = record.begin().expect("it begins");
    for event in events {
        inbox.take(&transaction, event)?;
    }
    transaction.commit().expect("it is kept");
    Ok(())
}

fn count(record: &Record, table: &str) -> u64 {
    let query = format!("SELECT count(*) FROM {table}");
    let counting = record.connection().query_row(&query, [], |row| row.get(0));
    counting.expect("it counts")
}

#[test]
fn an_event_and_what_it_means_are_kept_together() {
    let (_folder, mut record) = record();
    let mut inbox = Inbox::of(&record, &about()).expect("it reads");
    let closed = event(5, "c", "order.closed.v1", r#"{"orderId":"b"}"#);
    let events = [
        rested(1, "a"),
        rested(2, "b"),
        dealt(3, "a", "1.5"),
        dealt(4, "a", "1"),
        closed,
    ];
    take_all(&mut record, &mut inbox, &events).expect("they are taken");
    let order: (String, String, u64) = record
        .connection()
        .query_row(
            "SELECT order_id, remaining, priority FROM resting",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .expect("one order rests");
    assert_eq!(order, ("a".to_owned(), "1".to_owned(), 1));
    let traded: (u64, String, String) = record
        .connection()
        .query_row(
            "SELECT deals, volume, quote_volume FROM traded WHERE pair = 3",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .expect("the pair traded");
    assert_eq!(traded, (2, "1".to_owned(), "10".to_owned()));
    assert_eq!((inbox.fresh, inbox.repeated), (5, 0));
}

#[test]
fn a_gap_ends_it() {
    let (_folder, mut record) = record();
    let mut inbox = Inbox::of(&record, &about()).expect("it reads");
    take_all(&mut record, &mut inbox, &[rested(1, "a")]).expect("it is taken");
    let gap = take_all(&mut record, &mut inbox, &[rested(3, "c")]).expect_err("2 is missing");
    assert!(
        matches!(
            gap,
            InboxError::Gap {
                expected: 2,
                found: 3,
                ..
            }
        ),
        "{gap}"
    );
    assert_eq!(count(&record, "event"), 1);
}

#[test]
fn a_repeat_is_dropped_and_one_with_other_bytes_ends_it() {
    let (_folder, mut record) = record();
    let mut inbox = Inbox::of(&record, &about()).expect("it reads");
    let events = [rested(1, "a"), dealt(2, "a", "1")];
    take_all(&mut record, &mut inbox, &events).expect("they are taken");
    take_all(&mut record, &mut inbox, &events).expect("they are dropped");
    assert_eq!((inbox.fresh, inbox.repeated), (2, 2));
    assert_eq!((count(&record, "event"), count(&record, "traded")), (2, 1));
    let back = take_all(&mut record, &mut inbox, &[dealt(2, "a", "0.9")]).expect_err("it differs");
    assert!(
        matches!(back, InboxError::WentBack { sequence: 2, .. }),
        "{back}"
    );
}

#[test]
fn an_event_id_under_two_sequences_ends_it() {
    let (_folder, mut record) = record();
    let mut inbox = Inbox::of(&record, &about()).expect("it reads");
    take_all(&mut record, &mut inbox, &[rested(1, "a")]).expect("it is taken");
    let twice = take_all(&mut record, &mut inbox, &[rested(2, "a")]).expect_err("known by id");
    assert!(
        matches!(twice, InboxError::TwoSequences { sequence: 2, .. }),
        "{twice}"
    );
}

/// A consumer that dies before its commit sees the events again and takes them; one that dies
/// between its commit and its acknowledgement sees them again and drops them.
#[test]
fn a_death_before_or_behind_the_commit_loses_and_doubles_nothing() {
    let (folder, mut record) = record();
    let path = folder.path().join("record");
    let mut inbox = Inbox::of(&record, &about()).expect("it reads");
    take_all(&mut record, &mut inbox, &[rested(1, "a")]).expect("it is taken");
    {
        let transaction = record.begin().expect("it begins");
        inbox
            .take(&transaction, &dealt(2, "a", "1.5"))
            .expect("it is taken");
        // It dies here: the transaction is never kept.
    }
    drop((record, inbox));
    let (mut record, mut inbox) = reopened(&path);
    assert_eq!(inbox.last(PartitionId(1)), 1);
    assert_eq!(count(&record, "traded"), 0);
    take_all(&mut record, &mut inbox, &[dealt(2, "a", "1.5")]).expect("it is taken");
    drop((record, inbox));
    let (mut record, mut inbox) = reopened(&path);
    take_all(&mut record, &mut inbox, &[dealt(2, "a", "1.5")]).expect("it is dropped");
    assert_eq!((inbox.fresh, inbox.repeated), (0, 1));
    assert_eq!(
        (count(&record, "event"), inbox.last(PartitionId(1))),
        (2, 2)
    );
}
