//! The workload through the conductor's book and its trade, one thread, nothing else.
//!
//! This is [`Book`] and [`trade`] as the conductor runs them, with texts for ids, owners, undo and
//! decimals. What stands in the conductor between them and the store is not here: routing, repeated
//! ids, events and writes. The row beside it ([`super::whole`]) has them.

use super::report::Report;
use super::workload::{Kind, Message};
use conductor_engine::book::RestingOrder;
use conductor_engine::matching::{Fill, Fills, Taker, TradeStop, trade};
use conductor_engine::units::{Price, Quantity, QuoteAmount};
use conductor_engine::{Book, PairDecimals, PairId, Timestamp};

pub(crate) const PAIR: PairId = PairId(1);
/// The workload's numbers are whole.
pub(crate) const WHOLE: PairDecimals = PairDecimals {
    price: 0,
    amount: 0,
    quote: 0,
};

/// The trades of one message.
struct Trades<'a> {
    sequence: u32,
    reports: &'a mut Vec<Report>,
}

impl Fills for Trades<'_> {
    #[inline]
    fn fill(&mut self, maker: &RestingOrder, taker: &Taker, fill: &Fill) {
        self.reports.push(Report::Trade {
            sequence: self.sequence,
            price: maker.price,
            volume: fill.volume,
            maker: maker.id.clone(),
            taker: taker.id.clone(),
        });
    }
}

/// Runs all messages; gives the reports in their order.
pub(crate) fn run<B: Book>(
    book: &mut B,
    messages: &[Message],
    time: Timestamp,
    reports: &mut Vec<Report>,
) -> Result<(), TradeStop> {
    book.begin();
    book.fix_decimals(PAIR, WHOLE);
    book.keep();
    let mut priority = 0;
    for (message, sequence) in messages.iter().zip(0_u32..) {
        book.begin();
        match message.kind {
            Kind::Cancel => cancel(book, message, sequence, reports),
            Kind::New | Kind::Immediate => {
                priority += 1;
                reports.push(Report::Accepted { sequence });
                place(book, message, (sequence, priority, time), reports)?;
            }
            Kind::Modify if book.remove(PAIR, &message.id).is_some() => {
                priority += 1;
                place(book, message, (sequence, priority, time), reports)?;
                reports.push(Report::Modified { sequence });
            }
            Kind::Modify => reports.push(Report::ModifyRefused { sequence }),
        }
        book.keep();
    }
    Ok(())
}

#[inline]
fn cancel<B: Book>(book: &mut B, message: &Message, sequence: u32, reports: &mut Vec<Report>) {
    reports.push(match book.remove(PAIR, &message.id) {
        Some(order) => Report::Cancelled {
            sequence,
            side: order.side,
            price: order.price,
            id: order.id.clone(),
        },
        None => Report::CancelRefused { sequence },
    });
}

#[inline]
fn place<B: Book>(
    book: &mut B,
    message: &Message,
    (sequence, priority, timestamp): (u32, u64, Timestamp),
    reports: &mut Vec<Report>,
) -> Result<(), TradeStop> {
    let mut taker = Taker {
        id: message.id.clone(),
        user: Some(message.user.clone()),
        side: message.side,
        limit: message.price,
        volume: message.volume,
        remaining: message.volume,
        quote_volume: QuoteAmount::default(),
        priority,
        timestamp,
        decimals: WHOLE,
    };
    trade(book, PAIR, &mut taker, &mut Trades { sequence, reports })?;
    match message.price {
        Some(price) if taker.remaining > Quantity::ZERO => {
            rest(book, message.kind, taker, (sequence, price), reports)
        }
        _ => Ok(()),
    }
}

#[inline]
fn rest<B: Book>(
    book: &mut B,
    kind: Kind,
    taker: Taker,
    (sequence, price): (u32, Price),
    reports: &mut Vec<Report>,
) -> Result<(), TradeStop> {
    if kind == Kind::Immediate {
        reports.push(Report::Cancelled {
            sequence,
            side: taker.side,
            price,
            id: taker.id,
        });
        return Ok(());
    }
    book.insert(taker.resting(PAIR, price))
        .map_err(TradeStop::Broken)
}
