//! The end of the process in every state: nothing new, nothing half done, the lease given up.

use super::*;

const RELEASED: [Action; 2] = [Action::ReleaseLease, Action::Stopped];

#[test]
fn where_nothing_is_under_way_it_ends_at_once() {
    let states = [
        ("new", Bench::new(true), false),
        ("connecting", Bench::connecting_store(), false),
        (
            "connecting to the broker",
            Bench::connecting_broker(),
            false,
        ),
        ("idling", Bench::idling(), true),
        ("pausing", Bench::pausing(), true),
    ];
    for (state, mut bench, lease) in states {
        let expected = if lease { &RELEASED[..] } else { &RELEASED[1..] };
        assert_eq!(bench.ask(Input::Stop), expected, "{state}");
        assert_eq!(bench.ask(Input::Stop), [], "{state}: once");
        bench.outbox.start();
        assert_eq!(bench.outbox.take_actions(), [], "{state}: for good");
        assert!(bench.outbox.not_ready().is_some(), "{state}");
    }
}

#[test]
fn a_lease_that_is_just_being_taken_is_given_up() {
    for (taken, expected) in [(true, &RELEASED[..]), (false, &RELEASED[1..])] {
        let mut bench = Bench::taking_lease();
        assert_eq!(bench.ask(Input::Stop), []);
        assert_eq!(bench.ask(Input::Lease(taken)), expected);
    }
}

#[test]
fn what_was_read_is_not_published_any_more() {
    for confirmed in [enough(), disks(true, 0, 0)] {
        let mut bench = Bench::reading();
        assert_eq!(bench.ask(Input::Stop), []);
        bench.tell(batch(1..=6));
        assert_eq!(bench.ask(confirmed), RELEASED);
    }
}

#[test]
fn what_is_out_is_waited_for_and_deleted() {
    let mut bench = Bench::publishing();
    assert_eq!(bench.ask(Input::Stop), []);
    for place in 0..2 {
        assert_eq!(bench.ask(Input::Published(place)), []);
    }
    let delete = (1..=3).map(deleted).collect();
    assert_eq!(
        bench.ask(Input::Published(2)),
        [Action::Read { delete, count: 0 }]
    );
    bench.tell(batch([]));
    assert_eq!(bench.ask(enough()), RELEASED);
}

#[test]
fn a_failure_on_the_way_out_is_settled_and_not_tried_again() {
    let lost = || Input::BrokerLost("it takes too long".to_owned());
    for (answer, failed) in [(refused(1), Some(2)), (lost(), Some(2))] {
        let mut bench = Bench::publishing();
        bench.tell(Input::Stop);
        bench.tell(Input::Published(0));
        bench.tell(Input::Published(2));
        assert_eq!(bench.ask(answer), [settle(&[1], failed)]);
        assert_eq!(bench.ask(Input::Settled), RELEASED);
    }
}

#[test]
fn what_writes_is_waited_for() {
    let mut bench = Bench::dead_lettering();
    assert_eq!(bench.ask(Input::Stop), []);
    assert_eq!(bench.ask(Input::DeadLettered), RELEASED);
    let mut bench = Bench::settling();
    assert_eq!(bench.ask(Input::Stop), []);
    assert_eq!(bench.ask(Input::Settled), RELEASED);
}

#[test]
fn a_store_that_goes_on_the_way_out_leaves_a_lease_to_give_up() {
    for (mut bench, lease) in [(Bench::reading(), true), (Bench::taking_lease(), false)] {
        bench.tell(Input::Stop);
        let mut expected = vec![Action::DisconnectStore];
        expected.extend(lease.then_some(Action::ReleaseLease));
        expected.push(Action::Stopped);
        assert_eq!(bench.ask(Input::StoreLost("gone".to_owned())), expected);
    }
}
