//! Traces: commands as JSON objects, one a line.
//!
//! A line is judged exactly as a message from the queue is, so a bad one is a refusal for the
//! record or unusable, and never ends the reading. Nothing longer than a message may be is kept
//! in memory. An empty line is no command either; only the end of the last line stands for
//! nothing.

mod reader;

pub use reader::{TraceLine, TraceReader, destination};

use conductor_engine::Command;
use conductor_io::wire::encode_command;
use std::io::{self, Write};

/// Appends a command to a trace.
///
/// # Errors
/// When the trace cannot be written.
pub fn write_command(command: &Command, out: &mut impl Write) -> io::Result<()> {
    let mut line = encode_command(command);
    line.push(b'\n');
    out.write_all(&line)
}
