//! What the producers send: few pairs, few prices, so that almost everything meets something.
//!
//! Among the commands are repeats of earlier ones, order ids that were used before, cancels of what
//! is gone, messages that are refused and messages that are no command. Several share a
//! millisecond, and some carry an earlier one than the command before.

use super::plan::Plan;
use conductor_engine::command::RefusedCommand;
use conductor_engine::staging::Write;
use conductor_engine::{
    Body, Command, CommandId, Decimal, Incoming, NewOrder, OrderId, OrderKind, PairDecimals,
    PairId, PartitionId, Refusal, Side, TimeInForce, Timestamp, UserId,
};
use fastrand::Rng;

const DECIMALS: PairDecimals = PairDecimals {
    price: 1,
    amount: 1,
    quote: 1,
};
const PAIRS: [PairId; 2] = [PairId(0), PairId(1)];
const START_MS: u64 = 1_767_225_600_000;

/// All messages of a run, in the order in which a producer first sends them.
#[derive(Debug)]
pub(super) struct Script {
    messages: Vec<Incoming>,
    /// What was published, by message: repeats of the same message among it.
    published: Vec<usize>,
}

impl Script {
    pub(super) fn new(plan: &Plan) -> Self {
        let mut writer = Writer {
            random: Rng::with_seed(plan.script ^ 0x0C03_3A4D),
            placed: Vec::new(),
            orders: 0,
            now_ms: START_MS,
        };
        let mut messages = Vec::with_capacity(plan.commands + 1);
        for number in 0..plan.commands {
            let repeat = number > 0 && writer.random.u8(..100) < 7;
            if repeat {
                let earlier = writer.random.usize(..number);
                let copy: Incoming = Incoming::clone(&messages[earlier]);
                messages.push(copy);
            } else {
                messages.push(writer.message(number));
            }
        }
        // The last one comes when all is over, and shows that the partition still works.
        messages.push(writer.last());
        Self {
            messages,
            published: Vec::new(),
        }
    }

    /// How many messages there are, the last one among them.
    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Every pair that a command may name.
    pub(super) fn pairs(&self) -> &'static [PairId] {
        &PAIRS
    }

    /// Publishes a message; its place among all that were published.
    pub(super) fn publish(&mut self, message: usize) -> usize {
        self.published.push(message);
        self.published.len() - 1
    }

    /// A published message.
    pub(super) fn message(&self, published: usize) -> &Incoming {
        &self.messages[self.published[published]]
    }

    /// A published message, to hand over.
    pub(super) fn incoming(&self, published: usize) -> Incoming {
        self.message(published).clone()
    }

    /// How many were published.
    pub(super) fn published(&self) -> usize {
        self.published.len()
    }

    /// A published message in a few words.
    pub(super) fn words(&self, published: usize) -> String {
        words(self.message(published))
    }
}

/// A message in a few words.
fn words(incoming: &Incoming) -> String {
    match incoming {
        Incoming::Command(command) => format!("{} ({})", command.id, body_words(&command.body)),
        Incoming::Refused(refused) => format!("{} ({})", refused.id, refused.refusal.code()),
        Incoming::Unusable(_) => "a message that is no command".to_owned(),
    }
}

fn body_words(body: &Body) -> String {
    match body {
        Body::Place(order) => order_words(order),
        Body::Cancel { order } => format!("cancel {order}"),
        Body::Amend {
            order,
            price,
            volume,
        } => {
            let part = |name: &str, value: &Option<Decimal>| {
                value
                    .as_ref()
                    .map(|value| format!(" {name} {value}"))
                    .unwrap_or_default()
            };
            format!(
                "amend {order}{}{}",
                part("to price", price),
                part("to volume", volume)
            )
        }
        Body::Replace { cancel, place } => {
            let cancelled = cancel.iter().map(|order| format!("cancel {order}"));
            let all: Vec<String> = cancelled.chain(place.iter().map(order_words)).collect();
            all.join(", ")
        }
    }
}

fn order_words(order: &NewOrder) -> String {
    let (id, side, volume) = (&order.id, order.side.name(), &order.volume);
    match &order.kind {
        OrderKind::Limit {
            price,
            time_in_force,
        } => {
            let ioc = match time_in_force {
                TimeInForce::ImmediateOrCancel => " ioc",
                TimeInForce::GoodTillCancelled => "",
            };
            format!("{side} {id}{ioc} {volume} at {price}")
        }
        OrderKind::Market => format!("{side} {id} {volume} at market"),
    }
}

/// The commands that a group decides.
pub(super) fn commands_of(writes: &[Write]) -> String {
    let commands = writes.iter().filter_map(|write| match write {
        Write::Result(result) => Some(result.command.to_string()),
        _ => None,
    });
    commands.collect::<Vec<_>>().join(", ")
}

struct Writer {
    random: Rng,
    placed: Vec<OrderId>,
    orders: u32,
    now_ms: u64,
}

impl Writer {
    fn message(&mut self, number: usize) -> Incoming {
        let id = command_id(number);
        match self.random.u8(..100) {
            0 => return Incoming::Unusable("it is no JSON".to_owned()),
            1 | 2 => {
                return Incoming::Refused(RefusedCommand {
                    id,
                    pair: None,
                    timestamp: Some(self.timestamp()),
                    refusal: Refusal::Malformed,
                    detail: "the price is no decimal".to_owned(),
                });
            }
            _ => {}
        }
        let partition = (self.random.u8(..100) == 0).then_some(PartitionId(7));
        let timestamp = self.timestamp();
        let body = self.body(timestamp);
        let pair = PAIRS[usize::from(self.random.u8(..10) == 0)];
        Incoming::Command(Command {
            id,
            pair,
            partition,
            timestamp,
            body,
        })
    }

    fn last(&mut self) -> Incoming {
        Incoming::Command(Command {
            id: CommandId::new("c-last").expect("letters"),
            pair: PAIRS[0],
            partition: None,
            timestamp: self.timestamp(),
            body: Body::Cancel {
                order: OrderId::new("o-none").expect("letters"),
            },
        })
    }

    fn timestamp(&mut self) -> Timestamp {
        match self.random.u8(..10) {
            0..5 => {}
            5..9 => self.now_ms += self.random.u64(1..4),
            _ => {
                let earlier = self
                    .now_ms
                    .saturating_sub(self.random.u64(1..5))
                    .max(START_MS);
                return Timestamp::new(earlier).expect("before the year 2100");
            }
        }
        Timestamp::new(self.now_ms).expect("before the year 2100")
    }

    fn body(&mut self, timestamp: Timestamp) -> Body {
        match self.random.u8(..100) {
            0..68 => Body::Place(self.order(timestamp)),
            68..82 => Body::Cancel {
                order: self.earlier(),
            },
            82..92 => self.amend(),
            _ => {
                let cancel = (0..self.random.usize(..3))
                    .map(|_| self.earlier())
                    .collect();
                let place = (0..self.random.usize(1..4))
                    .map(|_| self.order(timestamp))
                    .collect();
                Body::Replace { cancel, place }
            }
        }
    }

    fn amend(&mut self) -> Body {
        let order = self.earlier();
        let kind = self.random.u8(..3);
        let price = (kind != 0).then(|| self.price());
        let volume = (kind != 1).then(|| self.volume());
        Body::Amend {
            order,
            price,
            volume,
        }
    }

    fn order(&mut self, timestamp: Timestamp) -> NewOrder {
        let used_before = !self.placed.is_empty() && self.random.u8(..100) < 8;
        let id = if used_before {
            self.earlier()
        } else {
            self.orders += 1;
            let id = OrderId::new(&format!("o-{}", self.orders)).expect("letters and digits");
            self.placed.push(id.clone());
            id
        };
        let side = if self.random.bool() {
            Side::Ask
        } else {
            Side::Bid
        };
        let user = (self.random.u8(..10) > 0)
            .then(|| UserId::new(&format!("u-{}", self.random.u8(1..4))).expect("letters"));
        let kind = match self.random.u8(..20) {
            0 => OrderKind::Market,
            1 | 2 => self.limit(TimeInForce::ImmediateOrCancel),
            _ => self.limit(TimeInForce::GoodTillCancelled),
        };
        let mut decimals = DECIMALS;
        if self.random.u8(..50) == 0 {
            decimals.quote = 3;
        }
        NewOrder {
            id,
            user,
            side,
            kind,
            volume: self.volume(),
            decimals,
            timestamp,
        }
    }

    fn limit(&mut self, time_in_force: TimeInForce) -> OrderKind {
        OrderKind::Limit {
            price: self.price(),
            time_in_force,
        }
    }

    fn earlier(&mut self) -> OrderId {
        match self.placed.len() {
            0 => OrderId::new("o-none").expect("letters"),
            // Mostly a recent one, so that it often still rests.
            placed => {
                let back = self.random.usize(..placed).min(self.random.usize(..placed));
                self.placed[placed - 1 - back].clone()
            }
        }
    }

    fn price(&mut self) -> Decimal {
        Decimal::exact(u128::from(self.random.u64(96..=105)), 1)
    }

    fn volume(&mut self) -> Decimal {
        Decimal::exact(u128::from(self.random.u64(1..=30)), 1)
    }
}

fn command_id(number: usize) -> CommandId {
    CommandId::new(&format!("c-{}", number + 1)).expect("letters and digits")
}
