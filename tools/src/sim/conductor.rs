//! A conductor: the partition's own machine, driven as the real core and the real I/O core drive it.
//!
//! The core performs the machine's actions and hands it what arrives; the I/O core opens and closes
//! channels and carries acknowledgements. Between the two, and between the process and the world,
//! every message takes its time, and a process may die or stand still between any two of them.

use super::clock::{MILLISECOND, Time};
use super::judge::Wrong;
use super::plan::Plan;
use super::session::Session;
use super::tally::Count;
use super::world::{Actor, Input, Life, World};
use conductor_engine::CommandId;
use conductor_engine::guards::{Guard, GuardSet};
use conductor_engine::matching::Cell;
use conductor_engine::partition::{
    Action, Answer, Durability, Generation, HaltRecord, Input as MachineInput, Note, Partition,
    Settings, StoreEvent, Tag,
};
use conductor_engine::staging::Cursor;
use std::collections::VecDeque;

/// What the I/O core tells the partition's core.
#[derive(Debug)]
pub(super) enum ToCore {
    Opened(Generation),
    Lost(Generation, &'static str),
    Delivery(Generation, Tag, usize),
    Parked(Generation, Tag),
}

/// What the partition's core tells the I/O core.
#[derive(Debug)]
pub(super) enum ToIo {
    Open,
    Close(Generation, String),
    Acknowledge(Generation, Tag),
    Park(Generation, Tag, usize),
    Reply(usize, Answer),
    Stopped,
}

/// A channel on which deliveries come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) generation: Generation,
    pub(super) channel: u32,
}

/// One conductor.
#[derive(Debug)]
pub(super) struct Conductor<G> {
    pub(super) life: Life,
    pub(super) machine: Partition<G>,
    pub(super) inbox: VecDeque<ToCore>,
    pub(super) told: VecDeque<(u32, StoreEvent)>,
    pub(super) turn_due: bool,
    pub(super) session: Option<Session>,
    pub(super) session_number: u32,
    pub(super) pause_number: u32,
    pub(super) generation: Generation,
    /// Deliveries that the broker waits for.
    pub(super) pending: VecDeque<(Tag, usize)>,
    /// Where the store stood when it was last loaded, and the last that this process saw durable.
    pub(super) loaded: Cursor,
    pub(super) seen: Cursor,
    /// Where the last group that was sent leaves the partition.
    pub(super) sent: Cursor,
    /// What was missing, and whether it was halted, when the store was last loaded.
    pub(super) missing: Option<CommandId>,
    pub(super) halted: Option<HaltRecord>,
    pub(super) to_io: VecDeque<ToIo>,
    pub(super) io_due: bool,
    pub(super) link: Option<usize>,
    pub(super) line: Option<Line>,
    pub(super) opening: bool,
    pub(super) opening_number: u32,
    pub(super) tries: u32,
    pub(super) last_generation: Generation,
}

impl<G: GuardSet> Conductor<G> {
    pub(super) fn new(plan: &Plan, guards: G) -> Self {
        Self {
            life: Life::default(),
            machine: machine(plan, guards),
            inbox: VecDeque::new(),
            told: VecDeque::new(),
            turn_due: false,
            session: None,
            session_number: 0,
            pause_number: 0,
            generation: 0,
            pending: VecDeque::new(),
            loaded: Cursor::default(),
            seen: Cursor::default(),
            sent: Cursor::default(),
            missing: None,
            halted: None,
            to_io: VecDeque::new(),
            io_due: false,
            link: None,
            line: None,
            opening: false,
            opening_number: 0,
            tries: 0,
            last_generation: 0,
        }
    }
}

fn machine<G: GuardSet>(plan: &Plan, guards: G) -> Partition<G> {
    let settings = Settings {
        cell: Cell::single(),
        prefetch: plan.prefetch,
        durability: Some(Durability {
            replicas: plan.needed,
        }),
        group_commands_max: plan.group_commands_max,
        group_writes_max: 64,
        event_stream_max: plan.event_stream_max,
        results_kept: true,
        hash_seed: plan.seed,
    };
    Partition::with_guards(settings, guards)
}

impl<G: GuardSet> World<'_, G> {
    pub(super) fn start_conductor(&mut self, place: usize) {
        let conductor = &mut self.conductors[place];
        conductor.machine.start();
        self.perform(place);
    }

    /// Asks a conductor to end.
    pub(super) fn stop_conductor(&mut self, place: usize) {
        self.machine_input(place, MachineInput::Stop);
    }

    /// What is left behind when a conductor ends.
    pub(super) fn end_conductor(&mut self, place: usize, late: Time, heard: Time) {
        let life = std::mem::take(&mut self.conductors[place].life);
        let fresh = Conductor {
            life,
            ..Conductor::new(self.plan, self.guards)
        };
        let ended = std::mem::replace(&mut self.conductors[place], fresh);
        if let Some(session) = ended.session {
            self.leave_conn(session.conn, late);
        }
        if let Some(link) = ended.link {
            self.leave_link(link, heard);
        }
    }

    pub(super) fn conductor_input(&mut self, place: usize, input: Input) {
        match input {
            Input::Turn => self.turn(place),
            Input::IoTurn => self.io_turn(place),
            Input::Store(number, reply) => self.session_reply(place, number, reply),
            Input::StoreGone(number) => self.session_gone(place, number, "the connection is gone"),
            Input::Overdue(number, serial) => self.session_overdue(place, number, serial),
            Input::Look(number) => self.look_at_session(place, number),
            Input::PauseOver(number) => {
                if number == self.conductors[place].pause_number {
                    self.machine_input(place, MachineInput::PauseOver);
                }
            }
            Input::Broker(link, message) => self.io_message(place, link, message),
            Input::OpenAgain(number) => {
                if number == self.conductors[place].opening_number {
                    self.open_channel(place);
                }
            }
            Input::OutOfPatience => {}
        }
    }

    pub(super) fn turn_later(&mut self, place: usize) {
        if !self.conductors[place].turn_due {
            self.conductors[place].turn_due = true;
            let soon = self.now() + self.random.u64(1..40);
            self.at_process(Actor::Conductor(place), soon, Input::Turn);
        }
    }

    /// Something came of the store.
    pub(super) fn tell_core(&mut self, place: usize, number: u32, event: StoreEvent) {
        self.conductors[place].told.push_back((number, event));
        self.turn_later(place);
    }

    pub(super) fn mail(&mut self, place: usize, message: ToCore) {
        self.conductors[place].inbox.push_back(message);
        self.turn_later(place);
    }

    /// One event of the store, then everything that has arrived, then a look at what can be sent.
    pub(super) fn turn(&mut self, place: usize) {
        self.conductors[place].turn_due = false;
        if let Some((number, event)) = self.conductors[place].told.pop_front()
            && number == self.conductors[place].session_number
        {
            self.machine_input(place, MachineInput::Store(event));
        }
        while let Some(message) = self.conductors[place].inbox.pop_front() {
            self.take(place, message);
        }
        self.machine_input(place, MachineInput::CaughtUp);
        if !self.conductors[place].told.is_empty() {
            self.turn_later(place);
        }
    }

    pub(super) fn take(&mut self, place: usize, message: ToCore) {
        let conductor = &mut self.conductors[place];
        match message {
            ToCore::Opened(generation) => {
                conductor.pending.clear();
                conductor.generation = generation;
                self.machine_input(place, MachineInput::ChannelOpened(generation));
            }
            ToCore::Lost(generation, reason) => {
                let input = MachineInput::ChannelLost(generation, reason.to_owned());
                self.machine_input(place, input);
            }
            ToCore::Delivery(generation, tag, message) => {
                let current = generation == conductor.generation;
                if !current && self.guards.holds(Guard::Generation) {
                    return;
                }
                let conductor = &mut self.conductors[place];
                conductor.pending.push_back((tag, message));
                self.step(Some(Actor::Conductor(place)));
                self.tell_delivery(place, generation, message);
                let incoming = self.script.incoming(message);
                let input = MachineInput::Delivery {
                    generation,
                    tag,
                    incoming,
                };
                self.machine_input(place, input);
            }
            ToCore::Parked(generation, tag) => {
                self.machine_input(place, MachineInput::Parked(generation, tag));
            }
        }
    }

    pub(super) fn tell_delivery(&mut self, place: usize, generation: Generation, message: usize) {
        if self.story.is_told() {
            let words = self.script.words(message);
            self.tell(|names| {
                let line = format!("decode: {words}, on channel generation {generation}");
                (names.actor(Actor::Conductor(place)), line)
            });
        }
    }

    pub(super) fn machine_input(&mut self, place: usize, input: MachineInput) {
        self.conductors[place].machine.input(input, &mut ());
        self.perform(place);
    }

    pub(super) fn perform(&mut self, place: usize) {
        for action in self.conductors[place].machine.take_actions() {
            self.act(place, action);
        }
    }

    pub(super) fn act(&mut self, place: usize, action: Action) {
        match action {
            Action::OpenChannel => self.send_io(place, ToIo::Open),
            Action::CloseChannel(generation, reason) => {
                let conductor = &mut self.conductors[place];
                if self.guards.holds(Guard::Generation) {
                    conductor.pending.clear();
                    conductor.generation = 0;
                }
                self.send_io(place, ToIo::Close(generation, reason));
            }
            Action::Reply(_, tag, answer) => self.core_replies(place, tag, answer),
            Action::Park(generation, tag, _) => {
                if let Some(message) = self.message_of(place, tag) {
                    self.send_io(place, ToIo::Park(generation, tag, message));
                }
            }
            Action::Acknowledge(generation, tag) => {
                let pending = &mut self.conductors[place].pending;
                while pending.front().is_some_and(|(oldest, _)| *oldest <= tag) {
                    pending.pop_front();
                }
                self.send_io(place, ToIo::Acknowledge(generation, tag));
            }
            Action::Pause(milliseconds) => {
                self.conductors[place].pause_number += 1;
                let input = Input::PauseOver(self.conductors[place].pause_number);
                let over = self.now() + milliseconds * MILLISECOND;
                self.at_process(Actor::Conductor(place), over, input);
            }
            Action::Note(note) => self.note(place, &note),
            Action::RefuseToStart(line) => self.wrong(Wrong::Refused(line)),
            Action::Stopped => self.send_io(place, ToIo::Stopped),
            Action::Inspect(ticket) => self.inspect(place, ticket),
            Action::InspectRefused(_) => {}
            action => self.store_action(place, action),
        }
    }

    pub(super) fn message_of(&self, place: usize, tag: Tag) -> Option<usize> {
        let pending = &self.conductors[place].pending;
        pending
            .iter()
            .find(|(found, _)| *found == tag)
            .map(|(_, message)| *message)
    }

    pub(super) fn core_replies(&mut self, place: usize, tag: Tag, answer: Answer) {
        // A group is answered when it is durable, and before the next one is sent.
        if let Answer::Fresh(_) = &answer {
            let conductor = &mut self.conductors[place];
            conductor.seen = conductor.sent.clone();
        }
        if let Some(message) = self.message_of(place, tag) {
            self.send_io(place, ToIo::Reply(message, answer));
        }
    }

    pub(super) fn note(&mut self, place: usize, note: &Note) {
        if self.story.is_told() {
            self.tell(|names| (names.actor(Actor::Conductor(place)), note.to_string()));
        }
        match note {
            Note::Claimed { epoch, .. } => self.claimed(place, *epoch),
            Note::Halting { record } => {
                self.tally.count(Count::Halt);
                if !self.judge.may_halt() {
                    self.wrong(Wrong::Halted(record.reason.clone()));
                }
            }
            _ => {}
        }
    }

    /// A load is complete on this connection: what does the process miss in it?
    pub(super) fn loaded_on(&mut self, conn: usize) {
        let of_conn = |session: &Session| session.conn == conn;
        let data = &self.nodes[self.conns[conn].node].data;
        for conductor in &mut self.conductors {
            if conductor.session.as_ref().is_some_and(of_conn) {
                let seen = conductor.seen.command.clone();
                conductor.missing = seen.filter(|command| !data.results.contains_key(command));
                conductor.halted = data.halted.clone();
            }
        }
    }

    /// Ownership was taken: over a store that has all that this process saw, and no halt.
    pub(super) fn claimed(&mut self, place: usize, epoch: u64) {
        self.step(Some(Actor::Conductor(place)));
        let conductor = &mut self.conductors[place];
        let seen = std::mem::replace(&mut conductor.seen, conductor.loaded.clone());
        let loaded = conductor.loaded.sequence;
        let missing = conductor.missing.take();
        let halted = conductor
            .halted
            .take()
            .filter(|record| record.epoch < epoch);
        if let Some(command) = missing {
            self.wrong(Wrong::ForgottenStore(format!(
                "it saw command {command} on enough disks, and the store that it now owns has no \
                 record of it"
            )));
        } else if loaded < seen.sequence {
            self.wrong(Wrong::ForgottenStore(format!(
                "it saw sequence {} on enough disks, and the store that it now owns ends at \
                 {loaded}",
                seen.sequence
            )));
        } else if let Some(record) = halted {
            self.wrong(Wrong::HaltIgnored(record.reason));
        }
    }
}
