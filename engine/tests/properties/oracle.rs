//! The rules a third time, as a person would follow them with a pencil: decimal numbers and one
//! list of orders in the order in which they came to rest. It knows no ticks, no levels, and gives
//! priorities without ever sorting by them. What it expects is spelled as lines of text.

use crate::spell::{outcome_line, spell_decided};
use crate::support::Decided;
use conductor_engine::event::{OutcomeKind, Reason, RejectReason, Status};
use conductor_engine::ids::{OrderId, PairId, Timestamp, UserId};
use conductor_engine::matching::Cell;
use conductor_engine::{
    Body, Command, Decimal, Incoming, NewOrder, OrderKind, PairDecimals, Refusal, Side, TimeInForce,
};
use rust_decimal::{Decimal as Exact, RoundingStrategy};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Order {
    id: OrderId,
    user: Option<UserId>,
    pair: PairId,
    side: Side,
    limit: Option<Exact>,
    remaining: Exact,
    priority: u64,
}

/// What a partition holds.
#[derive(Clone)]
struct State {
    resting: Vec<Order>,
    used: BTreeSet<OrderId>,
    decimals: BTreeMap<PairId, PairDecimals>,
    priority: u64,
}

/// Decides every command by itself and compares.
pub(crate) struct Oracle {
    cell: Cell,
    state: State,
}

/// What a command should come to.
#[derive(Default)]
struct Expected {
    events: Vec<String>,
    outcomes: Vec<String>,
}

impl Oracle {
    /// An empty partition.
    pub(crate) fn new(cell: Cell) -> Self {
        let state = State {
            resting: Vec::new(),
            used: BTreeSet::new(),
            decimals: BTreeMap::new(),
            priority: 0,
        };
        Self { cell, state }
    }

    /// Decides the same command and insists on the same events, outcomes and status.
    pub(crate) fn check(&mut self, incoming: &Incoming, decided: &Decided) {
        let (events, outcomes) = spell_decided(decided);
        let status = decided.result.status;
        let refused = match self.decide(incoming) {
            Err(refusal) => refusal,
            Ok(expected) => {
                assert_eq!(events, expected.events, "other events, by {incoming:?}");
                assert_eq!(
                    outcomes, expected.outcomes,
                    "other outcomes, by {incoming:?}"
                );
                assert_eq!(status, status_of(&expected.events), "by {incoming:?}");
                return;
            }
        };
        let reason = decided.result.reason;
        assert_eq!(reason, Some(Reason::Command(refused)), "by {incoming:?}");
        assert_eq!(events, [format!("refused {}", refused.code())]);
        assert_eq!((status, outcomes.len()), (Status::Rejected, 0));
    }

    fn decide(&mut self, incoming: &Incoming) -> Result<Expected, Refusal> {
        let Incoming::Command(command) = incoming else {
            return Err(Refusal::Malformed);
        };
        let owner = command.pair.partition(self.cell.partition_count);
        let declared = command.partition.unwrap_or(owner);
        if owner != self.cell.partition || declared != owner {
            return Err(Refusal::WrongPartition);
        }
        let mut state = self.state.clone();
        let mut expected = Expected::default();
        match &command.body {
            Body::Place(order) => state.place(&self.cell, command.pair, order, &mut expected)?,
            Body::Cancel { order } => state.cancel(command.pair, order, &mut expected),
            Body::Amend {
                order,
                price,
                volume,
            } => {
                let (price, volume) = (price.as_ref(), volume.as_ref());
                state.amend(command, order, price, volume, &mut expected)?;
            }
            Body::Replace { cancel, place } => {
                if cancel.len() + place.len() > 500 {
                    return Err(Refusal::BatchTooLarge);
                }
                for order in cancel {
                    state.cancel(command.pair, order, &mut expected);
                }
                for order in place {
                    state.place(&self.cell, command.pair, order, &mut expected)?;
                }
            }
        }
        self.state = state;
        Ok(expected)
    }
}

impl State {
    fn place(
        &mut self,
        cell: &Cell,
        pair: PairId,
        order: &NewOrder,
        expected: &mut Expected,
    ) -> Result<(), Refusal> {
        if self.used.contains(&order.id) {
            expected.outcome(&order.id, OutcomeKind::DuplicateOrder, None, None);
            return Ok(());
        }
        let configured = cell.pairs.get(&pair).copied();
        let fixed = self.decimals.get(&pair).copied().or(configured);
        if let Some(reason) = unacceptable(order, fixed) {
            expected.rejected(&order.id, reason, &order.volume.to_string());
            return Ok(());
        }
        self.decimals.insert(pair, order.decimals);
        self.used.insert(order.id.clone());
        let limit = match &order.kind {
            OrderKind::Limit { price, .. } => Some(exact(price)),
            OrderKind::Market => None,
        };
        let mut taker = Order {
            id: order.id.clone(),
            user: order.user.clone(),
            pair,
            side: order.side,
            limit,
            remaining: exact(&order.volume),
            priority: self.next_priority(order.timestamp),
        };
        self.trade(&mut taker, expected)?;
        let immediate = TimeInForce::ImmediateOrCancel;
        match &order.kind {
            _ if taker.remaining.is_zero() => expected.filled(&taker.id),
            OrderKind::Market => {
                let left = text(taker.remaining);
                expected.rejected(&taker.id, RejectReason::InsufficientLiquidity, &left);
            }
            OrderKind::Limit { time_in_force, .. } if *time_in_force == immediate => {
                let left = text(taker.remaining);
                expected.event(format!("closed {} ioc-remainder {left}", taker.id));
                expected.outcome(&taker.id, OutcomeKind::IocRemainder, Some(&left), None);
            }
            OrderKind::Limit { .. } => self.rest(taker, expected),
        }
        Ok(())
    }

    fn cancel(&mut self, pair: PairId, id: &OrderId, expected: &mut Expected) {
        let Some(place) = self.place_of(pair, id) else {
            return self.not_resting(id, expected);
        };
        let left = text(self.resting.remove(place).remaining);
        expected.event(format!("closed {id} cancelled {left}"));
        expected.outcome(id, OutcomeKind::Cancelled, Some(&left), None);
    }

    fn amend(
        &mut self,
        command: &Command,
        id: &OrderId,
        price: Option<&Decimal>,
        volume: Option<&Decimal>,
        expected: &mut Expected,
    ) -> Result<(), Refusal> {
        let Some(place) = self.place_of(command.pair, id) else {
            self.not_resting(id, expected);
            return Ok(());
        };
        let decimals = self.decimals[&command.pair];
        let price_fits = price.is_none_or(|price| fits(price, decimals.price, 15).is_ok());
        let volume_fits = volume.is_none_or(|volume| fits(volume, decimals.amount, 18).is_ok());
        if !(price_fits && volume_fits) {
            return Err(Refusal::Malformed);
        }
        let before = &self.resting[place];
        let mut order = before.clone();
        order.limit = price.map(exact).or(order.limit);
        order.remaining = volume.map_or(order.remaining, exact);
        let same_price = order.limit == before.limit;
        if same_price && order.remaining == before.remaining {
            let left = text(order.remaining);
            expected.outcome(id, OutcomeKind::Rested, Some(&left), None);
        } else if same_price && order.remaining < before.remaining {
            expected.standing("amended", &order);
            let left = text(order.remaining);
            expected.outcome(id, OutcomeKind::Amended, Some(&left), None);
            self.resting[place] = order;
        } else {
            self.resting.remove(place);
            order.priority = self.next_priority(command.timestamp);
            expected.standing("amended", &order);
            self.trade(&mut order, expected)?;
            if order.remaining.is_zero() {
                expected.filled(id);
            } else {
                self.rest(order, expected);
            }
        }
        Ok(())
    }

    /// Best price first; at one price whoever came to rest first.
    fn trade(&mut self, taker: &mut Order, expected: &mut Expected) -> Result<(), Refusal> {
        while !taker.remaining.is_zero() {
            let Some(place) = self.best_against(taker) else {
                break;
            };
            let maker = &mut self.resting[place];
            if maker.user.is_none() && taker.user.is_none() {
                return Err(Refusal::BotAgainstBot);
            }
            let volume = maker.remaining.min(taker.remaining);
            maker.remaining -= volume;
            taker.remaining -= volume;
            let price = maker.limit.expect("what rests has a price");
            let quote = rounded(volume * price, self.decimals[&maker.pair].quote, maker.side);
            expected.event(format!(
                "deal {} {} {:?} {:?} {} {} {} {} {} {}",
                maker.id,
                taker.id,
                maker.user,
                taker.user,
                taker.side.name(),
                text(price),
                text(volume),
                text(quote),
                text(maker.remaining),
                text(taker.remaining),
            ));
            if maker.remaining.is_zero() {
                expected.event(format!("closed {} filled 0", maker.id));
                self.resting.remove(place);
            }
        }
        Ok(())
    }

    fn best_against(&self, taker: &Order) -> Option<usize> {
        let mut best: Option<usize> = None;
        for (place, maker) in self.resting.iter().enumerate() {
            let in_reach = match (taker.limit, taker.side) {
                (None, _) => true,
                (limit, Side::Bid) => maker.limit <= limit,
                (limit, Side::Ask) => maker.limit >= limit,
            };
            if maker.pair != taker.pair || maker.side == taker.side || !in_reach {
                continue;
            }
            let better = best.is_none_or(|best| match maker.side {
                Side::Ask => maker.limit < self.resting[best].limit,
                Side::Bid => maker.limit > self.resting[best].limit,
            });
            best = if better { Some(place) } else { best };
        }
        best
    }

    fn rest(&mut self, order: Order, expected: &mut Expected) {
        expected.standing("rested", &order);
        let left = text(order.remaining);
        expected.outcome(&order.id, OutcomeKind::Rested, Some(&left), None);
        self.resting.push(order);
    }

    fn not_resting(&self, id: &OrderId, expected: &mut Expected) {
        let rests = self.resting.iter().any(|order| order.id == *id);
        let kind = match self.used.contains(id) && !rests {
            true => OutcomeKind::AlreadyClosed,
            false => OutcomeKind::UnknownOrder,
        };
        expected.outcome(id, kind, None, None);
    }

    fn place_of(&self, pair: PairId, id: &OrderId) -> Option<usize> {
        let here = |order: &Order| order.pair == pair && order.id == *id;
        self.resting.iter().position(here)
    }

    fn next_priority(&mut self, timestamp: Timestamp) -> u64 {
        let by_time = timestamp.milliseconds() * 1_000;
        self.priority = by_time.max(self.priority + 1);
        self.priority
    }
}

impl Expected {
    fn event(&mut self, line: String) {
        self.events.push(line);
    }

    fn standing(&mut self, what: &str, order: &Order) {
        let (left, priority) = (text(order.remaining), order.priority);
        let price = text(order.limit.expect("what rests has a price"));
        let side = order.side.name();
        let (id, user) = (&order.id, &order.user);
        self.event(format!(
            "{what} {id} {user:?} {side} {price} {left} {priority}"
        ));
    }

    fn filled(&mut self, id: &OrderId) {
        self.event(format!("closed {id} filled 0"));
        self.outcome(id, OutcomeKind::Filled, Some("0"), None);
    }

    fn rejected(&mut self, id: &OrderId, reason: RejectReason, left: &str) {
        self.event(format!("rejected {id} {} {left}", reason.code()));
        self.outcome(id, OutcomeKind::Rejected, Some(left), Some(reason));
    }

    fn outcome(
        &mut self,
        id: &OrderId,
        kind: OutcomeKind,
        left: Option<&str>,
        reason: Option<RejectReason>,
    ) {
        self.outcomes.push(outcome_line(id, kind, left, reason));
    }
}

/// The first reason why an order may not be let in.
fn unacceptable(order: &NewOrder, fixed: Option<PairDecimals>) -> Option<RejectReason> {
    if fixed.is_some_and(|fixed| fixed != order.decimals) {
        return Some(RejectReason::DecimalsMismatch);
    }
    let price = match &order.kind {
        OrderKind::Limit { price, .. } => fits(price, order.decimals.price, 15),
        OrderKind::Market => Ok(()),
    };
    match (price, fits(&order.volume, order.decimals.amount, 18)) {
        (Err(Unfit::Fine), _) => Some(RejectReason::PricePrecision),
        (_, Err(Unfit::Fine)) => Some(RejectReason::VolumePrecision),
        (Err(Unfit::Large), _) => Some(RejectReason::PriceOutOfRange),
        (_, Err(Unfit::Large)) => Some(RejectReason::VolumeOutOfRange),
        (Ok(()), Ok(())) => None,
    }
}

#[derive(Clone, Copy)]
enum Unfit {
    Fine,
    Large,
}

/// Counts digits: those behind the point as written, and those of the whole number of steps.
fn fits(number: &Decimal, decimals: u8, digits_max: usize) -> Result<(), Unfit> {
    let (digits, written) = match number {
        Decimal::Exact { mantissa, scale } => (mantissa.to_string().len(), *scale as usize),
        Decimal::Oversized(text) => {
            let fraction = text
                .split_once('.')
                .map_or(0, |(_, fraction)| fraction.len());
            (usize::MAX / 2, fraction)
        }
    };
    let Some(missing) = usize::from(decimals).checked_sub(written) else {
        return Err(Unfit::Fine);
    };
    match digits + missing <= digits_max {
        true => Ok(()),
        false => Err(Unfit::Large),
    }
}

/// Up for a selling maker, down for a buying one.
fn rounded(product: Exact, decimals: u8, maker: Side) -> Exact {
    let strategy = match maker {
        Side::Ask => RoundingStrategy::AwayFromZero,
        Side::Bid => RoundingStrategy::ToZero,
    };
    product.round_dp_with_strategy(decimals.into(), strategy)
}

/// Accepted when something happened, rejected when something was only rejected.
fn status_of(events: &[String]) -> Status {
    let rejected = |line: &String| line.starts_with("rejected ");
    if events.iter().any(|line| !rejected(line)) {
        Status::Accepted
    } else if events.iter().any(rejected) {
        Status::Rejected
    } else {
        Status::Unchanged
    }
}

fn exact(decimal: &Decimal) -> Exact {
    let text = decimal.to_string();
    text.parse().expect("a number that the oracle can hold")
}

fn text(number: Exact) -> String {
    number.normalize().to_string()
}
