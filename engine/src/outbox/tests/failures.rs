//! Failures of one event, of the broker and of the store.

use super::*;

fn store_lost() -> Input {
    Input::StoreLost("gone".to_owned())
}

fn broker_lost() -> Input {
    Input::BrokerLost("gone".to_owned())
}

#[test]
fn nothing_is_published_past_a_failure_and_only_what_lies_before_it_is_deleted() {
    let bench = Bench::settling();
    let counters = bench.outbox.counters();
    assert_eq!((counters.published, counters.retried), (3, 3));
    let problem = bench.outbox.not_ready().expect("it is not ready");
    assert!(
        problem.contains("c-2.0") && problem.contains("no queue"),
        "{problem}"
    );
}

#[test]
fn the_earliest_failure_counts_whatever_the_order_of_the_answers() {
    let mut bench = Bench::publishing();
    assert!(bench.ask(refused(2)).is_empty());
    assert!(bench.ask(refused(1)).is_empty());
    let actions = bench.tell(Input::Published(0));
    let note = Note::Refused {
        event: "c-2.0".to_owned(),
        reason: "no queue".to_owned(),
    };
    assert_eq!(actions, [Action::Note(note), settle(&[1], Some(2))]);
}

#[test]
fn after_a_failure_one_event_is_tried_alone_and_then_the_window_opens() {
    let mut bench = Bench::pausing();
    assert_eq!(bench.ask(Input::PauseOver), [read(&[])]);
    bench.tell(batch(2..=6));
    assert_eq!(published(&bench.ask(enough())), [0]);
    assert!(
        bench.outbox.not_ready().is_some(),
        "it still misses the event"
    );
    assert_eq!(bench.ask(refused(0)), [settle(&[], Some(2))]);
    assert_eq!(bench.ask(Input::Settled), [Action::Pause(200)]);
    bench.tell(Input::PauseOver);
    bench.tell(batch(2..=6));
    assert_eq!(published(&bench.ask(enough())), [0]);
    assert_eq!(published(&bench.ask(Input::Published(0))), [1, 2, 3]);
}

#[test]
fn pauses_double_and_start_again_after_a_success() {
    let mut bench = Bench::connecting_store();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let actions = bench.ask(store_lost());
        let [Action::DisconnectStore, Action::Pause(pause)] = actions[..] else {
            panic!("{actions:?}");
        };
        pauses.push(pause);
        assert_eq!(bench.ask(Input::PauseOver), [Action::ConnectStore]);
    }
    assert_eq!(pauses, [100, 200, 400, 800, 1_600, 2_000, 2_000, 2_000]);
    for input in [
        Input::StoreConnected,
        Input::BrokerReady,
        Input::Lease(true),
        batch([]),
    ] {
        bench.tell(input);
    }
    assert_eq!(bench.ask(enough()), [Action::AwaitEvents]);
    assert_eq!(
        bench.ask(store_lost()),
        [Action::DisconnectStore, Action::Pause(100)]
    );
}

#[test]
fn an_event_that_is_refused_again_and_again_is_tried_every_half_a_minute() {
    let mut bench = Bench::pausing();
    let mut last = 0;
    for _ in 0..12 {
        bench.tell(Input::PauseOver);
        bench.tell(batch(2..=6));
        assert_eq!(published(&bench.ask(enough())), [0]);
        bench.tell(refused(0));
        let actions = bench.ask(Input::Settled);
        let [Action::Pause(pause)] = actions[..] else {
            panic!("{actions:?}");
        };
        assert!(pause >= last);
        last = pause;
    }
    assert_eq!(last, 30_000);
}

#[test]
fn a_broker_that_goes_while_publishing_fails_what_was_unconfirmed() {
    let mut bench = Bench::publishing();
    bench.tell(Input::Published(0));
    bench.tell(Input::Published(2));
    assert_eq!(bench.ask(broker_lost()), [settle(&[1], Some(2))]);
    assert_eq!(bench.outbox.unconfirmed(), 0);
    assert_eq!(bench.ask(Input::Published(1)), [], "too late");
    assert_eq!(bench.ask(Input::Settled), [Action::Pause(100)]);
    // Another outbox may have a broker: the lease is given up while this one looks for its own.
    assert_eq!(
        bench.ask(Input::PauseOver),
        [Action::ReleaseLease, Action::ConnectBroker]
    );
    assert!(!bench.outbox.holds_lease());
    assert_eq!(bench.ask(broker_lost()), [Action::Pause(200)]);
    assert_eq!(bench.ask(Input::PauseOver), [Action::ConnectBroker]);
    assert_eq!(bench.ask(Input::BrokerReady), [Action::TakeLease]);
    assert_eq!(bench.ask(Input::Lease(true)), [read(&[])]);
}

#[test]
fn a_broker_that_goes_costs_only_the_first_open_event_a_try() {
    let mut bench = Bench::publishing();
    for place in 0..5 {
        bench.tell(Input::Published(place));
    }
    assert_eq!(
        bench.ask(broker_lost()),
        [settle(&[1, 2, 3, 4, 5], Some(6))]
    );
}

#[test]
fn a_broker_that_goes_while_nothing_is_to_be_published_is_looked_for() {
    let mut bench = Bench::idling();
    assert_eq!(bench.ask(broker_lost()), []);
    assert!(bench.outbox.not_ready().is_some());
    assert_eq!(
        bench.ask(Input::Awaited),
        [Action::ReleaseLease, Action::ConnectBroker]
    );
}

#[test]
fn a_broker_that_goes_while_reading_is_looked_for_before_anything_is_published() {
    let mut bench = Bench::reading();
    assert_eq!(bench.ask(broker_lost()), []);
    bench.tell(batch(1..=6));
    assert_eq!(
        bench.ask(enough()),
        [Action::ReleaseLease, Action::ConnectBroker]
    );
    assert_eq!(bench.outbox.counters().retried, 0);
}

#[test]
fn a_store_that_goes_is_looked_for_and_nothing_of_before_is_deleted_or_published() {
    let states = [
        ("connecting", Bench::connecting_store()),
        ("connecting to the broker", Bench::connecting_broker()),
        ("taking the lease", Bench::taking_lease()),
        ("reading", Bench::reading()),
        ("idling", Bench::idling()),
        ("publishing", Bench::publishing()),
        ("moving dead letters", Bench::dead_lettering()),
        ("settling", Bench::settling()),
    ];
    for (state, mut bench) in states {
        let actions = bench.ask(store_lost());
        assert!(
            matches!(actions[..], [Action::DisconnectStore, Action::Pause(_)]),
            "{state}: {actions:?}"
        );
        assert!(!bench.outbox.holds_lease(), "{state}");
        assert!(bench.outbox.not_ready().is_some(), "{state}");
        assert_eq!(bench.ask(Input::Published(0)), [], "{state}");
        assert_eq!(
            bench.ask(Input::PauseOver),
            [Action::ConnectStore],
            "{state}"
        );
        bench.tell(Input::StoreConnected);
        bench.tell(Input::BrokerReady);
        assert_eq!(bench.ask(Input::Lease(true)), [read(&[])], "{state}");
    }
}

#[test]
fn dead_letters_are_counted_when_they_are_there() {
    let mut bench = Bench::dead_lettering();
    bench.tell(store_lost());
    assert_eq!(bench.ask(Input::DeadLettered), []);
    assert_eq!(bench.outbox.counters().dead_lettered, 0);
}
