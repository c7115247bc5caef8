//! The seeded workload keeps its promises: one seed, one market; the mix; half of the places trade;
//! cancels name live orders; the house never meets itself.

use conductor_engine::event::{OutcomeKind, Payload};
use conductor_engine::{Body, Command, Incoming, PairId, PartitionId};
use conductor_tools::replay::{FastReplay, Verdict};
use conductor_tools::workload::{Mix, Workload, WorkloadError, WorkloadOptions};

const COMMANDS: usize = 60_000;

fn workload(seed: u64) -> Workload {
    let options = WorkloadOptions {
        seed,
        ..WorkloadOptions::default()
    };
    Workload::new(options).expect("good options")
}

#[test]
fn a_seed_gives_one_market() {
    let commands: Vec<Command> = workload(11).take(2_000).collect();
    assert!(workload(11).take(2_000).eq(commands.iter().cloned()));
    assert!(!workload(12).take(100).eq(commands[..100].iter().cloned()));
}

/// What became of the commands of each kind: place, cancel, amend, replace.
#[derive(Debug, Default)]
struct Tally {
    kinds: [u32; 4],
    places_that_trade: u32,
    cancels_of_live_orders: u32,
}

impl Tally {
    fn add(&mut self, command: Command, replay: &mut FastReplay) {
        let kind = match &command.body {
            Body::Place(_) => 0,
            Body::Cancel { .. } => 1,
            Body::Amend { .. } => 2,
            Body::Replace { cancel, place } => {
                assert!((1..=10).contains(&(cancel.len() + place.len())));
                3
            }
        };
        let incoming = Incoming::Command(command);
        let decided = replay.feed(PartitionId(0), &incoming).expect("no halt");
        let Verdict::New(result) = &decided.verdict else {
            panic!("{:?}", decided.verdict);
        };
        let trades = decided
            .events
            .iter()
            .any(|event| matches!(event.payload, Payload::Deal(_)));
        let cancelled = result.outcomes[0].kind == OutcomeKind::Cancelled;
        self.kinds[kind] += 1;
        self.places_that_trade += u32::from(kind == 0 && trades);
        self.cancels_of_live_orders += u32::from(kind == 1 && cancelled);
    }
}

#[test]
fn the_mix_is_what_it_promises_to_be() {
    let mut replay = FastReplay::new(1);
    let mut tally = Tally::default();
    let mut market = workload(11);
    for command in market.by_ref().take(COMMANDS) {
        tally.add(command, &mut replay);
    }
    // One of a hundred commands is six hundred.
    for (count, percent) in tally.kinds.into_iter().zip([60, 30, 5, 5]) {
        assert!(count.abs_diff(600 * percent) < 600, "{tally:?}");
    }
    assert_eq!(tally.cancels_of_live_orders, tally.kinds[1]);
    assert!(
        tally.places_that_trade.abs_diff(tally.kinds[0] / 2) < 600,
        "{tally:?}"
    );
    let counts = replay.counts();
    assert!(counts.deals * 4 > counts.commands, "{counts:?}");
    let refusals = counts.events.get("command.rejected.v1");
    assert_eq!((refusals, counts.duplicate_orders), (None, 0));
    // The market that the workload keeps is the one that the replay has, and it stays small.
    let resting = conductor_engine::Book::len(replay.book(PartitionId(0)));
    assert_eq!(resting, market.resting());
    assert!((100..2_000).contains(&resting), "{resting}");
}

#[test]
fn unusual_options_give_a_sound_market_too() {
    let unusual = |seed: u64, price: u8, amount: u8, mid_ticks: u64| WorkloadOptions {
        seed,
        pairs: vec![PairId(4_294_967_295), PairId(7)],
        users: 1,
        house_permille: 1_000,
        decimals: conductor_engine::PairDecimals {
            price,
            amount,
            quote: 0,
        },
        mid_ticks,
        batch_entries_max: 500,
        step_ms: 0,
        prefix: "run:9-".to_owned(),
        ..WorkloadOptions::default()
    };
    for options in [
        unusual(1, 0, 0, 100),
        unusual(2, 12, 18, 100_000_000_000_000),
        unusual(3, 5, 2, 111_548),
    ] {
        let mut replay = FastReplay::new(1);
        for command in Workload::new(options).expect("good options").take(2_000) {
            assert!(command.id.as_str().starts_with("run:9-c-"));
            let incoming = Incoming::Command(command);
            replay.feed(PartitionId(0), &incoming).expect("no halt");
        }
        replay.audit().expect("a sound book");
        let counts = replay.counts();
        assert!(counts.deals > 300, "{counts:?}");
        assert_eq!(counts.events.get("command.rejected.v1"), None);
    }
}

#[test]
fn options_that_make_no_market_are_refused() {
    let refused = |change: fn(&mut WorkloadOptions)| {
        let mut options = WorkloadOptions::default();
        change(&mut options);
        Workload::new(options).expect_err("no workload")
    };
    assert_eq!(
        refused(|options| options.pairs.clear()),
        WorkloadError::NoPair
    );
    assert_eq!(refused(|options| options.users = 0), WorkloadError::NoUser);
    assert_eq!(
        refused(|options| options.mid_ticks = 99),
        WorkloadError::Mid
    );
    assert_eq!(
        refused(|options| options.batch_entries_max = 501),
        WorkloadError::Batch
    );
    assert_eq!(
        refused(|options| options.prefix = "a b".to_owned()),
        WorkloadError::Prefix
    );
    assert_eq!(
        refused(|options| options.decimals.price = 13),
        WorkloadError::Decimals
    );
    assert_eq!(
        refused(|options| options.partition_count = Some(0)),
        WorkloadError::NoPartition
    );
    let mix = Mix {
        places: 61,
        ..Mix::default()
    };
    let options = WorkloadOptions {
        mix,
        ..WorkloadOptions::default()
    };
    let error = Workload::new(options).expect_err("no workload");
    assert_eq!(error, WorkloadError::Mix { sum: 101 });
}
