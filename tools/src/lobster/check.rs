//! Holding an imported trace against the recording that it came from.
//!
//! The trace is decided by the engine in memory. After each message the best bid and the best ask
//! are compared with the book file's row, and every visible execution with the deals that came of
//! it. A difference is listed once for as long as it stays the same, with its cause.

use super::convert::{Imported, Origin};
use super::read::{Kind, Message, Recording};
use crate::replay::{Halt, Replay};
use conductor_engine::event::{Deal, Event, Payload};
use conductor_engine::{Book, Decimal, PairDecimals, PairId, Price, Side};
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// Of a thousand rows, how many must agree in the best prices: 950 of the sample's 999.
const AGREE_PERMILLE_MIN: usize = 950;

/// How a replay and the book file agree.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agreement {
    /// Rows of the book file.
    pub rows: usize,
    /// Rows whose best bid and best ask are the replay's.
    pub agreeing: usize,
    /// Rows whose best sizes are the replay's, too.
    pub agreeing_in_size: usize,
    /// Rows that must agree at least.
    pub agreeing_min: usize,
    /// The differences in price, by cause and in order.
    pub disagreements: Vec<Disagreement>,
    /// Visible executions whose resting order the file itself places.
    pub executions_told: usize,
    /// Those of them that are one deal with exactly that order, price and size.
    pub executions_told_exact: usize,
    /// Visible executions of an order that the file does not place.
    pub executions_untold: usize,
    /// Those of them that are one deal with exactly that order, price and size.
    pub executions_untold_exact: usize,
    /// Executions that came out otherwise.
    pub executions_different: Vec<Execution>,
}

/// A difference in one side's best price, for as long as it stays the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disagreement {
    /// Why, as far as the files tell.
    pub cause: &'static str,
    /// `ask` or `bid`.
    pub side: &'static str,
    /// The first row, from one.
    pub first_row: usize,
    /// The last row.
    pub last_row: usize,
    /// The best price in the book file; null if the side is empty.
    pub file: Option<String>,
    /// The best price in the replay; null if the side is empty.
    pub replay: Option<String>,
}

/// An execution that came out otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Execution {
    /// The message's line, from one.
    pub line: usize,
    /// The resting order that the file names.
    pub order: String,
    /// What the file says: size and price.
    pub file: String,
    /// The deals of the replay: resting order, size and price.
    pub replay: String,
}

impl Agreement {
    /// Whether enough rows agree, and every execution whose resting order the file places.
    pub const fn holds(&self) -> bool {
        self.agreeing >= self.agreeing_min && self.executions_told == self.executions_told_exact
    }
}

/// Replays an imported trace on one book and compares.
///
/// # Errors
/// [`Halt`] when the engine finds an invariant broken.
pub fn check<B: Book + Default>(
    recording: &Recording,
    imported: &Imported,
) -> Result<Agreement, Halt> {
    let mut comparison = Comparison::new(recording);
    let mut replay = Replay::<B>::new(1);
    let mut commands = imported.commands.iter().peekable();
    let Some(pair) = commands.peek().map(|first| first.command.pair) else {
        return Ok(comparison.agreement);
    };
    let partition = pair.partition(1);
    for (at, message) in recording.messages.iter().enumerate() {
        let due = |origin: Origin| match origin {
            Origin::Before => true,
            Origin::Unseen(place) | Origin::Message(place) => place <= at,
        };
        while let Some(next) = commands.next_if(|next| due(next.origin)) {
            let incoming = conductor_engine::Incoming::Command(next.command.clone());
            let decided = replay.feed(partition, &incoming)?;
            if next.origin == Origin::Message(at) && message.kind == Kind::Execute {
                comparison.execution(at, message, decided.events);
            }
        }
        if message.kind == Kind::Place {
            comparison.told.insert(message.order.as_str());
        }
        comparison.row(at, replay.book(partition), pair);
    }
    Ok(comparison.agreement)
}

struct Comparison<'a> {
    recording: &'a Recording,
    told: HashSet<&'a str>,
    agreement: Agreement,
}

impl<'a> Comparison<'a> {
    fn new(recording: &'a Recording) -> Self {
        let rows = recording.rows.len();
        Self {
            recording,
            told: HashSet::new(),
            agreement: Agreement {
                rows,
                agreeing_min: (rows * AGREE_PERMILLE_MIN).div_ceil(1_000),
                ..Agreement::default()
            },
        }
    }

    fn row<B: Book>(&mut self, at: usize, book: &B, pair: PairId) {
        let mut same = (true, true);
        for side in [Side::Ask, Side::Bid] {
            let file = self.recording.rows[at].best(side);
            let levels = book.levels(pair, side, 1);
            let ours = levels.first().map(|level| (level.price, level.lots));
            let (file_price, our_price) = (file.map(|best| best.0), ours.map(|best| best.0));
            if file_price != our_price {
                same = (false, false);
                self.disagree(at, side, file_price, our_price);
            } else if file.map(|best| u128::from(best.1)) != ours.map(|best| best.1) {
                same.1 = false;
            }
        }
        self.agreement.agreeing += usize::from(same.0);
        self.agreement.agreeing_in_size += usize::from(same.1);
    }

    fn disagree(&mut self, at: usize, side: Side, file: Option<Price>, ours: Option<Price>) {
        let found = Disagreement {
            cause: cause(side, file, ours),
            side: side.name(),
            first_row: at + 1,
            last_row: at + 1,
            file: file.map(shown),
            replay: ours.map(shown),
        };
        let goes_on = self.agreement.disagreements.iter_mut().rev().find(|last| {
            last.last_row == at
                && last.side == found.side
                && (&last.file, &last.replay) == (&found.file, &found.replay)
        });
        match goes_on {
            Some(last) => last.last_row = at + 1,
            None => self.agreement.disagreements.push(found),
        }
    }

    fn execution(&mut self, at: usize, message: &Message, events: &[Arc<Event>]) {
        let deals: Vec<&Deal> = events
            .iter()
            .filter_map(|event| match &event.payload {
                Payload::Deal(deal) => Some(deal),
                _ => None,
            })
            .collect();
        let size = Decimal::exact(u128::from(message.size), 0);
        let price = message.price.map(shown).unwrap_or_default();
        let exact = matches!(deals.as_slice(), [deal] if deal.maker == message.order
            && deal.price.to_string() == price
            && deal.volume.to_string() == size.to_string());
        let agreement = &mut self.agreement;
        if self.told.contains(message.order.as_str()) {
            agreement.executions_told += 1;
            agreement.executions_told_exact += usize::from(exact);
        } else {
            agreement.executions_untold += 1;
            agreement.executions_untold_exact += usize::from(exact);
        }
        if !exact {
            let told = |deal: &&Deal| format!("{} {} at {}", deal.maker, deal.volume, deal.price);
            let replay: Vec<String> = deals.iter().map(told).collect();
            agreement.executions_different.push(Execution {
                line: at + 1,
                order: message.order.to_string(),
                file: format!("{size} at {price}"),
                replay: if replay.is_empty() {
                    "no deal".to_owned()
                } else {
                    replay.join(", ")
                },
            });
        }
    }
}

/// Why two best prices differ, as far as the files tell.
fn cause(side: Side, file: Option<Price>, ours: Option<Price>) -> &'static str {
    let file_is_better = match (file, ours) {
        (Some(_), None) => true,
        (None, _) => false,
        (Some(file), Some(ours)) => match side {
            Side::Ask => file < ours,
            Side::Bid => file > ours,
        },
    };
    if file_is_better {
        "an order that no message places or touches is best in the book file"
    } else {
        "the book file no longer shows an order that no message takes away"
    }
}

fn shown(price: Price) -> String {
    let decimals = PairDecimals {
        price: 4,
        amount: 0,
        quote: 4,
    };
    Decimal::of_price(price, decimals).to_string()
}
