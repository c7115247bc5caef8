//! A node's side of its connections: commands in the order of the packet, one after the other, with
//! other connections' commands in between.
//!
//! What a wait compares is set by this connection's own effective writes alone, so that a fresh
//! connection's wait is over at once. A transaction is held back when the watched epoch was touched.
//! What was sent is executed even if whoever sent it has died meanwhile.

use super::clock::Time;
use super::script::commands_of;
use super::store::Effect;
use super::tally::Count;
use super::world::{Actor, Event, Input, NodeInput, World};
use conductor_engine::event::CommandResult;
use conductor_engine::guards::{Guard, GuardSet};
use conductor_engine::partition::{
    Executed, Guards, HaltRecord, LoadedPage, LookUp, Remembered, Topology,
};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{Event as MarketEvent, PairId, Side};
use std::collections::VecDeque;
use std::sync::Arc;

/// One command to the store.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// Whether it is a primary, its topology and its halt.
    Open,
    /// A write to a key of its own.
    Touch,
    /// `INCR epoch`
    Raise,
    /// `MULTI … EXEC` and the stream's length behind it.
    Group(Vec<Write>),
    /// `MULTI HSET halted EXEC`
    Halt(HaltRecord),
    /// `MGET`
    LookUp(Vec<LookUp>),
    /// `WAIT`
    Wait,
    /// `WAITAOF`
    WaitDisks,
    /// `WATCH epoch`
    Watch,
    /// `GET epoch`
    Epoch,
    /// One side of a pair.
    Page(PairId, Side),
    /// The cursor alone.
    Cursor,
    /// The cursor, whether a command is still recorded, and the halt again.
    EndLoad(Option<Remembered>),
    /// Memory and store are compared in one transaction.
    Compare,
    /// The lease is taken, or renewed where it is this worker's.
    Lease(u32),
    /// The lease is given up.
    Release(u32),
    /// `XDEL`
    Delete(Vec<u64>),
    /// `XRANGE events - +`
    Range { worker: u32, count: usize },
    /// Waits until the stream has an entry, for a second at most.
    AwaitEntry,
}

/// What a node answers.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    Opened(Guards),
    Touched,
    Raised(u64),
    Executed(Executed),
    LookedUp(Vec<Option<Box<[u8]>>>),
    Waited(u32),
    WaitedDisks {
        primary: bool,
        replicas: u32,
    },
    Watched,
    Epoch(u64),
    Page(LoadedPage),
    Cursor(Cursor),
    Loaded {
        cursor: Cursor,
        remembered: bool,
        halted: Option<HaltRecord>,
    },
    Compared,
    Leased {
        held: bool,
        stream_length: u64,
    },
    Released,
    Deleted,
    Entries(Vec<(u64, Arc<MarketEvent>)>),
    Awaited,
    Full,
    Error(&'static str),
}

/// A reply on its way out.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) conn: usize,
    pub(super) reply: Reply,
}

/// A wait that is not over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub(super) disks: bool,
    pub(super) serial: u32,
}

/// One connection, as the node sees it.
#[derive(Debug)]
pub(super) struct Conn {
    pub(super) node: usize,
    pub(super) owner: Actor,
    pub(super) owner_life: u32,
    pub(super) session: u32,
    /// Whether the node has it open, and whether its client has.
    pub(super) open: bool,
    pub(super) client_open: bool,
    pub(super) queue: VecDeque<Ask>,
    pub(super) running: bool,
    pub(super) watched: Option<u64>,
    /// Length of the log behind this connection's last effective write.
    pub(super) written: usize,
    pub(super) wait: Option<Wait>,
    pub(super) sleeping: Option<u32>,
    pub(super) serial: u32,
    /// Whether a transaction was executed and its client has not heard of it.
    pub(super) unheard: bool,
    /// When the last packet and the last reply arrive.
    pub(super) asks_arrive: Time,
    pub(super) replies_arrive: Time,
}

impl<G: GuardSet> World<'_, G> {
    /// A client opens a connection to a node.
    pub(super) fn connect(&mut self, node: usize, owner: Actor, session: u32) -> usize {
        let owner_life = self.life_of(owner).number;
        self.conns.push(Conn {
            node,
            owner,
            owner_life,
            session,
            open: self.nodes[node].running,
            client_open: true,
            queue: VecDeque::new(),
            running: false,
            watched: None,
            written: 0,
            wait: None,
            sleeping: None,
            serial: 0,
            unheard: false,
            asks_arrive: 0,
            replies_arrive: 0,
        });
        self.conns.len() - 1
    }

    /// A client sends one packet.
    pub(super) fn send_asks(&mut self, conn: usize, asks: Vec<Ask>) {
        let (now, latency) = (self.now(), self.latency());
        let connection = &mut self.conns[conn];
        connection.asks_arrive = connection.asks_arrive.max(now + latency);
        let (node, arrives) = (connection.node, connection.asks_arrive);
        if connection.open {
            self.at_node(node, arrives, NodeInput::Arrive(conn, asks));
        } else {
            self.tell_gone(conn);
        }
    }

    /// The next packet of a connection is kept on the way.
    pub(super) fn keep_packet(&mut self, conn: usize, late: Time) {
        self.conns[conn].asks_arrive = self.now() + late;
    }

    /// A client is gone, or has closed its end. What it has sent may still arrive, late perhaps.
    pub(super) fn leave_conn(&mut self, conn: usize, late: Time) {
        let now = self.now();
        let connection = &mut self.conns[conn];
        if !connection.client_open {
            return;
        }
        connection.client_open = false;
        if std::mem::take(&mut connection.unheard) {
            self.tally.count(Count::LostReply);
        }
        connection.asks_arrive = connection.asks_arrive.max(now + late) + 1;
        let (node, arrives) = (connection.node, connection.asks_arrive);
        if connection.open {
            self.at_node(node, arrives, NodeInput::Eof(conn));
        }
    }

    /// The way back is cut: what was sent is executed, and nobody hears of it.
    pub(super) fn lose_replies(&mut self, conn: usize) {
        self.tell_gone(conn);
        self.leave_conn(conn, 0);
    }

    pub(super) fn arrive(&mut self, conn: usize, asks: Vec<Ask>) {
        let connection = &mut self.conns[conn];
        if !connection.open {
            return;
        }
        connection.queue.extend(asks);
        self.run_conn(conn);
    }

    pub(super) fn run_conn(&mut self, conn: usize) {
        self.conns[conn].running = false;
        loop {
            let connection = &mut self.conns[conn];
            let stands = connection.wait.is_some() || connection.sleeping.is_some();
            if !connection.open || stands || connection.running {
                return;
            }
            let Some(ask) = connection.queue.pop_front() else {
                return;
            };
            self.perform_ask(conn, ask);
            let connection = &mut self.conns[conn];
            // Another connection's commands may come between any two of one packet.
            let stands = connection.wait.is_some() || connection.sleeping.is_some();
            if !connection.queue.is_empty() && !stands && self.random.u8(..4) == 0 {
                self.conns[conn].running = true;
                let (node, later) = (self.conns[conn].node, self.random.u64(1..300));
                self.at_node(node, self.now() + later, NodeInput::Run(conn));
            }
        }
    }

    /// The node closes the connection: nothing that waits in it is executed any more.
    pub(super) fn close_conn(&mut self, conn: usize) {
        let connection = &mut self.conns[conn];
        if !connection.open {
            return;
        }
        connection.open = false;
        connection.queue.clear();
        connection.wait = None;
        connection.sleeping = None;
        let node = connection.node;
        self.nodes[node].waiting.retain(|waiting| *waiting != conn);
        self.nodes[node]
            .sleeping
            .retain(|sleeping| *sleeping != conn);
        self.nodes[node]
            .held_replies
            .retain(|sent| sent.conn != conn);
        self.tell_gone(conn);
    }

    pub(super) fn tell_gone(&mut self, conn: usize) {
        let (now, latency) = (self.now(), self.latency());
        let connection = &mut self.conns[conn];
        if !connection.client_open {
            return;
        }
        connection.replies_arrive = connection.replies_arrive.max(now + latency);
        let input = Input::StoreGone(connection.session);
        let (actor, life) = (connection.owner, connection.owner_life);
        let arrives = connection.replies_arrive;
        self.clock.at(arrives, Event::Process(actor, life, input));
    }

    pub(super) fn close_conns_of_node(&mut self, node: usize) {
        for conn in 0..self.conns.len() {
            if self.conns[conn].node == node {
                self.close_conn(conn);
            }
        }
    }

    /// The client has heard of its transaction.
    pub(super) fn heard(&mut self, conn: usize) {
        self.conns[conn].unheard = false;
    }

    /// Replies leave only behind the disk, as the node is set to write always.
    pub(super) fn reply(&mut self, conn: usize, reply: Reply) {
        let sent = Sent { conn, reply };
        let node = self.conns[conn].node;
        if self.nodes[node].is_syncing() {
            self.nodes[node].held_replies.push(sent);
        } else {
            self.send_reply(sent);
        }
    }

    pub(super) fn send_reply(&mut self, sent: Sent) {
        let (now, latency) = (self.now(), self.latency());
        let connection = &mut self.conns[sent.conn];
        if !connection.client_open {
            return;
        }
        connection.replies_arrive = connection.replies_arrive.max(now + latency);
        let input = Input::Store(connection.session, sent.reply);
        let (actor, life) = (connection.owner, connection.owner_life);
        let arrives = connection.replies_arrive;
        self.clock.at(arrives, Event::Process(actor, life, input));
    }

    pub(super) fn perform_ask(&mut self, conn: usize, ask: Ask) {
        let node = self.conns[conn].node;
        let writes = matches!(
            ask,
            Ask::Touch
                | Ask::Raise
                | Ask::Group(_)
                | Ask::Halt(_)
                | Ask::Lease(_)
                | Ask::Release(_)
                | Ask::Delete(_)
        );
        if writes && !self.nodes[node].is_primary() {
            self.tally.count(Count::ReadOnly);
            return self.reply(
                conn,
                match ask {
                    Ask::Group(_) | Ask::Halt(_) => Reply::Executed(Executed::Refused(
                        "EXECABORT Transaction discarded because of: READONLY".to_owned(),
                    )),
                    _ => Reply::Error("READONLY: the node is a replica"),
                },
            );
        }
        let full = self.now() < self.nodes[node].full_until;
        if writes && full && !matches!(ask, Ask::Delete(_) | Ask::Release(_)) {
            return self.reply(conn, Reply::Full);
        }
        match ask {
            Ask::Open => self.opened(conn),
            Ask::Touch => {
                self.write(conn, Effect::Touch);
                self.reply(conn, Reply::Touched);
            }
            Ask::Raise => {
                self.write(conn, Effect::Epoch);
                let epoch = self.nodes[node].data.epoch;
                let who = self.conns[conn].owner;
                self.tell(|names| {
                    let line = format!(
                        "claim: the epoch is raised to {epoch} on {}",
                        names.node(node)
                    );
                    (names.actor(who), line)
                });
                self.reply(conn, Reply::Raised(epoch));
            }
            Ask::Group(writes) => self.execute_group(conn, Effect::Group(writes)),
            Ask::Halt(record) => self.execute_group(conn, Effect::Halt(record)),
            Ask::LookUp(keys) => self.look_up(conn, &keys),
            Ask::Wait => self.begin_wait(conn, false),
            Ask::WaitDisks => self.begin_wait(conn, true),
            Ask::Watch => {
                self.conns[conn].watched = Some(self.nodes[node].data.epoch_touched);
                self.reply(conn, Reply::Watched);
            }
            Ask::Epoch => {
                let epoch = self.nodes[node].data.epoch;
                self.reply(conn, Reply::Epoch(epoch));
            }
            Ask::Page(pair, side) => {
                let page = self.nodes[node].data.page(pair, side);
                self.reply(conn, Reply::Page(page));
            }
            Ask::Cursor => {
                let cursor = self.nodes[node].data.cursor.clone();
                self.reply(conn, Reply::Cursor(cursor));
            }
            Ask::EndLoad(remember) => {
                self.loaded_on(conn);
                let data = &self.nodes[node].data;
                let stored = |it: &Remembered| data.results.get(&it.command);
                let remembered = remember.is_none_or(|it| match (stored(&it), &it.result) {
                    (Some(found), Some(seen)) => found == seen,
                    (found, _) => found.is_some(),
                });
                let (cursor, halted) = (data.cursor.clone(), data.halted.clone());
                self.reply(
                    conn,
                    Reply::Loaded {
                        cursor,
                        remembered,
                        halted,
                    },
                );
            }
            Ask::Compare => {
                self.conns[conn].watched = None;
                self.compare(conn);
                self.reply(conn, Reply::Compared);
            }
            ask => self.perform_outbox_ask(conn, ask),
        }
    }

    pub(super) fn write(&mut self, conn: usize, effect: Effect) {
        let node = self.conns[conn].node;
        self.execute(node, effect);
        self.conns[conn].written = self.nodes[node].log.len();
    }

    pub(super) fn opened(&mut self, conn: usize) {
        let node = &self.nodes[self.conns[conn].node];
        let reply = if node.is_primary() {
            Reply::Opened(Guards {
                topology: Some(Topology {
                    partition: 0,
                    partition_count: 1,
                    prefetch: self.plan.prefetch,
                }),
                halted: node.data.halted.clone(),
                event_stream: node.data.stream.len() as u64,
                history: Some(node.history(self.conns[conn].node)),
            })
        } else {
            Reply::Error("the node is no primary")
        };
        self.reply(conn, reply);
    }

    pub(super) fn execute_group(&mut self, conn: usize, effect: Effect) {
        let node = self.conns[conn].node;
        let watched = self.conns[conn].watched.take();
        let touched = self.nodes[node].data.epoch_touched;
        let fenced = watched.is_some_and(|watched| watched != touched);
        if fenced && self.guards.holds(Guard::Fence) {
            self.tally.count(Count::NilExec);
            let who = self.conns[conn].owner;
            self.tell(|names| {
                let line = format!("its transaction is held back on {}", names.node(node));
                (names.actor(who), line)
            });
            return self.reply(conn, Reply::Executed(Executed::Fenced));
        }
        let who = self.conns[conn].owner;
        if self.story.is_told() {
            let what = match &effect {
                Effect::Group(writes) => commands_of(writes),
                _ => "the halt".to_owned(),
            };
            self.tell(|names| {
                let line = format!("commit: {what} executed on {}", names.node(node));
                (names.actor(who), line)
            });
        }
        self.write(conn, effect);
        if self.conns[conn].client_open {
            self.conns[conn].unheard = true;
        } else {
            self.tally.count(Count::LostReply);
        }
        self.step(Some(who));
        let event_stream = self.nodes[node].data.stream.len() as u64;
        self.reply(conn, Reply::Executed(Executed::Committed { event_stream }));
    }

    pub(super) fn look_up(&mut self, conn: usize, keys: &[LookUp]) {
        let data = &self.nodes[self.conns[conn].node].data;
        let values = keys.iter().map(|key| match key {
            LookUp::Command(command) => data.results.get(command).map(|result| spelled(result)),
            LookUp::Order(order) => {
                let found = data.accepted.get(order);
                found.map(|command| command.as_str().as_bytes().into())
            }
        });
        let values = values.collect();
        self.reply(conn, Reply::LookedUp(values));
    }
}

/// A result as the store keeps it and as a producer is answered.
pub(super) fn spelled(result: &CommandResult) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(256);
    conductor_io::wire::encode_result(result, &mut bytes);
    bytes.into_boxed_slice()
}
