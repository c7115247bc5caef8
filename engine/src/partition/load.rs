//! Rebuilding the book from the store.
//!
//! Members arrive side by side, best first. A member without a usable record, or with a record of
//! another side or pair, is skipped and told; one orphan does not wedge a market. A member in an
//! older form is placed by its record's timestamp, behind none that was there before it, and its
//! rewriting is staged. What cannot be true is kept as the first [`Violation`] and judged by the
//! caller, once it knows that nobody else was writing.

use super::HaltRecord;
use crate::book::{Book, FastBook, RestingOrder};
use crate::command::Side;
use crate::ids::PairId;
use crate::limits::PRIORITY_PER_MILLISECOND;
use crate::matching::{Cell, audit};
use crate::staging::{Cursor, Write};
use crate::units::PairDecimals;
use crate::violation::Violation;
use hashbrown::HashSet;
use std::sync::Arc;

/// Members of one side of a pair, in the order of the book.
#[derive(Clone, Debug)]
pub struct LoadedPage {
    /// The pair.
    pub pair: PairId,
    /// Its decimals, where the store has them.
    pub decimals: Option<PairDecimals>,
    /// The side.
    pub side: Side,
    /// The members.
    pub members: Vec<LoadedMember>,
}

/// One member of a price index, with its record.
#[derive(Clone, Debug)]
pub struct LoadedMember {
    /// The member as it stands in the index.
    pub member: String,
    /// The priority that its digits spell, if it has any; not inverted.
    pub priority: Option<u64>,
    /// What its record says.
    pub record: Record,
}

/// What a record says.
#[derive(Clone, Debug)]
pub enum Record {
    /// There is none.
    Missing,
    /// It is another order's.
    Foreign,
    /// It is there and is no order.
    Unreadable(String),
    /// An order.
    Order(Box<StoredOrder>),
}

/// An order's record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOrder {
    /// The order as it rests; its place in time counts only where `priority` is given.
    pub order: RestingOrder,
    /// The decimals it was written for.
    pub decimals: PairDecimals,
    /// Its place in time; records from before our encoding have none.
    pub priority: Option<u64>,
}

/// A book while it is being read.
#[derive(Debug)]
pub(super) struct Loader {
    cell: Cell,
    book: FastBook,
    older: Vec<(RestingOrder, String, PairDecimals)>,
    rewrites: Vec<Write>,
    skipped: Vec<String>,
    violation: Option<Violation>,
    /// A setting that contradicts the store; nobody's bug, and no reason to halt the market.
    misconfigured: Option<String>,
}

/// A book that was read and is not judged yet.
#[derive(Debug)]
pub(super) struct Loaded {
    loader: Loader,
    cursor: Cursor,
    remembered: bool,
    halted: Option<HaltRecord>,
    /// The audit was passed, and the book is as it was then.
    audited: bool,
}

impl Loader {
    pub(super) fn new(cell: Cell, seed: u64) -> Self {
        Self {
            cell,
            book: FastBook::with_seed(seed),
            older: Vec::new(),
            rewrites: Vec::new(),
            skipped: Vec::new(),
            violation: None,
            misconfigured: None,
        }
    }

    pub(super) fn page(&mut self, page: LoadedPage) {
        self.book.begin();
        if let Some(decimals) = page.decimals
            && self.book.decimals(page.pair).is_none()
        {
            self.fix_decimals(page.pair, decimals);
        }
        for member in page.members {
            if let Err(violation) = self.member(page.pair, page.side, member) {
                self.violation.get_or_insert(violation);
            }
        }
        self.book.keep();
    }

    /// A record that cannot be what it must be.
    pub(super) fn unreadable(&mut self, what: String, detail: String) {
        let violation = Violation::UnreadableStore { what, detail };
        self.violation.get_or_insert(violation);
    }

    fn fix_decimals(&mut self, pair: PairId, decimals: PairDecimals) {
        self.book.fix_decimals(pair, decimals);
        let Some(configured) = self.cell.pairs.get(&pair).filter(|it| **it != decimals) else {
            return;
        };
        self.misconfigured.get_or_insert_with(|| {
            format!(
                "[[pair]] {pair} is configured with price, amount and quote decimals {}, {}, {}, but \
                 its book was opened with {}, {}, {}; correct the configuration",
                configured.price,
                configured.amount,
                configured.quote,
                decimals.price,
                decimals.amount,
                decimals.quote
            )
        });
    }

    fn member(&mut self, pair: PairId, side: Side, found: LoadedMember) -> Result<(), Violation> {
        let stored = match found.record {
            Record::Order(stored) => stored,
            Record::Missing => {
                self.skipped
                    .push(format!("{}:{}: no record", side.name(), found.member));
                return Ok(());
            }
            Record::Foreign => {
                self.skipped.push(format!(
                    "{}:{}: another order's record",
                    side.name(),
                    found.member
                ));
                return Ok(());
            }
            Record::Unreadable(detail) => {
                return Err(Violation::UnreadableRecord {
                    order: found.member,
                    detail,
                });
            }
        };
        if stored.order.pair != pair || stored.order.side != side {
            self.skipped.push(format!(
                "{}:{}: other side or pair",
                side.name(),
                found.member
            ));
            return Ok(());
        }
        let decimals = self.pair_decimals(pair, &stored)?;
        let mut order = stored.order;
        if let Some(standing) = self.book.order(&order.id) {
            // A second member of an order that is placed already.
            let order = Arc::new(standing.clone());
            self.rewrites.push(Write::Rewrite {
                member: found.member,
                order,
                decimals,
            });
            return Ok(());
        }
        match stored.priority {
            None => {
                self.older.push((order, found.member, decimals));
                Ok(())
            }
            Some(priority) => {
                order.priority = priority;
                if found.priority != Some(priority) {
                    self.rewrites.push(Write::Rewrite {
                        member: found.member,
                        order: Arc::new(order.clone()),
                        decimals,
                    });
                }
                self.book.insert(order)
            }
        }
    }

    /// The pair's decimals; a store from before they were recorded fixes them by its orders.
    fn pair_decimals(
        &mut self,
        pair: PairId,
        stored: &StoredOrder,
    ) -> Result<PairDecimals, Violation> {
        match self.book.decimals(pair) {
            Some(decimals) if decimals == stored.decimals => Ok(decimals),
            Some(_) => Err(Violation::DecimalsDiffer {
                order: stored.order.id.clone(),
                pair,
            }),
            None => {
                self.fix_decimals(pair, stored.decimals);
                self.rewrites.push(Write::Pair {
                    pair,
                    decimals: stored.decimals,
                });
                Ok(stored.decimals)
            }
        }
    }

    pub(super) fn finish(
        mut self,
        cursor: Result<Cursor, String>,
        remembered: bool,
        halted: Option<HaltRecord>,
    ) -> Loaded {
        let mut cursor = cursor.unwrap_or_else(|detail| {
            self.unreadable("cursor".to_owned(), detail);
            Cursor::default()
        });
        self.place_older(&mut cursor);
        Loaded {
            loader: self,
            cursor,
            remembered,
            halted,
            audited: false,
        }
    }

    /// Gives orders from before our encoding their place: by their timestamp, and within one by the
    /// order in which the book was read.
    fn place_older(&mut self, cursor: &mut Cursor) {
        let mut older = std::mem::take(&mut self.older);
        if older.is_empty() {
            return;
        }
        older.sort_by_key(|(order, _, _)| order.timestamp);
        let mut taken = self.priorities();
        self.book.begin();
        for (mut order, member, decimals) in older {
            if self.book.order(&order.id).is_none() {
                order.priority = order.timestamp.milliseconds() * PRIORITY_PER_MILLISECOND;
                while !taken.insert(order.priority) {
                    order.priority += 1;
                }
                cursor.priority = cursor.priority.max(order.priority);
                if let Err(violation) = self.book.insert(order.clone()) {
                    self.violation.get_or_insert(violation);
                }
            } else if let Some(standing) = self.book.order(&order.id) {
                order = standing.clone();
            }
            self.rewrites.push(Write::Rewrite {
                member,
                order: Arc::new(order),
                decimals,
            });
        }
        self.book.keep();
    }

    fn priorities(&self) -> HashSet<u64> {
        let mut taken = HashSet::new();
        for pair in self.book.pairs() {
            for side in [Side::Ask, Side::Bid] {
                taken.extend(
                    self.book
                        .orders(pair, side)
                        .iter()
                        .map(|order| order.priority),
                );
            }
        }
        taken
    }
}

impl Loaded {
    /// Whether everything was what it must be, each for itself.
    pub(super) fn readable(&self) -> Result<(), Violation> {
        self.loader.violation.clone().map_or(Ok(()), Err)
    }

    /// Whether nothing of it needs a judgement, so that it may be used later as it is; else what
    /// does, in a sentence.
    pub(super) fn judge_in_advance(&mut self) -> Result<(), String> {
        let Loader {
            rewrites,
            skipped,
            misconfigured,
            ..
        } = &self.loader;
        if let Some(line) = misconfigured {
            return Err(line.clone());
        }
        if !skipped.is_empty() {
            return Err(format!(
                "{} index members have no usable record",
                skipped.len()
            ));
        }
        if !rewrites.is_empty() {
            return Err(format!("{} members are of an older form", rewrites.len()));
        }
        let judged = self.readable().and_then(|()| self.audit());
        self.audited = judged.is_ok();
        judged.map_err(|violation| violation.to_string())
    }

    /// The same book, behind the raised epoch.
    pub(super) fn seen_again(self, remembered: bool, halted: Option<HaltRecord>) -> Self {
        Self {
            remembered,
            halted,
            ..self
        }
    }

    /// Everything that must hold of what was read, taken together.
    pub(super) fn audit(&self) -> Result<(), Violation> {
        if self.audited {
            return Ok(());
        }
        audit(&self.loader.book, &self.loader.cell, &self.cursor)
    }

    /// A setting that contradicts the store, in a line that says what to change.
    pub(super) fn misconfigured(&self) -> Option<&String> {
        self.loader.misconfigured.as_ref()
    }

    pub(super) const fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    pub(super) const fn remembered(&self) -> bool {
        self.remembered
    }

    pub(super) const fn halted(&self) -> Option<&HaltRecord> {
        self.halted.as_ref()
    }

    pub(super) fn orders(&self) -> usize {
        self.loader.book.len()
    }

    pub(super) fn skipped(&self) -> usize {
        self.loader.skipped.len()
    }

    pub(super) fn skipped_members(&self) -> impl Iterator<Item = &String> {
        self.loader.skipped.iter().take(SKIPPED_TOLD_MAX)
    }

    pub(super) fn rewrites(&self) -> &[Write] {
        &self.loader.rewrites
    }

    pub(super) fn into_parts(self) -> (FastBook, Cursor, Vec<Write>) {
        (self.loader.book, self.cursor, self.loader.rewrites)
    }
}

/// Skipped members that are named in the log; all are counted.
const SKIPPED_TOLD_MAX: usize = 20;
