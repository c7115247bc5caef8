//! Where a command's words go: results to stdout, talk to stderr.
//!
//! A result is printed once, at the end, as text or as JSON. A reader that closes stdout early,
//! as `head` does, is no failure.

use super::Progress;
pub(super) use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

/// How one run of a command speaks.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    json: bool,
}

impl Output {
    /// Output as text, or as JSON.
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints a result: the value as one line of JSON where that was asked for, else its text.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn result<T: Serialize + fmt::Display>(&self, value: &T) -> anyhow::Result<()> {
        let text = if self.json {
            serde_json::to_string(value)?
        } else {
            value.to_string()
        };
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{}", text.trim_end_matches('\n'))?;
        stdout.flush()?;
        Ok(())
    }

    /// Says something that is no result. A closed stderr is nobody to tell.
    pub fn note(&self, text: impl fmt::Display) {
        // Nothing is left to report a failure of stderr to.
        drop(writeln!(io::stderr(), "{text}"));
    }

    /// A bar for work of this many steps, shown on a terminal once the work has taken a while.
    pub fn progress(&self, what: &'static str, total: Option<u64>) -> Progress {
        Progress::new(what, total)
    }
}

/// A table as all commands draw theirs: a header, and columns without lines between them.
pub(super) fn table<const COLUMNS: usize>(header: [&str; COLUMNS]) -> Table {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header);
    table
}

/// Whether a command failed only because nobody reads its stdout any more.
pub(super) fn reader_left(error: &anyhow::Error) -> bool {
    let broken = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(broken))
}
