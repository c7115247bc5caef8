//! Two cells against one, each with its own stores and its own enforced budget.
//!
//! The articles' open question: does a second cell bring at least half as much again, where it
//! brings its own processor time and its own disk writes? Both cells run on one machine and one
//! broker; control groups hold each cell's conductor, outbox, primary and replica together to a
//! share of a core and to so many writes a second. The broker, the producer, the consumer and the
//! Sentinels have no budget. Beside it two partitions in one process, which share an I/O core and
//! have the budget of both. One cell's runs and two cells' runs alternate; at last both run through
//! a forced failover of one. Every reply, event and book must be the engine's throughout.

mod budget;
mod cells;

use crate::figures::{Rates, rate, ratio};
use crate::record::{Keep, Run, table, value};
use budget::Limits;
use cells::{CELLS, Cells, Spread, fail_over};
use conductor_tools::client::block_on;
use serde::Serialize;
use serde_json::json;

/// What two cells must reach of one.
const PASSES_AT: f64 = 1.5;

/// Two cells against one, each with an enforced budget, through a failover
///
/// Needs root, to write control groups. A cell is its conductor, its outbox, its primary and its
/// replica; all four share its budget.
///
/// Example: conductor-bench gate --cpu-percent 40 --write-iops 400
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Commands of each cell in each run
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(3..))]
    commands: u32,
    /// Runs of one cell and of two, in turn; the medians are compared
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Commands of each cell under way at once
    #[arg(long, default_value_t = 1_024)]
    window: usize,
    /// Processor time of each cell, in hundredths of a core
    #[arg(long, default_value_t = 40)]
    cpu_percent: u32,
    /// Disk writes of each cell, a second
    #[arg(long, default_value_t = 400)]
    write_iops: u32,
    /// Seed of the workloads
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    one_cell: Rates,
    two_cells: Rates,
    ratio: f64,
    passes: bool,
    with_failover_per_second: u64,
    /// Both partitions in one process, on one I/O core, with the budget of both.
    one_process: Rates,
    digests: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    block_on(measure(arguments, keep))
}

async fn measure(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let limits = Limits {
        cpu_percent: arguments.cpu_percent,
        write_iops: arguments.write_iops,
    };
    let mut cells = Cells::start(Spread::Cells, limits, arguments.seed).await?;
    let (count, window) = (arguments.commands as usize, arguments.window);
    let both = CELLS as usize;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    for _ in 0..arguments.runs {
        one.push(rate(count, cells.run(1, count, window, None).await?));
        two.push(rate(
            both * count,
            cells.run(both, count, window, None).await?,
        ));
    }
    let through = cells.run(both, count, window, Some(fail_over)).await?;
    let versions = cells.bed.versions()?;
    let mut digests = cells.end().await?;
    let mut cells = Cells::start(Spread::OneProcess, limits, arguments.seed).await?;
    let mut shared = Vec::new();
    for _ in 0..arguments.runs {
        let elapsed = cells.run(both, count, window, None).await?;
        shared.push(rate(both * count, elapsed));
    }
    digests.extend(cells.end().await?);
    let (one, two) = (Rates::of(one), Rates::of(two));
    let ratio = ratio(two.median, one.median);
    let figures = Figures {
        ratio,
        passes: ratio >= PASSES_AT,
        one_cell: one,
        two_cells: two,
        with_failover_per_second: rate(both * count, through),
        one_process: Rates::of(shared),
        digests,
    };
    print(&figures);
    keep.run(&Run {
        boundary: "gate",
        settings: json!({
            "commands": arguments.commands, "runs": arguments.runs, "window": window,
            "cpuPercent": arguments.cpu_percent, "writeIops": arguments.write_iops,
            "seed": arguments.seed,
        }),
        servers: versions,
        figures: value(&figures),
    })
}

fn print(figures: &Figures) {
    let row = |name: &str, rates: &Rates| {
        let [median, least, most] =
            [rates.median, rates.least, rates.most].map(|it| it.to_string());
        [name.to_owned(), median, least, most]
    };
    let rows = [
        row("one", &figures.one_cell),
        row("two", &figures.two_cells),
        row("two partitions in one process", &figures.one_process),
    ];
    println!("{}", table(["cells", "commands/s", "least", "most"], rows));
    println!(
        "two cells, one of them through a failover: {} commands a second over the whole run",
        figures.with_failover_per_second
    );
    let verdict = if figures.passes {
        "passes"
    } else {
        "does not pass"
    };
    println!(
        "every reply, event and book is the engine's; two cells are {:.2} times one: {verdict} at {PASSES_AT}",
        figures.ratio
    );
}
