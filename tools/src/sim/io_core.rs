//! A conductor's I/O core: channels, deliveries and acknowledgements.
//!
//! It closes channels and never rejects or cancels; a delivery or an acknowledgement of an earlier
//! generation goes nowhere. What it does where a guard is off stands here too.

use super::broker::{FromBroker, ToBroker};
use super::clock::{MILLISECOND, Time};
use super::conductor::{Line, ToCore, ToIo};
use super::judge::Wrong;
use super::world::{Actor, Input, World};
use conductor_engine::guards::{Guard, GuardSet};
use conductor_engine::limits::{RECONNECT_BACKOFF_MS_MAX, RECONNECT_BACKOFF_MS_MIN};
use conductor_engine::partition::{Answer, Generation, Tag};

impl<G: GuardSet> World<'_, G> {
    pub(super) fn send_io(&mut self, place: usize, message: ToIo) {
        self.conductors[place].to_io.push_back(message);
        self.io_later(place);
    }

    pub(super) fn io_later(&mut self, place: usize) {
        if !self.conductors[place].io_due {
            self.conductors[place].io_due = true;
            let soon = self.now() + self.random.u64(1..40);
            self.at_process(Actor::Conductor(place), soon, Input::IoTurn);
        }
    }

    /// One message of the partition's core.
    pub(super) fn io_turn(&mut self, place: usize) {
        self.conductors[place].io_due = false;
        let Some(message) = self.conductors[place].to_io.pop_front() else {
            return;
        };
        if !self.conductors[place].to_io.is_empty() {
            self.io_later(place);
        }
        match message {
            ToIo::Open => {
                let conductor = &self.conductors[place];
                if conductor.line.is_none() && !conductor.opening {
                    self.open_channel(place);
                }
            }
            ToIo::Close(generation, reason) => self.close_line(place, generation, &reason),
            ToIo::Acknowledge(generation, tag) => self.send_ack_to_broker(place, generation, tag),
            ToIo::Park(generation, tag, message) => {
                if let Some(link) = self.conductors[place].link {
                    self.tell_broker(
                        link,
                        ToBroker::Park {
                            generation,
                            tag,
                            message,
                        },
                    );
                }
            }
            ToIo::Reply(message, answer) => self.reply_leaves(place, message, &answer),
            ToIo::Stopped => self.ended(Actor::Conductor(place)),
        }
    }

    pub(super) fn reply_leaves(&mut self, place: usize, message: usize, answer: &Answer) {
        self.step(Some(Actor::Conductor(place)));
        if self.story.is_told() {
            let words = self.script.words(message);
            self.tell(|names| {
                (
                    names.actor(Actor::Conductor(place)),
                    format!("reply: to {words}"),
                )
            });
        }
        if let Err(sentence) = self.judge.replied(message, answer, &self.script) {
            self.wrong(Wrong::ReplyBeforeDurable(sentence));
        }
    }

    pub(super) fn send_ack_to_broker(&mut self, place: usize, generation: Generation, tag: Tag) {
        let conductor = &self.conductors[place];
        let current = conductor
            .line
            .filter(|line| line.generation == generation || !self.guards.holds(Guard::Generation));
        let (Some(line), Some(link)) = (current, conductor.link) else {
            return;
        };
        self.step(Some(Actor::Conductor(place)));
        self.tell(|names| {
            let line = format!("ack: every delivery up to number {tag}");
            (names.actor(Actor::Conductor(place)), line)
        });
        self.tell_broker(
            link,
            ToBroker::Ack {
                channel: line.channel,
                tag,
            },
        );
    }

    pub(super) fn open_channel(&mut self, place: usize) {
        let conductor = &mut self.conductors[place];
        conductor.opening = true;
        conductor.opening_number += 1;
        conductor.tries += 1;
        if self.now() < self.broker.down_until {
            return self.open_again(place);
        }
        let link = match self.conductors[place].link {
            Some(link) => link,
            None => self.open_link(Actor::Conductor(place)),
        };
        self.conductors[place].link = Some(link);
        self.tell_broker(link, ToBroker::Consume);
    }

    pub(super) fn open_again(&mut self, place: usize) {
        let conductor = &mut self.conductors[place];
        let pause =
            (RECONNECT_BACKOFF_MS_MIN << conductor.tries.min(16)).min(RECONNECT_BACKOFF_MS_MAX);
        conductor.opening_number += 1;
        let input = Input::OpenAgain(conductor.opening_number);
        let again = self.now() + pause * MILLISECOND;
        self.at_process(Actor::Conductor(place), again, input);
    }

    /// Closes the channel: the broker takes back what is unacknowledged, in order.
    pub(super) fn close_line(&mut self, place: usize, generation: Generation, reason: &str) {
        let conductor = &mut self.conductors[place];
        let Some(line) = conductor.line.filter(|line| line.generation == generation) else {
            return;
        };
        if self.guards.holds(Guard::Generation) {
            conductor
                .inbox
                .retain(|message| !matches!(message, ToCore::Delivery(..)));
        }
        conductor.line = None;
        self.tell(|names| {
            (
                names.actor(Actor::Conductor(place)),
                format!("closes its channel: {reason}"),
            )
        });
        let message = match self.guards.holds(Guard::CloseChannel) {
            true => ToBroker::Close(line.channel),
            false if self.random.bool() => ToBroker::Reject(line.channel),
            false => ToBroker::Cancel(line.channel),
        };
        if let Some(link) = self.conductors[place].link {
            self.tell_broker(link, message);
        }
    }

    pub(super) fn io_message(&mut self, place: usize, link: usize, message: FromBroker) {
        if self.conductors[place].link != Some(link) {
            return;
        }
        match message {
            FromBroker::Consuming(channel) => self.channel_opened(place, channel),
            FromBroker::Delivery {
                channel,
                tag,
                message,
            } => {
                let conductor = &self.conductors[place];
                let stale = self.guards.holds(Guard::Generation);
                let line = conductor
                    .line
                    .filter(|line| line.channel == channel || !stale);
                if let Some(line) = line {
                    self.mail(place, ToCore::Delivery(line.generation, tag, message));
                }
            }
            FromBroker::Parked { generation, tag } => {
                self.mail(place, ToCore::Parked(generation, tag));
            }
            FromBroker::Gone => {
                self.conductors[place].link = None;
                self.line_lost(place, "the connection to the broker is gone");
            }
            FromBroker::ChannelGone(channel) => {
                let line = self.conductors[place].line;
                if line.is_some_and(|line| line.channel == channel) {
                    self.line_lost(place, "the broker ended the channel");
                }
            }
            FromBroker::Publishing | FromBroker::Confirmed { .. } | FromBroker::Refused { .. } => {}
        }
    }

    pub(super) fn channel_opened(&mut self, place: usize, channel: u32) {
        let conductor = &mut self.conductors[place];
        if !conductor.opening {
            // It was given up meanwhile.
            if let Some(link) = conductor.link {
                self.tell_broker(link, ToBroker::Close(channel));
            }
            return;
        }
        conductor.opening = false;
        conductor.tries = 0;
        conductor.last_generation += 1;
        let generation = conductor.last_generation;
        conductor.line = Some(Line {
            generation,
            channel,
        });
        self.mail(place, ToCore::Opened(generation));
    }

    /// The channel is gone without our doing.
    pub(super) fn line_lost(&mut self, place: usize, reason: &'static str) {
        let conductor = &mut self.conductors[place];
        if let Some(line) = conductor.line.take() {
            if self.guards.holds(Guard::Generation) {
                conductor
                    .inbox
                    .retain(|message| !matches!(message, ToCore::Delivery(..)));
            }
            self.mail(place, ToCore::Lost(line.generation, reason));
        } else if conductor.opening && conductor.link.is_none() {
            self.open_again(place);
        }
    }

    /// The process gives its broker connection up; the broker hears of it later.
    pub(super) fn cut_link_of_conductor(&mut self, place: usize, heard: Time) -> bool {
        let Some(link) = self.conductors[place].link.take() else {
            return false;
        };
        self.leave_link(link, heard);
        self.line_lost(place, "the connection to the broker is gone");
        true
    }

    /// The broker connection of a conductor, if it has one.
    pub(super) fn link_of_conductor(&self, place: usize) -> Option<usize> {
        self.conductors[place].link
    }
}
