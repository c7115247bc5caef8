//! What an outbox tells the operator.

use std::fmt;

/// One line for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// This worker drains the stream now.
    LeaseTaken,
    /// Another worker drains the stream.
    LeaseLost,
    /// What is missing.
    Waiting {
        /// Why.
        reason: String,
    },
    /// An event could not be published.
    Refused {
        /// The event.
        event: String,
        /// The broker's words.
        reason: String,
    },
    /// An entry is no event.
    DeadLettered {
        /// The stream's id for it.
        stream_id: String,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::LeaseTaken => write!(out, "lease taken, publishing"),
            Note::LeaseLost => write!(out, "another outbox holds the lease, standing by"),
            Note::Waiting { reason } => write!(out, "waiting: {reason}"),
            Note::Refused { event, reason } => {
                write!(
                    out,
                    "event {event} was not published and will be tried again: {reason}"
                )
            }
            Note::DeadLettered { stream_id, reason } => {
                write!(
                    out,
                    "entry {stream_id} is no event and went to the dead letters: {reason}"
                )
            }
        }
    }
}
