//! The course of a run: the producers, and when everything is done.

use super::clock::{MILLISECOND, SECOND};
use super::judge::Wrong;
use super::world::{Event, World};
use conductor_engine::guards::GuardSet;

impl<G: GuardSet> World<'_, G> {
    /// The producers send their next message.
    pub(super) fn produce(&mut self) {
        let now = self.now();
        if now < self.broker.down_until {
            let again = self.broker.down_until + MILLISECOND;
            return self.clock.at(again, Event::Produce);
        }
        if self.produced + 1 >= self.script.len() {
            return;
        }
        let published = self.script.publish(self.produced);
        self.produced += 1;
        self.enqueue(published);
        let pause = if self.produced.is_multiple_of(self.plan.burst) {
            self.random.u64(..120 * MILLISECOND)
        } else {
            self.random.u64(..200)
        };
        self.clock.at(now + pause, Event::Produce);
    }

    /// A producer has not heard that its last message was taken, and sends it again.
    pub(super) fn publish_again(&mut self) -> bool {
        if self.produced == 0 || self.now() < self.broker.down_until {
            return false;
        }
        let back = self.random.usize(..self.produced.min(4));
        let published = self.script.publish(self.produced - 1 - back);
        if self.story.is_told() {
            let words = self.script.words(published);
            let line = format!("has not heard that {words} arrived, and sends it again");
            self.tell_fault(|_| ("producer".into(), line));
        }
        self.enqueue(published);
        true
    }

    /// Looks now and then whether everything is done.
    pub(super) fn check(&mut self) {
        let now = self.now();
        self.clock.at(now + SECOND / 2, Event::Check);
        let nodes_work = self.nodes.iter().all(|node| node.works());
        let all_run = super::world::ACTORS.iter().all(|actor| {
            let life = self.life_of(*actor);
            life.running && !life.paused
        });
        let healed = now > self.last_heal && nodes_work && all_run;
        let produced = self.produced + 1 >= self.script.len();
        if !produced || !healed {
            self.last_progress = now;
            return;
        }
        if now - self.last_progress > SETTLES_WITHIN {
            return self.never_settles();
        }
        let drained = self.broker.is_drained();
        let published = self.nodes[self.primary].data.stream.is_empty();
        if drained && published {
            return self.next_stage();
        }
        let halted = self.nodes[self.primary].data.halted.is_some();
        if halted && self.plan.uncovered && now - self.last_progress > 20 * SECOND {
            self.done = true;
            self.final_judgement_of_halted();
        }
    }

    fn never_settles(&mut self) {
        let events = self.nodes[self.primary].data.stream.len();
        let left = self.broker.depth();
        self.wrong(Wrong::NeverSettles(format!(
            "{left} messages wait for their acknowledgement and {events} events for the outbox, \
             {} s after the last fault, and nothing moves",
            SETTLES_WITHIN / SECOND
        )));
    }

    /// Everything is done: one command more must go through, then all is judged.
    fn next_stage(&mut self) {
        if self.closing && self.somebody_owns() {
            self.done = true;
            return self.final_judgement();
        }
        // Ownership may have been lost again behind the last command: only a delivery takes it.
        if !self.closing {
            self.last_progress = self.now();
        }
        self.closing = true;
        let last = self.script.publish(self.script.len() - 1);
        self.enqueue(last);
    }

    fn somebody_owns(&self) -> bool {
        let epoch = self.nodes[self.primary].data.epoch;
        self.conductors.iter().any(|conductor| {
            conductor.machine.book().is_some() && conductor.machine.status().epoch == Some(epoch)
        })
    }

    /// A partition that halted over a store that went back is done as it stands.
    fn final_judgement_of_halted(&mut self) {
        self.judge.gone_back = true;
        self.final_judgement();
    }

    /// What the tally says of the run as a whole.
    pub(super) fn finish_tally(&mut self) {
        if self.tally.commands == 0 {
            self.tally.commands = self.produced as u64;
        }
    }
}

/// How long everything may take once the last fault is over.
const SETTLES_WITHIN: u64 = 120 * SECOND;
