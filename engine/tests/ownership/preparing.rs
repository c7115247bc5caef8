//! A book that is read while standing by: when it is used, and when it is not.

use super::bench::{self, Bench, cancel, place, stored};
use super::{COMMITTED, DURABLE};
use conductor_engine::limits::PREPARE_AGAIN_LOOKS;
use conductor_engine::partition::{
    Action, BookRead, Guards, HaltRecord, Input, LoadedMember, LoadedPage, Note, Record, StoreEvent,
};
use conductor_engine::staging::Cursor;
use conductor_engine::{PairId, Side};

fn page() -> StoreEvent {
    of(vec![stored(Side::Ask, "o-1", 100, 9)])
}

fn of(members: Vec<LoadedMember>) -> StoreEvent {
    StoreEvent::Page(LoadedPage {
        pair: PairId(0),
        decimals: Some(bench::DECIMALS),
        side: Side::Ask,
        members,
    })
}

fn at(sequence: u64) -> Cursor {
    Cursor {
        sequence,
        priority: 9,
        command: None,
    }
}

fn complete(sequence: u64, read: BookRead) -> StoreEvent {
    StoreEvent::LoadComplete {
        cursor: Ok(at(sequence)),
        remembered: true,
        halted: None,
        read,
    }
}

/// A look at the idle connection; whether the book is then read.
fn look(bench: &mut Bench, sequence: u64) -> bool {
    bench.store(StoreEvent::Probed {
        replicas: 1,
        cursor: Some(at(sequence)),
    });
    let actions = bench.take();
    assert!(actions.len() < 2, "{actions:?}");
    matches!(actions[..], [Action::Prepare])
}

/// A standby that reads the book, where the store stood at sequence 3.
fn reading() -> Bench {
    let mut bench = Bench::standing_by();
    assert!(
        !look(&mut bench, 3),
        "one look does not show that it stands still"
    );
    assert!(look(&mut bench, 3));
    bench
}

/// A standby that has read a book of one order there.
fn prepared() -> Bench {
    let mut bench = reading();
    bench.store(page());
    assert_eq!(bench.machine.status().orders, 0, "not before it is whole");
    bench.store(complete(3, BookRead::Still));
    let actions = bench.take();
    let told = Note::Prepared {
        orders: 1,
        sequence: 3,
    };
    assert!(
        matches!(&actions[..], [Action::Note(note)] if *note == told),
        "{actions:?}"
    );
    assert_eq!(bench.machine.status().orders, 1);
    assert!(bench.machine.book().is_none(), "it is nobody's book yet");
    bench
}

/// A first delivery, up to the load; what the load names as known.
fn claim(bench: &mut Bench) -> Option<Cursor> {
    bench.deliver(1, cancel("c-1", "o-1"));
    assert!(
        matches!(bench.take()[..], [Action::Connect { first: false }]),
        "the primary is looked up anew"
    );
    bench.store(StoreEvent::Connected(bench::guards()));
    bench.store(StoreEvent::EpochRaised(7));
    bench.take();
    bench.store(StoreEvent::Confirmed(DURABLE));
    match &bench.take()[..] {
        [Action::Load { known, .. }] => known.clone(),
        actions => panic!("{actions:?}"),
    }
}

/// The epoch is still ours; orders that the owner has.
fn own(bench: &mut Bench) -> Option<usize> {
    assert!(matches!(bench.take()[..], [Action::WatchEpoch]));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    bench.take().iter().find_map(|action| match action {
        Action::Note(Note::Claimed { orders, .. }) => Some(*orders),
        _ => None,
    })
}

#[test]
fn a_standby_reads_the_book_and_owns_it_without_reading_it_again() {
    let mut bench = prepared();
    assert_eq!(claim(&mut bench), Some(at(3)));
    bench.store(complete(3, BookRead::Known));
    assert_eq!(own(&mut bench), Some(1));
    bench.store(StoreEvent::LookedUp(vec![None]));
    let actions = bench.take();
    assert!(
        matches!(&actions[..], [Action::Commit(packet)] if packet.commands == 1),
        "the order that was read in advance is there to be cancelled: {actions:?}"
    );
    bench.store(COMMITTED);
}

#[test]
fn a_cursor_that_has_moved_since_has_the_book_read_again() {
    let mut bench = prepared();
    assert_eq!(claim(&mut bench), Some(at(3)));
    bench.store(page());
    bench.store(of(vec![stored(Side::Ask, "o-2", 101, 10)]));
    let cursor = Cursor {
        priority: 10,
        ..at(5)
    };
    bench.store(StoreEvent::LoadComplete {
        cursor: Ok(cursor),
        remembered: true,
        halted: None,
        read: BookRead::Still,
    });
    assert_eq!(own(&mut bench), Some(2));
}

#[test]
fn a_book_that_was_read_while_another_wrote_is_not_kept() {
    let mut bench = reading();
    bench.store(page());
    bench.store(complete(3, BookRead::Moving));
    assert!(bench.take().is_empty());
    assert_eq!(claim(&mut bench), None);
}

#[test]
fn a_read_that_the_first_delivery_interrupts_is_not_used() {
    let mut bench = reading();
    bench.store(page());
    assert_eq!(claim(&mut bench), None);
    bench.store(page());
    bench.store(complete(3, BookRead::Still));
    assert_eq!(own(&mut bench), Some(1));
}

#[test]
fn a_book_that_needs_a_judgement_is_not_kept() {
    let orphan = LoadedMember {
        record: Record::Missing,
        ..stored(Side::Ask, "o-1", 100, 9)
    };
    let older = LoadedMember {
        priority: None,
        ..stored(Side::Ask, "o-1", 100, 9)
    };
    let crossed = LoadedPage {
        pair: PairId(0),
        decimals: Some(bench::DECIMALS),
        side: Side::Bid,
        members: vec![stored(Side::Bid, "o-2", 101, 8)],
    };
    let unreadable = StoreEvent::Unreadable {
        what: "pairs".into(),
        detail: "WRONGTYPE".into(),
    };
    for faulty in [
        of(vec![orphan]),
        of(vec![older]),
        StoreEvent::Page(crossed),
        unreadable,
    ] {
        let mut bench = reading();
        bench.store(of(vec![stored(Side::Ask, "o-9", 101, 7)]));
        bench.store(faulty);
        bench.store(complete(3, BookRead::Still));
        let actions = bench.take();
        assert!(
            matches!(&actions[..], [Action::Note(note @ Note::NotPrepared { .. })] if note.is_warning()),
            "{actions:?}"
        );
        for _ in 0..=PREPARE_AGAIN_LOOKS {
            assert!(!look(&mut bench, 3), "not again where it stood");
        }
        assert!(!look(&mut bench, 4));
        assert!(look(&mut bench, 4), "again once the cursor has moved");
        assert_eq!(claim(&mut bench), None);
    }
}

#[test]
fn a_halt_that_came_later_is_honoured_over_a_book_that_was_read_before() {
    let mut bench = prepared();
    claim(&mut bench);
    bench.store(StoreEvent::LoadComplete {
        cursor: Ok(at(3)),
        remembered: true,
        halted: Some(HaltRecord {
            reason: "a crossed book".into(),
            command: None,
            epoch: 6,
        }),
        read: BookRead::Known,
    });
    assert_eq!(own(&mut bench), None);
    assert_eq!(bench.machine.status().state, "halted");
}

#[test]
fn a_book_that_is_out_of_date_is_dropped_and_read_again_once_the_store_stands_still() {
    let mut bench = prepared();
    assert!(!look(&mut bench, 3));
    assert_eq!(bench.machine.status().orders, 1, "nothing has moved");
    assert!(!look(&mut bench, 4));
    assert_eq!(bench.machine.status().orders, 0, "it is dropped at once");
    for _ in 3..PREPARE_AGAIN_LOOKS {
        assert!(!look(&mut bench, 4), "not so soon");
    }
    assert!(!look(&mut bench, 5), "not while another writes");
    assert!(look(&mut bench, 5));
    assert!(!look(&mut bench, 5), "not twice at once");
    bench.store(page());
    bench.store(complete(5, BookRead::Still));
    bench.take();
    assert_eq!(claim(&mut bench), Some(at(5)));
}

#[test]
fn a_claim_that_reads_the_book_again_drops_the_one_from_before_first() {
    let mut bench = prepared();
    claim(&mut bench);
    bench.store(page());
    bench.store(complete(3, BookRead::Known));
    let actions = bench.take();
    assert!(
        matches!(actions.last(), Some(Action::Pause(_))),
        "there is one book at a time, and the one that is named is gone: {actions:?}"
    );
}

#[test]
fn a_book_that_was_read_from_another_history_is_not_used() {
    let mut bench = prepared();
    bench.deliver(1, cancel("c-1", "o-1"));
    bench.take();
    bench.store(StoreEvent::Connected(Guards {
        history: Some("second".to_owned()),
        ..bench::guards()
    }));
    bench.store(StoreEvent::EpochRaised(7));
    bench.store(StoreEvent::Confirmed(DURABLE));
    let actions = bench.take();
    assert!(
        matches!(actions.last(), Some(Action::Load { known: None, .. })),
        "{actions:?}"
    );
}

#[test]
fn a_store_that_no_owner_has_written_to_is_read_by_the_claim() {
    let mut bench = Bench::standing_by();
    let looked = StoreEvent::Probed {
        replicas: 1,
        cursor: Some(Cursor::default()),
    };
    bench.store(looked.clone());
    bench.store(looked);
    bench.take();
    bench.store(StoreEvent::LoadComplete {
        cursor: Ok(Cursor::default()),
        remembered: true,
        halted: None,
        read: BookRead::Still,
    });
    assert!(bench.take().is_empty());
    assert_eq!(claim(&mut bench), None);
}

#[test]
fn what_was_read_before_a_doubt_is_gone_with_everything_else() {
    let mut bench = prepared();
    bench.store(StoreEvent::Lost("gone".into()));
    bench.input(Input::PauseOver);
    bench.store(StoreEvent::Connected(bench::guards()));
    bench.input(Input::ChannelOpened(2));
    assert_eq!(bench.machine.status().orders, 0);
    bench.take();
    let incoming = place("c-2", "o-2");
    bench.input(Input::Delivery {
        generation: 2,
        tag: 1,
        incoming,
    });
    bench.store(StoreEvent::Connected(bench::guards()));
    bench.store(StoreEvent::EpochRaised(8));
    bench.store(StoreEvent::Confirmed(DURABLE));
    let actions = bench.take();
    assert!(
        matches!(actions.last(), Some(Action::Load { known: None, .. })),
        "{actions:?}"
    );
}
