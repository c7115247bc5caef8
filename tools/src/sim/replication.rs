//! Replication: a primary's entries on their way to its replicas, and what those say of themselves.
//!
//! A replica answers with what it has at that moment, but its answer leaves only behind its disk, so
//! that an answer may be older than it looks. One that was away takes what it misses, or, where its
//! log is no prefix of its primary's, everything.

use super::clock::{MILLISECOND, SECOND, Time};
use super::node::{Follower, NodeRole};
use super::store::Entry;
use super::tally::Count;
use super::world::{NodeInput, World};
use conductor_engine::guards::GuardSet;
use std::rc::Rc;

impl<G: GuardSet> World<'_, G> {
    pub(super) fn replicate(&mut self, place: usize, follower: usize, entry: &Rc<Entry>) {
        let latency = self.latency();
        let now = self.now();
        let follower = &mut self.nodes[place].followers[follower];
        follower.arrives = follower.arrives.max(now + latency);
        let (node, arrives, attach) = (follower.node, follower.arrives, follower.attach);
        self.at_node(node, arrives, NodeInput::Entries(attach, Rc::clone(entry)));
    }

    pub(super) fn replicated(&mut self, place: usize, attach: u32, entry: Rc<Entry>) {
        let node = &mut self.nodes[place];
        if node.attached != Some(attach) {
            return;
        }
        // What is wrong with it was told where it was executed.
        let _ = node.data.apply(&entry);
        node.log.push(entry);
        self.sync_later(place);
    }

    /// A replica answers at once with what it has, but its answer leaves only behind its disk.
    pub(super) fn asked_for_ack(&mut self, place: usize, attach: u32) {
        let node = &mut self.nodes[place];
        if node.attached != Some(attach) {
            return;
        }
        let (memory, disk) = (node.log.len(), node.told_disk());
        if node.sync_due {
            node.held_acks.push((attach, memory, disk));
        } else {
            self.send_ack(place, attach, memory, disk);
        }
    }

    pub(super) fn send_ack(&mut self, place: usize, attach: u32, memory: usize, disk: usize) {
        let node = &self.nodes[place];
        let NodeRole::Replica { of } = node.role else {
            return;
        };
        if node.attached == Some(attach) {
            let arrives = self.now() + self.latency();
            self.at_node(
                of,
                arrives,
                NodeInput::Ack {
                    attach,
                    memory,
                    disk,
                },
            );
        }
    }

    pub(super) fn acked_by(&mut self, place: usize, attach: u32, memory: usize, disk: usize) {
        let followers = &mut self.nodes[place].followers;
        if let Some(follower) = followers.iter_mut().find(|it| it.attach == attach) {
            follower.memory = follower.memory.max(memory);
            follower.disk = follower.disk.max(disk);
            self.check_waits(place);
        }
    }

    /// Asks every replica for its counts: at once, and by the replica's own timer.
    pub(super) fn ask_replicas(&mut self, place: usize, with_timer: bool) {
        for follower in 0..self.nodes[place].followers.len() {
            let (latency, now) = (self.latency(), self.now());
            let follower = &mut self.nodes[place].followers[follower];
            follower.arrives = follower.arrives.max(now + latency);
            let (node, attach, arrives) = (follower.node, follower.attach, follower.arrives);
            self.at_node(node, arrives, NodeInput::AskAck(attach));
            if with_timer {
                let timer = now + self.random.u64(..SECOND);
                self.at_node(node, timer, NodeInput::TellAck(attach));
            }
        }
    }

    /// A replica connects to its primary, or tries again later.
    pub(super) fn attach(&mut self, place: usize) {
        self.nodes[place].attach_due = false;
        let NodeRole::Replica { of } = self.nodes[place].role else {
            return;
        };
        if self.nodes[place].attached.is_some() {
            return;
        }
        let reachable = self.nodes[of].works() && self.nodes[of].is_primary();
        if !reachable || self.now() < self.nodes[place].cut_until {
            return self.attach_later(place);
        }
        self.attaches += 1;
        let attach = self.attaches;
        self.take_log(place, of, attach);
        self.nodes[place].attached = Some(attach);
        let arrives = self.now();
        let follower = Follower {
            node: place,
            attach,
            memory: 0,
            disk: 0,
            arrives,
        };
        self.nodes[of].followers.push(follower);
        let first = self.now() + self.latency();
        self.at_node(place, first, NodeInput::TellAck(attach));
        self.tell(|names| (names.node(place), format!("follows {}", names.node(of))));
        self.check_gone_back();
    }

    pub(super) fn attach_later(&mut self, place: usize) {
        if !self.nodes[place].attach_due {
            self.nodes[place].attach_due = true;
            let again = self.now() + self.random.u64(100..400) * MILLISECOND;
            self.at_node(place, again, NodeInput::Attach);
        }
    }

    pub(super) fn take_log(&mut self, place: usize, of: usize, attach: u32) {
        let [node, primary] = self
            .nodes
            .get_disjoint_mut([place, of])
            .expect("a node does not follow itself");
        let have = node.log.len();
        let is_prefix = node.log.last().is_none_or(|last| {
            primary
                .log
                .get(have - 1)
                .is_some_and(|entry| Rc::ptr_eq(entry, last))
        });
        if is_prefix {
            for entry in &primary.log[have..] {
                let _ = node.data.apply(entry);
                node.log.push(Rc::clone(entry));
            }
            return self.sync_later(place);
        }
        if node.old_disk.is_none() {
            node.old_disk = Some(node.log[..node.synced].to_vec());
        }
        node.log.clone_from(&primary.log);
        node.data = primary.data.clone();
        node.synced = 0;
        self.tally.count(Count::FullResync);
        let takes = self.random.u64(50..800) * MILLISECOND;
        self.at_node(place, self.now() + takes, NodeInput::Rewritten(attach));
    }

    /// A log that was taken whole is on the disk, in place of what was there before.
    pub(super) fn rewritten(&mut self, place: usize, attach: u32) {
        let node = &mut self.nodes[place];
        if node.attached != Some(attach) && node.old_disk.is_none() {
            return;
        }
        for entry in node.old_disk.take().unwrap_or_default() {
            entry.disks.set(entry.disks.get() & !(1 << place));
        }
        node.synced = node.log.len();
        self.on_disk(place, 0);
        self.check_waits(place);
    }

    /// A replica is no longer connected to anybody.
    pub(super) fn detach(&mut self, place: usize) {
        self.nodes[place].attached = None;
        for node in &mut self.nodes {
            node.followers.retain(|follower| follower.node != place);
        }
    }

    pub(super) fn lose_primary(&mut self, place: usize) {
        self.nodes[place].attached = None;
        self.attach_later(place);
    }

    /// A replica's way to its primary is cut for a while.
    pub(super) fn cut_replication(&mut self, place: usize, length: Time) {
        self.nodes[place].cut_until = self.now() + length;
        self.detach(place);
        self.attach_later(place);
    }
}
