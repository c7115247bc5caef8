//! Every transition of the outbox, and what must hold whatever happens.

mod chaos;
mod failures;
mod lease;
mod stopping;

use super::*;
use crate::partition::Durability;

const WINDOW: usize = 3;

/// A machine and everything that it asked for and was not yet looked at.
struct Bench {
    outbox: Outbox,
}

fn settings(durable: bool) -> Settings {
    Settings {
        durability: durable.then_some(Durability { replicas: 1 }),
        batch: 8,
        window: WINDOW,
    }
}

fn disks(primary: bool, replica_disks: u32, replicas_in_memory: u32) -> Input {
    Input::Confirmed(Confirmed {
        primary_disk: primary,
        replica_disks,
        replicas_in_memory,
    })
}

fn enough() -> Input {
    disks(true, 1, 1)
}

fn entry(number: usize) -> Entry {
    Entry {
        stream_id: format!("{number}-0"),
        event: Ok(format!("c-{number}.0")),
    }
}

fn foreign(number: usize) -> Entry {
    Entry {
        event: Err("no JSON".to_owned()),
        ..entry(number)
    }
}

fn deleted(number: usize) -> (String, String) {
    (format!("{number}-0"), format!("c-{number}.0"))
}

fn batch(numbers: impl IntoIterator<Item = usize>) -> Input {
    read_with(numbers.into_iter().map(entry).collect(), true)
}

fn read_with(entries: Vec<Entry>, lease_held: bool) -> Input {
    let stream_length = entries.len() as u64;
    Input::Read(Batch {
        entries,
        lease_held,
        stream_length,
    })
}

fn read(delete: &[usize]) -> Action {
    Action::Read {
        delete: delete.iter().copied().map(deleted).collect(),
        count: 8,
    }
}

fn settle(delete: &[usize], failed: Option<usize>) -> Action {
    Action::Settle {
        delete: delete.iter().copied().map(deleted).collect(),
        failed: failed.map(|number| format!("c-{number}.0")),
    }
}

fn refused(place: usize) -> Input {
    Input::Refused(place, "no queue".to_owned())
}

fn published(actions: &[Action]) -> Vec<usize> {
    let places = actions.iter().filter_map(|action| match action {
        Action::Publish(place) => Some(*place),
        _ => None,
    });
    places.collect()
}

impl Bench {
    fn new(durable: bool) -> Self {
        Self {
            outbox: Outbox::new(settings(durable)),
        }
    }

    fn tell(&mut self, input: Input) -> Vec<Action> {
        self.outbox.input(input);
        self.outbox.take_actions()
    }

    /// What it asks for, without what it says.
    fn ask(&mut self, input: Input) -> Vec<Action> {
        let mut actions = self.tell(input);
        actions.retain(|action| !matches!(action, Action::Note(_)));
        actions
    }

    fn connecting_store() -> Self {
        let mut bench = Self::new(true);
        bench.outbox.start();
        assert_eq!(bench.outbox.take_actions(), [Action::ConnectStore]);
        bench
    }

    fn connecting_broker() -> Self {
        let mut bench = Self::connecting_store();
        assert_eq!(bench.ask(Input::StoreConnected), [Action::ConnectBroker]);
        bench
    }

    fn taking_lease() -> Self {
        let mut bench = Self::connecting_broker();
        assert_eq!(bench.ask(Input::BrokerReady), [Action::TakeLease]);
        bench
    }

    /// Holding the lease, with the first read under way.
    fn reading() -> Self {
        let mut bench = Self::taking_lease();
        assert_eq!(bench.ask(Input::Lease(true)), [read(&[])]);
        bench
    }

    fn idling() -> Self {
        let mut bench = Self::reading();
        bench.tell(batch([]));
        assert_eq!(bench.ask(enough()), [Action::AwaitEvents]);
        bench
    }

    /// Six events were read and are on disks; the first three are out.
    fn publishing() -> Self {
        let mut bench = Self::reading();
        bench.tell(batch(1..=6));
        assert_eq!(published(&bench.ask(enough())), [0, 1, 2]);
        bench
    }

    fn dead_lettering() -> Self {
        let mut bench = Self::reading();
        bench.tell(read_with(vec![entry(1), foreign(2), foreign(3)], true));
        let letters = vec![(1, "no JSON".to_owned()), (2, "no JSON".to_owned())];
        assert_eq!(bench.ask(enough()), [Action::DeadLetter(letters)]);
        bench
    }

    /// The first of three was taken, the second refused, the third taken.
    fn settling() -> Self {
        let mut bench = Self::publishing();
        assert_eq!(published(&bench.ask(Input::Published(0))), [3]);
        assert!(bench.ask(refused(1)).is_empty());
        assert!(bench.ask(Input::Published(2)).is_empty());
        assert_eq!(bench.ask(Input::Published(3)), [settle(&[1], Some(2))]);
        bench
    }

    fn pausing() -> Self {
        let mut bench = Self::settling();
        assert_eq!(bench.ask(Input::Settled), [Action::Pause(100)]);
        bench
    }
}

#[test]
fn it_connects_to_the_store_then_the_broker_then_takes_the_lease_and_reads() {
    let bench = Bench::reading();
    assert!(bench.outbox.holds_lease());
    assert_eq!(bench.outbox.not_ready(), None);
    assert_eq!(bench.outbox.counters().leases, 1);
}

#[test]
fn nothing_is_published_before_enough_disks_confirmed() {
    let mut bench = Bench::reading();
    assert!(bench.tell(batch(1..=6)).is_empty());
    let too_few = [
        disks(true, 0, 1),
        disks(false, 1, 1),
        disks(true, 1, 0),
        disks(false, 0, 0),
    ];
    for (waits, confirmed) in (1..).zip(too_few) {
        assert_eq!(bench.ask(confirmed), [Action::AwaitDisks]);
        assert_eq!(bench.outbox.counters().waits_below_policy, waits);
        let problem = bench.outbox.not_ready().expect("it is not ready");
        assert!(problem.contains("too few disks"), "{problem}");
        assert!(bench.ask(Input::Lease(true)).is_empty());
    }
    assert_eq!(published(&bench.ask(enough())), [0, 1, 2]);
    assert_eq!(bench.outbox.not_ready(), None);
}

#[test]
fn in_memory_mode_a_read_is_enough() {
    let mut bench = Bench::new(false);
    bench.outbox.start();
    for input in [
        Input::StoreConnected,
        Input::BrokerReady,
        Input::Lease(true),
    ] {
        bench.tell(input);
    }
    assert_eq!(published(&bench.ask(batch(1..=6))), [0, 1, 2]);
}

#[test]
fn a_batch_is_published_in_order_within_the_window_and_deleted_as_a_whole() {
    let mut bench = Bench::publishing();
    assert_eq!(bench.outbox.unconfirmed(), WINDOW);
    assert_eq!(published(&bench.ask(Input::Published(1))), [3]);
    assert_eq!(published(&bench.ask(Input::Published(0))), [4]);
    assert_eq!(published(&bench.ask(Input::Published(3))), [5]);
    assert!(bench.ask(Input::Published(5)).is_empty());
    assert!(bench.ask(Input::Published(2)).is_empty());
    assert_eq!(bench.ask(Input::Published(4)), [read(&[1, 2, 3, 4, 5, 6])]);
    assert_eq!(bench.outbox.counters().published, 6);
    assert_eq!(bench.outbox.unconfirmed(), 0);
}

#[test]
fn an_empty_stream_is_awaited_and_read_again() {
    let mut bench = Bench::idling();
    assert_eq!(bench.outbox.not_ready(), None);
    assert_eq!(bench.ask(Input::Awaited), [read(&[])]);
}

#[test]
fn without_the_lease_it_stands_by_and_tries_again() {
    let mut bench = Bench::taking_lease();
    assert_eq!(
        bench.tell(Input::Lease(false)),
        [Action::Note(Note::LeaseLost), Action::Pause(LEASE_RETRY_MS)]
    );
    assert!(!bench.outbox.holds_lease());
    assert!(bench.outbox.not_ready().is_some());
    assert_eq!(bench.ask(Input::PauseOver), [Action::TakeLease]);
    // It is said once, not every second.
    assert_eq!(
        bench.tell(Input::Lease(false)),
        [Action::Pause(LEASE_RETRY_MS)]
    );
}

#[test]
fn what_was_read_without_the_lease_is_not_published() {
    for confirmed in [enough(), disks(true, 0, 0)] {
        let mut bench = Bench::reading();
        bench.tell(read_with(vec![entry(1)], false));
        assert_eq!(bench.ask(confirmed), [Action::Pause(LEASE_RETRY_MS)]);
        assert!(!bench.outbox.holds_lease());
    }
}

#[test]
fn a_lease_that_is_lost_during_a_long_wait_for_disks_stops_the_batch() {
    let mut bench = Bench::reading();
    bench.tell(batch(1..=2));
    assert_eq!(bench.ask(disks(true, 0, 0)), [Action::AwaitDisks]);
    assert!(bench.ask(Input::Lease(false)).is_empty());
    assert_eq!(bench.ask(enough()), [Action::Pause(LEASE_RETRY_MS)]);
}

#[test]
fn what_is_no_event_leaves_before_anything_is_published() {
    let mut bench = Bench::dead_lettering();
    assert_eq!(bench.outbox.counters().dead_lettered, 0);
    let actions = bench.tell(Input::DeadLettered);
    let notes = actions
        .iter()
        .filter(|action| matches!(action, Action::Note(_)));
    assert_eq!(notes.count(), 2);
    assert_eq!(actions.last(), Some(&read(&[])));
    assert_eq!(bench.outbox.counters().dead_lettered, 2);
    assert_eq!(bench.outbox.counters().published, 0);
}

#[test]
fn late_and_strange_answers_change_nothing() {
    let strays = || {
        [
            Input::Published(0),
            Input::Published(99),
            refused(0),
            Input::Settled,
            Input::DeadLettered,
            Input::Awaited,
            Input::PauseOver,
            Input::StoreConnected,
            Input::Lease(false),
            enough(),
        ]
    };
    let mut bench = Bench::idling();
    bench.tell(Input::Awaited);
    for stray in strays() {
        assert_eq!(bench.tell(stray.clone()), [], "{stray:?} while reading");
    }
    let mut bench = Bench::publishing();
    assert_eq!(bench.ask(Input::Published(0)), [Action::Publish(3)]);
    for stray in strays() {
        assert_eq!(bench.tell(stray.clone()), [], "{stray:?} while publishing");
    }
    assert_eq!(bench.outbox.unconfirmed(), WINDOW);
}
