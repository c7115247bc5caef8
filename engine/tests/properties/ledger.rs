//! A consumer that knows what was asked for and the events, and nothing of a book.
//!
//! It keeps an account for every order that was let in. Nothing may be made or lost: what was
//! placed, and added by amends, is what was traded, what was given back and what is left. If what
//! is left agrees with the book after every command, the events tell everything.

use crate::support::Decided;
use conductor_engine::event::{CloseReason, OutcomeKind, RejectReason, Standing};
use conductor_engine::{Body, Book, Decimal, FastBook, Incoming, NewOrder, OrderId, Payload};
use rust_decimal::Decimal as Exact;
use std::collections::BTreeMap;

/// What an order was let in with, and where that went.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    placed: Exact,
    amended: Exact,
    traded: Exact,
    given_back: Exact,
    quote: Exact,
    volume: Exact,
    priority: u64,
}

impl Account {
    fn left(self) -> Exact {
        self.placed + self.amended - self.traded - self.given_back
    }
}

/// Every order's account.
#[derive(Default)]
pub(crate) struct Ledger {
    accounts: BTreeMap<OrderId, Account>,
    last_priority: u64,
    bought: Exact,
    sold: Exact,
}

impl Ledger {
    /// Follows one command.
    pub(crate) fn follow(&mut self, incoming: &Incoming, decided: &Decided) {
        let places = places(incoming);
        let outcomes = &decided.result.outcomes;
        let behind_cancels = outcomes.len().saturating_sub(places.len());
        for (order, outcome) in places.iter().zip(&outcomes[behind_cancels..]) {
            let let_in = match outcome.kind {
                OutcomeKind::DuplicateOrder => false,
                OutcomeKind::Rejected => {
                    outcome.reason == Some(RejectReason::InsufficientLiquidity)
                }
                _ => true,
            };
            if let_in {
                let account = Account {
                    placed: exact(&order.volume),
                    volume: exact(&order.volume),
                    ..Account::default()
                };
                let before = self.accounts.insert(order.id.clone(), account);
                assert!(before.is_none(), "{} is let in twice", order.id);
            }
        }
        for event in &decided.events {
            self.event(&event.payload);
        }
        assert_eq!(self.bought, self.sold, "the sides traded different volumes");
    }

    fn event(&mut self, payload: &Payload) {
        match payload {
            Payload::Deal(deal) => {
                assert_ne!(deal.maker, deal.taker, "an order traded with itself");
                let volume = exact(&deal.volume);
                let maker = self.leg(&deal.maker, volume, &deal.maker_remaining);
                let taker = self.leg(&deal.taker, volume, &deal.taker_remaining);
                self.bought += maker;
                self.sold += taker;
                for order in [&deal.maker, &deal.taker] {
                    self.account(order).quote += exact(&deal.quote_volume);
                }
            }
            Payload::Rested(standing) => {
                let left = self.account(&standing.order).left();
                assert_eq!(
                    left,
                    exact(&standing.remaining),
                    "it rests with something else"
                );
                self.priority(standing);
            }
            Payload::Amended(standing) => {
                let account = self.account(&standing.order);
                account.amended += exact(&standing.remaining) - account.left();
                account.volume = exact(&standing.remaining);
                self.priority(standing);
            }
            Payload::Closed(closed) => {
                let filled = closed.reason == CloseReason::Filled;
                self.give_back(&closed.order, &closed.remaining, filled);
            }
            Payload::OrderRejected(rejected) => {
                if rejected.reason == RejectReason::InsufficientLiquidity {
                    self.give_back(&rejected.order, &rejected.remaining, false);
                }
            }
            Payload::CommandRejected { .. } => {}
        }
    }

    /// One leg of a deal. Returns the volume that it moved.
    fn leg(&mut self, order: &OrderId, volume: Exact, remaining: &Decimal) -> Exact {
        let account = self.account(order);
        let (before, after) = (account.left(), exact(remaining));
        account.traded += volume;
        assert!(volume > Exact::ZERO, "{order} trades over nothing");
        assert!(after >= Exact::ZERO, "{order} has less than nothing left");
        assert_eq!(account.left(), after, "{order} moved by another volume");
        before - after
    }

    fn give_back(&mut self, order: &OrderId, remaining: &Decimal, filled: bool) {
        let account = self.account(order);
        let left = account.left();
        assert_eq!(left, exact(remaining), "{order} closes with something else");
        assert_eq!(
            left.is_zero(),
            filled,
            "{order} closes for the wrong reason"
        );
        account.given_back += left;
    }

    /// A priority is kept, or else above every one that was seen.
    fn priority(&mut self, standing: &Standing) {
        let last = self.last_priority;
        let account = self.account(&standing.order);
        if account.priority != standing.priority {
            assert!(
                standing.priority > last,
                "{} jumps the queue",
                standing.order
            );
            account.priority = standing.priority;
            self.last_priority = standing.priority;
        }
    }

    fn account(&mut self, order: &OrderId) -> &mut Account {
        let account = self.accounts.get_mut(order);
        account.unwrap_or_else(|| panic!("an event names {order}, which was never let in"))
    }

    /// Whether the book says of each order what its account says.
    pub(crate) fn check_against(&self, book: &FastBook) {
        for (order, account) in &self.accounts {
            let left = account.left();
            let Some(resting) = book.order(order) else {
                assert!(left.is_zero(), "{order} has {left} left and does not rest");
                continue;
            };
            let decimals = book.decimals(resting.pair).expect("its pair has decimals");
            let of = |quantity| exact(&Decimal::of_quantity(quantity, decimals));
            let quote = exact(&Decimal::of_quote(resting.quote_volume, decimals));
            assert_eq!(of(resting.remaining), left, "what {order} has left");
            assert_eq!(of(resting.volume), account.volume, "the volume of {order}");
            assert_eq!(quote, account.quote, "the quote volume of {order}");
        }
    }
}

/// The orders that a command asks to let in.
fn places(incoming: &Incoming) -> &[NewOrder] {
    match incoming {
        Incoming::Command(command) => match &command.body {
            Body::Place(order) => std::slice::from_ref(order),
            Body::Replace { place, .. } => place,
            Body::Cancel { .. } | Body::Amend { .. } => &[],
        },
        _ => &[],
    }
}

fn exact(decimal: &Decimal) -> Exact {
    let text = decimal.to_string();
    text.parse().expect("a number that the oracle can hold")
}
