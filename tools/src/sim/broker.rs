//! The broker: one quorum queue of commands with a single active consumer, its channels, and the
//! exchange for events.
//!
//! What a closed channel had unacknowledged is returned in order and served first. What is rejected
//! one by one goes to the tail, as a queue without a delivery limit does it. The next consumer is
//! active at once, whatever the old holder is still doing. Confirms come in any order.

use super::clock::{MILLISECOND, SECOND, Time};
use super::judge::Wrong;
use super::tally::Count;
use super::world::{Actor, BrokerInput, Event, Input, World};
use conductor_engine::Event as MarketEvent;
use conductor_engine::guards::GuardSet;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a process sends to the broker.
#[derive(Clone, Debug)]
pub(super) enum ToBroker {
    /// Open a channel and register a consumer.
    Consume,
    /// Acknowledge everything up to this tag.
    Ack { channel: u32, tag: u64 },
    /// Close the channel.
    Close(u32),
    /// Reject everything one by one, then close; must never be done.
    Reject(u32),
    /// Cancel the consumer and close its channel later; must never be done.
    Cancel(u32),
    /// Put a message into the parking queue.
    Park {
        generation: u64,
        tag: u64,
        message: usize,
    },
    /// Open a channel for publishing.
    OpenPublisher,
    /// Publish an event.
    Publish {
        batch: u32,
        place: usize,
        event: Arc<MarketEvent>,
    },
}

/// What the broker sends to a process.
#[derive(Clone, Debug)]
pub(super) enum FromBroker {
    Consuming(u32),
    Delivery {
        channel: u32,
        tag: u64,
        message: usize,
    },
    Parked {
        generation: u64,
        tag: u64,
    },
    Publishing,
    Confirmed {
        batch: u32,
        place: usize,
    },
    Refused {
        batch: u32,
        place: usize,
    },
    /// The connection is gone.
    Gone,
    /// This channel is gone; the connection is not.
    ChannelGone(u32),
}

/// One connection of a process.
#[derive(Debug)]
pub(super) struct Link {
    owner: Actor,
    owner_life: u32,
    /// Whether the broker has it open, and whether the process has.
    open: bool,
    pub(super) client_open: bool,
    to_arrives: Time,
    from_arrives: Time,
}

#[derive(Debug)]
struct Consumer {
    channel: u32,
    link: usize,
    next_tag: u64,
    unacked: VecDeque<(u64, usize)>,
    cancelled: bool,
}

/// The broker.
#[derive(Debug, Default)]
pub(super) struct Broker {
    pub(super) down_until: Time,
    pub(super) links: Vec<Link>,
    channels: u32,
    /// The first that is not cancelled is the active one.
    consumers: Vec<Consumer>,
    messages: VecDeque<usize>,
    returns: VecDeque<usize>,
    last_holder: Option<Actor>,
    /// Publications that are to be refused.
    pub(super) refusals: u32,
}

impl Broker {
    /// Whether every command was acknowledged.
    pub(super) fn is_drained(&self) -> bool {
        let held = self
            .consumers
            .iter()
            .any(|consumer| !consumer.unacked.is_empty());
        self.messages.is_empty() && self.returns.is_empty() && !held
    }

    /// Commands that are not acknowledged.
    pub(super) fn depth(&self) -> usize {
        let held: usize = self
            .consumers
            .iter()
            .map(|consumer| consumer.unacked.len())
            .sum();
        self.messages.len() + self.returns.len() + held
    }

    /// The process whose consumer is the active one.
    pub(super) fn holder(&self) -> Option<Actor> {
        let active = self.consumers.iter().find(|consumer| !consumer.cancelled)?;
        Some(self.links[active.link].owner)
    }
}

impl<G: GuardSet> World<'_, G> {
    /// A process opens a connection; it is known at once to both.
    pub(super) fn open_link(&mut self, owner: Actor) -> usize {
        let owner_life = self.life_of(owner).number;
        self.broker.links.push(Link {
            owner,
            owner_life,
            open: true,
            client_open: true,
            to_arrives: 0,
            from_arrives: 0,
        });
        self.broker.links.len() - 1
    }

    pub(super) fn tell_broker(&mut self, link: usize, message: ToBroker) {
        let (now, latency) = (self.now(), self.latency());
        let connection = &mut self.broker.links[link];
        connection.to_arrives = connection.to_arrives.max(now + latency);
        let arrives = connection.to_arrives;
        self.clock
            .at(arrives, Event::Broker(BrokerInput::Message(link, message)));
    }

    fn broker_tells(&mut self, link: usize, message: FromBroker, in_order: bool) {
        let (now, latency) = (self.now(), self.latency());
        let spread = if in_order {
            0
        } else {
            self.random.u64(..3 * MILLISECOND)
        };
        let connection = &mut self.broker.links[link];
        if !connection.client_open {
            return;
        }
        let mut arrives = now + latency + spread;
        if in_order {
            arrives = arrives.max(connection.from_arrives);
            connection.from_arrives = arrives;
        }
        let (owner, life) = (connection.owner, connection.owner_life);
        self.clock.at(
            arrives,
            Event::Process(owner, life, Input::Broker(link, message)),
        );
    }

    /// A process closes its end, or dies; the broker hears of it after a while.
    pub(super) fn leave_link(&mut self, link: usize, heard_after: Time) {
        let now = self.now();
        let connection = &mut self.broker.links[link];
        if !connection.client_open {
            return;
        }
        connection.client_open = false;
        connection.to_arrives = connection.to_arrives.max(now + heard_after) + 1;
        let arrives = connection.to_arrives;
        self.clock
            .at(arrives, Event::Broker(BrokerInput::Eof(link)));
    }

    /// The broker gives a connection up; its process hears of it after a while.
    pub(super) fn drop_link(&mut self, link: usize, heard_after: Time) {
        if !self.broker.links[link].open {
            return;
        }
        let now = self.now();
        let connection = &mut self.broker.links[link];
        connection.open = false;
        connection.from_arrives = connection.from_arrives.max(now + heard_after);
        if connection.client_open {
            let (owner, life) = (connection.owner, connection.owner_life);
            let arrives = connection.from_arrives;
            let input = Input::Broker(link, FromBroker::Gone);
            self.clock.at(arrives, Event::Process(owner, life, input));
        }
        let channels: Vec<u32> = self
            .broker
            .consumers
            .iter()
            .filter(|consumer| consumer.link == link)
            .map(|consumer| consumer.channel)
            .collect();
        for channel in channels {
            self.close_channel(channel);
        }
    }

    pub(super) fn restart_broker(&mut self, down: Time) {
        self.broker.down_until = self.now() + down;
        for link in 0..self.broker.links.len() {
            self.drop_link(link, 0);
        }
    }

    pub(super) fn broker_input(&mut self, input: BrokerInput) {
        match input {
            BrokerInput::Message(link, message) => {
                let down = self.now() < self.broker.down_until;
                if self.broker.links[link].open && down {
                    return self.drop_link(link, 0);
                }
                if self.broker.links[link].open {
                    self.broker_message(link, message);
                }
            }
            BrokerInput::Eof(link) => self.drop_link(link, 0),
            BrokerInput::CloseLater(channel) => self.close_channel(channel),
        }
    }

    fn broker_message(&mut self, link: usize, message: ToBroker) {
        match message {
            ToBroker::Consume => self.consume(link),
            ToBroker::Ack { channel, tag } => self.acked(channel, tag),
            ToBroker::Close(channel) => self.close_channel(channel),
            ToBroker::Reject(channel) => {
                self.reject_all(channel);
                self.close_channel(channel);
            }
            ToBroker::Cancel(channel) => self.cancel(channel),
            ToBroker::Park {
                generation,
                tag,
                message,
            } => {
                self.judge.parked(message);
                self.broker_tells(link, FromBroker::Parked { generation, tag }, false);
            }
            ToBroker::OpenPublisher => self.broker_tells(link, FromBroker::Publishing, true),
            ToBroker::Publish {
                batch,
                place,
                event,
            } => {
                if self.broker.refusals > 0 {
                    self.broker.refusals -= 1;
                    self.tally.count(Count::Refusal);
                    self.judge.refused(&event);
                    self.tell(|_| {
                        let line = format!("refuses event {} of the outbox", event.sequence);
                        ("broker".into(), line)
                    });
                    return self.broker_tells(link, FromBroker::Refused { batch, place }, false);
                }
                self.wire(&event);
                self.broker_tells(link, FromBroker::Confirmed { batch, place }, false);
            }
        }
    }

    /// A producer's message joins the queue.
    pub(super) fn enqueue(&mut self, message: usize) {
        self.broker.messages.push_back(message);
        self.hand_out();
    }

    fn consume(&mut self, link: usize) {
        self.broker.channels += 1;
        let channel = self.broker.channels;
        self.broker.consumers.push(Consumer {
            channel,
            link,
            next_tag: 1,
            unacked: VecDeque::new(),
            cancelled: false,
        });
        self.broker_tells(link, FromBroker::Consuming(channel), true);
        self.hand_out();
    }

    /// Gives the active consumer as much as its prefetch allows: what was returned comes first.
    fn hand_out(&mut self) {
        if self.now() < self.broker.down_until {
            return;
        }
        let prefetch = usize::from(self.plan.prefetch);
        loop {
            let broker = &mut self.broker;
            let Some(active) = broker.consumers.iter_mut().find(|it| !it.cancelled) else {
                return;
            };
            if active.unacked.len() >= prefetch {
                return;
            }
            let returned = broker.returns.pop_front();
            let redelivered = returned.is_some();
            let Some(message) = returned.or_else(|| broker.messages.pop_front()) else {
                return;
            };
            let tag = active.next_tag;
            active.next_tag += 1;
            active.unacked.push_back((tag, message));
            let (link, channel) = (active.link, active.channel);
            let holder = broker.links[link].owner;
            if redelivered {
                self.tally.count(Count::Redelivery);
            }
            if self
                .broker
                .last_holder
                .replace(holder)
                .is_some_and(|before| before != holder)
            {
                self.tally.count(Count::Takeover);
                self.tell(|names| {
                    (
                        "broker".into(),
                        format!("{} is the active consumer now", names.actor(holder)),
                    )
                });
            }
            self.broker_tells(
                link,
                FromBroker::Delivery {
                    channel,
                    tag,
                    message,
                },
                true,
            );
        }
    }

    fn acked(&mut self, channel: u32, tag: u64) {
        let consumers = &mut self.broker.consumers;
        let Some(consumer) = consumers.iter_mut().find(|it| it.channel == channel) else {
            return;
        };
        let mut settled = Vec::new();
        while consumer
            .unacked
            .front()
            .is_some_and(|(oldest, _)| *oldest <= tag)
        {
            settled.extend(consumer.unacked.pop_front());
        }
        self.check_gone_back();
        for (_, message) in settled {
            if let Err(sentence) = self.judge.acknowledged(message, &self.script) {
                self.wrong(Wrong::AckBeforeDurable(sentence));
            }
        }
        self.hand_out();
    }

    pub(super) fn close_channel(&mut self, channel: u32) {
        let consumers = &mut self.broker.consumers;
        let Some(place) = consumers.iter().position(|it| it.channel == channel) else {
            return;
        };
        let consumer = consumers.remove(place);
        let returned = consumer.unacked.iter().map(|(_, message)| *message);
        let count = consumer.unacked.len();
        self.broker.returns.extend(returned);
        let owner = self.broker.links[consumer.link].owner;
        self.tell(|names| {
            let line = format!(
                "the channel of {} is closed, {count} deliveries come back in order",
                names.actor(owner)
            );
            ("broker".into(), line)
        });
        self.hand_out();
    }

    /// The broker ends one channel; its process hears of it after a while.
    pub(super) fn kill_channel_of(&mut self, owner: Actor, heard_after: Time) -> bool {
        let links = &self.broker.links;
        let consumers = self.broker.consumers.iter();
        let mut of_owner = consumers.filter(|consumer| links[consumer.link].owner == owner);
        let Some(consumer) = of_owner.next() else {
            return false;
        };
        let (channel, link) = (consumer.channel, consumer.link);
        let connection = &mut self.broker.links[link];
        let arrives = connection.from_arrives.max(self.clock.now() + heard_after);
        connection.from_arrives = arrives;
        if connection.client_open {
            let life = connection.owner_life;
            let input = Input::Broker(link, FromBroker::ChannelGone(channel));
            self.clock.at(arrives, Event::Process(owner, life, input));
        }
        self.close_channel(channel);
        true
    }

    fn reject_all(&mut self, channel: u32) {
        let consumers = &mut self.broker.consumers;
        let Some(consumer) = consumers.iter_mut().find(|it| it.channel == channel) else {
            return;
        };
        let rejected: Vec<usize> = consumer
            .unacked
            .drain(..)
            .map(|(_, message)| message)
            .collect();
        // The consumer must not be handed what it has just rejected.
        consumer.cancelled = true;
        let owner = self.broker.links[consumer.link].owner;
        self.tell(|names| {
            let line = format!(
                "rejects its {} deliveries, they go to the tail",
                rejected.len()
            );
            (names.actor(owner), line)
        });
        self.broker.messages.extend(rejected);
    }

    fn cancel(&mut self, channel: u32) {
        let consumers = &mut self.broker.consumers;
        if let Some(consumer) = consumers.iter_mut().find(|it| it.channel == channel) {
            consumer.cancelled = true;
            let (owner, held) = (
                self.broker.links[consumer.link].owner,
                consumer.unacked.len(),
            );
            self.tell(|names| {
                let line = format!("cancels its consumer and keeps {held} deliveries");
                (names.actor(owner), line)
            });
            let later = self.now() + self.random.u64(..SECOND);
            self.clock
                .at(later, Event::Broker(BrokerInput::CloseLater(channel)));
            self.hand_out();
        }
    }
}
