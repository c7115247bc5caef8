//! Waiting for a condition, never for a time: look, and look again until it is so.
//!
//! What ends without having come about says what the last look showed and how the log ends.

use super::error::{Result, TestbedError};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Short beside anything that a server takes, long beside the cost of a look.
const PAUSE: Duration = Duration::from_millis(10);

/// What is watched while something is awaited of it.
pub(super) trait Watched {
    fn name(&self) -> &str;
    fn ended(&self) -> Option<ExitStatus>;
    fn last_lines(&self) -> String;
}

/// Waits for what a process does even by ending.
pub(super) fn until<T>(
    watched: &impl Watched,
    awaited: &str,
    within: Duration,
    look: impl FnMut() -> std::result::Result<T, String>,
) -> Result<T> {
    poll(within, look, || Ok(())).map_err(|missed| missed.into_error(watched, awaited, within))
}

/// Waits for what only a running process can do.
pub(super) fn while_running<T>(
    watched: &impl Watched,
    awaited: &str,
    within: Duration,
    look: impl FnMut() -> std::result::Result<T, String>,
) -> Result<T> {
    let running = || watched.ended().map_or(Ok(()), Err);
    poll(within, look, running).map_err(|missed| missed.into_error(watched, awaited, within))
}

/// Waits for something that belongs to no single process.
pub fn wait_for<T>(
    awaited: &str,
    within: Duration,
    look: impl FnMut() -> std::result::Result<T, String>,
) -> Result<T> {
    struct Nobody;
    impl Watched for Nobody {
        fn name(&self) -> &str {
            "test bed"
        }
        fn ended(&self) -> Option<ExitStatus> {
            None
        }
        fn last_lines(&self) -> String {
            "(no single process)".into()
        }
    }
    until(&Nobody, awaited, within, look)
}

enum Missed {
    Ended(ExitStatus),
    Late(String),
}

impl Missed {
    fn into_error(self, watched: &impl Watched, awaited: &str, within: Duration) -> TestbedError {
        let (name, awaited) = (watched.name().to_owned(), awaited.to_owned());
        let log = watched.last_lines();
        match self {
            Self::Ended(status) => TestbedError::Ended {
                name,
                status: status.to_string(),
                awaited,
                log,
            },
            Self::Late(last) => TestbedError::Timeout {
                name,
                awaited,
                within,
                last,
                log,
            },
        }
    }
}

fn poll<T>(
    within: Duration,
    mut look: impl FnMut() -> std::result::Result<T, String>,
    running: impl Fn() -> std::result::Result<(), ExitStatus>,
) -> std::result::Result<T, Missed> {
    let begin = Instant::now();
    loop {
        // Whether it runs is asked first: what it wrote or did before it ended is then seen below.
        let ended = running();
        let last = match look() {
            Ok(found) => return Ok(found),
            Err(last) => last,
        };
        ended.map_err(Missed::Ended)?;
        if begin.elapsed() >= within {
            return Err(Missed::Late(last));
        }
        std::thread::sleep(PAUSE);
    }
}
