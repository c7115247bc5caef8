//! `WAIT` and `WAITAOF`, and waiting for an event of the stream.
//!
//! A wait compares with this connection's own last effective write, answers with the counts as they
//! are when its time is over, and is over at once on a connection that has written nothing.

use super::clock::SECOND;
use super::node::Follower;
use super::server::{Reply, Wait};
use super::tally::Count;
use super::world::{NodeInput, World};
use conductor_engine::guards::GuardSet;

impl<G: GuardSet> World<'_, G> {
    pub(super) fn begin_wait(&mut self, conn: usize, disks: bool) {
        let node = self.conns[conn].node;
        if !self.nodes[node].is_primary() {
            return self.reply(conn, Reply::Error("WAIT cannot be used with a replica"));
        }
        self.conns[conn].serial += 1;
        let serial = self.conns[conn].serial;
        self.conns[conn].wait = Some(Wait { disks, serial });
        self.nodes[node].waiting.push(conn);
        if self.end_wait(conn, false) {
            return;
        }
        self.ask_replicas(node, disks);
        let over = self.now() + self.plan.wait_timeout;
        self.at_node(node, over, NodeInput::WaitOver(conn, serial));
    }

    /// Answers a wait that is over, or whose time is. Whether it is ended now.
    pub(super) fn end_wait(&mut self, conn: usize, late: bool) -> bool {
        let connection = &self.conns[conn];
        let Some(wait) = connection.wait else {
            return true;
        };
        let node = &self.nodes[connection.node];
        let counts = |has: fn(&Follower) -> usize| {
            let enough = node
                .followers
                .iter()
                .filter(|it| has(it) >= connection.written);
            u32::try_from(enough.count()).unwrap_or(u32::MAX)
        };
        let memory = counts(|follower| follower.memory);
        let replicas = counts(|follower| follower.disk);
        let primary = node.synced >= connection.written;
        let enough = if wait.disks {
            primary && replicas >= self.plan.needed
        } else {
            memory >= self.plan.needed
        };
        if !enough && !late {
            return false;
        }
        if !enough && wait.disks {
            self.tally.count(Count::WaitBelowPolicy);
        }
        let place = connection.node;
        self.nodes[place].waiting.retain(|waiting| *waiting != conn);
        self.conns[conn].wait = None;
        self.reply(
            conn,
            match wait.disks {
                true => Reply::WaitedDisks { primary, replicas },
                false => Reply::Waited(memory),
            },
        );
        true
    }

    pub(super) fn check_waits(&mut self, node: usize) {
        for conn in self.nodes[node].waiting.clone() {
            if self.end_wait(conn, false) {
                self.run_conn(conn);
            }
        }
    }

    pub(super) fn wait_over(&mut self, conn: usize, serial: u32) {
        if self.conns[conn]
            .wait
            .is_some_and(|wait| wait.serial == serial)
        {
            self.end_wait(conn, true);
            self.run_conn(conn);
        } else if self.conns[conn].sleeping == Some(serial) {
            self.wake_sleeper(conn);
        }
    }

    pub(super) fn begin_sleep(&mut self, conn: usize) {
        let node = self.conns[conn].node;
        if !self.nodes[node].data.stream.is_empty() {
            return self.reply(conn, Reply::Awaited);
        }
        self.conns[conn].serial += 1;
        let serial = self.conns[conn].serial;
        self.conns[conn].sleeping = Some(serial);
        self.nodes[node].sleeping.push(conn);
        self.at_node(node, self.now() + SECOND, NodeInput::WaitOver(conn, serial));
    }

    pub(super) fn wake_sleeper(&mut self, conn: usize) {
        if self.conns[conn].sleeping.take().is_some() {
            let node = self.conns[conn].node;
            self.nodes[node]
                .sleeping
                .retain(|sleeping| *sleeping != conn);
            self.reply(conn, Reply::Awaited);
            self.run_conn(conn);
        }
    }

    /// A node that became a replica ends all waits with an error.
    pub(super) fn unblock_all(&mut self, node: usize) {
        for conn in std::mem::take(&mut self.nodes[node].waiting) {
            self.conns[conn].wait = None;
            self.reply(conn, Reply::Error("UNBLOCKED: the node became a replica"));
            self.run_conn(conn);
        }
    }
}
