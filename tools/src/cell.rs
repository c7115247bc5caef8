//! The command line `cell`: run, drive and look after a cell.
//!
//! Each command is a module with its arguments (a clap `Args` struct) and one function
//! `run(args, output)`. What a command found goes to stdout through [`Output`], as text or, with
//! `--json`, as JSON; everything else it has to say goes to stderr. A command never prints past
//! `Output`, and never decides how the process ends but by what it returns.

mod amend;
mod ask;
mod cancel;
mod demo;
mod depth;
mod events;
mod files;
mod import;
mod init;
mod output;
mod pages;
mod parked;
mod place;
mod progress;
mod reconcile;
mod replace;
mod replay;
mod resume;
mod send;
mod sim;
mod status;
pub mod table;
mod up;
mod workload;

pub use output::Output;
pub use progress::Progress;
pub(crate) use table::table;
pub(crate) use up::Shape;

use crate::client::{SetUpError, StoreError};
use clap::{Parser, Subcommand};
use conductor_config::ConfigError;
use std::process::ExitCode;

/// Exit code of a command that did what it was asked to do.
pub const EXIT_DONE: u8 = 0;
/// Exit code of a command that failed, or that found a difference it was asked to look for.
pub const EXIT_FAILED: u8 = 1;
/// Exit code of a command line that cannot be understood; clap ends the process with it.
pub const EXIT_USAGE: u8 = 2;
/// Exit code of settings that must be changed first (`EX_CONFIG`).
pub const EXIT_CONFIGURATION: u8 = 78;

const ABOUT: &str = "Run, drive and look after a matching cell.";
const LONG_ABOUT: &str = "\
Run, drive and look after a matching cell.

Results go to stdout, everything else to stderr. `--json` turns the result of any command into
JSON, so that it can be read by a program.";
const AFTER_HELP: &str = "\
Exit codes:
  0   done
  1   failed, or a difference was found; the line on stderr says what to change
  2   the command line cannot be understood
  78  the settings must be changed first";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "cell", version, about = ABOUT, long_about = LONG_ABOUT, after_help = AFTER_HELP)]
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
    Up(up::Args),
    Demo(demo::Args),
    Init(init::Args),
    Place(place::Args),
    Cancel(cancel::Args),
    Amend(amend::Args),
    Replace(replace::Args),
    Send(send::Args),
    Sim(sim::Args),
    Events(events::Args),
    Depth(depth::Args),
    Reconcile(reconcile::Args),
    Status(status::Args),
    Parked(parked::Args),
    Resume(resume::Args),
    Replay(replay::Args),
    Import(import::Args),
    Workload(workload::Args),
}

impl Command {
    fn run(&self, output: &Output) -> anyhow::Result<ExitCode> {
        match self {
            Command::Up(args) => up::run(args, output),
            Command::Demo(args) => demo::run(args, output),
            Command::Init(args) => init::run(args, output),
            Command::Place(args) => place::run(args, output),
            Command::Cancel(args) => cancel::run(args, output),
            Command::Amend(args) => amend::run(args, output),
            Command::Replace(args) => replace::run(args, output),
            Command::Send(args) => send::run(args, output),
            Command::Sim(args) => sim::run(args, output),
            Command::Events(args) => events::run(args, output),
            Command::Depth(args) => depth::run(args, output),
            Command::Reconcile(args) => reconcile::run(args, output),
            Command::Status(args) => status::run(args, output),
            Command::Parked(args) => parked::run(args, output),
            Command::Resume(args) => resume::run(args, output),
            Command::Replay(args) => replay::run(args, output),
            Command::Import(args) => import::run(args, output),
            Command::Workload(args) => workload::run(args, output),
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

/// Says what went wrong in one line, and which kind of wrong it was.
pub(crate) fn failed(error: &anyhow::Error, output: &Output) -> ExitCode {
    if output::reader_left(error) {
        return ExitCode::from(EXIT_DONE);
    }
    output.note(format_args!("error: {error:#}"));
    ExitCode::from(if error.chain().any(is_of_settings) {
        EXIT_CONFIGURATION
    } else {
        EXIT_FAILED
    })
}

/// Whether the settings must change first: a tool's own, or those of a store.
fn is_of_settings(cause: &(dyn std::error::Error + 'static)) -> bool {
    let of_store = |error: &StoreError| error.is_of_settings();
    cause.is::<ConfigError>()
        || cause.downcast_ref::<StoreError>().is_some_and(of_store)
        || cause
            .downcast_ref::<SetUpError>()
            .is_some_and(|error| matches!(error, SetUpError::Store(error) if of_store(error)))
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
    fn a_negative_price_is_told_what_a_price_is() {
        let place = ["place", "--pair", "1", "--side", "bid"];
        let amend = ["amend", "o-1", "--pair", "1", "--volume", "1"];
        let prices = [["--price", "-1"], ["--price", "-0.5"]];
        for (words, price) in [(&place[..], prices[0]), (&amend[..], prices[1])] {
            let line = ["cell"].iter().chain(words).chain(&price);
            let refused = CommandLine::try_parse_from(line.chain(&["--wait-ms", "1"]));
            let told = refused.expect_err("no price is negative").to_string();
            assert!(told.contains("is not a plain decimal"), "{told}");
        }
    }

    #[test]
    fn every_way_to_look_at_what_is_parked_shows_an_example() {
        let mut line = CommandLine::command();
        let parked = line.find_subcommand_mut("parked").expect("it is there");
        for command in parked.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("  cell parked "), "{help}");
        }
    }

    #[test]
    fn every_command_shows_an_example() {
        for command in CommandLine::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.contains("cell "), "{help}");
            assert!(help.contains("Example"), "{help}");
        }
    }
}
