//! The nodes of the store: execution, disks, replication, and who is primary.
//!
//! A node's log is its memory; a prefix of it, or for a while an older log, is its disk. A node that
//! dies comes back with its disk. A replica whose log is no prefix of its primary's takes the
//! primary's whole, and its disk follows only when that is rewritten.

use super::clock::{MILLISECOND, SECOND, Time};
use super::judge::Wrong;
use super::server::Sent;
use super::store::{Data, Effect, Entry, replay};
use super::world::{Event, NodeInput, World};
use conductor_engine::guards::GuardSet;
use std::cell::Cell;
use std::rc::Rc;

/// A replica as its primary sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follower {
    pub(super) node: usize,
    pub(super) attach: u32,
    /// Entries that it has said to have in memory, and on its disk.
    pub(super) memory: usize,
    pub(super) disk: usize,
    /// When the last thing that was sent to it arrives.
    pub(super) arrives: Time,
}

/// What a node takes itself for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeRole {
    Primary,
    Replica { of: usize },
}

/// One node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) life: u32,
    pub(super) running: bool,
    pub(super) paused: bool,
    pub(super) role: NodeRole,
    /// How often it was made the primary.
    pub(super) promotions: u32,
    pub(super) log: Vec<Rc<Entry>>,
    pub(super) data: Data,
    /// Entries of the log that are on the disk.
    pub(super) synced: usize,
    /// What the disk holds while a log that was taken whole is not rewritten yet.
    pub(super) old_disk: Option<Vec<Rc<Entry>>>,
    pub(super) sync_due: bool,
    /// Until when its disk is slow.
    pub(super) slow_until: Time,
    /// Until when it cannot reach its primary.
    pub(super) cut_until: Time,
    /// Until when it refuses writes for want of memory.
    pub(super) full_until: Time,
    pub(super) attached: Option<u32>,
    pub(super) attach_due: bool,
    pub(super) followers: Vec<Follower>,
    /// Replies that wait for the disk.
    pub(super) held_replies: Vec<Sent>,
    pub(super) held_acks: Vec<(u32, usize, usize)>,
    /// Connections that wait for other disks, and those that wait for an event.
    pub(super) waiting: Vec<usize>,
    pub(super) sleeping: Vec<usize>,
    /// What arrived while it was paused.
    pub(super) held: Vec<NodeInput>,
    /// Whether Sentinel has already told it whom to follow.
    pub(super) told: bool,
}

impl Node {
    pub(super) fn new(place: usize) -> Self {
        let role = if place == 0 {
            NodeRole::Primary
        } else {
            NodeRole::Replica { of: 0 }
        };
        Self {
            life: 0,
            running: true,
            paused: false,
            role,
            promotions: 0,
            log: Vec::new(),
            data: Data::default(),
            synced: 0,
            old_disk: None,
            sync_due: false,
            slow_until: 0,
            cut_until: 0,
            full_until: 0,
            attached: None,
            attach_due: false,
            followers: Vec::new(),
            held_replies: Vec::new(),
            held_acks: Vec::new(),
            waiting: Vec::new(),
            sleeping: Vec::new(),
            held: Vec::new(),
            told: false,
        }
    }

    /// Whether it does what it is asked to.
    pub(super) const fn works(&self) -> bool {
        self.running && !self.paused
    }

    /// Which history it has, for those who compare.
    pub(super) fn history(&self, place: usize) -> String {
        format!("{place}.{}", self.promotions)
    }

    pub(super) fn is_primary(&self) -> bool {
        self.role == NodeRole::Primary
    }

    /// Entries that are on its disk, as it tells its primary.
    pub(super) const fn told_disk(&self) -> usize {
        if self.old_disk.is_some() {
            0
        } else {
            self.synced
        }
    }

    /// Whether its replies wait for its disk.
    pub(super) const fn is_syncing(&self) -> bool {
        self.sync_due
    }
}

impl<G: GuardSet> World<'_, G> {
    pub(super) fn node_input(&mut self, place: usize, input: NodeInput) {
        if self.nodes[place].paused {
            return self.nodes[place].held.push(input);
        }
        match input {
            NodeInput::Arrive(conn, commands) => self.arrive(conn, commands),
            NodeInput::Run(conn) => self.run_conn(conn),
            NodeInput::Eof(conn) => self.close_conn(conn),
            NodeInput::WaitOver(conn, serial) => self.wait_over(conn, serial),
            NodeInput::Synced => self.synced(place),
            NodeInput::Entries(attach, entry) => self.replicated(place, attach, entry),
            NodeInput::AskAck(attach) => self.asked_for_ack(place, attach),
            NodeInput::TellAck(attach) => {
                let (memory, disk) = (self.nodes[place].log.len(), self.nodes[place].told_disk());
                self.send_ack(place, attach, memory, disk);
            }
            NodeInput::Ack {
                attach,
                memory,
                disk,
            } => self.acked_by(place, attach, memory, disk),
            NodeInput::Rewritten(attach) => self.rewritten(place, attach),
            NodeInput::Attach => self.attach(place),
        }
    }

    pub(super) fn at_node(&mut self, place: usize, time: Time, input: NodeInput) {
        let life = self.nodes[place].life;
        self.clock.at(time, Event::Node(place, life, input));
    }

    /// Executes one change on a primary.
    pub(super) fn execute(&mut self, place: usize, effect: Effect) {
        let now = self.now();
        let node = &mut self.nodes[place];
        let stream = (node.data.last_stream + 1).max(now);
        let entry = Rc::new(Entry {
            effect,
            stream,
            disks: Cell::new(0),
        });
        let applied = node.data.apply(&entry);
        node.log.push(Rc::clone(&entry));
        let sleeping = if node.data.stream.is_empty() {
            Vec::new()
        } else {
            std::mem::take(&mut node.sleeping)
        };
        if let Err(sentence) = applied {
            self.wrong(Wrong::StoreDamaged(sentence));
        }
        self.sync_later(place);
        for follower in 0..self.nodes[place].followers.len() {
            self.replicate(place, follower, &entry);
        }
        for conn in sleeping {
            self.wake_sleeper(conn);
        }
    }

    pub(super) fn sync_later(&mut self, place: usize) {
        if self.nodes[place].sync_due {
            return;
        }
        self.nodes[place].sync_due = true;
        let slow = self.now() < self.nodes[place].slow_until;
        let takes = if slow {
            self.random.u64(100 * MILLISECOND..2 * SECOND)
        } else {
            self.random.u64(100..900)
        };
        self.at_node(place, self.now() + takes, NodeInput::Synced);
    }

    pub(super) fn synced(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        node.sync_due = false;
        if node.old_disk.is_none() {
            let from = node.synced;
            node.synced = node.log.len();
            self.on_disk(place, from);
        }
        for (attach, memory, disk) in std::mem::take(&mut self.nodes[place].held_acks) {
            self.send_ack(place, attach, memory, disk);
        }
        for sent in std::mem::take(&mut self.nodes[place].held_replies) {
            self.send_reply(sent);
        }
        self.check_waits(place);
    }

    /// Marks everything of the log from here on as being on this disk.
    pub(super) fn on_disk(&mut self, place: usize, from: usize) {
        let enough = self.plan.needed + 1;
        let node = &self.nodes[place];
        for entry in &node.log[from..node.synced] {
            let before = entry.disks.get();
            entry.disks.set(before | 1 << place);
            if before.count_ones() < enough && entry.disks.get().count_ones() >= enough {
                self.judge.durable(entry);
            }
        }
    }

    /// Kills a node: its memory is gone, its connections are closed.
    pub(super) fn crash_node(&mut self, place: usize) {
        self.tell_fault(|names| {
            (
                names.node(place),
                "dies; what is not on its disk is gone".into(),
            )
        });
        let node = &mut self.nodes[place];
        node.life += 1;
        node.running = false;
        node.paused = false;
        node.held.clear();
        let disk = match node.old_disk.take() {
            Some(disk) => disk,
            None => node.log[..node.synced].to_vec(),
        };
        self.set_disk(place, disk);
        self.close_conns_of_node(place);
        self.detach(place);
        for follower in std::mem::take(&mut self.nodes[place].followers) {
            self.lose_primary(follower.node);
        }
    }

    /// What a node has after it read its disk.
    pub(super) fn set_disk(&mut self, place: usize, disk: Vec<Rc<Entry>>) {
        let node = &mut self.nodes[place];
        for entry in &node.log {
            entry.disks.set(entry.disks.get() & !(1 << place));
        }
        node.data = replay(&disk);
        node.synced = disk.len();
        node.log = disk;
        node.old_disk = None;
        node.sync_due = false;
        node.attach_due = false;
        node.held_replies.clear();
        node.held_acks.clear();
        node.waiting.clear();
        node.sleeping.clear();
        node.told = false;
        self.on_disk(place, 0);
    }

    /// A node that died is started again, as what it was before.
    pub(super) fn restart_node(&mut self, place: usize) {
        if self.nodes[place].running {
            return;
        }
        self.nodes[place].running = true;
        self.nodes[place].attach_due = false;
        self.tell(|names| {
            (
                names.node(place),
                "is started again and reads its disk".into(),
            )
        });
        if self.nodes[place].is_primary() {
            self.check_nothing_missing(place);
        } else {
            self.attach_later(place);
        }
    }

    /// A paused node goes on with everything that arrived meanwhile.
    pub(super) fn resume_node(&mut self, place: usize) {
        let node = &mut self.nodes[place];
        if !node.running || !node.paused {
            return;
        }
        node.paused = false;
        node.told = false;
        let held = std::mem::take(&mut node.held);
        self.tell(|names| (names.node(place), "goes on where it was paused".into()));
        for input in held {
            self.at_node(place, self.now(), input);
        }
    }

    pub(super) fn slow_disk(&mut self, place: usize, length: Time) {
        self.nodes[place].slow_until = self.now() + length;
    }
}
