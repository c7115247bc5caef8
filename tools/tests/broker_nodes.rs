//! A broker of several nodes, of which some are dead and some say nothing.
//!
//! The nodes are proxies in front of one real broker, so that each can be made to refuse, to end its
//! connections, or to take a connection and never answer. Any node that works must do, and one that
//! does not must cost no more than its few seconds.

mod live;
mod raw_messages;

use conductor_config::BrokerNode;
use conductor_io::amqp;
use conductor_tools::client::block_on;
use conductor_tools::testbed::{Direction, HoldProxy, Instance, Layout};
use live::LiveCell;
use raw_messages::{SOON, place, replies};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// What one silent node may cost, and a busy machine.
const ONE_SILENT: Duration = Duration::from_secs(10);

/// A port on which nobody listens.
fn dead() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it has an address")
}

fn node(address: SocketAddr) -> BrokerNode {
    BrokerNode {
        host: address.ip().to_string(),
        port: address.port(),
    }
}

/// A command goes through.
#[track_caller]
fn works(live: &LiveCell, id: &str) {
    let replies = replies(&live.settings, &[place(id, 0, "bid", "100.25", "2")]);
    let reply = replies[0].as_deref().expect("a command has a reply");
    assert!(reply.contains("\"status\":\"accepted\""), "{reply}");
}

/// Waits until the conductor and the outbox have lost the broker and found it again.
#[track_caller]
fn found_again(processes: &[(&Instance, u64, &str)]) {
    for (process, begin, words) in processes {
        let said = process.process().wait_for_log_from(*begin, words, SOON);
        said.unwrap_or_else(|error| panic!("{error}"));
        process.wait_ready(SOON).expect("another node will do");
    }
}

#[test]
fn any_node_that_works_will_do() {
    let live = LiveCell::start(&Layout::default());
    let rabbit = live.servers.rabbit().address();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let silent_at = silent.local_addr().expect("it has an address");
    let (first, second) = (
        HoldProxy::start(rabbit).expect("a proxy"),
        HoldProxy::start(rabbit).expect("a proxy"),
    );
    let nodes = [dead(), silent_at, first.address(), second.address()];
    let uris = nodes
        .map(|address| format!("amqp://{address}/%2f"))
        .join(",");
    let variables = [("RABBITMQ_URI", uris.as_str())];

    names_every_node(&live, &[nodes[0], silent_at]);

    let conductor = live.conductor("conductor", &variables);
    let outbox = live.outbox("outbox", &variables);
    works(&live, "o-1");

    // The node that they are on dies.
    let begin = (
        conductor.process().log_length(),
        outbox.process().log_length(),
    );
    first.refuse(true).expect("it refuses");
    first.cut();
    found_again(&[
        (&conductor, begin.0, "closing the channel"),
        (&outbox, begin.1, "connected to the broker"),
    ]);
    works(&live, "o-2");

    // The next one takes connections and no longer says a word, while the first one is back.
    first.refuse(false).expect("it takes connections");
    let begin = (
        conductor.process().log_length(),
        outbox.process().log_length(),
    );
    second.hold_all(Direction::ToClient);
    second.cut();
    found_again(&[
        (&conductor, begin.0, "closing the channel"),
        (&outbox, begin.1, "connected to the broker"),
    ]);
    works(&live, "o-3");
    drop(silent);
}

/// With no node that works the line names each and what it did, and none took longer than it may.
fn names_every_node(live: &LiveCell, nodes: &[SocketAddr]) {
    let mut broker = live.settings.broker.clone();
    broker.nodes = nodes.iter().copied().map(node).collect();
    let begun = Instant::now();
    let failed = block_on(async { Ok(amqp::connect(&broker, "test").await.err()) });
    let failed = failed
        .expect("it ends")
        .expect("nobody answers")
        .to_string();
    assert!(begun.elapsed() < ONE_SILENT, "{:?}", begun.elapsed());
    for address in nodes {
        assert!(failed.contains(&format!("{address}: ")), "{failed}");
    }
    assert!(failed.contains("no answer in 4 s"), "{failed}");
}
