//! Everything that somebody can get wrong, in the middle of a burst of good commands, through a
//! real cell: each goes exactly where it must, once, and the commands around it trade on.
//!
//! What must come of each message is said by the table in `bad_input_support`; what the whole burst
//! gives is held against the engine alone, byte for byte. No outbox runs, so the stream of the
//! store holds every event that was ever committed.

mod bad_input_support;
mod live;
mod raw_messages;

use bad_input_support::{Case, Cases, Fate, burst, parked_of};
use conductor_engine::{CommandId, PartitionId};
use conductor_io::keys::Keys;
use conductor_tools::testbed::{Instance, Layout};
use live::{LATER, LiveCell, assert_same_events, metric};
use raw_messages::{parked, replay, replies, stored_book, text, wait_queued};
use serde_json::Value;
use std::collections::BTreeMap;

/// The reply to each case, from the replies to its burst.
fn of_cases(replies: &[Option<String>]) -> impl Iterator<Item = Option<&str>> {
    replies.iter().skip(1).step_by(2).map(Option::as_deref)
}

#[test]
fn each_goes_where_it_must_and_the_commands_around_it_go_on() {
    let cases = Cases::every().all;
    let burst = burst(&cases);
    let live = LiveCell::start(&Layout::default());
    let conductor = live.conductor("conductor", &[]);
    let process = conductor.process().pid();

    let first = replies(&live.settings, &burst);
    let events = live.stream(live.store(0), 0);
    let alone = replay(&burst, 1);
    assert_same_events(&events, &alone.events[&0]);
    assert_eq!(
        first, alone.results,
        "every reply is the result that the engine alone gives"
    );
    assert_eq!(stored_book(live.store(0), 0), alone.book);
    for good in first.iter().step_by(2) {
        let good = good.as_deref().expect("a reply");
        assert!(good.contains("\"outcome\":\"rested\""), "{good}");
    }
    let told = Told::of(&text(&events));
    for (case, reply) in cases.iter().zip(of_cases(&first)) {
        assert_fate(&live, case, reply, &told);
    }
    let expected = parked_of(&cases);
    assert_parked(&live, &expected);
    wait_queued(&live.servers, 0, expected.len() as u64);

    // Sent again, every command has its stored reply and changes nothing; what is no command is
    // parked again, since nobody can know that it was there before.
    let second = replies(&live.settings, &burst);
    assert_eq!(first, second);
    assert_same_events(&live.stream(live.store(0), 0), &events);
    wait_queued(&live.servers, 0, 2 * expected.len() as u64);
    assert_parked(&live, &[&expected[..], &expected[..]].concat());

    assert_eq!(conductor.process().pid(), process);
    assert_undisturbed(
        &conductor,
        2 * burst.len() as u64,
        2 * expected.len() as u64,
    );
}

/// Events by the command that caused them.
struct Told(BTreeMap<String, Vec<Value>>);

impl Told {
    fn of(events: &str) -> Self {
        let mut told = BTreeMap::<String, Vec<Value>>::new();
        for line in events.lines() {
            let event: Value = serde_json::from_str(line).expect("events are JSON");
            let command = event["causationId"]
                .as_str()
                .expect("every event has a cause");
            told.entry(command.to_owned()).or_default().push(event);
        }
        Self(told)
    }

    /// The only event of a command.
    fn only(&self, case: &Case, kind: &str) -> &Value {
        let id = case.id.as_deref().expect("it is a command");
        let events = self.0.get(id).map_or(&[][..], Vec::as_slice);
        assert_eq!(events.len(), 1, "{events:?} of {}", case.shown());
        assert_eq!(events[0]["type"], kind, "{}", case.shown());
        &events[0]["payload"]
    }
}

fn assert_fate(live: &LiveCell, case: &Case, reply: Option<&str>, told: &Told) {
    let shown = case.shown();
    let status = match case.fate {
        Fate::Parked(_) => return assert_eq!(reply, None, "{shown}"),
        Fate::Accepted => None,
        Fate::Refused(reason, detail) => {
            let payload = told.only(case, "command.rejected.v1");
            assert_eq!(payload["reason"], reason, "{shown}");
            let said = payload["detail"].as_str().unwrap_or_default();
            assert!(said.contains(detail), "{said:?}: {shown}");
            Some("rejected")
        }
        Fate::Rejected(reason) => {
            let payload = told.only(case, "order.rejected.v1");
            assert_eq!(payload["reason"], reason, "{shown}");
            Some("rejected")
        }
    };
    let id = case.id.as_deref().expect("it is a command");
    let reply = reply.unwrap_or_else(|| panic!("no reply: {shown}"));
    let said: Value = serde_json::from_str(reply).expect("replies are JSON");
    match status {
        Some(status) => assert_eq!(said["status"], status, "{shown}"),
        None => assert_ne!(said["status"], "rejected", "{said}: {shown}"),
    }
    let key = Keys::new(PartitionId(0)).processed_command(&CommandId::new(id).expect("an id"));
    let stored: Option<String> = live.store(0).command(&["GET", &key]).expect("it answers");
    assert_eq!(stored.as_deref(), Some(reply), "{shown}");
}

/// The parking queue holds exactly these, whole and in this order, each with its reason.
fn assert_parked(live: &LiveCell, expected: &[(&[u8], &str)]) {
    let found = parked(&live.settings, 0, expected.len());
    for ((body, reason), (message, part)) in found.iter().zip(expected) {
        let shown = String::from_utf8_lossy(&message[..message.len().min(100)]);
        assert!(
            body == message,
            "{} bytes instead of {}: {shown}",
            body.len(),
            message.len()
        );
        assert!(
            !reason.is_empty() && reason.contains(part),
            "{reason:?}: {shown}"
        );
    }
}

/// One ownership from beginning to end, every message delivered once.
fn assert_undisturbed(conductor: &Instance, messages: u64, parked: u64) {
    let counted = |name: &str| metric(conductor, &format!("conductor_{name}_total"), 0);
    assert_eq!(
        (counted("deliveries"), counted("redeliveries")),
        (messages, 0)
    );
    assert_eq!(counted("parked"), parked);
    assert_eq!(
        (counted("claims"), counted("doubts"), counted("halts")),
        (1, 0, 0)
    );
    conductor.wait_ready(LATER).expect("it is ready for more");
}
