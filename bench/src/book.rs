//! The book in the third article's shapes and mixes: time per kind of command, memory per resting
//! order, and memory that is allocated per command.
//!
//! Each command is timed alone, twice: on the book and its trade, and through the whole decision
//! with its events, writes and result. The clock costs some ten nanoseconds of each time; its own
//! percentiles stand below the table. Half of the commands come before the clock, so that
//! everything has grown to its size.

mod market;
mod memory;
mod steps;

use crate::figures::{Times, histogram, record};
use crate::record::{Keep, Run, table, value};
use anyhow::{bail, ensure};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher, TradeStop};
use conductor_engine::staging::{Cursor, Write};
use conductor_engine::units::Quantity;
use conductor_engine::{Book, Command, FastBook, NaiveBook, OrderId, Price, Side};
use hdrhistogram::Histogram;
use market::{DECIMALS, Kind, Market, PAIR, SHAPES, Shape, deals};
use memory::{Allocated, PerOrder};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Instant;
use steps::{Step, Steps, Traded, apply};

/// Commands that share a transaction in the conductor, after which writes are dropped here too.
const GROUP: usize = 256;
const CLOCK_READINGS: usize = 100_000;

/// The book's shapes and mixes, time and memory
///
/// Example: conductor-bench book --orders 10000 --commands 400000
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Orders that rest in each shape
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(200..))]
    orders: u32,
    /// Commands in each shape, of which the second half is timed
    #[arg(long, default_value_t = 400_000)]
    commands: usize,
    /// Commands of each shape that the naive book decides too, on a book of a tenth of the orders
    #[arg(long, default_value_t = 2_000)]
    checked: usize,
    /// Resting orders with which memory per order is measured
    #[arg(long, value_delimiter = ',', default_values_t = [100_000, 1_000_000])]
    memory_orders: Vec<usize>,
    /// Seed of the mixes
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// One kind in one shape.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    shape: &'static str,
    kind: Kind,
    book: Times,
    decision: Times,
    /// Bytes that one command allocates.
    book_allocates: f64,
    decision_allocates: f64,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for shape in SHAPES {
        check(shape, arguments)?;
        rows.extend(measure(shape, arguments, keep)?);
    }
    let clock = clock();
    let memory: Vec<PerOrder> = arguments
        .memory_orders
        .iter()
        .flat_map(|orders| memory::per_order(*orders))
        .collect();
    print(&rows, &clock, &memory);
    keep.run(&Run {
        boundary: "book",
        settings: json!({
            "orders": arguments.orders, "commands": arguments.commands, "seed": arguments.seed,
            "checked": arguments.checked,
        }),
        servers: Value::Null,
        figures: json!({ "kinds": value(&rows), "clock": value(&clock), "memory": value(&memory) }),
    })
}

/// The fast book and the naive one do the same, in deals and in what rests.
fn check(shape: Shape, arguments: &Arguments) -> anyhow::Result<()> {
    let orders = (arguments.orders as usize / 10).max(20);
    let mut market = Market::new(shape, orders, arguments.seed);
    let mut commands = market.fill();
    commands.extend((0..arguments.checked).map(|_| market.next().1));
    let (fast, naive) = (
        replay::<FastBook>(&commands)?,
        replay::<NaiveBook>(&commands)?,
    );
    ensure!(
        fast == naive,
        "the books differ in the shape {}: there is no speed to print",
        shape.name
    );
    ensure!(
        fast.1 == resting(market.book()),
        "the book and the decision differ in the shape {}: there is no speed to print",
        shape.name
    );
    Ok(())
}

/// Order, price and remainder, best first, of both sides.
type Resting = Vec<(OrderId, Price, Quantity)>;

fn resting(book: &impl Book) -> Resting {
    let sides = [Side::Ask, Side::Bid].into_iter();
    let orders = sides.flat_map(|side| book.orders(PAIR, side));
    orders
        .map(|order| (order.id, order.price, order.remaining))
        .collect()
}

fn replay<B: Book + Default>(commands: &[Command]) -> anyhow::Result<(Traded, Resting)> {
    let (mut book, mut steps, mut traded) = (B::default(), Steps::default(), Traded::default());
    book.fix_decimals(PAIR, DECIMALS);
    for command in commands {
        done(apply(&mut book, steps.step(command), &mut traded))?;
    }
    let resting = resting(&book);
    Ok((traded, resting))
}

fn done(applied: Result<(), TradeStop>) -> anyhow::Result<()> {
    match applied {
        Ok(()) => Ok(()),
        Err(stop) => bail!("the market made what cannot be traded: {stop:?}"),
    }
}

/// What is counted of one kind.
struct Counted {
    times: Histogram<u64>,
    allocated: u64,
}

/// Of every kind, in their order.
struct Kinds(Vec<Counted>);

impl Kinds {
    fn new() -> Self {
        let one = |_| Counted {
            times: histogram(),
            allocated: 0,
        };
        Self(Kind::DRAWS.iter().map(one).collect())
    }

    fn count(&mut self, kind: Kind, began: Instant, allocated: u64) {
        let elapsed = began.elapsed();
        let counted = &mut self.0[kind as usize];
        record(&mut counted.times, elapsed);
        counted.allocated += allocated;
    }

    fn allocated(&self, kind: Kind) -> f64 {
        let Counted { times, allocated } = &self.0[kind as usize];
        crate::figures::ratio(*allocated, times.len().max(1))
    }
}

fn measure(shape: Shape, arguments: &Arguments, keep: &Keep) -> anyhow::Result<Vec<Row>> {
    let mut market = Market::new(shape, arguments.orders as usize, arguments.seed);
    let fill = market.fill();
    let commands: Vec<(Kind, Command)> = (0..arguments.commands).map(|_| market.next()).collect();
    let (book, traded) = on_the_book(&fill, &commands)?;
    let (decision, decided) = in_the_decision(&fill, &commands)?;
    ensure!(
        traded == decided,
        "the book and the decision differ in the shape {}: there is no speed to print",
        shape.name
    );
    let mut rows = Vec::new();
    for (kind, _) in Kind::DRAWS {
        let times = [&book, &decision].map(|kinds| &kinds.0[kind as usize].times);
        for (times, what) in times.into_iter().zip(["book", "decision"]) {
            let name = format!("book-{}-{}-{what}", shape.name, kind.name()).replace(' ', "-");
            keep.histogram(&name, times)?;
        }
        rows.push(Row {
            shape: shape.name,
            kind,
            book: Times::of(times[0]),
            decision: Times::of(times[1]),
            book_allocates: book.allocated(kind),
            decision_allocates: decision.allocated(kind),
        });
    }
    Ok(rows)
}

fn on_the_book(fill: &[Command], commands: &[(Kind, Command)]) -> anyhow::Result<(Kinds, Traded)> {
    let (mut book, mut steps, mut traded) =
        (FastBook::default(), Steps::default(), Traded::default());
    book.fix_decimals(PAIR, DECIMALS);
    for command in fill {
        done(apply(&mut book, steps.step(command), &mut traded))?;
    }
    let prepared: Vec<(Kind, Step)> = commands
        .iter()
        .map(|(kind, command)| (*kind, steps.step(command)))
        .collect();
    // Room for every deal, so that only the book can allocate.
    traded.0.reserve(commands.len() * 8);
    let (mut kinds, mut warm, half) = (Kinds::new(), Kinds::new(), commands.len() / 2);
    for (number, (kind, step)) in prepared.into_iter().enumerate() {
        let counting = if number < half { &mut warm } else { &mut kinds };
        let allocated = Allocated::now();
        let began = Instant::now();
        let applied = apply(&mut book, step, &mut traded);
        counting.count(kind, began, allocated.since());
        done(applied)?;
    }
    Ok((kinds, traded))
}

fn in_the_decision(
    fill: &[Command],
    commands: &[(Kind, Command)],
) -> anyhow::Result<(Kinds, Traded)> {
    let mut matcher = Matcher::new(Cell::single(), FastBook::default(), Cursor::default());
    let (mut accepted, mut writes) = (AcceptedOrders::default(), Vec::new());
    let mut traded = Traded::default();
    for command in fill {
        matcher.apply(command, &mut accepted, &mut writes)?;
        writes.clear();
    }
    let (mut kinds, mut warm, half) = (Kinds::new(), Kinds::new(), commands.len() / 2);
    for (number, (kind, command)) in commands.iter().enumerate() {
        if number % GROUP == 0 {
            tell(&writes, &mut traded);
            writes.clear();
            accepted.clear();
        }
        let counting = if number < half { &mut warm } else { &mut kinds };
        let allocated = Allocated::now();
        let began = Instant::now();
        let decided = matcher.apply(command, &mut accepted, &mut writes);
        counting.count(*kind, began, allocated.since());
        decided?;
    }
    tell(&writes, &mut traded);
    Ok((kinds, traded))
}

fn tell(writes: &[Write], traded: &mut Traded) {
    let told = deals(writes).filter_map(|(maker, volume)| {
        let volume = volume.quantity(DECIMALS).ok()?;
        Some((maker.clone(), volume))
    });
    traded.0.extend(told);
}

/// What it takes to read the clock twice.
fn clock() -> Times {
    let mut times = histogram();
    for _ in 0..CLOCK_READINGS {
        let began = Instant::now();
        record(&mut times, began.elapsed());
    }
    Times::of(&times)
}

fn print(rows: &[Row], clock: &Times, memory: &[PerOrder]) {
    let head = [
        "shape",
        "command",
        "count",
        "book p50 ns",
        "p99",
        "p99.9",
        "decision p50",
        "p99",
        "p99.9",
        "book allocates",
        "decision",
    ];
    let nanoseconds = |microseconds: f64| format!("{:.0}", microseconds * 1_000.0);
    let shown = rows.iter().map(|row| {
        let times = |times: &Times| [times.p50, times.p99, times.p999].map(nanoseconds);
        let ([a, b, c], [d, e, f]) = (times(&row.book), times(&row.decision));
        let bytes = |bytes: f64| format!("{bytes:.2} B");
        [
            row.shape.to_owned(),
            row.kind.name().to_owned(),
            row.book.count.to_string(),
            a,
            b,
            c,
            d,
            e,
            f,
            bytes(row.book_allocates),
            bytes(row.decision_allocates),
        ]
    });
    println!("{}", table(head, shown));
    println!(
        "reading the clock twice: p50 {} ns, p99.9 {} ns, part of each time above",
        nanoseconds(clock.p50),
        nanoseconds(clock.p999)
    );
    let rows = memory.iter().map(|row| {
        let bytes = format!("{:.0}", row.bytes);
        [row.orders.to_string(), row.ids.to_owned(), bytes]
    });
    println!("{}", table(["resting orders", "ids", "bytes each"], rows));
}
