//! The simulator: clean with every guard, wrong without any one of them, the same twice.

use conductor_engine::guards::Guard;
use conductor_tools::sim::{Batch, Count, Plan, Yield, run, run_batch};

fn batch(seeds: u64) -> Batch {
    Batch {
        from: 1,
        seeds,
        threads: 2,
        broken: None,
        uncovered: false,
    }
}

fn story_of(came: &Yield) -> String {
    let told = came.failure.as_ref().map(|failure| {
        let faults = failure.plan.faults.iter().map(ToString::to_string);
        let faults: Vec<String> = faults.collect();
        let (seed, shortest, story) = (failure.seed, &failure.shortest, failure.story.join("\n"));
        format!("seed {seed}\n{}\n{story}\n{shortest}", faults.join("\n"))
    });
    told.unwrap_or_default()
}

#[test]
fn every_schedule_ends_well_with_every_guard() {
    let came = run_batch(&batch(500), |_| {});
    assert_eq!(came.violations, 0, "{}", story_of(&came));
    assert!(came.tally.commands >= 50 * came.seeds, "{:?}", came.tally);
    assert!(came.tally.faults() >= 5 * came.seeds, "{:?}", came.tally);
    let beyond_policy = [Count::DiskSetBack, Count::LaggardPromoted];
    let beyond_policy = beyond_policy.into_iter();
    let only_there = beyond_policy.chain([Count::Halt, Count::StoreWentBack]);
    let only_there: Vec<Count> = only_there.collect();
    for kind in Count::ALL {
        let (count, words) = (came.tally.of(*kind), kind.words());
        assert_eq!(count == 0, only_there.contains(kind), "{words}: {count}");
    }
}

#[test]
fn beyond_the_policy_whoever_knows_of_a_loss_halts() {
    let uncovered = Batch {
        uncovered: true,
        ..batch(500)
    };
    let came = run_batch(&uncovered, |_| {});
    assert_eq!(came.violations, 0, "{}", story_of(&came));
    assert!(came.tally.of(Count::StoreWentBack) > 100);
    assert!(came.tally.of(Count::Halt) > 100);
}

#[test]
fn the_same_seeds_are_the_same_runs_on_any_number_of_threads() {
    let of_threads = |threads| {
        let batch = Batch {
            threads,
            ..batch(120)
        };
        run_batch(&batch, |_| {})
    };
    let (one, three) = (of_threads(1), of_threads(3));
    assert_eq!(one.digest, three.digest);
    assert_eq!(one.tally, three.tally);
    let told = |seed| run(&Plan::of(seed, false), None, true);
    let (first, again) = (told(7), told(7));
    assert_eq!(first.story, again.story);
    assert_eq!(first.digest, run(&Plan::of(7, false), None, false).digest);
    assert_ne!(first.digest, told(8).digest);
}

/// A guard that nobody misses is untested or useless.
fn is_missed(guard: Guard) {
    let came = run_batch(
        &Batch {
            broken: Some(guard),
            uncovered: matches!(guard, Guard::NeverForget | Guard::StickyHalt),
            ..batch(4_000)
        },
        |_| {},
    );
    let failure = came
        .failure
        .unwrap_or_else(|| panic!("nobody misses the guard {guard}"));
    assert_eq!(failure.wrong.kind(), failure.shortest.kind());
    assert!(failure.plan.commands <= Plan::of(failure.seed, false).commands);
    assert!(!failure.story.is_empty());
}

macro_rules! missed {
    ($($name:ident: $guard:ident;)*) => {
        $(
            #[test]
            fn $name() {
                is_missed(Guard::$guard);
            }
        )*

        #[test]
        fn every_guard_has_its_test() {
            assert_eq!(Guard::ALL, [$(Guard::$guard,)*]);
        }
    };
}

missed! {
    the_fence_is_missed: Fence;
    one_packet_in_flight_is_missed: OnePacket;
    durability_before_the_answer_is_missed: DurableBeforeAck;
    durability_before_publishing_is_missed: OutboxDurable;
    reading_from_the_head_is_missed: OutboxFromHead;
    closing_the_channel_is_missed: CloseChannel;
    the_generation_is_missed: Generation;
    the_record_of_commands_is_missed: Dedup;
    the_record_of_orders_is_missed: AcceptedOrder;
    the_barrier_is_missed: Barrier;
    loading_after_a_doubt_is_missed: ReloadOnDoubt;
    the_unmoved_cursor_is_missed: UnmovedCursor;
    remembering_what_was_durable_is_missed: NeverForget;
    the_lasting_halt_is_missed: StickyHalt;
    the_growing_priority_is_missed: Priority;
}
