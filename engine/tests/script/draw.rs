//! From what happened to lines.
//!
//! Every field of an event that is its own is shown. What it shares with its command (pair, time,
//! command id and place among its events) is checked for all tests at once and not repeated here.

use crate::support::{Decided, SIDES};
use conductor_engine::event::{Closed, CommandResult, Deal, OrderRejected, Outcome, Standing};
use conductor_engine::limits::PRIORITY_PER_MILLISECOND;
use conductor_engine::units::{PairDecimals, Quantity};
use conductor_engine::{Book, Decimal, Event, PairId, Payload, Price, Side, UserId};
use std::collections::BTreeSet;

/// A command's result on one line, then its events, one a line.
pub(crate) fn draw_decided(decided: &Decided) -> Vec<String> {
    let mut lines = vec![result_line(&decided.result)];
    lines.extend(decided.events.iter().map(|event| event_line(event)));
    lines
}

fn result_line(result: &CommandResult) -> String {
    let reason = result.reason.map(|reason| format!(" ({})", reason.code()));
    let events = match result.sequences {
        None => "no event".to_owned(),
        Some((first, last)) if first == last => format!("event {first}"),
        Some((first, last)) => format!("events {first} to {last}"),
    };
    let outcomes: Vec<String> = result.outcomes.iter().map(outcome_text).collect();
    let outcomes = match outcomes.as_slice() {
        [] => String::new(),
        some => format!(": {}", some.join("; ")),
    };
    let (command, status) = (&result.command, result.status.code());
    let reason = reason.unwrap_or_default();
    format!("{command} {status}{reason}, {events}{outcomes}")
}

fn outcome_text(outcome: &Outcome) -> String {
    let mut text = format!("{} {}", outcome.order, outcome.kind.code());
    if let Some(reason) = outcome.reason {
        text.push_str(&format!(" ({})", reason.code()));
    }
    if let Some(remaining) = &outcome.remaining {
        text.push_str(&format!(", {remaining} left"));
    }
    text
}

fn event_line(event: &Event) -> String {
    let kind = event.payload.kind().trim_end_matches(".v1");
    let text = match &event.payload {
        Payload::Deal(deal) => deal_text(deal),
        Payload::Rested(standing) | Payload::Amended(standing) => standing_text(standing),
        Payload::Closed(closed) => closed_text(closed),
        Payload::OrderRejected(rejected) => rejected_text(rejected),
        Payload::CommandRejected { refusal, detail } => {
            let detail = detail.as_deref().unwrap_or("no detail");
            format!("{}: {detail}", refusal.code())
        }
    };
    let unreadable = match (event.pair, event.timestamp) {
        (Some(_), Some(_)) => "",
        _ => " [pair and time unreadable]",
    };
    format!("{:>4} {kind:<16} {text}{unreadable}", event.sequence)
}

fn deal_text(deal: &Deal) -> String {
    let verb = match deal.taker_side {
        Side::Bid => "buys from",
        Side::Ask => "sells to",
    };
    format!(
        "{} ({}) {verb} {} ({}): {} @ {} = {}; taker has {} left, maker {}",
        deal.taker,
        name(deal.taker_user.as_ref()),
        deal.maker,
        name(deal.maker_user.as_ref()),
        deal.volume,
        deal.price,
        deal.quote_volume,
        deal.taker_remaining,
        deal.maker_remaining,
    )
}

fn standing_text(standing: &Standing) -> String {
    format!(
        "{} ({}) {} {} @ {}, priority {}.{:03}",
        standing.order,
        name(standing.user.as_ref()),
        standing.side.name(),
        standing.remaining,
        standing.price,
        standing.priority / PRIORITY_PER_MILLISECOND,
        standing.priority % PRIORITY_PER_MILLISECOND,
    )
}

fn closed_text(closed: &Closed) -> String {
    format!(
        "{} ({}) {} {}, {} left",
        closed.order,
        name(closed.user.as_ref()),
        closed.side.name(),
        closed.reason.code(),
        closed.remaining,
    )
}

fn rejected_text(rejected: &OrderRejected) -> String {
    format!(
        "{} ({}) {} {}, {} left",
        rejected.order,
        name(rejected.user.as_ref()),
        rejected.side.name(),
        rejected.reason.code(),
        rejected.remaining,
    )
}

fn name(user: Option<&UserId>) -> &str {
    user.map_or("house", UserId::as_str)
}

/// One price of the ladder.
struct Rung {
    bids: String,
    bid_total: String,
    price: String,
    ask_total: String,
    asks: String,
}

/// A pair's book as a ladder: highest price on top, oldest order of a price first.
pub(crate) fn draw_book<B: Book>(book: &B, pair: PairId) -> Vec<String> {
    let Some(decimals) = book.decimals(pair) else {
        return Vec::new();
    };
    let ladder = rungs(book, pair, decimals);
    if ladder.is_empty() {
        return vec![format!("book of pair {pair}: empty")];
    }
    let head = Rung {
        bids: "bids".to_owned(),
        bid_total: "total".to_owned(),
        price: "price".to_owned(),
        ask_total: "total".to_owned(),
        asks: "asks".to_owned(),
    };
    let ladder: Vec<Rung> = std::iter::once(head).chain(ladder).collect();
    let width = |cell: fn(&Rung) -> &String| {
        let widths = ladder.iter().map(|rung| cell(rung).len());
        widths.max().unwrap_or_default()
    };
    let bids = width(|rung| &rung.bids);
    let total = width(|rung| &rung.bid_total).max(width(|rung| &rung.ask_total));
    let price = width(|rung| &rung.price);
    let lines = ladder.iter().map(|rung| {
        let line = format!(
            "  {:>bids$}  {:>total$} | {:>price$} | {:<total$}  {}",
            rung.bids, rung.bid_total, rung.price, rung.ask_total, rung.asks
        );
        line.trim_end().to_owned()
    });
    let title = std::iter::once(format!("book of pair {pair}:"));
    title.chain(lines).collect()
}

fn rungs<B: Book>(book: &B, pair: PairId, decimals: PairDecimals) -> Vec<Rung> {
    let levels = SIDES.map(|side| book.levels(pair, side, usize::MAX));
    let prices = levels.iter().flatten().map(|level| level.price);
    let prices: BTreeSet<Price> = prices.collect();
    let rungs = prices.into_iter().rev().map(|price| {
        let [(ask_total, asks), (bid_total, bids)] =
            SIDES.map(|side| level_text(book, pair, side, price, decimals));
        Rung {
            bids,
            bid_total,
            price: Decimal::of_price(price, decimals).to_string(),
            ask_total,
            asks,
        }
    });
    rungs.collect()
}

/// A level's total, and its orders from the oldest on.
fn level_text<B: Book>(
    book: &B,
    pair: PairId,
    side: Side,
    price: Price,
    decimals: PairDecimals,
) -> (String, String) {
    let levels = book.levels(pair, side, usize::MAX);
    let level = levels.iter().find(|level| level.price == price);
    let total = level.map(|level| Decimal::exact(level.lots, decimals.amount).to_string());
    let orders = book.orders(pair, side);
    let orders = orders.iter().filter(|order| order.price == price);
    let text = |id, left: Quantity| format!("{id}:{}", Decimal::of_quantity(left, decimals));
    let orders: Vec<String> = orders
        .map(|order| text(&order.id, order.remaining))
        .collect();
    (total.unwrap_or_default(), orders.join(" "))
}
