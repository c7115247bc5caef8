//! Results: the reply, and the record that answers every repeat with the same bytes.

use super::json::{decimal, integer_or_null, key, plain, plain_or_null};
use conductor_engine::event::{CommandResult, Outcome, Reason, RejectReason};
use serde::{Deserialize, Serialize};

/// Appends a result in its canonical form.
pub fn encode_result(result: &CommandResult, out: &mut Vec<u8>) {
    out.push(b'{');
    key(out, "commandId");
    plain(out, result.command.as_str());
    key(out, "status");
    plain(out, result.status.code());
    key(out, "reason");
    plain_or_null(out, result.reason.map(Reason::code));
    key(out, "outcomes");
    out.push(b'[');
    for (place, each) in result.outcomes.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        outcome(each, out);
    }
    out.push(b']');
    key(out, "firstSequence");
    integer_or_null(out, result.sequences.map(|(first, _)| first));
    key(out, "lastSequence");
    integer_or_null(out, result.sequences.map(|(_, last)| last));
    out.push(b'}');
}

fn outcome(outcome: &Outcome, out: &mut Vec<u8>) {
    out.push(b'{');
    key(out, "orderId");
    plain(out, outcome.order.as_str());
    key(out, "outcome");
    plain(out, outcome.kind.code());
    key(out, "remaining");
    match &outcome.remaining {
        Some(remaining) => decimal(out, remaining),
        None => out.extend_from_slice(b"null"),
    }
    key(out, "reason");
    plain_or_null(out, outcome.reason.map(RejectReason::code));
    out.push(b'}');
}

/// A result as a reader sees it: the words of the wire, unjudged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResultView {
    /// The command.
    pub command_id: String,
    /// `accepted`, `unchanged` or `rejected`.
    pub status: String,
    /// Why it was rejected.
    pub reason: Option<String>,
    /// What became of each order that it named.
    pub outcomes: Vec<OutcomeView>,
    /// The sequence of its first event.
    pub first_sequence: Option<u64>,
    /// The sequence of its last event.
    pub last_sequence: Option<u64>,
}

/// What became of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutcomeView {
    /// The order.
    pub order_id: String,
    /// What became of it.
    pub outcome: String,
    /// What it has left.
    pub remaining: Option<String>,
    /// Why it was rejected.
    pub reason: Option<String>,
}

/// Reads a reply or a stored result.
///
/// # Errors
/// The parser's error when the bytes are no result.
pub fn decode_result(bytes: &[u8]) -> Result<ResultView, serde_json::Error> {
    serde_json::from_slice(bytes)
}
