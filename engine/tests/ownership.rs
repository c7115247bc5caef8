//! The partition's state machine, driven by hand: what it asks for, in which order, and what it
//! never does before its time.

#[path = "ownership/bench.rs"]
mod bench;
#[path = "ownership/preparing.rs"]
mod preparing;

use bench::{Bench, cancel, place, stored};
use conductor_engine::partition::{
    Action, Answer, BookRead, Confirmed, Executed, Guards, HaltRecord, Input, LoadedMember,
    LoadedPage, Role, StoreEvent, StoredOrder, Topology,
};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{CommandId, Incoming, PairId, Side};

const DURABLE: Confirmed = Confirmed {
    replicas_in_memory: 1,
    primary_disk: true,
    replica_disks: 1,
};
const SHORT: Confirmed = Confirmed {
    replicas_in_memory: 1,
    primary_disk: true,
    replica_disks: 0,
};
const COMMITTED: StoreEvent = StoreEvent::Executed(Executed::Committed { event_stream: 0 });

#[test]
fn ownership_is_taken_in_order_and_only_on_a_delivery() {
    let mut bench = Bench::standing_by();
    assert!(bench.take().is_empty(), "a standby asks for nothing");
    bench.deliver(1, place("c-1", "o-1"));
    assert!(matches!(
        bench.take()[..],
        [Action::Connect { first: false }]
    ));
    bench.store(StoreEvent::Connected(bench::guards()));
    assert!(matches!(bench.take()[..], [Action::RaiseEpoch]));
    bench.store(StoreEvent::EpochRaised(7));
    assert!(matches!(bench.take()[..], [Action::AwaitDisks]));
    bench.store(StoreEvent::Confirmed(SHORT));
    assert!(
        matches!(bench.take()[..], [Action::Note(_), Action::AwaitDisks]),
        "until it holds"
    );
    bench.store(StoreEvent::Confirmed(DURABLE));
    assert!(matches!(
        bench.take()[..],
        [Action::Load {
            remember: None,
            known: None
        }]
    ));
    bench.store(StoreEvent::LoadComplete {
        cursor: Ok(Cursor::default()),
        remembered: true,
        halted: None,
        read: BookRead::Still,
    });
    assert!(matches!(bench.take()[..], [Action::WatchEpoch]));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        matches!(actions[..], [Action::Note(_), Action::LookUp(_)]),
        "{actions:?}"
    );
    assert_eq!(bench.machine.status().role, Role::Active);
}

#[test]
fn a_newer_owner_during_the_load_ends_the_claim_before_anything_is_judged() {
    let mut bench = Bench::standing_by();
    bench.deliver(1, place("c-1", "o-1"));
    bench.claim_up_to_watch(7, Vec::new(), Err("torn while another was writing".into()));
    bench.store(StoreEvent::EpochSeen(Some(8)));
    let actions = bench.take();
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::WriteHalt(_))),
        "{actions:?}"
    );
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::CloseChannel(1, _)))
    );
}

#[test]
fn nothing_is_replied_or_acknowledged_before_disks_and_epoch() {
    let mut bench = Bench::owning();
    bench.deliver(1, place("c-1", "o-1"));
    bench.caught_up();
    assert!(matches!(bench.take()[..], [Action::LookUp(_)]));
    bench.store(StoreEvent::LookedUp(vec![None, None]));
    assert!(matches!(bench.take()[..], [Action::Commit(_)]));
    bench.store(COMMITTED);
    assert!(bench.take().is_empty(), "executed is not durable");
    bench.store(StoreEvent::Confirmed(DURABLE));
    assert!(bench.take().is_empty(), "the epoch is not seen yet");
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        matches!(
            actions[..],
            [
                Action::Reply(1, 1, Answer::Fresh(_)),
                Action::Acknowledge(1, 1)
            ]
        ),
        "{actions:?}"
    );
}

#[test]
fn too_few_disks_wait_on_the_same_connection_and_are_told() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.store(COMMITTED);
    bench.store(StoreEvent::Confirmed(SHORT));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        matches!(actions[..], [Action::Note(_), Action::AwaitDisks]),
        "{actions:?}"
    );
    assert!(bench.machine.status().not_ready.is_some());
    bench.store(StoreEvent::Confirmed(DURABLE));
    let actions = bench.take();
    assert!(
        matches!(
            actions[..],
            [
                Action::Note(_),
                Action::Reply(..),
                Action::Acknowledge(1, 1)
            ]
        ),
        "{actions:?}"
    );
    assert!(bench.machine.status().not_ready.is_none());
}

#[test]
fn the_next_group_is_decided_in_flight_and_sent_only_after_it() {
    let mut bench = Bench::owning();
    bench.deliver(1, place("c-1", "o-1"));
    bench.caught_up();
    bench.take();
    bench.deliver(2, place("c-2", "o-2"));
    bench.caught_up();
    bench.store(StoreEvent::LookedUp(vec![None, None]));
    let actions = bench.take();
    let [Action::Commit(packet)] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        packet.look_ups.len(),
        2,
        "what the next group needs rides along"
    );
    bench.store(COMMITTED);
    bench.store(StoreEvent::LookedUp(vec![None, None]));
    bench.deliver(3, place("c-3", "o-3"));
    bench.caught_up();
    bench.store(StoreEvent::Confirmed(DURABLE));
    assert!(
        bench.take().is_empty(),
        "one transaction in flight, never more"
    );
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    let commits = actions
        .iter()
        .filter(|action| matches!(action, Action::Commit(_)))
        .count();
    assert_eq!(commits, 1);
    assert!(matches!(actions.last(), Some(Action::Commit(packet)) if packet.commands == 1));
}

#[test]
fn every_unknown_or_fenced_outcome_drops_everything() {
    let outcomes = [
        StoreEvent::Executed(Executed::Fenced),
        StoreEvent::Executed(Executed::Refused("EXECABORT … READONLY".into())),
        StoreEvent::Lost("the server closed the connection".into()),
        StoreEvent::Full("out of memory".into()),
    ];
    for outcome in outcomes {
        let mut bench = Bench::owning();
        bench.commit(1, place("c-1", "o-1"));
        bench.store(outcome.clone());
        let actions = bench.take();
        let has = |wanted: fn(&Action) -> bool| actions.iter().any(wanted);
        assert!(
            has(|action| matches!(action, Action::CloseChannel(1, _))),
            "{outcome:?}"
        );
        assert!(
            has(|action| matches!(action, Action::Disconnect)),
            "{outcome:?}"
        );
        assert!(!has(|action| matches!(
            action,
            Action::Reply(..) | Action::Acknowledge(..)
        )));
        assert!(bench.machine.book().is_none(), "memory is thrown away");
        bench.deliver(2, place("c-2", "o-2"));
        bench.caught_up();
        assert!(
            bench.take().is_empty(),
            "a delivery of the closed channel goes nowhere"
        );
    }
}

#[test]
fn an_epoch_that_moved_after_the_commit_is_a_doubt_without_an_acknowledgement() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.store(COMMITTED);
    bench.store(StoreEvent::Confirmed(DURABLE));
    bench.store(StoreEvent::EpochSeen(Some(8)));
    let actions = bench.take();
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::Acknowledge(..)))
    );
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::CloseChannel(1, _)))
    );
}

#[test]
fn a_repeat_is_answered_from_its_record_in_its_place() {
    let mut bench = Bench::owning();
    bench.deliver(1, place("c-1", "o-1"));
    bench.deliver(2, cancel("c-0", "o-1"));
    bench.deliver(3, place("c-1", "o-1"));
    bench.caught_up();
    bench.take();
    let record = Some(b"{}".to_vec().into_boxed_slice());
    bench.store(StoreEvent::LookedUp(vec![
        None, None, record, None, None, None,
    ]));
    bench.take();
    bench.land();
    let actions = bench.take();
    let [
        Action::Reply(1, 1, Answer::Fresh(first)),
        Action::Reply(1, 2, Answer::Stored(_)),
        Action::Reply(1, 3, Answer::Fresh(again)),
        Action::Acknowledge(1, 3),
    ] = &actions[..]
    else {
        panic!("{actions:?}")
    };
    assert_eq!(first, again);
    assert_eq!(bench.machine.counters().duplicate_commands, 2);
    assert_eq!(bench.machine.counters().commands, 1);
}

#[test]
fn no_acknowledgement_passes_a_message_whose_parking_is_open() {
    let mut bench = Bench::owning();
    bench.deliver(1, place("c-1", "o-1"));
    bench.deliver(2, Incoming::Unusable("no JSON".into()));
    bench.deliver(3, place("c-3", "o-3"));
    bench.caught_up();
    let actions = bench.take();
    assert!(
        matches!(actions[..], [Action::Park(1, 2, _), Action::LookUp(_)]),
        "{actions:?}"
    );
    bench.store(StoreEvent::LookedUp(vec![None; 4]));
    bench.take();
    bench.land();
    assert!(matches!(
        bench.take()[..],
        [
            Action::Reply(..),
            Action::Reply(..),
            Action::Acknowledge(1, 1)
        ]
    ));
    bench.input(Input::Parked(1, 2));
    assert!(matches!(bench.take()[..], [Action::Acknowledge(1, 3)]));
}

#[test]
fn a_half_applied_transaction_halts_whoever_owns_the_partition_by_then() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.store(StoreEvent::Executed(Executed::HalfApplied(
        "WRONGTYPE".into(),
    )));
    let actions = bench.take();
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::WriteHalt(_))),
        "{actions:?}"
    );
    // The rest of the packet's replies, then the halt meets a newer epoch.
    bench.store(StoreEvent::Confirmed(DURABLE));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    bench.store(StoreEvent::Executed(Executed::Fenced));
    assert!(matches!(
        bench.take()[..],
        [Action::Disconnect, Action::Note(_), Action::Pause(_)]
    ));
    bench.input(Input::PauseOver);
    bench.store(StoreEvent::Connected(bench::guards()));
    bench.store(StoreEvent::EpochRaised(9));
    bench.store(StoreEvent::EpochSeen(Some(9)));
    let actions = bench.take();
    assert!(
        matches!(actions.last(), Some(Action::WriteHalt(_))),
        "{actions:?}"
    );
    bench.store(COMMITTED);
    bench.store(StoreEvent::Confirmed(DURABLE));
    assert_eq!(bench.machine.status().state, "halted");
}

#[test]
fn a_crossed_book_halts_and_stays_halted_until_it_is_lifted() {
    let mut bench = Bench::standing_by();
    bench.deliver(1, place("c-1", "o-9"));
    let page = |side, id, price, priority| LoadedPage {
        pair: PairId(0),
        decimals: Some(bench::DECIMALS),
        side,
        members: vec![stored(side, id, price, priority)],
    };
    let pages = vec![page(Side::Ask, "a", 100, 1), page(Side::Bid, "b", 101, 2)];
    bench.claim_up_to_watch(
        7,
        pages,
        Ok(Cursor {
            priority: 2,
            ..Cursor::default()
        }),
    );
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        actions
            .iter()
            .any(|action| matches!(action, Action::WriteHalt(_))),
        "{actions:?}"
    );
    bench.store(COMMITTED);
    bench.store(StoreEvent::Confirmed(DURABLE));
    bench.take();
    let record = HaltRecord {
        reason: "crossed".into(),
        command: None,
        epoch: 7,
    };
    bench.input(Input::PauseOver);
    bench.store(StoreEvent::Connected(Guards {
        halted: Some(record),
        ..bench::guards()
    }));
    assert_eq!(bench.machine.status().state, "halted");
    bench.input(Input::PauseOver);
    bench.store(StoreEvent::Connected(bench::guards()));
    assert!(matches!(bench.take().last(), Some(Action::OpenChannel)));
}

#[test]
fn a_store_that_went_back_halts() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.land();
    bench.store(StoreEvent::Lost("gone".into()));
    for (cursor, remembered) in [
        (Cursor::default(), true),
        (
            Cursor {
                sequence: 1,
                priority: 1,
                command: None,
            },
            false,
        ),
    ] {
        let mut again = bench.clone_after_doubt();
        again.claim_up_to_watch_remembering(8, Ok(cursor), remembered);
        again.store(StoreEvent::EpochSeen(Some(8)));
        let actions = again.take();
        let reason = actions.iter().find_map(|action| match action {
            Action::WriteHalt(record) => Some(record.reason.clone()),
            _ => None,
        });
        assert!(
            reason.is_some_and(|reason| reason.contains("gone back")),
            "{actions:?}"
        );
    }
}

#[test]
fn the_last_command_that_was_seen_durable_must_have_the_result_it_was_given() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.land();
    bench.take();
    bench.store(StoreEvent::Lost("gone".into()));
    let mut again = bench.clone_after_doubt();
    again.store(StoreEvent::Connected(bench::guards()));
    again.store(StoreEvent::EpochRaised(8));
    again.store(StoreEvent::Confirmed(bench::durable()));
    let actions = again.take();
    let remembered = actions.iter().find_map(|action| match action {
        Action::Load { remember, .. } => remember.clone(),
        _ => None,
    });
    let remembered = remembered.unwrap_or_else(|| panic!("{actions:?}"));
    assert_eq!(remembered.command.as_str(), "c-1");
    let result = remembered.result.expect("it decided the command itself");
    assert_eq!(result.command.as_str(), "c-1");
    assert_eq!(result.sequences, Some((1, 1)));
}

#[test]
fn a_record_that_cannot_be_read_halts_once_the_epoch_is_seen_to_be_ours() {
    let mut bench = Bench::standing_by();
    bench.deliver(1, place("c-1", "o-1"));
    bench.store(StoreEvent::Connected(bench::guards()));
    bench.store(StoreEvent::EpochRaised(7));
    bench.store(StoreEvent::Confirmed(bench::durable()));
    bench.store(StoreEvent::Unreadable {
        what: "pairs".into(),
        detail: "WRONGTYPE".into(),
    });
    bench.store(StoreEvent::LoadComplete {
        cursor: Ok(Cursor::default()),
        remembered: true,
        halted: None,
        read: BookRead::Still,
    });
    let actions = bench.take();
    assert!(
        matches!(actions.last(), Some(Action::WatchEpoch)),
        "nothing is judged before the epoch is seen: {actions:?}"
    );
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    let reason = actions.iter().find_map(|action| match action {
        Action::WriteHalt(record) => Some(record.reason.as_str()),
        _ => None,
    });
    assert_eq!(
        reason,
        Some("the store's pairs cannot be read: WRONGTYPE"),
        "{actions:?}"
    );
}

#[test]
fn a_wrong_or_missing_topology_refuses_to_start_and_later_waits() {
    for topology in [
        None,
        Some(Topology {
            partition: 0,
            partition_count: 2,
            prefetch: 512,
        }),
    ] {
        let mut bench = Bench::new();
        bench.machine.start();
        bench.take();
        bench.store(StoreEvent::Connected(Guards {
            topology,
            ..bench::guards()
        }));
        assert!(matches!(
            bench.take()[..],
            [Action::Disconnect, Action::RefuseToStart(_)]
        ));
        let mut bench = Bench::standing_by();
        bench.deliver(1, place("c-1", "o-1"));
        bench.store(StoreEvent::Connected(Guards {
            topology,
            ..bench::guards()
        }));
        let actions = bench.take();
        assert!(
            matches!(actions.last(), Some(Action::Pause(_))),
            "never treated as new"
        );
    }
}

#[test]
fn stopping_finishes_the_group_in_flight_and_no_other() {
    let mut bench = Bench::owning();
    bench.deliver(1, place("c-1", "o-1"));
    bench.caught_up();
    bench.deliver(2, place("c-2", "o-2"));
    bench.store(StoreEvent::LookedUp(vec![None, None]));
    bench.take();
    bench.input(Input::Stop);
    assert!(bench.take().is_empty());
    bench.store(COMMITTED);
    bench.store(StoreEvent::LookedUp(vec![None, None]));
    bench.store(StoreEvent::Confirmed(DURABLE));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        matches!(
            actions[..],
            [
                Action::Reply(1, 1, _),
                Action::Acknowledge(1, 1),
                Action::CloseChannel(1, _),
                Action::Disconnect,
                Action::Stopped
            ]
        ),
        "{actions:?}"
    );
}

#[test]
fn an_inspection_waits_until_memory_and_store_agree() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.deliver(2, place("c-2", "o-2"));
    bench.input(Input::Inspect(5));
    bench.caught_up();
    assert!(bench.take().is_empty());
    bench.land();
    let actions = bench.take();
    assert!(
        matches!(actions.last(), Some(Action::Inspect(5))),
        "{actions:?}"
    );
    bench.caught_up();
    assert!(
        bench.take().is_empty(),
        "nothing is sent while the store is read"
    );
    bench.store(StoreEvent::EpochSeen(Some(7)));
    bench.store(StoreEvent::Inspected);
    assert!(matches!(bench.take()[..], [Action::LookUp(_)]));
}

#[test]
fn older_members_are_placed_by_their_time_and_rewritten_under_the_fence() {
    let mut bench = Bench::standing_by();
    bench.deliver(1, place("c-1", "o-9"));
    let older = |id: &str, timestamp| {
        let LoadedMember { record, .. } = stored(Side::Ask, id, 100, 0);
        let conductor_engine::partition::Record::Order(mut order) = record else {
            panic!()
        };
        order.priority = None;
        order.order.timestamp = timestamp;
        let record = conductor_engine::partition::Record::Order(Box::new(StoredOrder { ..*order }));
        LoadedMember {
            member: id.to_owned(),
            priority: None,
            record,
        }
    };
    let time = |ms| conductor_engine::Timestamp::new(ms).expect("a time");
    let page = LoadedPage {
        pair: PairId(0),
        decimals: Some(bench::DECIMALS),
        side: Side::Ask,
        members: vec![
            older("late", time(20)),
            older("early", time(10)),
            older("twin", time(10)),
        ],
    };
    bench.claim_up_to_watch(7, vec![page], Ok(Cursor::default()));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    let Some(Action::Commit(packet)) = actions.last() else {
        panic!("{actions:?}")
    };
    let priorities: Vec<(String, u64)> = packet
        .writes
        .iter()
        .filter_map(|write| match write {
            Write::Rewrite { order, .. } => Some((order.id.to_string(), order.priority)),
            _ => None,
        })
        .collect();
    let expected = [("early", 10_000), ("twin", 10_001), ("late", 20_000)];
    let expected: Vec<_> = expected.map(|(id, place)| (id.to_owned(), place)).into();
    assert_eq!(priorities, expected);
    let last = packet.writes.last();
    assert!(matches!(last, Some(Write::Cursor(cursor)) if cursor.priority == 20_000));
}

#[test]
fn a_repeat_of_a_command_of_the_group_in_flight_is_found_behind_it() {
    let mut bench = Bench::owning();
    bench.deliver(1, place("c-1", "o-1"));
    bench.caught_up();
    bench.deliver(2, place("c-1", "o-1"));
    bench.store(StoreEvent::LookedUp(vec![None, None]));
    bench.take();
    bench.store(COMMITTED);
    let record = Some(b"{}".to_vec().into_boxed_slice());
    bench.store(StoreEvent::LookedUp(vec![record]));
    bench.store(StoreEvent::Confirmed(DURABLE));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(matches!(
        actions[..],
        [
            Action::Reply(1, 1, Answer::Fresh(_)),
            Action::Acknowledge(1, 1),
            Action::Reply(1, 2, Answer::Stored(_)),
            Action::Acknowledge(1, 2)
        ]
    ));
    assert!(CommandId::new("c-1").is_ok());
}

#[test]
fn a_standby_without_its_store_gives_its_channel_up() {
    let mut bench = Bench::standing_by();
    bench.store(StoreEvent::Lost("the server closed the connection".into()));
    let actions = bench.take();
    assert!(
        matches!(
            actions[..],
            [
                Action::CloseChannel(1, _),
                Action::Disconnect,
                Action::Note(_),
                Action::Pause(_)
            ]
        ),
        "{actions:?}"
    );
    assert!(bench.machine.status().not_ready.is_some());
}

#[test]
fn a_missing_replica_is_told_before_the_next_command_needs_it() {
    for mut bench in [Bench::standing_by(), Bench::owning()] {
        bench.store(StoreEvent::Probed {
            replicas: 0,
            cursor: None,
        });
        assert!(bench.machine.status().not_ready.is_some());
        bench.store(StoreEvent::Probed {
            replicas: 1,
            cursor: None,
        });
        assert_eq!(bench.machine.status().not_ready, None);
        assert!(bench.take().is_empty());
    }
}

#[test]
fn a_halt_from_between_the_first_look_and_the_raised_epoch_is_honoured() {
    let mut bench = Bench::standing_by();
    bench.deliver(1, place("c-1", "o-1"));
    bench.store(StoreEvent::Connected(bench::guards()));
    bench.store(StoreEvent::EpochRaised(7));
    bench.store(StoreEvent::Confirmed(DURABLE));
    bench.store(StoreEvent::LoadComplete {
        cursor: Ok(Cursor::default()),
        remembered: true,
        halted: Some(HaltRecord {
            reason: "the store has gone back".into(),
            command: None,
            epoch: 6,
        }),
        read: BookRead::Still,
    });
    bench.take();
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        matches!(
            actions[..],
            [
                Action::CloseChannel(1, _),
                Action::Disconnect,
                Action::Note(_),
                Action::Pause(_)
            ]
        ),
        "{actions:?}"
    );
    assert_eq!(bench.machine.status().state, "halted");
}

#[test]
fn the_deliveries_are_given_back_only_when_the_halt_is_written() {
    let mut bench = Bench::owning();
    bench.commit(1, place("c-1", "o-1"));
    bench.store(StoreEvent::Executed(Executed::HalfApplied(
        "WRONGTYPE".into(),
    )));
    let closes = |actions: &[Action]| {
        actions
            .iter()
            .any(|action| matches!(action, Action::CloseChannel(..)))
    };
    assert!(
        !closes(&bench.take()),
        "a successor could go on over what was found"
    );
    bench.store(COMMITTED);
    bench.store(StoreEvent::Confirmed(DURABLE));
    assert!(closes(&bench.take()));
}

#[test]
fn a_repeat_alone_is_answered_only_when_the_epoch_is_seen_behind_its_record() {
    let record = || Some(b"{}".to_vec().into_boxed_slice());
    let looked_up = || {
        let mut bench = Bench::owning();
        bench.deliver(1, cancel("c-0", "o-1"));
        bench.caught_up();
        assert!(matches!(bench.take()[..], [Action::LookUp(_)]));
        bench.store(StoreEvent::LookedUp(vec![record(), None]));
        let actions = bench.take();
        assert!(
            matches!(actions[..], [Action::WatchEpoch]),
            "a successor may have written the record, and no disk may have it: {actions:?}"
        );
        bench
    };
    let mut bench = looked_up();
    bench.store(StoreEvent::EpochSeen(Some(7)));
    assert!(matches!(
        bench.take()[..],
        [
            Action::Reply(1, 1, Answer::Stored(_)),
            Action::Acknowledge(1, 1)
        ]
    ));
    let mut bench = looked_up();
    bench.store(StoreEvent::EpochSeen(Some(8)));
    let actions = bench.take();
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::Reply(..) | Action::Acknowledge(..))),
        "{actions:?}"
    );
}

#[test]
fn a_pair_that_is_configured_otherwise_is_refused_and_halts_nobody() {
    let mut bench = Bench::configured(PairId(0), bench::DECIMALS);
    bench.deliver(1, place("c-1", "o-1"));
    let other = conductor_engine::PairDecimals {
        price: 2,
        ..bench::DECIMALS
    };
    let page = LoadedPage {
        pair: PairId(0),
        decimals: Some(other),
        side: Side::Ask,
        members: Vec::new(),
    };
    bench.claim_up_to_watch(7, vec![page], Ok(Cursor::default()));
    bench.store(StoreEvent::EpochSeen(Some(7)));
    let actions = bench.take();
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::WriteHalt(_))),
        "{actions:?}"
    );
    let why = bench.machine.status().not_ready.expect("it is not ready");
    assert!(why.contains("[[pair]] 0"), "{why}");
}

#[test]
fn a_channel_that_was_asked_for_before_a_doubt_is_taken_behind_it() {
    let mut bench = Bench::new();
    bench.machine.start();
    bench.store(StoreEvent::Connected(bench::guards()));
    assert!(matches!(bench.take().last(), Some(Action::OpenChannel)));
    bench.store(StoreEvent::Lost("gone while the channel opens".into()));
    let actions = bench.take();
    assert!(
        !actions
            .iter()
            .any(|action| matches!(action, Action::CloseChannel(..))),
        "there is nothing to close yet: {actions:?}"
    );
    bench.input(Input::PauseOver);
    bench.store(StoreEvent::Connected(bench::guards()));
    assert!(matches!(bench.take().last(), Some(Action::OpenChannel)));
    bench.input(Input::ChannelOpened(1));
    assert_eq!(bench.machine.status().role, Role::Standby);
    assert!(matches!(bench.take()[..], [Action::Note(_)]));
}
