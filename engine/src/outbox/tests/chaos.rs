//! The machine against a store and a broker that fail at random: whatever happens, nothing is
//! published that is not on disks, nothing is published past a failure or beyond the window,
//! nothing is deleted that was not confirmed, and once the failures end a consumer that counts has
//! everything in order.

use super::*;
use std::collections::{BTreeMap, VecDeque};

/// A small generator, so that a failing run can be repeated by its number.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 33) % end as u64).expect("it is below the end")
    }
}

struct World {
    dice: Dice,
    outbox: Outbox,
    stream: BTreeMap<usize, bool>,
    /// Entries of the batch at hand.
    batch: Vec<usize>,
    on_disks: bool,
    failed: bool,
    in_flight: VecDeque<usize>,
    /// What the broker has, in order, repeats among it.
    queue: Vec<usize>,
    dead: Vec<usize>,
    calm: bool,
    inputs: VecDeque<Input>,
}

const EVENTS: usize = 40;

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let stream = (1..=EVENTS)
            .map(|number| (number, dice.below(10) > 0))
            .collect();
        Self {
            outbox: Outbox::new(settings(true)),
            dice,
            stream,
            batch: Vec::new(),
            on_disks: false,
            failed: false,
            in_flight: VecDeque::new(),
            queue: Vec::new(),
            dead: Vec::new(),
            calm: false,
            inputs: VecDeque::new(),
        }
    }

    fn fails(&mut self, one_in: usize) -> bool {
        !self.calm && self.dice.below(one_in) == 0
    }

    fn tell(&mut self, input: Input) {
        self.inputs.push_back(input);
    }

    fn delete(&mut self, delete: &[(String, String)]) {
        for (stream_id, _) in delete {
            let number = stream_id.trim_end_matches("-0").parse().expect("a number");
            assert!(
                self.queue.contains(&number),
                "{number} was deleted and never confirmed"
            );
            self.stream.remove(&number);
        }
    }

    fn read(&mut self, count: usize) {
        self.on_disks = false;
        self.failed = false;
        self.in_flight.clear();
        self.batch = self.stream.keys().copied().take(count).collect();
        let entries = self.batch.iter().map(|number| {
            if self.stream[number] {
                entry(*number)
            } else {
                foreign(*number)
            }
        });
        let entries = entries.collect();
        let held = !self.fails(15);
        self.tell(read_with(entries, held));
        self.wait();
    }

    fn wait(&mut self) {
        if self.fails(4) {
            self.tell(disks(true, 0, 1));
        } else {
            self.tell(enough());
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::ConnectStore if self.fails(4) => self.tell(Input::StoreLost("no".to_owned())),
            Action::ConnectStore => self.tell(Input::StoreConnected),
            Action::ConnectBroker if self.fails(4) => self.tell(Input::BrokerLost("no".to_owned())),
            Action::ConnectBroker => self.tell(Input::BrokerReady),
            Action::TakeLease => {
                let taken = !self.fails(4);
                self.tell(Input::Lease(taken));
            }
            Action::RenewLease => {
                let taken = !self.fails(4);
                self.outbox.input(Input::Lease(taken));
            }
            Action::Read { delete, count } => {
                self.delete(&delete);
                if self.fails(8) {
                    return self.tell(Input::StoreLost("no reply".to_owned()));
                }
                self.read(count);
            }
            Action::AwaitDisks => {
                let held = !self.fails(8);
                self.tell(Input::Lease(held));
                self.wait();
            }
            Action::AwaitEvents => self.tell(Input::Awaited),
            Action::Publish(place) => self.publish(place),
            Action::DeadLetter(letters) => {
                for (place, _) in letters {
                    let number = self.batch[place];
                    assert_eq!(self.stream.remove(&number), Some(false));
                    self.dead.push(number);
                }
                self.tell(Input::DeadLettered);
            }
            Action::Settle { delete, .. } => {
                self.delete(&delete);
                self.tell(Input::Settled);
            }
            Action::Pause(_) => self.tell(Input::PauseOver),
            Action::DisconnectStore | Action::ReleaseLease | Action::Note(_) => {}
            Action::Stopped => panic!("nobody stopped it"),
        }
    }

    fn publish(&mut self, place: usize) {
        assert!(self.on_disks, "published before enough disks confirmed");
        assert!(!self.failed, "published past a failure");
        assert!(self.in_flight.len() < WINDOW, "more open than the window");
        self.in_flight.push_back(place);
    }

    /// The broker answers one open publication, or goes.
    fn answer(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        if self.fails(12) {
            // What was open may have arrived in part, from the front.
            let arrived = self.dice.below(self.in_flight.len() + 1);
            let lost: Vec<usize> = self.in_flight.drain(..).collect();
            self.queue
                .extend(lost[..arrived].iter().map(|place| self.batch[*place]));
            self.failed = true;
            return self.tell(Input::BrokerLost("gone".to_owned()));
        }
        let place = self.in_flight.pop_front().expect("it is not empty");
        if self.fails(10) {
            self.failed = true;
            return self.tell(Input::Refused(place, "no queue".to_owned()));
        }
        self.queue.push(self.batch[place]);
        self.tell(Input::Published(place));
    }

    fn turn(&mut self) {
        for action in self.outbox.take_actions() {
            self.perform(action);
        }
        self.answer();
        if !self.in_flight.is_empty() && self.fails(6) {
            self.outbox.input(Input::LeaseDue);
        }
        let Some(input) = self.inputs.pop_front() else {
            return;
        };
        if let Input::Confirmed(confirmed) = &input {
            self.on_disks = confirmed.replica_disks > 0;
        }
        self.outbox.input(input);
    }
}

/// What a consumer keeps that drops what it has had and waits at a gap.
fn consumed(queue: &[usize], good: &[usize]) -> Vec<usize> {
    let mut kept = Vec::new();
    for number in queue {
        if good.get(kept.len()) == Some(number) {
            kept.push(*number);
        }
    }
    kept
}

#[test]
fn whatever_fails_a_consumer_gets_every_event_in_order() {
    for seed in 1..=2_000 {
        let mut world = World::new(seed);
        let good: Vec<usize> = world
            .stream
            .iter()
            .filter(|(_, good)| **good)
            .map(|(n, _)| *n)
            .collect();
        world.outbox.start();
        for turn in 0..4_000 {
            world.calm = turn > 600;
            world.turn();
        }
        assert!(
            world.stream.is_empty(),
            "seed {seed}: {:?} are left",
            world.stream
        );
        assert_eq!(consumed(&world.queue, &good), good, "seed {seed}");
        assert_eq!(world.dead.len() + good.len(), EVENTS, "seed {seed}");
    }
}
