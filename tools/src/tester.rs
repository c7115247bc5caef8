//! The command line `conductor-tester`: load with a live consumer, faults, and the audit.
//!
//! Three parts that know nothing of each other's insides. [`traffic`] offers a seeded workload to a
//! cell, survives whatever happens to it, and writes what it published and every event that came
//! into one file, the record. [`audit`] reads that record later, decides the same commands by itself
//! and compares four sides: this oracle, the store, the owner's memory, and the inbox. What happens
//! to the cell meanwhile is a third part's. Each command is a module with its arguments and one
//! function `run(args, output)`, as the commands of `cell` are.

pub mod audit;
pub mod chaos;
mod inbox;
mod load;
mod oracle;
mod poison;
mod record;
mod script;
mod site;
mod soak;
mod start;
pub mod traffic;

pub use record::RecordError;

use crate::cell::{Output, failed};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

const ABOUT: &str = "Load a cell, disturb it, and prove what came of it.";
const LONG_ABOUT: &str = "\
Load a cell, disturb it, and prove what came of it.

Results go to stdout, everything else to stderr. `--json` turns the result of any command into
JSON, so that it can be read by a program.";
const AFTER_HELP: &str = "\
Exit codes:
  0   done, and the audit is clean
  1   failed, or the audit found a difference; the line on stderr says which was the first
  2   the command line cannot be understood
  78  the settings must be changed first";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "conductor-tester", version, about = ABOUT, long_about = LONG_ABOUT,
          after_help = AFTER_HELP)]
struct CommandLine {
    /// Print the result as JSON on stdout
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

/// Every command, in the order in which help lists them.
#[derive(Debug, Subcommand)]
enum Command {
    Load(load::Args),
    Audit(audit::Args),
    Chaos(chaos::Args),
    Soak(soak::Args),
}

impl Command {
    fn run(&self, output: &Output) -> anyhow::Result<ExitCode> {
        match self {
            Command::Load(args) => load::run(args, output),
            Command::Audit(args) => audit::run(args, output),
            Command::Chaos(args) => chaos::run(args, output),
            Command::Soak(args) => soak::run(args, output),
        }
    }
}

/// Reads the process's arguments and runs the command that they name.
pub fn main() -> ExitCode {
    let line = CommandLine::parse();
    let output = Output::new(line.json);
    match line.command.run(&output) {
        Ok(code) => code,
        Err(error) => failed(&error, &output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in CommandLine::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{help}");
        }
    }
}
