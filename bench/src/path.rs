//! Everything: producer, broker, conductor, stores on two disks, acknowledgement, outbox, consumer;
//! and beside it, in the same run and in turn, what it replaces.
//!
//! A closed loop at full speed: at most a window of commands is under way, and a run ends with its
//! last reply and its last event. Processor seconds are of the kernel's own counting; the share of
//! the steps is of the time that the conductor's own histograms count, in which a group's steps
//! count for each of its commands.

mod moments;
mod open;

pub(crate) use moments::Watcher;
pub(crate) use open::{Offered, OpenLoop};

use crate::commit::{self, Pace, Wait};
use crate::figures::{Rates, Times, rate, ratio};
use crate::record::{Keep, Run, table, value};
use crate::session::{Measured, Offer, Plan, Session, System};
use crate::stores::Stores;
use anyhow::Context;
use conductor_tools::client::block_on;
use conductor_tools::workload::{Workload, WorkloadOptions};
use moments::Episode;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// The whole path at full speed, beside what it replaces
///
/// Servers are private and on this machine, in a temporary folder; valkey-server and RabbitMQ must be
/// installed. A row is one system: commands a second from the first command sent to the last reply
/// and event taken, and the time from sending a command to its reply with a whole window under way.
///
/// Examples:
///   conductor-bench path --bare --against baseline-mended,baseline
///   conductor-bench path --open 50 --open-seconds 300
///   conductor-bench path --vary MATCHING_PREFETCH=256,1024
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
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
    /// The same traffic beside it, moved by a process that decides nothing
    #[arg(long)]
    bare: bool,
    /// The conductor again with another setting, in turn: a variable of its environment and the
    /// values to try, such as MATCHING_PREFETCH=128,1024
    #[arg(long, value_name = "NAME=VALUE,...", value_parser = varied)]
    vary: Option<Varied>,
    /// Commands of a baseline in each run
    #[arg(long, default_value_t = 1_000)]
    others_commands: usize,
    /// An open loop afterwards: this percentage of the conductor's full speed is offered
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=200))]
    open: Option<u32>,
    /// How long the open loop lasts
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    open_seconds: u32,
    /// Rewrites of the primary's file during the open loop
    #[arg(long, default_value_t = 2)]
    rewrites: u32,
    /// Replicas whose disks are waited for; none means the policy memory
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Seed of the workload
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Arguments {
    const fn count(&self, system: System) -> usize {
        match system {
            System::Conductor | System::Bare => self.commands,
            System::Baseline | System::BaselineMended => self.others_commands,
        }
    }

    /// The open loop, where it was asked for, at a share of what the runs reached.
    async fn offer(
        &self,
        session: &mut Session,
        runs: &[Measured],
        keep: &Keep,
    ) -> anyhow::Result<Option<Open>> {
        let Some(percent) = self.open else {
            return Ok(None);
        };
        let full = Rates::of(
            runs.iter()
                .map(|run| rate(run.commands, run.elapsed))
                .collect(),
        );
        let per_second = (full.median * u64::from(percent) / 100).max(1);
        let count = usize::try_from(per_second * u64::from(self.open_seconds))?;
        let watcher = session.watch();
        let offered = session
            .offer(count, per_second as f64, self.rewrites)
            .await?;
        let Offer {
            offered: Offered { began, times, slow },
            rewritten,
            groups,
        } = offered;
        keep.histogram("path-open", &times)?;
        let episodes = watcher.explain(began, &slow);
        let group = count.div_ceil(usize::try_from(groups)?.max(1));
        let commit = self.commit_alone(group, per_second, keep).await?;
        Ok(Some(Open {
            commands_per_second: per_second,
            times: Times::of(&times),
            slow: slow.len(),
            episodes,
            rewritten: rewritten.iter().map(Duration::as_secs_f64).collect(),
            commit,
        }))
    }

    /// The workload's writes, from its beginning on an empty book, at the same pace against stores
    /// alone.
    async fn commit_alone(
        &self,
        group: usize,
        per_second: u64,
        keep: &Keep,
    ) -> anyhow::Result<CommitAlone> {
        let replicas = u32::try_from(self.replicas)?;
        let stores = Stores::start(1, replicas)?;
        let primaries = stores.primaries();
        let store = primaries.into_iter().next().context("there is a primary")?;
        let pace = Pace {
            group,
            commands_per_second: per_second as f64,
            length: Duration::from_secs(self.open_seconds.into()),
            rewrites: self.rewrites,
            wait: Wait::of(replicas),
        };
        let workload = Workload::new(WorkloadOptions {
            seed: self.seed,
            ..WorkloadOptions::default()
        })?;
        let count = usize::try_from(per_second * u64::from(self.open_seconds))?;
        // The session's connections must be served meanwhile.
        let committing =
            tokio::task::spawn_blocking(move || commit::pace(&store, workload.take(count), pace));
        let times = committing.await??;
        keep.histogram("path-open-commit-alone", &times)?;
        Ok(CommitAlone {
            group,
            times: Times::of(&times),
        })
    }
}

/// A setting and the values to try.
#[derive(Clone, Debug)]
struct Varied {
    name: String,
    values: Vec<String>,
}

impl Varied {
    fn settings(&self) -> impl Iterator<Item = (String, String)> {
        let name = |value: &String| (self.name.clone(), value.clone());
        self.values.iter().map(name)
    }
}

fn varied(text: &str) -> Result<Varied, String> {
    let Some((name, values)) = text.split_once('=') else {
        return Err("write NAME=VALUE,VALUE".to_owned());
    };
    Ok(Varied {
        name: name.to_owned(),
        values: values.split(',').map(str::to_owned).collect(),
    })
}

/// What the open loop came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Open {
    commands_per_second: u64,
    /// From when a command was due to its reply.
    times: Times,
    /// Commands over 250 ms.
    slow: usize,
    episodes: Vec<Episode>,
    /// When the primary's file was rewritten, in seconds.
    rewritten: Vec<f64>,
    /// The same writes at the same rate and the same size of a group, against stores alone.
    commit: CommitAlone,
}

/// What the store alone takes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CommitAlone {
    group: usize,
    /// From when a group was due to its last reply.
    times: Times,
}

impl Open {
    fn print(&self) {
        let [p50, p90, p99, p999, longest] = self.times.cells();
        println!(
            "open loop at {} commands a second, from due to reply: p50 {p50} us, p90 {p90}, p99 {p99}, \
             p99.9 {p999}, longest {longest}; {} of {} over 250 ms",
            self.commands_per_second, self.slow, self.times.count
        );
        let at: Vec<String> = self
            .rewritten
            .iter()
            .map(|at| format!("{at:.1} s"))
            .collect();
        println!("  the primary's file was rewritten at {}", at.join(", "));
        for episode in &self.episodes {
            println!("  {}", episode.line());
        }
        let CommitAlone { group, times } = &self.commit;
        let [p50, p90, p99, p999, longest] = times.cells();
        println!(
            "commit alone at that rate, {group} commands a group, from due to durable: p50 {p50} us, \
             p90 {p90}, p99 {p99}, p99.9 {p999}, longest {longest}; the path's p99.9 is {:.1} times \
             this one's",
            self.times.p999 / times.p999.max(f64::EPSILON)
        );
    }
}

/// What one system came to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    system: System,
    /// What differs from the defaults.
    setting: Option<String>,
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
    systems.extend(arguments.bare.then_some(System::Bare));
    let named = arguments.against.iter().copied();
    systems.extend(
        named.filter(|it| *it != System::Conductor && !(arguments.bare && *it == System::Bare)),
    );
    let mut sessions = Vec::new();
    let settings = arguments.vary.iter().flat_map(Varied::settings);
    let varied = settings.map(|setting| (System::Conductor, Some(setting)));
    let plain = systems.into_iter().map(|system| (system, None));
    for (system, setting) in plain.chain(varied) {
        let plan = Plan {
            replicas: arguments.replicas,
            seed: arguments.seed,
            commands: arguments.count(system) * arguments.runs as usize,
            setting: setting.clone(),
        };
        sessions.push((Session::start(system, plan).await?, setting, Vec::new()));
    }
    for _ in 0..arguments.runs {
        for (session, _, runs) in &mut sessions {
            let count = arguments.count(session.system);
            runs.push(session.run(count, arguments.window).await?);
        }
    }
    let open = match sessions.first_mut() {
        Some((session, _, runs)) => arguments.offer(session, runs, keep).await?,
        None => None,
    };
    let (mut rows, mut versions) = (Vec::new(), json!(null));
    for (session, setting, runs) in sessions {
        versions = session.versions()?;
        let system = session.system;
        let row = Row::of(system, session.end().await?, &runs);
        let setting = setting.map(|(name, value)| format!("{name}={value}"));
        rows.push(Row { setting, ..row });
    }
    print(&rows);
    if let Some(open) = &open {
        open.print();
    }
    keep.run(&Run {
        boundary: "path",
        settings: json!({
            "commands": arguments.commands, "othersCommands": arguments.others_commands,
            "runs": arguments.runs, "window": arguments.window, "replicas": arguments.replicas,
            "seed": arguments.seed, "bare": arguments.bare, "against": value(&arguments.against),
            "openPercent": arguments.open, "openSeconds": arguments.open_seconds,
            "rewrites": arguments.rewrites,
        }),
        servers: versions,
        figures: json!({ "systems": value(&rows), "open": value(&open) }),
    })
}

impl Row {
    fn name(&self) -> String {
        let setting = self.setting.iter().map(|setting| format!(", {setting}"));
        format!("{}{}", self.system.name(), setting.collect::<String>())
    }

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
            setting: None,
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
        [row.name(), median, least, most, p50, p99, p999]
    });
    println!("{}", table(head, shown));
    for row in rows {
        println!(
            "{}: replies, events and book are the engine's; digest {}",
            row.name(),
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
            if other.system == System::Bare {
                against_bare(ours, other);
                continue;
            }
            let times = ratio(
                ours.commands_per_second.median,
                other.commands_per_second.median,
            );
            println!("the conductor is {times:.2} times the {}", other.name());
        }
    }
}

fn against_bare(ours: &Row, bare: &Row) {
    let share = 100.0
        * ratio(
            ours.commands_per_second.median,
            bare.commands_per_second.median,
        );
    let used = |row: &Row| {
        row.cpu_seconds
            .get("conductor")
            .copied()
            .unwrap_or_default()
    };
    let times = used(ours) / used(bare).max(f64::EPSILON);
    println!(
        "the conductor reaches {share:.0} % of the bare traffic, with {times:.2} times its processor time"
    );
}
