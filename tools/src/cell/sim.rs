//! `cell sim`: the engine's own machines through more fault schedules than any machine could stage.

use super::{EXIT_DONE, EXIT_FAILED, Output, table};
use crate::sim::{Batch, Count, Failure, Moral, Plan, Tally, WHO_IS_WHO, Yield, run_batch};
use conductor_engine::guards::Guard;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::process::ExitCode;
use std::time::Instant;

const AFTER_HELP: &str = "\
Examples:
  cell sim --seeds 100000
  cell sim --seeds 1 --from 4711
  cell sim --break fence --seeds 10000";

/// Run the cell's own steps in a world of faults, and judge what comes of them
///
/// One seed is one run: two conductors, two outboxes, a store with its replicas, a broker and two
/// consumers under one clock, with crashes, pauses, failovers and lost replies between any two
/// steps. Every run is held against an oracle that decides the same commands once, in order. The
/// same seeds give the same digest. A run that goes wrong is made as short as can be and told.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// How many seeds to run
    #[arg(long, value_name = "COUNT", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    from: u64,
    /// How many threads share the seeds; as many as there are cores unless given
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
    /// Switch one guard off, and end with the first seed that goes wrong
    #[arg(long, value_name = "GUARD", value_parser = guard, long_help = guards_help())]
    r#break: Option<Guard>,
    /// Let runs have faults that the policy does not cover: work may then be lost, but whoever knows
    /// must halt. Implied by `--break never-forget` and `--break sticky-halt`
    #[arg(long)]
    uncovered: bool,
}

/// Characters of a line of prose.
const LINE_CHARACTERS: usize = 100;

fn guard(word: &str) -> Result<Guard, String> {
    word.parse()
        .map_err(|error: conductor_engine::guards::UnknownGuard| error.to_string())
}

fn guards_help() -> String {
    let lines = Guard::ALL
        .iter()
        .map(|guard| format!("  {guard}: {}", guard.without()));
    let lines: Vec<String> = lines.collect();
    format!(
        "Switch one guard off, and end with the first seed that goes wrong. Without\n{}",
        lines.join("\n")
    )
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<ExitCode> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let beyond = matches!(args.r#break, Some(Guard::NeverForget | Guard::StickyHalt));
    let batch = Batch {
        from: args.from,
        seeds: args.seeds,
        threads: args.threads.map_or(cores, usize::from),
        broken: args.r#break,
        uncovered: args.uncovered || beyond,
    };
    let began = Instant::now();
    let mut progress = output.progress("running seeds", Some(args.seeds));
    let came = run_batch(&batch, |seeds| progress.advance(seeds));
    drop(progress);
    let seconds = began.elapsed().as_secs_f64();
    let rate = came.seeds as f64 / seconds.max(0.001);
    output.note(format_args!(
        "{rate:.0} seeds a second on {} threads",
        batch.threads
    ));
    let wrong = came.violations > 0;
    output.result(&Report::new(&batch, came))?;
    Ok(ExitCode::from(if wrong { EXIT_FAILED } else { EXIT_DONE }))
}

/// What is reported.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    from: u64,
    seeds: u64,
    guard_off: Option<&'static str>,
    uncovered: bool,
    violations: u64,
    messages: u64,
    commands: u64,
    deals: u64,
    events: u64,
    faults: u64,
    faults_by_kind: BTreeMap<&'static str, u64>,
    consequences: BTreeMap<&'static str, u64>,
    digest: String,
    failure: Option<FailureReport>,
    #[serde(skip)]
    tally: Tally,
    #[serde(skip)]
    broken: Option<Guard>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailureReport {
    seed: u64,
    wrong: String,
    schedule: Vec<String>,
    story: Vec<String>,
    shortest: String,
}

impl Report {
    fn new(batch: &Batch, came: Yield) -> Self {
        let by_kind = |faults: bool| {
            let kinds = Count::ALL.iter().filter(|kind| kind.is_fault() == faults);
            kinds
                .map(|kind| (kind.words(), came.tally.of(*kind)))
                .collect()
        };
        Self {
            from: batch.from,
            seeds: came.seeds,
            guard_off: batch.broken.map(Guard::name),
            uncovered: batch.uncovered,
            violations: came.violations,
            messages: came.tally.messages,
            commands: came.tally.commands,
            deals: came.tally.deals,
            events: came.tally.market_events,
            faults: came.tally.faults(),
            faults_by_kind: by_kind(true),
            consequences: by_kind(false),
            digest: came.digest,
            failure: came.failure.map(FailureReport::new),
            tally: came.tally,
            broken: batch.broken,
        }
    }

    fn totals(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |count: u64| count as f64 / self.seeds.max(1) as f64;
        writeln!(
            out,
            "{} commands ({:.1} a seed) in {} messages, {} deals, {} events, {} faults ({:.1} a \
             seed)",
            self.commands,
            each(self.commands),
            self.messages,
            self.deals,
            self.events,
            self.faults,
            each(self.faults)
        )
    }

    fn table(&self, faults: bool) -> String {
        let head = if faults { "fault" } else { "what came of them" };
        let kinds = Count::ALL.iter().filter(|kind| kind.is_fault() == faults);
        let rows = kinds.filter_map(|kind| {
            let count = self.tally.of(*kind);
            let shown = count > 0 || !faults;
            shown.then(|| [kind.words().to_owned(), count.to_string()])
        });
        table([head, "count"], rows).to_string()
    }
}

impl FailureReport {
    fn new(failure: Failure) -> Self {
        Self {
            seed: failure.seed,
            wrong: failure.wrong.to_string(),
            schedule: schedule(&failure.plan),
            story: failure.story,
            shortest: failure.shortest.to_string(),
        }
    }
}

fn schedule(plan: &Plan) -> Vec<String> {
    let mut lines = vec![plan.to_string()];
    lines.extend(plan.faults.iter().map(ToString::to_string));
    lines
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.broken, &self.failure) {
            (Some(guard), Some(failure)) => return failure.without(guard, out),
            (Some(guard), None) => writeln!(
                out,
                "nobody misses the guard {guard} in {} seeds from {}",
                self.seeds, self.from
            )?,
            (None, _) => writeln!(
                out,
                "{} seeds from {} with every guard: {} violations",
                self.seeds, self.from, self.violations
            )?,
        }
        self.totals(out)?;
        writeln!(out, "\n{}\n\n{}\n", self.table(true), self.table(false))?;
        writeln!(out, "digest {}", self.digest)?;
        match &self.failure {
            Some(failure) => failure.fmt(out),
            None => Ok(()),
        }
    }
}

impl FailureReport {
    /// The story of a run without a guard: what the guard is for, what happened, what that comes to.
    fn without(&self, guard: Guard, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moral = Moral::of(guard);
        writeln!(out, "the guard {guard} is missed by seed {}\n", self.seed)?;
        writeln!(out, "{}", wrapped(moral.protects))?;
        let off = format!("In this run the guard is off: {}.", guard.without());
        writeln!(out, "\n{}", wrapped(&off))?;
        write!(out, "{self}")?;
        let end = format!("So, without the guard {guard}, {}.", moral.without);
        writeln!(out, "{}", wrapped(&end))
    }
}

/// Words in lines of a terminal's width.
fn wrapped(words: &str) -> String {
    let mut lines = String::new();
    let mut length = 0;
    for word in words.split_whitespace() {
        if length > 0 && length + 1 + word.len() > LINE_CHARACTERS {
            lines.push('\n');
            length = 0;
        } else if length > 0 {
            lines.push(' ');
            length += 1;
        }
        lines.push_str(word);
        length += word.len();
    }
    lines
}

impl fmt::Display for FailureReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\nseed {}: {}", self.seed, self.wrong)?;
        writeln!(
            out,
            "\nthe shortest schedule that was found to go wrong in the same way (a step is one move \
             of anybody):"
        )?;
        for line in &self.schedule {
            writeln!(out, "  {line}")?;
        }
        writeln!(out, "\nwho is who:\n{WHO_IS_WHO}")?;
        writeln!(out, "\nits story (! marks what a fault does):")?;
        for line in &self.story {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "\nwrong: {}", self.shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_story_begins_with_what_its_guard_is_for_and_ends_with_what_its_absence_came_to() {
        let batch = Batch {
            from: 1,
            seeds: 20,
            threads: 1,
            broken: Some(Guard::Priority),
            uncovered: false,
        };
        let report = Report::new(&batch, run_batch(&batch, |_| {}));
        let told = report.to_string();
        let flat = told.replace('\n', " ");
        let moral = Moral::of(Guard::Priority);
        let place = |words: &str| {
            flat.find(words)
                .unwrap_or_else(|| panic!("{words}: {told}"))
        };
        assert!(place(moral.protects) < place(Guard::Priority.without()));
        assert!(place(Guard::Priority.without()) < place("who is who:"));
        assert!(place("who is who:") < place("its story"));
        assert!(place("its story") < place("wrong: "));
        assert!(flat.trim_end().ends_with(&format!("{}.", moral.without)));
    }
}
