//! A conductor's one connection to the store: jobs in order, each reported as its replies come.

use super::clock::{MILLISECOND, SECOND};
use super::judge::Wrong;
use super::server::{Ask, Reply};
use super::tally::Count;
use super::world::{Actor, Input, World};
use conductor_engine::Side;
use conductor_engine::book::Book;
use conductor_engine::guards::GuardSet;
use conductor_engine::partition::{
    Action, BookRead, Confirmed, Guards, HaltRecord, Input as MachineInput, Packet, Remembered,
    StoreEvent,
};
use conductor_engine::staging::{Cursor, Write};
use std::collections::VecDeque;

/// One connection, as the process sees it.
#[derive(Debug)]
pub(super) struct Session {
    number: u32,
    pub(super) conn: usize,
    jobs: VecDeque<Vec<Ask>>,
    /// Replies of the job at hand that have not come.
    awaited: usize,
    serial: u32,
    first: bool,
    opened: bool,
    /// What a connection that is tried out for the first time has said of itself.
    guards: Option<Guards>,
    waited: u32,
    load: Option<Load>,
    /// The cursor was asked for because nothing else was.
    looks: bool,
    /// A comparison was answered, and is over once the epoch was seen behind it.
    comparing: bool,
}

/// A load that is under way.
#[derive(Debug)]
struct Load {
    remember: Option<Remembered>,
    /// The cursor of a book that was read before; none once it is seen to be another one.
    known: Option<Cursor>,
    before: Option<Cursor>,
}

impl<G: GuardSet> World<'_, G> {
    /// Performs what the machine asks of the store.
    pub(super) fn store_action(&mut self, place: usize, action: Action) {
        match action {
            Action::Connect { first } => self.open_session(place, first),
            Action::Disconnect => self.close_session(place),
            Action::RaiseEpoch => self.job(place, vec![Ask::Raise]),
            Action::AwaitDisks => self.job(place, vec![Ask::Wait, Ask::WaitDisks]),
            Action::Prepare => self.begin_load(place, None, None),
            Action::Load { remember, known } => self.begin_load(place, remember, known),
            Action::WatchEpoch => self.job(place, vec![Ask::Watch, Ask::Epoch]),
            Action::LookUp(keys) => {
                self.step(Some(Actor::Conductor(place)));
                self.job(place, vec![Ask::LookUp(keys)]);
            }
            Action::Commit(packet) => self.commit(place, packet),
            Action::WriteHalt(record) => self.write_halt(place, record),
            _ => {}
        }
    }

    fn begin_load(&mut self, place: usize, remember: Option<Remembered>, known: Option<Cursor>) {
        if let Some(session) = &mut self.conductors[place].session {
            session.load = Some(Load {
                remember,
                known,
                before: None,
            });
            self.job(place, vec![Ask::Cursor]);
        }
    }

    /// The cursor is read: the book follows, unless it is known.
    fn go_on_loading(&mut self, place: usize, cursor: Cursor) {
        let session = self.conductors[place].session.as_mut();
        let Some(load) = session.and_then(|session| session.load.as_mut()) else {
            return;
        };
        load.known.take_if(|known| *known != cursor);
        load.before = Some(cursor);
        let (known, end) = (load.known.is_some(), Ask::EndLoad(load.remember.take()));
        let mut asks = Vec::new();
        if known {
            self.tally.count(Count::PreparedBook);
        } else {
            for pair in self.script.pairs() {
                asks.extend([Side::Ask, Side::Bid].map(|side| Ask::Page(*pair, side)));
            }
        }
        asks.push(end);
        self.job(place, asks);
    }

    /// The end of a load is read.
    fn loaded(&mut self, place: usize, cursor: &Cursor) -> BookRead {
        let session = self.conductors[place].session.as_mut();
        match session.and_then(|session| session.load.take()) {
            Some(load) if load.known.is_some() => BookRead::Known,
            Some(load) if load.before.as_ref() == Some(cursor) => BookRead::Still,
            _ => BookRead::Moving,
        }
    }

    fn write_halt(&mut self, place: usize, record: HaltRecord) {
        self.job(place, vec![Ask::Halt(record), Ask::Wait, Ask::WaitDisks]);
    }

    fn commit(&mut self, place: usize, packet: Packet) {
        self.step(Some(Actor::Conductor(place)));
        if let Some(Write::Cursor(cursor)) = packet.writes.last() {
            self.conductors[place].sent = cursor.clone();
        }
        if self.story.is_told() {
            let commands = super::script::commands_of(&packet.writes);
            self.tell(|names| {
                let line = format!("commit: a group is sent with {commands}");
                (names.actor(Actor::Conductor(place)), line)
            });
        }
        let mut asks = vec![Ask::Group(packet.writes)];
        if !packet.look_ups.is_empty() {
            asks.push(Ask::LookUp(packet.look_ups));
        }
        asks.extend([Ask::Wait, Ask::WaitDisks, Ask::Watch, Ask::Epoch]);
        self.job(place, asks);
    }

    /// Memory and store must agree now.
    pub(super) fn inspect(&mut self, place: usize, _ticket: u64) {
        self.job(place, vec![Ask::Compare, Ask::Watch, Ask::Epoch]);
    }

    fn open_session(&mut self, place: usize, first: bool) {
        self.close_session(place);
        let actor = Actor::Conductor(place);
        let node = self.resolve();
        let number = self.conductors[place].session_number;
        let conn = self.connect(node, actor, number);
        self.conductors[place].session = Some(Session {
            number,
            conn,
            jobs: VecDeque::new(),
            awaited: 0,
            serial: 0,
            first,
            opened: false,
            guards: None,
            waited: 0,
            load: None,
            looks: false,
            comparing: false,
        });
        self.look_later(place, number);
        let mut asks = vec![Ask::Open];
        if first {
            asks.extend([Ask::Touch, Ask::Wait, Ask::WaitDisks]);
        }
        self.job(place, asks);
    }

    fn look_later(&mut self, place: usize, number: u32) {
        let later = self.now() + self.random.u64(200..1_000) * MILLISECOND;
        self.at_process(Actor::Conductor(place), later, Input::Look(number));
    }

    /// Looks at a connection of which nothing is asked.
    pub(super) fn look_at_session(&mut self, place: usize, number: u32) {
        let current = &mut self.conductors[place].session;
        let Some(session) = current.as_mut().filter(|it| it.number == number) else {
            return;
        };
        if session.opened && session.awaited == 0 && session.jobs.is_empty() {
            session.looks = true;
            self.job(place, vec![Ask::Cursor]);
        }
        self.look_later(place, number);
    }

    fn close_session(&mut self, place: usize) {
        self.conductors[place].session_number += 1;
        if let Some(session) = self.conductors[place].session.take() {
            self.leave_conn(session.conn, 0);
        }
    }

    fn job(&mut self, place: usize, asks: Vec<Ask>) {
        let Some(session) = &mut self.conductors[place].session else {
            return;
        };
        session.jobs.push_back(asks);
        self.next_job(place);
    }

    fn next_job(&mut self, place: usize) {
        let limit = self.plan.wait_timeout * 2 + 3 * SECOND / 2;
        let Some(session) = &mut self.conductors[place].session else {
            return;
        };
        if session.awaited > 0 {
            return;
        }
        let Some(asks) = session.jobs.pop_front() else {
            return;
        };
        session.awaited = asks.len();
        session.serial += 1;
        let (conn, number, serial) = (session.conn, session.number, session.serial);
        let actor = Actor::Conductor(place);
        let late = std::mem::take(&mut self.late[actor.place()]);
        if late > 0 {
            let line = "its packet to the store is kept on the way, and arrives late";
            self.tell_fault(|names| (names.actor(actor), line.into()));
            self.keep_packet(conn, late);
        }
        self.send_asks(conn, asks);
        let overdue = self.now() + limit;
        self.at_process(actor, overdue, Input::Overdue(number, serial));
    }

    pub(super) fn session_overdue(&mut self, place: usize, number: u32, serial: u32) {
        let Some(session) = &self.conductors[place].session else {
            return;
        };
        if session.number == number && session.serial == serial && session.awaited > 0 {
            self.session_gone(place, number, "the store has not answered in time");
        }
    }

    /// The connection is of no use any more: what the store has done is unknown.
    pub(super) fn session_gone(&mut self, place: usize, number: u32, reason: &str) {
        let Some(session) = &self.conductors[place].session else {
            return;
        };
        if session.number != number {
            return;
        }
        let event = match session.opened {
            true => StoreEvent::Lost(reason.to_owned()),
            false => StoreEvent::Unavailable(reason.to_owned()),
        };
        self.end_session(place, event);
    }

    fn end_session(&mut self, place: usize, event: StoreEvent) {
        let Some(session) = self.conductors[place].session.take() else {
            return;
        };
        self.leave_conn(session.conn, 0);
        self.tell_core(place, session.number, event);
    }

    pub(super) fn session_reply(&mut self, place: usize, number: u32, reply: Reply) {
        let current = &mut self.conductors[place].session;
        let Some(session) = current.as_mut().filter(|it| it.number == number) else {
            return;
        };
        session.awaited = session.awaited.saturating_sub(1);
        let (first, opened) = (session.first, session.opened);
        let event = match reply {
            Reply::Opened(guards) if first => {
                session.guards = Some(guards);
                None
            }
            Reply::Opened(guards) => {
                session.opened = true;
                Some(StoreEvent::Connected(guards))
            }
            Reply::Waited(replicas) => {
                session.waited = replicas;
                None
            }
            Reply::WaitedDisks { primary, replicas } => {
                let confirmed = Confirmed {
                    replicas_in_memory: session.waited,
                    primary_disk: primary,
                    replica_disks: replicas,
                };
                if !opened {
                    return self.tried_out(place, confirmed);
                }
                self.step(Some(Actor::Conductor(place)));
                if primary && replicas >= self.plan.needed {
                    self.tell(|names| {
                        let line = "durable: enough disks have everything that it has written";
                        (names.actor(Actor::Conductor(place)), line.to_owned())
                    });
                }
                Some(StoreEvent::Confirmed(confirmed))
            }
            Reply::Compared => {
                session.comparing = true;
                None
            }
            Reply::Epoch(epoch) if std::mem::take(&mut session.comparing) => {
                self.tell_core(place, number, StoreEvent::EpochSeen(Some(epoch)));
                Some(StoreEvent::Inspected)
            }
            Reply::Error(words) => return self.session_gone(place, number, words),
            Reply::Full => {
                let event = StoreEvent::Full("the store is out of memory".to_owned());
                return self.end_session(place, event);
            }
            Reply::Cursor(cursor) if std::mem::take(&mut session.looks) => {
                let replicas = self.plan.needed;
                Some(StoreEvent::Probed {
                    replicas,
                    cursor: Some(cursor),
                })
            }
            Reply::Cursor(cursor) => {
                self.go_on_loading(place, cursor);
                None
            }
            reply => self.store_event(place, reply),
        };
        if let Some(event) = event {
            self.tell_core(place, number, event);
        }
        self.next_job(place);
    }

    fn store_event(&mut self, place: usize, reply: Reply) -> Option<StoreEvent> {
        Some(match reply {
            Reply::Raised(epoch) => StoreEvent::EpochRaised(epoch),
            Reply::Executed(executed) => {
                if let Some(session) = &self.conductors[place].session {
                    self.heard(session.conn);
                }
                StoreEvent::Executed(executed)
            }
            Reply::LookedUp(values) => StoreEvent::LookedUp(values),
            Reply::Epoch(epoch) => StoreEvent::EpochSeen(Some(epoch)),
            Reply::Page(page) => StoreEvent::Page(page),
            Reply::Loaded {
                cursor,
                remembered,
                halted,
            } => {
                let read = self.loaded(place, &cursor);
                self.conductors[place].loaded = cursor.clone();
                StoreEvent::LoadComplete {
                    cursor: Ok(cursor),
                    remembered,
                    halted,
                    read,
                }
            }
            _ => return None,
        })
    }

    /// A first connection has written, and waited for the disks.
    fn tried_out(&mut self, place: usize, confirmed: Confirmed) {
        let needed = self.plan.needed;
        let enough = confirmed.primary_disk && confirmed.replica_disks >= needed;
        let Some(session) = &mut self.conductors[place].session else {
            return;
        };
        let number = session.number;
        let Some(guards) = session.guards.take().filter(|_| enough) else {
            return self.session_gone(place, number, "too few disks confirmed the first write");
        };
        session.opened = true;
        self.tell_core(place, number, StoreEvent::Connected(guards));
        self.next_job(place);
    }

    /// Compares memory with the node that is asked, at the moment when it is asked.
    pub(super) fn compare(&mut self, conn: usize) {
        let of_conn = |session: &Session| session.conn == conn;
        let place = (0..2).find(|place| {
            self.conductors[*place]
                .session
                .as_ref()
                .is_some_and(of_conn)
        });
        let Some(place) = place else { return };
        let node = &self.nodes[self.conns[conn].node];
        let data = &node.data;
        let machine = &self.conductors[place].machine;
        let Some(book) = machine
            .book()
            .filter(|_| node.is_primary() && machine.status().epoch == Some(data.epoch))
        else {
            return;
        };
        self.tally.count(Count::Inspection);
        for pair in self.script.pairs() {
            for side in [Side::Ask, Side::Bid] {
                let held = book.orders(*pair, side);
                if !data.orders(*pair, side).into_iter().eq(&held) {
                    let sentence = format!("memory and store differ in pair {pair}");
                    return self.wrong(Wrong::MemoryDiffers(sentence));
                }
            }
        }
    }

    /// Somebody asks for a comparison of memory and store.
    pub(super) fn ask_for_comparison(&mut self, place: usize) {
        self.machine_input(place, MachineInput::Inspect(1));
    }
}
