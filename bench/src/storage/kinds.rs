//! Commands of one kind at a time, each with what must be there before it.

use conductor_engine::{
    Body, Command, CommandId, Decimal, NewOrder, OrderId, OrderKind, PairDecimals, PairId, Side,
    TimeInForce, Timestamp, UserId,
};

/// The pair that everything is for.
pub(crate) const PAIR: PairId = PairId(12);
const DECIMALS: PairDecimals = PairDecimals {
    price: 2,
    amount: 8,
    quote: 2,
};
/// The start of 2026.
const START: u64 = 1_767_225_600_000;
/// Prices that resting orders are spread over, on either side of the mid.
const PRICES: u64 = 200;
const MID_TICKS: u64 = 10_000;
/// Cancels, and places, of one batch.
const BATCH: usize = 10;
/// Ids as long as those of producers that number their own: 20 characters.
const ID_DIGITS: usize = 18;

/// A kind, and how to make so many commands of it.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Commands before, and the commands that are measured.
    pub(crate) make: fn(usize) -> (Vec<Command>, Vec<Command>),
}

/// Every kind, in the order of the table.
pub(crate) const KINDS: [Kind; 9] = [
    Kind {
        name: "place, rests",
        make: |count| (Vec::new(), each(count, |n| place(n, Side::Ask, 1))),
    },
    Kind {
        name: "place, fills a maker whole",
        make: |count| {
            let makers = each(count, |n| place(n, Side::Ask, 1));
            (makers, each(count, |n| taker(count + n, 1)))
        },
    },
    Kind {
        name: "place, fills a part of a maker",
        make: |count| {
            let maker = vec![command(
                0,
                0,
                Body::Place(order(0, Side::Ask, 1, 2 * count)),
            )];
            (maker, each(count, |n| taker(1 + n, 1)))
        },
    },
    Kind {
        name: "cancel",
        make: |count| {
            let orders = each(count, |n| place(n, Side::Bid, 1));
            (
                orders,
                each(count, |n| {
                    command(count + n, 0, Body::Cancel { order: id(n) })
                }),
            )
        },
    },
    Kind {
        name: "amend, keeps its place",
        make: |count| {
            let orders = each(count, |n| place(n, Side::Bid, 2));
            (orders, each(count, |n| amend(count + n, n, None, Some(1))))
        },
    },
    Kind {
        name: "amend, takes a new place",
        make: |count| {
            let orders = each(count, |n| place(n, Side::Bid, 1));
            (
                orders,
                each(count, |n| {
                    amend(count + n, n, Some(MID_TICKS - PRICES - 7), None)
                }),
            )
        },
    },
    Kind {
        name: "replace batch, 10 for 10",
        make: |count| {
            let first = vec![batch(0, None)];
            (first, each(count, |n| batch(n + 1, Some(n))))
        },
    },
    Kind {
        name: "place, id used before",
        make: |count| {
            let orders = each(count, |n| place(n, Side::Bid, 1));
            let again = |n| command(count + n, 0, Body::Place(order(n, Side::Bid, 1, 1)));
            (orders, each(count, again))
        },
    },
    Kind {
        name: "place, rejected",
        make: |count| {
            let coarse = |n| {
                let mut order = order(n + 1, Side::Bid, 1, 1);
                order.decimals.price = 3;
                command(n + 1, 0, Body::Place(order))
            };
            (vec![place(0, Side::Bid, 1)], each(count, coarse))
        },
    },
];

fn each(count: usize, make: impl Fn(usize) -> Command) -> Vec<Command> {
    (0..count).map(make).collect()
}

fn id(number: usize) -> OrderId {
    OrderId::new(&format!("o-{number:0ID_DIGITS$}")).expect("letters and digits")
}

fn command(number: usize, pair_step: u32, body: Body) -> Command {
    Command {
        id: CommandId::new(&format!("c-{number:0ID_DIGITS$}")).expect("letters and digits"),
        pair: PairId(PAIR.0 + pair_step),
        partition: None,
        timestamp: time(number),
        body,
    }
}

fn time(number: usize) -> Timestamp {
    Timestamp::new(START + number as u64).expect("before the year 2100")
}

fn order(number: usize, side: Side, lots: usize, times: usize) -> NewOrder {
    let step = number as u64 % PRICES + 1;
    let ticks = match side {
        Side::Ask => MID_TICKS + step,
        Side::Bid => MID_TICKS - step,
    };
    limit(
        number,
        side,
        ticks,
        lots * times,
        TimeInForce::GoodTillCancelled,
    )
}

fn limit(number: usize, side: Side, ticks: u64, coins: usize, time: TimeInForce) -> NewOrder {
    NewOrder {
        id: id(number),
        user: Some(UserId::new(&format!("u-{:06}", number % 10_000)).expect("an id")),
        side,
        kind: OrderKind::Limit {
            price: Decimal::exact(u128::from(ticks), DECIMALS.price),
            time_in_force: time,
        },
        volume: Decimal::exact(coins as u128, 0),
        decimals: DECIMALS,
        timestamp: self::time(number),
    }
}

fn place(number: usize, side: Side, coins: usize) -> Command {
    command(number, 0, Body::Place(order(number, side, coins, 1)))
}

/// A bid above every ask.
fn taker(number: usize, coins: usize) -> Command {
    let ticks = MID_TICKS + PRICES + 1;
    let order = limit(
        number,
        Side::Bid,
        ticks,
        coins,
        TimeInForce::ImmediateOrCancel,
    );
    command(number, 0, Body::Place(order))
}

fn amend(number: usize, of: usize, ticks: Option<u64>, coins: Option<u128>) -> Command {
    let body = Body::Amend {
        order: id(of),
        price: ticks.map(|ticks| Decimal::exact(u128::from(ticks), DECIMALS.price)),
        volume: coins.map(|coins| Decimal::exact(coins, 0)),
    };
    command(number, 0, body)
}

fn batch(number: usize, instead_of: Option<usize>) -> Command {
    let orders = |batch: usize| batch * BATCH..(batch + 1) * BATCH;
    let cancel = instead_of.into_iter().flat_map(orders).map(id).collect();
    let place = orders(number)
        .map(|number| order(number, Side::Ask, 1, 1))
        .collect();
    command(number, 0, Body::Replace { cancel, place })
}
