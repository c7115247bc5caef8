//! The lease while confirms take longer than it lasts.

use super::*;

#[test]
fn it_is_renewed_while_confirms_are_out_and_not_otherwise() {
    let mut bench = Bench::publishing();
    assert_eq!(bench.tell(Input::LeaseDue), [Action::RenewLease]);
    assert!(bench.tell(Input::Lease(true)).is_empty());
    assert!(bench.outbox.holds_lease() && bench.outbox.not_ready().is_none());
    for mut bench in [
        Bench::reading(),
        Bench::idling(),
        Bench::settling(),
        Bench::pausing(),
    ] {
        assert!(bench.tell(Input::LeaseDue).is_empty());
    }
}

#[test]
fn once_it_is_lost_nothing_more_goes_out_and_what_was_taken_is_deleted() {
    let mut bench = Bench::publishing();
    bench.tell(Input::LeaseDue);
    assert_eq!(
        bench.tell(Input::Lease(false)),
        [Action::Note(Note::LeaseLost)]
    );
    assert!(!bench.outbox.holds_lease() && bench.outbox.not_ready().is_some());
    assert!(bench.ask(Input::Published(0)).is_empty());
    assert!(bench.ask(Input::Published(1)).is_empty());
    assert_eq!(bench.ask(Input::Published(2)), [read(&[1, 2, 3])]);
    bench.tell(read_with(vec![entry(4)], false));
    assert_eq!(bench.ask(enough()), [Action::Pause(LEASE_RETRY_MS)]);
    assert!(!bench.outbox.holds_lease());
}

#[test]
fn one_that_ran_out_and_nobody_took_comes_back_with_the_next_read() {
    let mut bench = Bench::publishing();
    bench.tell(Input::LeaseDue);
    bench.tell(Input::Lease(false));
    for place in 0..WINDOW {
        bench.ask(Input::Published(place));
    }
    bench.tell(batch(4..=6));
    assert_eq!(published(&bench.ask(enough())), [0, 1, 2]);
    assert!(bench.outbox.holds_lease() && bench.outbox.not_ready().is_none());
}
