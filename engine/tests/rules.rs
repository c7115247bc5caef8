//! Rules that need more orders than a person wants to read in a trace, and the audit of a book
//! that was loaded rather than traded.

mod support;

use conductor_engine::book::RestingOrder;
use conductor_engine::event::{OutcomeKind, Status};
use conductor_engine::ids::{OrderId, PairId, PartitionId, Timestamp, UserId};
use conductor_engine::limits::{BATCH_ENTRIES_MAX, DETAIL_BYTES_MAX};
use conductor_engine::matching::{Cell, audit};
use conductor_engine::staging::Cursor;
use conductor_engine::units::{Price, Quantity, QuoteAmount};
use conductor_engine::{
    Body, Book, Command, CommandId, Decimal, FastBook, Incoming, NaiveBook, NewOrder, OrderKind,
    PairDecimals, Payload, Side, TimeInForce, Violation,
};
use support::{Decided, SIDES, Twins};

const PAIR: PairId = PairId(1);
const DECIMALS: PairDecimals = PairDecimals {
    price: 2,
    amount: 0,
    quote: 2,
};
/// More than two pages of any reader that takes sixty-four at a time.
const MAKERS: usize = 150;

#[test]
fn the_oldest_of_many_at_one_price_is_filled_first_on_both_sides() {
    for side in SIDES {
        let mut twins = Twins::new(Cell::single());
        let makers: Vec<OrderId> = (0..MAKERS).map(scattered).collect();
        for id in &makers {
            send(&mut twins, Body::Place(order(id, side, 2)));
        }
        let mut filled = Vec::new();
        for number in 0..3 {
            let taker = id(&format!("taker-{number}"));
            let decided = send(
                &mut twins,
                Body::Place(order(&taker, side.opposite(), 2 * MAKERS as u64 / 3 + 1)),
            );
            filled.extend(makers_of(&decided));
        }
        // A maker that was met twice was met twice in a row.
        filled.dedup();
        assert_eq!(filled, makers, "{}", side.name());
    }
}

#[test]
fn a_cancel_in_the_middle_of_many_leaves_the_others_in_order() {
    for side in SIDES {
        let mut twins = Twins::new(Cell::single());
        let mut makers: Vec<OrderId> = (0..MAKERS).map(scattered).collect();
        for id in &makers {
            send(&mut twins, Body::Place(order(id, side, 1)));
        }
        let cancelled: Vec<OrderId> = makers.iter().step_by(3).cloned().collect();
        for order in &cancelled {
            let order = order.clone();
            send(&mut twins, Body::Cancel { order });
        }
        makers.retain(|id| !cancelled.contains(id));
        let sweep = order(&id("sweep"), side.opposite(), MAKERS as u64);
        let decided = send(&mut twins, Body::Place(sweep));
        assert_eq!(makers_of(&decided), makers);
    }
}

#[test]
fn a_batch_of_exactly_the_limit_is_taken() {
    let mut twins = Twins::new(Cell::single());
    let place: Vec<NewOrder> = (0..BATCH_ENTRIES_MAX - 1)
        .map(|number| order(&scattered(number), Side::Bid, 1))
        .collect();
    let cancel = vec![id("unknown")];
    let decided = send(&mut twins, Body::Replace { cancel, place });
    assert_eq!(decided.result.status, Status::Accepted);
    assert_eq!(decided.result.outcomes.len(), BATCH_ENTRIES_MAX);
    assert_eq!(decided.result.outcomes[0].kind, OutcomeKind::UnknownOrder);
    assert_eq!(twins.book().len(), BATCH_ENTRIES_MAX - 1);
}

#[test]
fn an_empty_batch_changes_nothing() {
    let mut twins = Twins::new(Cell::single());
    let (cancel, place) = (Vec::new(), Vec::new());
    let decided = send(&mut twins, Body::Replace { cancel, place });
    assert_eq!(decided.result.status, Status::Unchanged);
    assert!(decided.events.is_empty());
}

#[test]
fn the_largest_order_trades_against_the_largest_order_exactly() {
    let mut twins = Twins::new(Cell::single());
    let largest = |id: &OrderId, side| {
        let mut order = order(id, side, 999_999_999_999_999_999);
        order.kind = limit("9999999999999.99");
        order
    };
    send(&mut twins, Body::Place(largest(&id("s"), Side::Ask)));
    let decided = send(&mut twins, Body::Place(largest(&id("b"), Side::Bid)));
    let Payload::Deal(deal) = &decided.events[0].payload else {
        panic!("the first event is a deal")
    };
    let expected = "9999999999999989990000000000000.01";
    assert_eq!(deal.quote_volume.to_string(), expected);
    assert!(twins.book().is_empty());
}

#[test]
fn a_refusal_says_why_in_a_sentence_however_long_the_number_was() {
    let mut twins = Twins::new(Cell::single());
    send(&mut twins, Body::Place(order(&id("s"), Side::Ask, 5)));
    let decided = send(
        &mut twins,
        Body::Amend {
            order: id("s"),
            price: Some(Decimal::parse(&"9".repeat(100_000)).expect("a decimal")),
            volume: None,
        },
    );
    let Payload::CommandRejected { detail, .. } = &decided.events[0].payload else {
        panic!("the amend is refused")
    };
    let detail = detail.as_deref().expect("a sentence");
    assert!(detail.len() <= DETAIL_BYTES_MAX, "{} bytes", detail.len());
    assert!(detail.ends_with("is out of the pair's range"), "{detail}");
}

/// A loader reads one side after the other, and an older encoding in another order.
#[test]
fn an_order_takes_its_place_by_priority_whenever_it_is_inserted() {
    fn loaded<B: Book + Default>(priorities: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut book = B::default();
        book.fix_decimals(PAIR, DECIMALS);
        for priority in priorities {
            let order = resting(Side::Bid, 10_000, priority);
            book.insert(order).expect("each once");
        }
        let again = book.insert(resting(Side::Bid, 9_999, 1));
        assert!(again.is_err(), "an id rests twice");
        let orders = book.orders(PAIR, Side::Bid);
        orders.iter().map(|order| order.priority).collect()
    }
    let scrambled = || (0..MAKERS as u64).map(|number| 1 + number * 67 % MAKERS as u64);
    let sorted: Vec<u64> = (1..=MAKERS as u64).collect();
    assert_eq!(loaded::<FastBook>(scrambled()), sorted);
    assert_eq!(loaded::<NaiveBook>(scrambled()), sorted);
}

#[test]
fn taking_back_a_command_restores_every_link() {
    let mut book = FastBook::default();
    book.fix_decimals(PAIR, DECIMALS);
    for priority in 1..=6 {
        let order = resting(Side::Bid, 10_000 - 1_000 * (priority % 2), priority);
        book.insert(order).expect("each once");
    }
    let held = |book: &FastBook| {
        (
            book.orders(PAIR, Side::Bid),
            book.levels(PAIR, Side::Bid, 9),
        )
    };
    let before = held(&book);
    for _ in 0..3 {
        book.begin();
        book.remove(PAIR, &id("o-4")).expect("it rests");
        book.shrink(&id("o-3"), lots(1)).expect("it rests");
        book.reduce_best(PAIR, Side::Bid, lots(2), QuoteAmount(7))
            .expect("a best");
        book.remove_best(PAIR, Side::Bid).expect("a best");
        book.remove_best(PAIR, Side::Bid).expect("a best");
        book.insert(resting(Side::Bid, 10_000, 8)).expect("new");
        book.insert(resting(Side::Bid, 10_001, 9)).expect("new");
        book.remove(PAIR, &id("o-8")).expect("it rests");
        book.insert(resting(Side::Bid, 8_000, 4))
            .expect("it was removed");
        book.fix_decimals(PairId(2), DECIMALS);
        book.undo();
        book.keep();
        assert_eq!(held(&book), before);
        assert_eq!((book.len(), book.pairs()), (6, vec![PAIR]));
        assert_eq!(book.order(&id("o-8")), None);
    }
}

#[test]
fn the_audit_names_what_cannot_be() {
    let cell = Cell::single();
    let cursor = Cursor {
        priority: 10,
        ..Cursor::default()
    };
    let audited = |orders: Vec<RestingOrder>| {
        let mut book = FastBook::default();
        book.fix_decimals(PAIR, DECIMALS);
        for order in orders {
            book.insert(order).expect("each once");
        }
        audit(&book, &cell, &cursor)
    };
    let (ask, bid) = (resting(Side::Ask, 10_001, 1), resting(Side::Bid, 10_000, 2));
    assert_eq!(audited(vec![ask.clone(), bid.clone()]), Ok(()));

    let locked = resting(Side::Bid, 10_001, 3);
    let crossed = audited(vec![ask.clone(), locked]);
    assert!(matches!(crossed, Err(Violation::CrossedBook { .. })));

    let mut twice = resting(Side::Bid, 9_000, 4);
    twice.priority = 1;
    let twice = audited(vec![ask.clone(), twice]);
    assert!(matches!(twice, Err(Violation::ImpossiblePriority { .. })));

    let above = audited(vec![resting(Side::Bid, 9_000, 11)]);
    assert!(matches!(above, Err(Violation::ImpossiblePriority { .. })));

    for (remaining, volume) in [(0, 5), (6, 5)] {
        let mut order = bid.clone();
        (order.remaining, order.volume) = (lots(remaining), lots(volume));
        let impossible = audited(vec![order]);
        assert!(matches!(
            impossible,
            Err(Violation::ImpossibleRemainder { .. })
        ));
    }

    let mut elsewhere = FastBook::default();
    elsewhere.fix_decimals(PAIR, DECIMALS);
    let cell = Cell {
        partition: PartitionId(0),
        partition_count: 2,
        ..Cell::single()
    };
    let foreign = Err(Violation::ForeignPair { pair: PAIR });
    assert_eq!(audit(&elsewhere, &cell, &cursor), foreign);
}

/// Sends a command whose time is one millisecond for all, so that only acceptance orders them.
fn send(twins: &mut Twins, body: Body) -> Decided {
    let number = twins.book().len();
    let sent = format!("c-{number}-{}", first_name(&body));
    twins.take(&Incoming::Command(Command {
        id: CommandId::new(&sent).expect("an id"),
        pair: PAIR,
        partition: None,
        timestamp: time(),
        body,
    }))
}

fn first_name(body: &Body) -> String {
    match body {
        Body::Place(order) => format!("place-{}", order.id),
        Body::Cancel { order } => format!("cancel-{order}"),
        Body::Amend { order, .. } => format!("amend-{order}"),
        Body::Replace { .. } => "replace".to_owned(),
    }
}

fn makers_of(decided: &Decided) -> Vec<OrderId> {
    let deals = decided
        .events
        .iter()
        .filter_map(|event| match &event.payload {
            Payload::Deal(deal) => Some(deal.maker.clone()),
            _ => None,
        });
    deals.collect()
}

/// Ids whose own order is not that of their numbers.
fn scattered(number: usize) -> OrderId {
    id(&format!("o-{:03}", number * 77 % 1_000))
}

fn id(text: &str) -> OrderId {
    OrderId::new(text).expect("an id")
}

fn order(id: &OrderId, side: Side, volume: u64) -> NewOrder {
    NewOrder {
        id: id.clone(),
        user: Some(UserId::new("u-1").expect("an id")),
        side,
        kind: limit("100"),
        volume: Decimal::parse(&volume.to_string()).expect("above zero"),
        decimals: DECIMALS,
        timestamp: time(),
    }
}

fn limit(price: &str) -> OrderKind {
    OrderKind::Limit {
        price: Decimal::parse(price).expect("a price"),
        time_in_force: TimeInForce::GoodTillCancelled,
    }
}

fn resting(side: Side, ticks: u64, priority: u64) -> RestingOrder {
    RestingOrder {
        id: id(&format!("o-{priority}")),
        user: None,
        pair: PAIR,
        side,
        price: Price::new(ticks).expect("in range"),
        volume: lots(5),
        remaining: lots(5),
        quote_volume: QuoteAmount(0),
        priority,
        timestamp: time(),
    }
}

fn lots(lots: u64) -> Quantity {
    Quantity::new(lots).expect("in range")
}

fn time() -> Timestamp {
    Timestamp::new(1_767_225_600_000).expect("before the year 2100")
}

#[test]
fn an_order_that_rests_has_used_its_id_even_where_no_record_says_so() {
    let mut matcher = conductor_engine::matching::Matcher::new(
        Cell::single(),
        FastBook::with_seed(7),
        Cursor::default(),
    );
    let place = Body::Place(order(&id("o-1"), Side::Ask, 1));
    for expected in [OutcomeKind::Rested, OutcomeKind::DuplicateOrder] {
        let command = Command {
            id: CommandId::new("c").expect("an id"),
            pair: PAIR,
            partition: None,
            timestamp: Timestamp::new(1).expect("a time"),
            body: place.clone(),
        };
        // Nothing is remembered between the two: a store from before ids were recorded.
        let mut accepted = conductor_engine::matching::AcceptedOrders::default();
        let result = matcher
            .apply(&command, &mut accepted, &mut Vec::new())
            .expect("no violation");
        assert_eq!(result.outcomes[0].kind, expected);
    }
}

#[test]
fn the_sentence_of_a_refusal_is_bounded() {
    let mut twins = Twins::new(Cell::single());
    let long = |letter: &str| id(&letter.repeat(112));
    for (name, side) in [("m", Side::Ask), ("t", Side::Bid)] {
        let mut house = order(&long(name), side, 1);
        house.user = None;
        let decided = send(&mut twins, Body::Place(house));
        if let Some(Payload::CommandRejected { detail, .. }) =
            decided.events.first().map(|event| &event.payload)
        {
            let detail = detail.as_ref().expect("a sentence");
            assert_eq!((detail.len(), side), (DETAIL_BYTES_MAX, Side::Bid));
        }
    }
}
