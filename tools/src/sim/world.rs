//! The world: everything that there is, one clock, one source of chance.
//!
//! What happens is an [`Event`]. A process that is paused is handed nothing until it goes on; one
//! that has died is handed nothing any more, but what it has sent still arrives.

use super::broker::{Broker, FromBroker, ToBroker};
use super::clock::{Clock, MILLISECOND, SECOND, Time};
use super::conductor::Conductor;
use super::drain::Drain;
use super::judge::{Judge, Wrong};
use super::node::Node;
use super::plan::Plan;
use super::script::Script;
use super::server::{Ask, Conn, Reply};
use super::store::Entry;
use super::story::{Names, Story};
use super::tally::{Count, Tally};
use conductor_engine::guards::GuardSet;
use fastrand::Rng;
use std::rc::Rc;

/// A process of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Actor {
    Conductor(usize),
    Outbox(usize),
}

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A process of this life is told something.
    Process(Actor, u32, Input),
    /// A node of this life is told something.
    Node(usize, u32, NodeInput),
    Broker(BrokerInput),
    /// A process is started, or goes on.
    Restart(Actor, u32),
    Resume(Actor, u32),
    NodeRestart(usize),
    NodeResume(usize),
    /// Sentinel looks around.
    Sentinel,
    /// A node is told whom to follow.
    Follow {
        place: usize,
        life: u32,
    },
    /// The producer sends its next message.
    Produce,
    /// A fault of the plan comes at its time.
    Fault(usize),
    /// Is everything done?
    Check,
}

/// What a process is told.
#[derive(Debug)]
pub(super) enum Input {
    /// Its core, or its I/O core, takes what has arrived.
    Turn,
    IoTurn,
    /// A reply on the store's connection of this number, or the end of that connection.
    Store(u32, Reply),
    StoreGone(u32),
    /// A reply has not come in time.
    Overdue(u32, u32),
    Look(u32),
    PauseOver(u32),
    Broker(usize, FromBroker),
    /// Time to try the broker again.
    OpenAgain(u32),
    /// The process was asked to end and has had its time.
    OutOfPatience,
}

/// What a node is told.
#[derive(Debug)]
pub(super) enum NodeInput {
    Arrive(usize, Vec<Ask>),
    Run(usize),
    Eof(usize),
    WaitOver(usize, u32),
    Synced,
    Entries(u32, Rc<Entry>),
    AskAck(u32),
    TellAck(u32),
    Ack {
        attach: u32,
        memory: usize,
        disk: usize,
    },
    Rewritten(u32),
    Attach,
}

/// What the broker is told.
#[derive(Debug)]
pub(super) enum BrokerInput {
    Message(usize, ToBroker),
    Eof(usize),
    CloseLater(u32),
}

/// Whether a process runs.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) number: u32,
    pub(super) running: bool,
    pub(super) paused: bool,
    held: Vec<Input>,
}

/// How a run ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) wrong: Option<Wrong>,
    pub(super) tally: Tally,
    pub(super) digest: u64,
    pub(super) story: Story,
}

/// Everything.
#[derive(Debug)]
pub(super) struct World<'p, G> {
    pub(super) guards: G,
    pub(super) plan: &'p Plan,
    pub(super) script: Script,
    pub(super) clock: Clock,
    pub(super) random: Rng,
    pub(super) nodes: Vec<Node>,
    pub(super) conns: Vec<Conn>,
    pub(super) attaches: u32,
    /// The node that Sentinel names, the one that it named before, and until when some Sentinel
    /// still names that.
    pub(super) primary: usize,
    pub(super) old_primary: usize,
    pub(super) stale_until: Time,
    pub(super) primary_seen: Time,
    pub(super) broker: Broker,
    pub(super) conductors: [Conductor<G>; 2],
    pub(super) drains: [Drain<G>; 2],
    /// How late the next packet of each process arrives.
    pub(super) late: [Time; 4],
    pub(super) judge: Judge,
    pub(super) tally: Tally,
    pub(super) story: Story,
    pub(super) produced: usize,
    /// Steps that were taken, and faults that wait for one.
    steps: u32,
    pub(super) by_step: Vec<usize>,
    due_faults: Vec<usize>,
    pub(super) last_heal: Time,
    pub(super) last_progress: Time,
    pub(super) closing: bool,
    wrong: Option<Wrong>,
    pub(super) done: bool,
    digest: u64,
}

/// Events after which a run has lost its way.
const EVENTS_MAX: u64 = 400_000;

impl<'p, G: GuardSet> World<'p, G> {
    /// The world at the start of a plan.
    pub(super) fn new(plan: &'p Plan, guards: G, story: Story) -> Self {
        let mut world = Self {
            guards,
            plan,
            script: Script::new(plan),
            clock: Clock::default(),
            random: Rng::with_seed(plan.chance ^ 0x5EED_0FC0_FFEE),
            nodes: (0..=plan.replicas).map(Node::new).collect(),
            conns: Vec::new(),
            attaches: 0,
            primary: 0,
            old_primary: 0,
            stale_until: 0,
            primary_seen: 0,
            broker: Broker::default(),
            conductors: [Conductor::new(plan, guards), Conductor::new(plan, guards)],
            drains: [Drain::new(plan, guards, 0), Drain::new(plan, guards, 1)],
            late: [0; 4],
            judge: Judge::new(plan),
            tally: Tally::default(),
            story,
            produced: 0,
            steps: 0,
            by_step: Vec::new(),
            due_faults: Vec::new(),
            last_heal: 0,
            last_progress: 0,
            closing: false,
            wrong: None,
            done: false,
            digest: 0xCBF2_9CE4_8422_2325,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for place in 1..self.nodes.len() {
            self.at_node(place, 0, NodeInput::Attach);
        }
        for actor in ACTORS {
            let life = self.life_of(actor).number;
            let starts = self.random.u64(..5 * MILLISECOND);
            self.clock.at(starts, Event::Restart(actor, life));
        }
        self.clock.at(SECOND / 2, Event::Sentinel);
        self.clock.at(20 * MILLISECOND, Event::Produce);
        self.clock.at(SECOND, Event::Check);
        self.plan_faults();
    }

    /// Runs to the end: everything done, or something wrong.
    pub(super) fn run(mut self) -> Ended {
        let mut events = 0;
        while !self.done && self.wrong.is_none() {
            events += 1;
            let Some(event) = self.clock.next().filter(|_| events < EVENTS_MAX) else {
                self.wrong(Wrong::NeverSettles("the world goes in circles".to_owned()));
                break;
            };
            self.mix(self.clock.now());
            self.handle(event);
            for fault in std::mem::take(&mut self.due_faults) {
                self.strike(fault);
            }
        }
        self.tally.events = events;
        self.tally.messages = self.produced as u64;
        self.finish_tally();
        let wires = self.judge.digest();
        self.mix(wires);
        Ended {
            wrong: self.wrong,
            tally: self.tally,
            digest: self.digest,
            story: self.story,
        }
    }

    fn mix(&mut self, value: u64) {
        self.digest = (self.digest ^ value)
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(23);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Process(actor, life, input) => self.process(actor, life, input),
            Event::Node(place, life, input) => {
                if self.nodes[place].running && self.nodes[place].life == life {
                    self.node_input(place, input);
                }
            }
            Event::Broker(input) => self.broker_input(input),
            Event::Restart(actor, life) => self.start(actor, life),
            Event::Resume(actor, life) => self.resume(actor, life),
            Event::NodeRestart(place) => self.restart_node(place),
            Event::NodeResume(place) => self.resume_node(place),
            Event::Sentinel => self.sentinel(),
            Event::Follow { place, life } => self.follow(place, life),
            Event::Produce => self.produce(),
            Event::Fault(fault) => self.strike(fault),
            Event::Check => self.check(),
        }
    }

    fn process(&mut self, actor: Actor, number: u32, input: Input) {
        let life = self.life_mut(actor);
        if !life.running || life.number != number {
            return;
        }
        if life.paused {
            return life.held.push(input);
        }
        match actor {
            Actor::Conductor(place) => self.conductor_input(place, input),
            Actor::Outbox(place) => self.drain_input(place, input),
        }
    }

    /// Plans something for a process.
    pub(super) fn at_process(&mut self, actor: Actor, time: Time, input: Input) {
        let life = self.life_of(actor).number;
        self.clock.at(time, Event::Process(actor, life, input));
    }

    fn start(&mut self, actor: Actor, number: u32) {
        let life = self.life_mut(actor);
        if life.running || life.number != number {
            return;
        }
        life.running = true;
        self.tell(|names| (names.actor(actor), "starts".into()));
        match actor {
            Actor::Conductor(place) => self.start_conductor(place),
            Actor::Outbox(place) => self.start_drain(place),
        }
    }

    /// A process dies, at whatever it was doing. What it has sent still arrives.
    pub(super) fn kill(&mut self, actor: Actor) {
        self.end_life(actor);
        let late = self.random.u64(..2 * SECOND) * u64::from(self.random.bool());
        let heard = self.random.u64(..8 * SECOND) * u64::from(self.random.bool());
        match actor {
            Actor::Conductor(place) => self.end_conductor(place, late, heard),
            Actor::Outbox(place) => self.end_drain(place, late, heard),
        }
    }

    /// A process that has nothing more to do is started again after a while.
    pub(super) fn ended(&mut self, actor: Actor) {
        self.end_life(actor);
        match actor {
            Actor::Conductor(place) => self.end_conductor(place, 0, 0),
            Actor::Outbox(place) => self.end_drain(place, 0, 0),
        }
        let again = self.now() + self.random.u64(1..3) * SECOND;
        let number = self.life_of(actor).number;
        self.clock.at(again, Event::Restart(actor, number));
    }

    fn end_life(&mut self, actor: Actor) {
        let life = self.life_mut(actor);
        life.number += 1;
        life.running = false;
        life.paused = false;
        life.held.clear();
    }

    pub(super) fn pause(&mut self, actor: Actor, length: Time) {
        let resumes = self.now() + length;
        let life = self.life_mut(actor);
        life.paused = true;
        let number = life.number;
        self.clock.at(resumes, Event::Resume(actor, number));
    }

    fn resume(&mut self, actor: Actor, number: u32) {
        let now = self.now();
        let life = self.life_mut(actor);
        if !life.paused || life.number != number {
            return;
        }
        life.paused = false;
        let held = std::mem::take(&mut life.held);
        self.tell(|names| (names.actor(actor), "goes on where it was paused".into()));
        for input in held {
            self.at_process(actor, now, input);
        }
    }

    pub(super) fn life_of(&self, actor: Actor) -> &Life {
        match actor {
            Actor::Conductor(place) => &self.conductors[place].life,
            Actor::Outbox(place) => &self.drains[place].life,
        }
    }

    fn life_mut(&mut self, actor: Actor) -> &mut Life {
        match actor {
            Actor::Conductor(place) => &mut self.conductors[place].life,
            Actor::Outbox(place) => &mut self.drains[place].life,
        }
    }

    pub(super) const fn now(&self) -> Time {
        self.clock.now()
    }

    /// How long a message travels: mostly short, now and then not.
    pub(super) fn latency(&mut self) -> Time {
        match self.random.u8(..64) {
            0 => self.random.u64(1_000..20_000),
            _ => self.random.u64(30..400),
        }
    }

    /// One of the nine steps, or one of an outbox's, was taken: faults may wait for it.
    pub(super) fn step(&mut self, _actor: Option<Actor>) {
        self.steps += 1;
        while let Some(fault) = self.by_step.last() {
            if self.plan.faults[*fault].step() > self.steps {
                break;
            }
            self.due_faults.extend(self.by_step.pop());
        }
    }

    /// Adds a line to the story, if one is told.
    pub(super) fn tell(&mut self, line: impl FnOnce(&Names) -> (String, String)) {
        if self.story.is_told() {
            let names = Names::of(&self.nodes);
            let (who, what) = line(&names);
            self.story.add(self.clock.now(), who, what);
        }
    }

    /// Adds a line that says what a fault does.
    pub(super) fn tell_fault(&mut self, line: impl FnOnce(&Names) -> (String, String)) {
        if self.story.is_told() {
            let names = Names::of(&self.nodes);
            let (who, what) = line(&names);
            self.story.add_fault(self.clock.now(), who, what);
        }
    }

    /// The first thing that is wrong ends the run.
    pub(super) fn wrong(&mut self, wrong: Wrong) {
        if self.wrong.is_none() {
            self.wrong = Some(wrong);
        }
    }

    /// The node that a process finds when it asks Sentinel.
    pub(super) fn resolve(&mut self) -> usize {
        if self.now() < self.stale_until && self.random.bool() {
            self.tally.count(Count::StaleAnswer);
            return self.old_primary;
        }
        self.primary
    }
}

/// Every process.
pub(super) const ACTORS: [Actor; 4] = [
    Actor::Conductor(0),
    Actor::Conductor(1),
    Actor::Outbox(0),
    Actor::Outbox(1),
];

impl Actor {
    /// Its place in [`ACTORS`].
    pub(super) const fn place(self) -> usize {
        match self {
            Actor::Conductor(place) => place,
            Actor::Outbox(place) => 2 + place,
        }
    }
}
