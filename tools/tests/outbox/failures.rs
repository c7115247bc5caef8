//! What dies, stalls or goes on the way, and what must follow.

use super::bench::{Bench, END_WITHIN, SHORT_LEASE, SOON, TAKEN_OVER_WITHIN, counted, figure};
use conductor_tools::testbed::{HoldProxy, Instance, StoreAddresses, wait_for};
use std::time::Instant;

const STANDING_BY: &str = "another outbox holds the lease";

fn waits_for(outbox: &Instance, why: &str) {
    let said = |status: u16, body: &str| status == 503 && body.contains(why);
    outbox
        .wait_page("/ready", SOON, said)
        .expect("it says what it waits for");
}

#[test]
fn a_second_outbox_takes_over_when_the_first_is_killed_or_stalls() {
    let bench = Bench::with_queue();
    let first = bench.outbox("first", &SHORT_LEASE);
    first.wait_ready(SOON).expect("it has the lease");
    let second = bench.outbox("second", &SHORT_LEASE);
    waits_for(&second, STANDING_BY);

    bench.add(1..=400);
    first.process().kill().expect("it is killed");
    let killed = Instant::now();
    second.wait_ready(SOON).expect("it takes over");
    assert!(
        killed.elapsed() < TAKEN_OVER_WITHIN,
        "it took {:?}",
        killed.elapsed()
    );
    bench.add(401..=500);
    bench.take_through(500);
    bench.wait_drained();

    first.restart().expect("it starts");
    waits_for(&first, STANDING_BY);
    second.process().pause().expect("it stalls");
    bench.add(501..=900);
    first.wait_ready(SOON).expect("it takes over");
    let taken = bench.take_until(|taken| taken.iter().any(|got| got.sequence == 900));
    in_order_from(&taken, 501);
    bench.wait_drained();
    // It wakes up to a stream that went on without it, and that is no gap.
    first.process().pause().expect("it stalls");
    bench.add(901..=905);
    second.process().resume().expect("it goes on");
    second.wait_ready(SOON).expect("it takes over");
    let taken = bench.take_until(|taken| taken.iter().any(|got| got.sequence == 905));
    let fresh: Vec<_> = taken.into_iter().filter(|got| got.sequence > 900).collect();
    in_order_from(&fresh, 901);
    assert_eq!(figure(&second, "sequence_gaps_total"), 0);
    first.process().resume().expect("it goes on");
    waits_for(&first, STANDING_BY);
    bench.add(906..=910);
    let taken = bench.take_until(|taken| taken.iter().any(|got| got.sequence == 910));
    let fresh: Vec<_> = taken.into_iter().filter(|got| got.sequence > 905).collect();
    in_order_from(&fresh, 906);
    for outbox in [&first, &second] {
        assert_eq!(figure(outbox, "sequence_gaps_total"), 0);
    }
    let leases = figure(&first, "leases_taken_total");
    assert_eq!(leases, 1, "the lease did not go back and forth");
}

/// First appearances are in order, without a gap.
#[track_caller]
fn in_order_from(taken: &[super::bench::Got], first: u64) {
    let mut next = first;
    for got in taken {
        assert!(got.sequence <= next, "{} came before {next}", got.sequence);
        next = next.max(got.sequence + 1);
    }
}

#[test]
fn an_outbox_killed_between_confirm_and_delete_publishes_the_same_again() {
    let bench = Bench::with_queue();
    let proxy = HoldProxy::start(bench.cell.store(0).primary.address()).expect("a proxy");
    let mut settings = bench.cell.settings();
    settings.stores = StoreAddresses::Direct(vec![proxy.address()]);
    let file = settings
        .write("through-a-proxy.toml")
        .expect("the settings are written");
    let mut variables = SHORT_LEASE.to_vec();
    let file = file.display().to_string();
    variables.push(("CONDUCTOR_CONFIG", &file));
    proxy.hold_when(b"XDEL");
    bench.add(1..=20);
    let first = bench.outbox("first", &variables);
    proxy.wait_holding(SOON).expect("it is about to delete");
    first.process().kill().expect("it is killed");
    proxy.cut();
    assert_eq!(bench.stream_length(), 20, "nothing was deleted");
    let before = bench.take_through(20);
    assert_eq!(before.len(), 20);

    let _second = bench.outbox("second", &SHORT_LEASE);
    let again = bench.take_through(20);
    let named = |taken: &[super::bench::Got]| -> Vec<(String, Vec<u8>)> {
        taken
            .iter()
            .map(|got| (got.event.clone(), got.body.clone()))
            .collect()
    };
    assert_eq!(named(&before), named(&again), "the same ids and bytes");
    bench.wait_drained();
}

#[test]
fn while_a_replica_is_away_nothing_is_published() {
    let bench = Bench::with_queue();
    let outbox = bench.outbox("outbox", &SHORT_LEASE);
    outbox.wait_ready(SOON).expect("it has the lease");
    let replica = &bench.cell.store(0).replicas[0];
    replica.process().pause().expect("it stalls");
    bench.add(1..=10);
    waits_for(&outbox, "too few disks");
    wait_for("three waits in vain", SOON, || {
        match figure(&outbox, "waits_below_policy_total") {
            0..=2 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    })
    .expect("it waits again and again");
    assert_eq!(bench.waiting(), 0, "nothing is published");
    replica.process().resume().expect("it goes on");
    assert_eq!(bench.take_through(10).len(), 10);
    outbox.wait_ready(SOON).expect("it is ready");
    assert_eq!(
        figure(&outbox, "leases_taken_total"),
        1,
        "the waits renewed the lease"
    );

    replica.process().pause().expect("it stalls");
    bench.add(11..=12);
    waits_for(&outbox, "too few disks");
    let ended = outbox.terminate(END_WITHIN).expect("it ends");
    assert_eq!(ended.code(), Some(0));
    let lease: Option<String> = bench.store(&["GET", bench.keys().outbox_lease()]);
    assert_eq!(lease, None, "the lease is given up");
    assert_eq!(bench.waiting(), 0);
    replica.process().resume().expect("it goes on");
}

#[test]
fn a_broker_that_is_killed_and_comes_back_misses_nothing() {
    let bench = Bench::with_queue();
    bench.keep_queues();
    let outbox = bench.outbox("outbox", &[]);
    outbox.wait_ready(SOON).expect("it has the lease");
    bench.add(1..=1_000);
    wait_for("some events published", SOON, || {
        match figure(&outbox, "published_total") {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .expect("it publishes");
    let rabbit = bench.cell.rabbit();
    rabbit.process().kill().expect("it is killed");
    waits_for(&outbox, "the broker: ");
    bench.add(1_001..=1_200);
    wait_for("a lease for whoever has a broker", SOON, || {
        let lease: Option<String> = bench.store(&["GET", bench.keys().outbox_lease()]);
        lease.map_or(Ok(()), Err)
    })
    .expect("it gives the lease up");
    rabbit.restart().expect("it starts");
    let taken = bench.take_through(1_200);
    assert_eq!(counted(&taken), 1_200);
    outbox.wait_ready(SOON).expect("it is ready");
    bench.wait_drained();

    rabbit.process().kill().expect("it is killed");
    waits_for(&outbox, "the broker: ");
    let ended = outbox.terminate(END_WITHIN).expect("it ends");
    assert_eq!(ended.code(), Some(0), "an absent broker holds nobody up");
}

#[test]
fn while_the_broker_takes_no_messages_it_waits_and_repeats_nothing() {
    let bench = Bench::with_queue();
    let outbox = bench.outbox("outbox", &SHORT_LEASE);
    outbox.wait_ready(SOON).expect("it has the lease");
    let memory = |share: &str| {
        let set = ["set_vm_memory_high_watermark", share];
        bench.cell.rabbit().control(&set).expect("it is set");
    };
    memory("0.00000001");
    bench.add(1..=50);
    waits_for(&outbox, "the broker takes no messages");
    // The confirms are out for longer than the lease lasts, and it is still this outbox's.
    let mut last = i64::MAX;
    let mut renewed = 0;
    wait_for("a lease that is renewed", SOON, || {
        let left: i64 = bench.store(&["PTTL", bench.keys().outbox_lease()]);
        renewed += usize::from(left > last);
        last = left;
        match renewed {
            0..=3 => Err(format!("renewed {renewed} times, {left} ms are left")),
            _ => Ok(()),
        }
    })
    .expect("it renews the lease while it waits");
    assert_eq!(figure(&outbox, "leases_taken_total"), 1);
    memory("0.4");
    assert_eq!(bench.take_through(50).len(), 50, "each event came once");
    outbox.wait_ready(SOON).expect("it is ready");
    assert_eq!(figure(&outbox, "retried_total"), 0);
}
