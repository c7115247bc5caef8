//! Both books side by side, and the store that follows them.
//!
//! Every test of this folder sends its commands through [`Twins`]. It decides each one on the fast
//! book and on the naive book, insists that they agree on everything that can be observed, applies
//! the writes to a model of the store, and insists that the store tells the same story as the
//! book. A test then only has to say what is special about it.

mod store;

use conductor_engine::book::RestingOrder;
use conductor_engine::event::{CommandResult, Reason};
use conductor_engine::ids::PairId;
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher, audit};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::{Book, Event, FastBook, Incoming, NaiveBook, PairDecimals, Side};
use std::sync::Arc;
use store::Store;

/// Both sides of a book, in the order in which they are compared.
pub(crate) const SIDES: [Side; 2] = [Side::Ask, Side::Bid];

/// What one command came to.
pub(crate) struct Decided {
    pub(crate) result: Arc<CommandResult>,
    pub(crate) events: Vec<Arc<Event>>,
}

/// All that a book holds, and the ids that are used up.
type Held = (
    Vec<(PairId, Option<PairDecimals>, [Vec<RestingOrder>; 2])>,
    AcceptedOrders,
);

/// One partition, decided twice.
pub(crate) struct Twins {
    fast: Matcher<FastBook>,
    naive: Matcher<NaiveBook>,
    accepted: AcceptedOrders,
    store: Store,
}

impl Twins {
    /// An empty partition.
    pub(crate) fn new(cell: Cell) -> Self {
        let fast = FastBook::with_seed(7);
        Self {
            fast: Matcher::new(cell.clone(), fast, Cursor::default()),
            naive: Matcher::new(cell, NaiveBook::default(), Cursor::default()),
            accepted: AcceptedOrders::default(),
            store: Store::default(),
        }
    }

    /// The fast book; the naive one is equal to it.
    pub(crate) fn book(&self) -> &FastBook {
        self.fast.book()
    }

    /// Decides one message on both books and checks everything that must hold of any message.
    pub(crate) fn take(&mut self, incoming: &Incoming) -> Decided {
        let (before, cursor_before) = (self.held(), self.fast.cursor().clone());
        let mut accepted = self.accepted.clone();
        let (mut writes, mut naive_writes) = (Vec::new(), Vec::new());
        let result = decide(&mut self.fast, incoming, &mut self.accepted, &mut writes);
        let naive_result = decide(&mut self.naive, incoming, &mut accepted, &mut naive_writes);
        assert_eq!(result, naive_result, "the books give different results");
        assert_eq!(writes, naive_writes, "the books write differently");
        assert_eq!(self.accepted, accepted, "the books use up different ids");
        assert_eq!(self.fast.cursor(), self.naive.cursor(), "the cursors part");
        let events = events_of(&writes);
        self.check_events(incoming, &result, &events, cursor_before.sequence);
        self.store.apply(&writes);
        self.check_books();
        self.store.check_against(self.fast.book());
        if matches!(result.reason, Some(Reason::Command(_))) {
            assert_eq!(self.held(), before, "a refused command leaves something");
            let cursor = self.fast.cursor();
            assert_eq!(
                cursor.priority, cursor_before.priority,
                "it takes a priority"
            );
            assert_eq!(cursor.sequence, cursor_before.sequence + 1);
            let kept = matches!(writes[..], [Write::Event(_), Write::Result(_)]);
            assert!(kept, "a refused command writes more than that: {writes:?}");
        }
        assert!(self.fast.cursor().priority >= cursor_before.priority);
        Decided { result, events }
    }

    fn held(&self) -> Held {
        let book = self.fast.book();
        let pairs = book.pairs().into_iter().map(|pair| {
            let sides = SIDES.map(|side| book.orders(pair, side));
            (pair, book.decimals(pair), sides)
        });
        (pairs.collect(), self.accepted.clone())
    }

    /// Sequences without a gap, event ids that count from zero, and a result that names them.
    fn check_events(
        &self,
        incoming: &Incoming,
        result: &CommandResult,
        events: &[Arc<Event>],
        sequence_before: u64,
    ) {
        let (command, pair, timestamp) = match incoming {
            Incoming::Command(command) => {
                (&command.id, Some(command.pair), Some(command.timestamp))
            }
            Incoming::Refused(refused) => (&refused.id, refused.pair, refused.timestamp),
            Incoming::Unusable(_) => unreachable!("what is no command is never decided"),
        };
        for (event, number) in events.iter().zip(0_u32..) {
            assert_eq!(event.index, number, "an event id is not its place");
            assert_eq!(event.sequence, sequence_before + 1 + u64::from(number));
            assert_eq!((&event.command, event.pair), (command, pair));
            assert_eq!(event.timestamp, timestamp, "an event has a time of its own");
        }
        let named = events.first().zip(events.last());
        let named = named.map(|(first, last)| (first.sequence, last.sequence));
        assert_eq!(
            result.sequences, named,
            "the result names other events than there are"
        );
        let last = named.map_or(sequence_before, |(_, last)| last);
        let cursor = self.fast.cursor();
        assert_eq!(cursor.sequence, last, "the cursor skips a sequence");
        assert_eq!(cursor.command.as_ref(), Some(command));
        assert_eq!(&result.command, command);
    }

    /// Both books hold the same orders, levels and decimals, and nothing that cannot be.
    fn check_books(&self) {
        let (fast, naive) = (self.fast.book(), self.naive.book());
        assert_eq!(fast.pairs(), naive.pairs());
        assert_eq!(
            (fast.len(), fast.is_empty()),
            (naive.len(), naive.is_empty())
        );
        for pair in fast.pairs() {
            assert_eq!(fast.decimals(pair), naive.decimals(pair));
            for side in SIDES {
                check_side(fast, naive, pair, side);
            }
        }
        let cursor = self.fast.cursor();
        assert_eq!(audit(fast, self.fast.cell(), cursor), Ok(()));
        assert_eq!(audit(naive, self.naive.cell(), cursor), Ok(()));
    }
}

fn check_side(fast: &FastBook, naive: &NaiveBook, pair: PairId, side: Side) {
    let orders = fast.orders(pair, side);
    assert_eq!(
        orders,
        naive.orders(pair, side),
        "the books hold other orders"
    );
    for levels_max in [0, 1, usize::MAX] {
        let levels = fast.levels(pair, side, levels_max);
        assert_eq!(levels, naive.levels(pair, side, levels_max));
    }
    assert_eq!(fast.best(pair, side), naive.best(pair, side));
    assert_eq!(fast.best_price(pair, side), naive.best_price(pair, side));
    for order in &orders {
        assert_eq!(
            fast.order(&order.id),
            Some(order),
            "the index lost an order"
        );
        assert_eq!(naive.order(&order.id), Some(order));
    }
}

fn decide<B: Book>(
    matcher: &mut Matcher<B>,
    incoming: &Incoming,
    accepted: &mut AcceptedOrders,
    writes: &mut Vec<Write>,
) -> Arc<CommandResult> {
    match matcher.take(incoming, accepted, writes) {
        Ok(Some(result)) => result,
        Ok(None) => panic!("a test sent what is no command: {incoming:?}"),
        Err(violation) => panic!("an invariant broke: {violation}, by {incoming:?}"),
    }
}

fn events_of(writes: &[Write]) -> Vec<Arc<Event>> {
    let events = writes.iter().filter_map(|write| match write {
        Write::Event(event) => Some(Arc::clone(event)),
        _ => None,
    });
    events.collect()
}
