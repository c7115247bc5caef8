//! What can go wrong with a private server, each with what to do about it.
//!
//! A server that does not come up says why in its own log, so the last lines of that log are part
//! of the message: the folder is gone by the time that anybody reads it.

use std::path::PathBuf;
use std::time::Duration;

/// Why a private server could not be had.
#[derive(Debug, thiserror::Error)]
pub enum TestbedError {
    /// A file or a folder of the test bed could not be used.
    #[error("cannot {doing} {}: {source}; is the temporary folder writable and not full?",
        path.display())]
    File {
        /// What was being done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program is not on this machine or cannot be run.
    #[error("cannot run {program}: {source}; tools/setup installs the servers")]
    Program {
        /// The program.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// One of our own binaries has not been built.
    #[error("there is no {}; build it first: cargo build --workspace{flags}", path.display())]
    NotBuilt {
        /// Where it should be.
        path: PathBuf,
        /// Which further flags its profile needs.
        flags: &'static str,
    },
    /// No free port was found.
    #[error("no free port on 127.0.0.1 from {first} to {last}; end some of what listens there")]
    NoPort {
        /// The first port that was tried.
        first: u16,
        /// The last one.
        last: u16,
    },
    /// The set of versions that was asked for cannot be had.
    #[error("these versions of the servers cannot be had: {reason}")]
    Versions {
        /// Why, and what to do.
        reason: String,
    },
    /// This user, or what the machine runs in, lacks a right.
    #[error("cannot {what}: {reason}; this needs root with the right to mount file systems")]
    Rights {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
        reason: String,
    },
    /// A process ended when it should have run.
    #[error("{name} ended ({status}) before {awaited}; the end of its log:\n{log}")]
    Ended {
        /// The process.
        name: String,
        /// How it ended.
        status: String,
        /// What was waited for.
        awaited: String,
        /// The last lines that it wrote.
        log: String,
    },
    /// Something did not come about in time.
    #[error("{name}: no {awaited} within {} s ({last}); the end of its log:\n{log}",
        within.as_secs_f32())]
    Timeout {
        /// The process.
        name: String,
        /// What was waited for.
        awaited: String,
        /// How long.
        within: Duration,
        /// What the last look showed.
        last: String,
        /// The last lines that the process wrote.
        log: String,
    },
    /// A server answered with something else than what was asked for.
    #[error("{name} answered {answer}")]
    Answer {
        /// The server.
        name: String,
        /// What it said.
        answer: String,
    },
    /// A signal could not be sent.
    #[error("cannot send {signal} to {name}: {reason}")]
    Signal {
        /// The signal.
        signal: &'static str,
        /// The process.
        name: String,
        /// What was said.
        reason: String,
    },
}

/// The result of everything in the test bed.
pub type Result<T> = std::result::Result<T, TestbedError>;

/// Turns the system's error about a file into ours.
pub(super) fn file(
    doing: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> TestbedError {
    let path = path.into();
    move |source| TestbedError::File {
        doing,
        path,
        source,
    }
}
