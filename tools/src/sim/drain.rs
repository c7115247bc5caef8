//! An outbox: the machine of the outbox, driven as the real process drives it.
//!
//! One packet at a time to the store, publications within the machine's window, confirms in
//! whatever order they come.

use super::broker::{FromBroker, ToBroker};
use super::clock::{MILLISECOND, SECOND, Time};
use super::judge::Wrong;
use super::plan::Plan;
use super::server::{Ask, Reply};
use super::world::{Actor, Input, Life, World};
use conductor_engine::Event as MarketEvent;
use conductor_engine::guards::GuardSet;
use conductor_engine::outbox::{Action, Batch, Entry, Input as MachineInput, Outbox, Settings};
use conductor_engine::partition::{Confirmed, Durability};
use std::collections::VecDeque;
use std::sync::Arc;

/// What a packet was sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Errand {
    Connect,
    TakeLease,
    Release,
    Read,
    AwaitDisks,
    AwaitEvents,
    DeadLetter,
    Settle,
}

/// The connection to the store.
#[derive(Debug)]
struct StoreLink {
    number: u32,
    conn: usize,
    errands: VecDeque<(Errand, Vec<Ask>)>,
    current: Option<Errand>,
    awaited: usize,
    serial: u32,
    waited: u32,
    read: Vec<(u64, Arc<MarketEvent>)>,
}

/// One outbox.
#[derive(Debug)]
pub(super) struct Drain<G> {
    pub(super) life: Life,
    machine: Outbox<G>,
    /// Its name in the lease; a process that starts anew has another.
    worker: u32,
    store: Option<StoreLink>,
    store_number: u32,
    link: Option<usize>,
    pause_number: u32,
    batch: Vec<(u64, Arc<MarketEvent>)>,
    /// Answers to earlier batches are nobody's business.
    batch_number: u32,
    stopping: bool,
}

impl<G: GuardSet> Drain<G> {
    pub(super) fn new(plan: &Plan, guards: G, worker: u32) -> Self {
        let settings = Settings {
            durability: Some(Durability {
                replicas: plan.needed,
            }),
            batch: plan.outbox_batch,
            window: plan.outbox_window,
        };
        Self {
            life: Life::default(),
            machine: Outbox::with_guards(settings, guards),
            worker,
            store: None,
            store_number: 0,
            link: None,
            pause_number: 0,
            batch: Vec::new(),
            batch_number: 0,
            stopping: false,
        }
    }
}

impl<G: GuardSet> World<'_, G> {
    pub(super) fn start_drain(&mut self, place: usize) {
        self.drains[place].machine.start();
        self.perform_drain(place);
    }

    pub(super) fn stop_drain(&mut self, place: usize) {
        self.drains[place].stopping = true;
        let patience = self.now() + 5 * SECOND / 2;
        self.at_process(Actor::Outbox(place), patience, Input::OutOfPatience);
        self.tell_drain(place, MachineInput::Stop);
    }

    pub(super) fn end_drain(&mut self, place: usize, late: Time, heard: Time) {
        let worker = self.drains[place].worker + 2;
        let life = std::mem::take(&mut self.drains[place].life);
        let fresh = Drain {
            life,
            ..Drain::new(self.plan, self.guards, worker)
        };
        let ended = std::mem::replace(&mut self.drains[place], fresh);
        if let Some(store) = ended.store {
            self.leave_conn(store.conn, late);
        }
        if let Some(link) = ended.link {
            self.leave_link(link, heard);
        }
    }

    /// Whether an outbox holds the lease, as far as it knows.
    pub(super) fn drain_holds_lease(&self, place: usize) -> bool {
        self.drains[place].machine.holds_lease()
    }

    pub(super) fn drain_input(&mut self, place: usize, input: Input) {
        match input {
            Input::Store(number, reply) => self.drain_reply(place, number, reply),
            Input::StoreGone(number) => self.drain_gone(place, number, "the connection is gone"),
            Input::Overdue(number, serial) => {
                let store = self.drains[place].store.as_ref();
                let overdue = store.is_some_and(|store| {
                    store.number == number && store.serial == serial && store.awaited > 0
                });
                if overdue {
                    self.drain_gone(place, number, "the store has not answered in time");
                }
            }
            Input::PauseOver(number) => {
                if number == self.drains[place].pause_number {
                    self.tell_drain(place, MachineInput::PauseOver);
                }
            }
            Input::Broker(link, message) => self.drain_message(place, link, message),
            Input::OutOfPatience => self.lose_patience(place),
            Input::Turn | Input::IoTurn | Input::Look(_) | Input::OpenAgain(_) => {}
        }
    }

    fn tell_drain(&mut self, place: usize, input: MachineInput) {
        self.drains[place].machine.input(input);
        self.perform_drain(place);
    }

    fn perform_drain(&mut self, place: usize) {
        for action in self.drains[place].machine.take_actions() {
            self.drain_act(place, action);
        }
        self.next_errand(place);
    }

    fn drain_act(&mut self, place: usize, action: Action) {
        let worker = self.drains[place].worker;
        match action {
            Action::ConnectStore => self.connect_drain(place),
            Action::DisconnectStore => self.drop_drain_store(place),
            Action::ConnectBroker => self.connect_publisher(place),
            Action::TakeLease | Action::RenewLease => {
                self.errand(place, Errand::TakeLease, vec![Ask::Lease(worker)])
            }
            Action::ReleaseLease => {
                self.errand(place, Errand::Release, vec![Ask::Release(worker)]);
            }
            Action::Read { delete, count } => {
                let mut asks = Vec::new();
                if !delete.is_empty() {
                    asks.push(Ask::Delete(stream_numbers(&delete)));
                }
                let range = Ask::Range { worker, count };
                asks.extend([range, Ask::Lease(worker), Ask::Wait, Ask::WaitDisks]);
                self.errand(place, Errand::Read, asks);
            }
            Action::AwaitDisks => {
                let asks = vec![Ask::Lease(worker), Ask::Wait, Ask::WaitDisks];
                self.errand(place, Errand::AwaitDisks, asks);
            }
            Action::AwaitEvents => self.errand(place, Errand::AwaitEvents, vec![Ask::AwaitEntry]),
            Action::Publish(entry) => self.publish(place, entry),
            Action::DeadLetter(_) => {
                self.errand(place, Errand::DeadLetter, vec![Ask::Delete(Vec::new())]);
            }
            Action::Settle { delete, .. } => {
                let asks = vec![Ask::Delete(stream_numbers(&delete))];
                self.errand(place, Errand::Settle, asks);
            }
            Action::Pause(milliseconds) => {
                self.drains[place].pause_number += 1;
                let number = self.drains[place].pause_number;
                let length = milliseconds * MILLISECOND;
                let over = self.now() + self.random.u64(length / 2..=length * 3 / 2);
                self.at_process(Actor::Outbox(place), over, Input::PauseOver(number));
            }
            Action::Note(note) => {
                self.tell(|names| (names.actor(Actor::Outbox(place)), note.to_string()));
            }
            Action::Stopped => {
                // A lease that is still to be given up is worth a moment.
                let soon = self.now() + 50 * MILLISECOND;
                self.at_process(Actor::Outbox(place), soon, Input::OutOfPatience);
            }
        }
    }

    // The store.

    fn connect_drain(&mut self, place: usize) {
        self.drop_drain_store(place);
        let node = self.resolve();
        let number = self.drains[place].store_number;
        let conn = self.connect(node, Actor::Outbox(place), number);
        self.drains[place].store = Some(StoreLink {
            number,
            conn,
            errands: VecDeque::new(),
            current: None,
            awaited: 0,
            serial: 0,
            waited: 0,
            read: Vec::new(),
        });
        self.errand(place, Errand::Connect, vec![Ask::Open]);
    }

    fn drop_drain_store(&mut self, place: usize) {
        self.drains[place].store_number += 1;
        if let Some(store) = self.drains[place].store.take() {
            self.leave_conn(store.conn, 0);
        }
    }

    fn errand(&mut self, place: usize, errand: Errand, asks: Vec<Ask>) {
        if let Some(store) = &mut self.drains[place].store {
            store.errands.push_back((errand, asks));
        }
    }

    fn next_errand(&mut self, place: usize) {
        let limit = self.plan.wait_timeout * 2 + 5 * SECOND;
        let Some(store) = &mut self.drains[place].store else {
            return;
        };
        if store.awaited > 0 {
            return;
        }
        let Some((errand, asks)) = store.errands.pop_front() else {
            return;
        };
        store.current = Some(errand);
        store.awaited = asks.len();
        store.serial += 1;
        let (conn, number, serial) = (store.conn, store.number, store.serial);
        let actor = Actor::Outbox(place);
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

    fn drain_gone(&mut self, place: usize, number: u32, reason: &str) {
        let store = &mut self.drains[place].store;
        if store.as_ref().is_none_or(|store| store.number != number) {
            return;
        }
        self.drop_drain_store(place);
        self.tell_drain(place, MachineInput::StoreLost(reason.to_owned()));
    }

    fn drain_reply(&mut self, place: usize, number: u32, reply: Reply) {
        let current = &mut self.drains[place].store;
        let Some(store) = current.as_mut().filter(|it| it.number == number) else {
            return;
        };
        store.awaited = store.awaited.saturating_sub(1);
        let errand = store.current;
        let input = match reply {
            Reply::Opened(_) => Some(MachineInput::StoreConnected),
            Reply::Waited(replicas) => {
                store.waited = replicas;
                None
            }
            Reply::WaitedDisks { primary, replicas } => Some(MachineInput::Confirmed(Confirmed {
                replicas_in_memory: store.waited,
                primary_disk: primary,
                replica_disks: replicas,
            })),
            Reply::Entries(entries) => {
                store.read = entries;
                None
            }
            Reply::Leased {
                held,
                stream_length,
            } if errand == Some(Errand::Read) => {
                return self.drain_read(place, held, stream_length);
            }
            Reply::Leased { held, .. } => Some(MachineInput::Lease(held)),
            Reply::Awaited => Some(MachineInput::Awaited),
            Reply::Deleted if errand == Some(Errand::Settle) => Some(MachineInput::Settled),
            Reply::Deleted if errand == Some(Errand::DeadLetter) => {
                Some(MachineInput::DeadLettered)
            }
            Reply::Error(words) => return self.drain_gone(place, number, words),
            Reply::Full => return self.drain_gone(place, number, "the store is out of memory"),
            _ => None,
        };
        match input {
            Some(input) => self.tell_drain(place, input),
            None => self.next_errand(place),
        }
    }

    fn drain_read(&mut self, place: usize, lease_held: bool, stream_length: u64) {
        self.step(Some(Actor::Outbox(place)));
        let drain = &mut self.drains[place];
        drain.batch_number += 1;
        let read = drain
            .store
            .as_mut()
            .map(|store| std::mem::take(&mut store.read));
        drain.batch = read.unwrap_or_default();
        let entries = drain.batch.iter().map(|(stream, event)| Entry {
            stream_id: stream.to_string(),
            event: Ok(format!("{}.{}", event.command, event.index)),
        });
        let batch = Batch {
            entries: entries.collect(),
            lease_held,
            stream_length,
        };
        if self.story.is_told()
            && let [(_, first), .., (_, last)] | [(_, first @ last)] = &self.drains[place].batch[..]
        {
            let (first, last) = (first.sequence, last.sequence);
            self.tell(|names| {
                let line = format!("reads events {first} to {last} of the stream");
                (names.actor(Actor::Outbox(place)), line)
            });
        }
        self.tell_drain(place, MachineInput::Read(batch));
    }

    // The broker.

    fn connect_publisher(&mut self, place: usize) {
        if let Some(link) = self.drains[place].link.take() {
            self.leave_link(link, 0);
        }
        let link = self.open_link(Actor::Outbox(place));
        self.drains[place].link = Some(link);
        self.tell_broker(link, ToBroker::OpenPublisher);
    }

    fn publish(&mut self, place: usize, entry: usize) {
        self.step(Some(Actor::Outbox(place)));
        let drain = &self.drains[place];
        let found = drain.batch.get(entry).map(|(_, event)| Arc::clone(event));
        let (Some(event), Some(link)) = (found, drain.link) else {
            return self.tell_drain(place, MachineInput::Refused(entry, "it is gone".to_owned()));
        };
        let batch = drain.batch_number;
        if let Err(sentence) = self.judge.published(&event) {
            self.wrong(Wrong::PublishedBeforeDurable(sentence));
        }
        if self.story.is_told() {
            let (sequence, kind) = (event.sequence, event.payload.kind());
            let who = super::story::Names::of(&self.nodes).actor(Actor::Outbox(place));
            self.story
                .add_publication(self.clock.now(), &who, sequence, kind);
        }
        self.tell_broker(
            link,
            ToBroker::Publish {
                batch,
                place: entry,
                event,
            },
        );
    }

    fn drain_message(&mut self, place: usize, link: usize, message: FromBroker) {
        let drain = &mut self.drains[place];
        if drain.link != Some(link) {
            return;
        }
        let current = drain.batch_number;
        let input = match message {
            FromBroker::Publishing => MachineInput::BrokerReady,
            FromBroker::Confirmed {
                batch,
                place: entry,
            } if batch == current => MachineInput::Published(entry),
            FromBroker::Refused {
                batch,
                place: entry,
            } if batch == current => {
                MachineInput::Refused(entry, "the broker refused it".to_owned())
            }
            FromBroker::Gone => {
                drain.link = None;
                MachineInput::BrokerLost("the connection to the broker is gone".to_owned())
            }
            _ => return,
        };
        self.step(Some(Actor::Outbox(place)));
        self.tell_drain(place, input);
    }

    fn lose_patience(&mut self, place: usize) {
        if self.drains[place].stopping {
            self.ended(Actor::Outbox(place));
        }
    }

    /// The process gives its broker connection up; the broker hears of it later.
    pub(super) fn cut_link_of_drain(&mut self, place: usize, heard: Time) -> bool {
        let Some(link) = self.drains[place].link.take() else {
            return false;
        };
        self.leave_link(link, heard);
        let reason = "the connection to the broker is gone".to_owned();
        self.tell_drain(place, MachineInput::BrokerLost(reason));
        true
    }

    /// The broker connection of an outbox, if it has one.
    pub(super) fn link_of_drain(&self, place: usize) -> Option<usize> {
        self.drains[place].link
    }

    /// The store connection of a process, if it has one.
    pub(super) fn conn_of(&self, actor: Actor) -> Option<usize> {
        match actor {
            Actor::Conductor(place) => self.conductors[place]
                .session
                .as_ref()
                .map(|session| session.conn),
            Actor::Outbox(place) => self.drains[place].store.as_ref().map(|store| store.conn),
        }
    }
}

fn stream_numbers(delete: &[(String, String)]) -> Vec<u64> {
    delete
        .iter()
        .filter_map(|(stream, _)| stream.parse().ok())
        .collect()
}
