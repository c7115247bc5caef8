//! The articles' conductor, kept alive: what ours replaces, and a second implementation of the
//! rules.
//!
//! Prefetch 1; makers paged from the store, sixty-four at a time; one transaction a command; `EXEC`
//! and then `WAITAOF 1 1`; an outbox that publishes event by event. The stall of a second that
//! `WAITAOF` gives when a replica is asked too early is part of it; `--mended` sends `EXEC`, `WAIT`
//! and `WAITAOF` in one packet and changes nothing else. Written in the language of what replaces
//! it, so that what differs is the design and not the runtime.

mod conductor;
mod decide;
mod outbox;
mod reads;

use crate::bed::Bed;
use crate::commit::Wait;
use crate::figures::{Rates, rate};
use crate::record::{Keep, Run, table, value};
use crate::session::{Plan, Session, System};
use anyhow::Context;
use conductor::At;
use conductor_tools::client::block_on;
use serde::Serialize;
use serde_json::json;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// The articles' own limit.
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The articles' own loop: the same events and book, and how fast it is
///
/// Example: conductor-bench baseline --commands 2000 --mended
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Commands in each run
    #[arg(long, default_value_t = 2_000)]
    commands: usize,
    /// Runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Send EXEC, WAIT and WAITAOF in one packet, which leaves out the stall of a second
    #[arg(long)]
    mended: bool,
    /// Commands under way at once, in the queue for the most part
    #[arg(long, default_value_t = 512)]
    window: usize,
    /// Replicas whose disks are waited for; none means the policy memory
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    mended: bool,
    commands: usize,
    digest: String,
    commands_per_second: Rates,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let system = match arguments.mended {
        true => System::BaselineMended,
        false => System::Baseline,
    };
    block_on(async {
        let plan = Plan {
            replicas: arguments.replicas,
            seed: arguments.seed,
            commands: arguments.commands * arguments.runs as usize,
            setting: None,
        };
        let mut session = Session::start(system, plan).await?;
        let mut rates = Vec::new();
        for _ in 0..arguments.runs {
            let measured = session.run(arguments.commands, arguments.window).await?;
            rates.push(rate(measured.commands, measured.elapsed));
        }
        let versions = session.versions()?;
        let figures = Figures {
            mended: arguments.mended,
            commands: arguments.commands,
            digest: session.end().await?,
            commands_per_second: Rates::of(rates),
        };
        print(system, &figures);
        keep.run(&Run {
            boundary: "baseline",
            settings: json!({
                "commands": arguments.commands, "runs": arguments.runs, "window": arguments.window,
                "replicas": arguments.replicas, "seed": arguments.seed,
            }),
            servers: versions,
            figures: value(&figures),
        })
    })
}

fn print(system: System, figures: &Figures) {
    let rates = &figures.commands_per_second;
    println!(
        "the same events and the same book as the engine's; digest {}",
        figures.digest
    );
    let shown = [rates.median, rates.least, rates.most].map(|it| it.to_string());
    let [median, least, most] = shown;
    let row = [system.name().to_owned(), median, least, most];
    println!(
        "{}",
        table(["system", "commands/s", "least", "most"], [row])
    );
}

/// The loop and its outbox at work.
pub(crate) struct Articles {
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Articles {
    pub(crate) fn start(bed: &Bed, replicas: usize, mended: bool) -> anyhow::Result<Self> {
        let at = At {
            broker: bed.settings.broker.clone(),
            store: crate::stores::at(&bed.servers.store(0).primary),
            wait: (replicas > 0).then_some(Wait {
                replicas: u32::try_from(replicas)?,
                timeout: WAIT_TIMEOUT,
            }),
            mended,
        };
        let (stop, stopped) = watch::channel(false);
        let (conductor, hears) = (at.clone(), stopped.clone());
        let conductor = move || block_on(conductor::run(conductor, hears));
        let outbox = move || block_on(outbox::run(at, stopped));
        Ok(Self {
            stop,
            threads: vec![
                std::thread::Builder::new()
                    .name("conductor".into())
                    .spawn(conductor)?,
                std::thread::Builder::new()
                    .name("outbox".into())
                    .spawn(outbox)?,
            ],
        })
    }

    /// Ends both in good order.
    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        for thread in self.threads {
            let ended = thread.join();
            ended.ok().context("a thread of the baseline panicked")??;
        }
        Ok(())
    }
}
