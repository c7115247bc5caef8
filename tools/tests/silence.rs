//! A store that is stopped keeps its sockets open and says nothing. Readiness goes by what was heard
//! and not by what is connected: it is red, with the reason, before the next command would find out,
//! on the active conductor, on the standby and on the outbox.

mod live;

use conductor_engine::Side;
use conductor_tools::testbed::{Instance, Layout};
use live::{LATER, LiveCell, limit, wait_partition};
use std::time::{Duration, Instant};

/// From the moment at which a server falls silent: a look a second, a limit, and a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(8);

/// Waits until a process is not ready and gives one of these reasons.
#[track_caller]
fn red(instance: &Instance, reasons: &[&str]) {
    wait_partition(instance, 0, LATER, |shown| {
        let why = shown["why"].as_str().unwrap_or_default();
        shown["ready"] == false && reasons.iter().any(|reason| why.contains(reason))
    });
}

#[test]
fn a_store_that_falls_silent_shows_before_a_command_needs_it() {
    let live = LiveCell::start(&Layout::default());
    let active = live.conductor("active", &[]);
    let _ = live.ask(&limit(1, 1, "first", Side::Bid, (100, 1)));
    let standby = live.conductor("standby", &[]);
    let outbox = live.outbox("outbox", &[]);
    let (primary, replica) = {
        let group = live.servers.store(0);
        (group.primary.process(), group.replicas[0].process())
    };

    // The replica stays in its primary's list, and nothing is asked of it.
    let begin = (
        active.process().log_length(),
        standby.process().log_length(),
    );
    replica.pause().expect("it is stopped");
    let stopped = Instant::now();
    let reason = "0 of 1 replicas follow the primary and answer it";
    for conductor in [&active, &standby] {
        red(conductor, &[reason]);
    }
    assert!(stopped.elapsed() < SHOWN_WITHIN, "{:?}", stopped.elapsed());
    replica.resume().expect("it goes on");
    for (conductor, begin) in [(&active, begin.0), (&standby, begin.1)] {
        conductor.wait_ready(LATER).expect("it is ready again");
        for line in ["not ready: 0 of 1 replicas", "ready again"] {
            let said = conductor.process().wait_for_log_from(begin, line, LATER);
            said.unwrap_or_else(|error| panic!("{error}"));
        }
    }

    // The primary says nothing any more.
    primary.pause().expect("it is stopped");
    let stopped = Instant::now();
    // First silence is seen; then the connection is given up and another one is tried.
    let reasons = [
        "has not answered",
        "does not answer",
        "no answer",
        "connecting",
    ];
    for process in [&active, &standby, &outbox] {
        red(process, &reasons);
    }
    assert!(stopped.elapsed() < SHOWN_WITHIN, "{:?}", stopped.elapsed());
    primary.resume().expect("it goes on");
    for process in [&active, &standby, &outbox] {
        process.wait_ready(LATER).expect("it is ready again");
    }
    let reply = live.ask(&limit(1, 1, "second", Side::Bid, (100, 1)));
    assert!(reply.contains("\"status\":\"accepted\""), "{reply}");
}
