//! What both processes do around their work: logging, settings, exit codes, and the end on a panic.
//!
//! A process ends with 0 when it was asked to, with 78 and one line when a setting must be changed
//! first, and with 1 when the machine refuses something. The line goes to standard error, where the
//! log goes too, and is the last thing there.

use conductor_config::Sources;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Exit code for a setting that must be changed first.
const EXIT_CONFIGURATION: u8 = 78;
/// The broker's client library knows no partition and prints whole messages; what it says is said
/// by us.
const LOGGED_UNLESS_TOLD: &str = "info,lapin=off";

/// Why a process ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// Something must be changed first; the process exits with 78.
    #[error("{0}")]
    Configuration(String),
    /// The machine refused something.
    #[error("{0}")]
    System(String),
}

/// Makes a panic end the whole process, after it was printed: a thread that is gone would leave its
/// neighbours serving as if nothing had happened, and unwinding would drop a consumer, which
/// cancels it and lets its successor overtake what is unacknowledged.
pub fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

/// Runs a process with the settings of a file and of the environment until it ends.
pub fn run(
    name: &str,
    file: Option<PathBuf>,
    work: impl FnOnce(&Sources) -> Result<(), ProcessError>,
) -> ExitCode {
    let filter = EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(LOGGED_UNLESS_TOLD));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    let environment = std::env::vars_os().collect();
    match work(&Sources { file, environment }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            match error {
                ProcessError::Configuration(_) => ExitCode::from(EXIT_CONFIGURATION),
                ProcessError::System(_) => ExitCode::FAILURE,
            }
        }
    }
}

impl From<conductor_config::ConfigError> for ProcessError {
    fn from(error: conductor_config::ConfigError) -> Self {
        ProcessError::Configuration(error.to_string())
    }
}
