//! The verdict at the end of a run: store, memory, consumers and replies against the oracle.

use super::judge::{Wrong, command_of};
use super::oracle::Oracle;
use super::server::spelled;
use super::world::World;
use conductor_engine::Side;
use conductor_engine::book::Book;
use conductor_engine::event::CommandResult;
use conductor_engine::guards::GuardSet;
use conductor_engine::partition::Answer;

/// A result in a few words.
fn told(result: &CommandResult) -> String {
    let mut told = result.status.code().to_owned();
    for outcome in &result.outcomes {
        told.push_str(&format!(", {} {}", outcome.order, outcome.kind.code()));
    }
    match result.sequences {
        Some((first, last)) => told + &format!(", events {first} to {last}"),
        None => told + ", no event",
    }
}

impl<G: GuardSet> World<'_, G> {
    /// Everything is done: is it what the oracle says?
    pub(super) fn final_judgement(&mut self) {
        let oracle = Oracle::of(&self.script);
        self.tally.commands = oracle.results.len() as u64;
        self.tally.market_events = oracle.events.len() as u64;
        self.tally.deals = oracle.deals();
        self.check_gone_back();
        if self.judge.gone_back {
            return;
        }
        let verdict = self
            .judge_store(&oracle)
            .and_then(|()| self.judge_memory(&oracle))
            .and_then(|()| self.judge_consumers(&oracle))
            .and_then(|()| self.judge_replies(&oracle));
        if let Err(wrong) = verdict {
            self.wrong(wrong);
        }
    }

    pub(super) fn judge_store(&self, oracle: &Oracle) -> Result<(), Wrong> {
        let data = &self.nodes[self.primary].data;
        let differs = |what: String| Err(Wrong::StoreDiffers(what));
        for pair in self.script.pairs() {
            for side in [Side::Ask, Side::Bid] {
                let right = oracle.book().orders(*pair, side);
                if !data.orders(*pair, side).into_iter().eq(&right) {
                    return differs(format!(
                        "the {} side of pair {pair} holds other orders than it should",
                        side.name()
                    ));
                }
            }
        }
        if data.resting() != oracle.book().len() {
            return differs("orders rest that should not".to_owned());
        }
        if data.accepted != oracle.accepted {
            return differs("other orders were let in, or by other commands".to_owned());
        }
        let other = oracle.results.iter().find(|(command, right)| {
            data.results
                .get(*command)
                .is_none_or(|found| found != *right)
        });
        if let Some((command, right)) = other {
            let found = data.results.get(command).map(|found| told(found));
            return differs(format!(
                "the stored result of {command} should be {}, and is {}",
                told(right),
                found.unwrap_or_else(|| "not there".to_owned())
            ));
        }
        if data.cursor != *oracle.cursor() || data.results.len() != oracle.results.len() {
            return differs("the last event, or the number of commands".to_owned());
        }
        Ok(())
    }

    pub(super) fn judge_memory(&self, oracle: &Oracle) -> Result<(), Wrong> {
        let owners = self.conductors.iter().filter_map(|conductor| {
            let epoch = conductor.machine.status().epoch;
            let current = epoch == Some(self.nodes[self.primary].data.epoch);
            conductor.machine.book().filter(|_| current)
        });
        let owners: Vec<_> = owners.collect();
        if owners.is_empty() {
            return Err(Wrong::MemoryDiffers("nobody owns the partition".to_owned()));
        }
        for book in owners {
            for pair in self.script.pairs() {
                for side in [Side::Ask, Side::Bid] {
                    if book.orders(*pair, side) != oracle.book().orders(*pair, side) {
                        return Err(Wrong::MemoryDiffers(format!(
                            "the owner's book of pair {pair} is another one than it should be"
                        )));
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn judge_consumers(&self, oracle: &Oracle) -> Result<(), Wrong> {
        for (who, events) in [
            ("the wire", &self.judge.wire),
            ("the inbox", &self.judge.inbox),
        ] {
            let both = events.iter().zip(&oracle.events);
            if let Some((seen, right)) = both.into_iter().find(|(seen, right)| seen != right) {
                return Err(Wrong::Consumer(format!(
                    "event {} of {who} comes from command {} and should come from {}",
                    right.sequence, seen.command, right.command
                )));
            }
            if events.len() != oracle.events.len() {
                return Err(Wrong::Consumer(format!(
                    "{who} has {} events and should have {}",
                    events.len(),
                    oracle.events.len()
                )));
            }
        }
        Ok(())
    }

    pub(super) fn judge_replies(&self, oracle: &Oracle) -> Result<(), Wrong> {
        for (message, answer) in &self.judge.replies {
            let Some(command) = command_of(self.script.message(*message)) else {
                continue;
            };
            let right = &oracle.results[command];
            let same = match answer {
                Answer::Fresh(result) => result == right,
                Answer::Stored(bytes) => *bytes == spelled(right),
            };
            if !same {
                return Err(Wrong::ReplyDiffers(format!(
                    "{command} was answered in another way than it should be"
                )));
            }
        }
        Ok(())
    }
}
