//! Everything: producer, broker, conductor, stores on two disks, acknowledgement, outbox, consumer;
//! and beside it, in the same run and in turn, what it replaces.
//!
//! A closed loop at full speed: at most a window of commands is under way, and a run ends with its
//! last reply and its last event. Processor seconds are of the kernel's own counting; the share of
//! the steps is of the time that the conductor's own histograms count, in which a group's steps
//! count for each of its commands.

use crate::figures::{Rates, rate, ratio};
use crate::record::{Keep, Run, table, value};
use crate::session::{Measured, Session, System};
use conductor_tools::client::block_on;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;

/// The whole path at full speed, beside what it replaces
///
/// Example: conductor-bench path --against baseline-mended,baseline --runs 5
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Commands of the conductor in each run
    #[arg(long, default_value_t = 20_000)]
    commands: usize,
    /// Runs of each system, in turn; the medians are compared
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Commands under way at once
    #[arg(long, default_value_t = 2_048)]
    window: usize,
    /// What else runs, in turn with the conductor
    #[arg(long, value_enum, value_delimiter = ',')]
    against: Vec<System>,
    /// Commands of the others in each run
    #[arg(long, default_value_t = 1_000)]
    others_commands: usize,
    /// Replicas whose disks are waited for; none means the policy memory
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What one system came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    system: System,
    commands: usize,
    digest: String,
    commands_per_second: Rates,
    reply_ms_p50: f64,
    reply_ms_p99: f64,
    reply_ms_p999: f64,
    /// Processor seconds per thousand commands.
    cpu_seconds: BTreeMap<String, f64>,
    /// Of a hundred, by step.
    step_percent: Vec<(String, f64)>,
}

pub(crate) fn run(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    block_on(measure(arguments, keep))
}

async fn measure(arguments: &Arguments, keep: &Keep) -> anyhow::Result<()> {
    let mut systems = vec![System::Conductor];
    systems.extend(
        arguments
            .against
            .iter()
            .filter(|it| **it != System::Conductor),
    );
    let mut sessions = Vec::new();
    for system in systems {
        let session = Session::start(system, arguments.replicas, arguments.seed).await?;
        sessions.push((session, Vec::new()));
    }
    for _ in 0..arguments.runs {
        for (session, runs) in &mut sessions {
            let count = match session.system {
                System::Conductor => arguments.commands,
                System::Baseline | System::BaselineMended => arguments.others_commands,
            };
            runs.push(session.run(count, arguments.window).await?);
        }
    }
    let (mut rows, mut versions) = (Vec::new(), json!(null));
    for (session, runs) in sessions {
        versions = session.versions()?;
        let system = session.system;
        rows.push(Row::of(system, session.end().await?, &runs));
    }
    print(&rows);
    keep.run(&Run {
        boundary: "path",
        settings: json!({
            "commands": arguments.commands, "othersCommands": arguments.others_commands,
            "runs": arguments.runs, "window": arguments.window, "replicas": arguments.replicas,
            "seed": arguments.seed,
        }),
        servers: versions,
        figures: value(&rows),
    })
}

impl Row {
    fn of(system: System, digest: String, runs: &[Measured]) -> Self {
        let rates = runs.iter().map(|run| rate(run.commands, run.elapsed));
        let at = |quantile: f64| {
            let mut all: Vec<f64> = runs
                .iter()
                .map(|run| run.summary.publish_to_reply_ms.milliseconds_at(quantile))
                .collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        let commands = runs.iter().map(|run| run.commands).sum::<usize>();
        let mut cpu_seconds = BTreeMap::new();
        let mut steps: Vec<(String, f64)> = Vec::new();
        for run in runs {
            for (process, seconds) in &run.cpu {
                *cpu_seconds.entry(process.clone()).or_insert(0.0) += seconds;
            }
            for (step, seconds) in &run.steps {
                match steps.iter_mut().find(|(known, _)| known == step) {
                    Some((_, sum)) => *sum += seconds,
                    None => steps.push((step.clone(), *seconds)),
                }
            }
        }
        cpu_seconds
            .values_mut()
            .for_each(|seconds| *seconds *= per_thousand(commands));
        let whole: f64 = steps.iter().map(|(_, seconds)| seconds).sum();
        steps
            .iter_mut()
            .for_each(|(_, seconds)| *seconds *= 100.0 / whole.max(f64::EPSILON));
        Self {
            system,
            commands,
            digest,
            commands_per_second: Rates::of(rates.collect()),
            reply_ms_p50: at(0.5),
            reply_ms_p99: at(0.99),
            reply_ms_p999: at(0.999),
            cpu_seconds,
            step_percent: steps,
        }
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "commands of a run are far below 2^53"
)]
fn per_thousand(commands: usize) -> f64 {
    1_000.0 / commands.max(1) as f64
}

fn print(rows: &[Row]) {
    let head = [
        "system",
        "commands/s",
        "least",
        "most",
        "reply p50 ms",
        "p99",
        "p99.9",
    ];
    let shown = rows.iter().map(|row| {
        let rates = &row.commands_per_second;
        let [median, least, most] =
            [rates.median, rates.least, rates.most].map(|it| it.to_string());
        let times = [row.reply_ms_p50, row.reply_ms_p99, row.reply_ms_p999];
        let [p50, p99, p999] = times.map(|it| format!("{it:.1}"));
        [
            row.system.name().to_owned(),
            median,
            least,
            most,
            p50,
            p99,
            p999,
        ]
    });
    println!("{}", table(head, shown));
    for row in rows {
        println!(
            "{}: replies, events and book are the engine's; digest {}",
            row.system.name(),
            row.digest
        );
        let cpu = row
            .cpu_seconds
            .iter()
            .map(|(name, seconds)| format!("{name} {seconds:.3}"));
        let cpu: Vec<String> = cpu.collect();
        println!("  processor seconds per 1,000 commands: {}", cpu.join(", "));
        if !row.step_percent.is_empty() {
            let steps = row
                .step_percent
                .iter()
                .map(|(name, share)| format!("{name} {share:.1} %"));
            println!("  time by step: {}", steps.collect::<Vec<_>>().join(", "));
        }
    }
    if let Some((ours, others)) = rows.split_first() {
        for other in others {
            let times = ratio(
                ours.commands_per_second.median,
                other.commands_per_second.median,
            );
            println!(
                "the conductor is {times:.1} times the {}",
                other.system.name()
            );
        }
    }
}
