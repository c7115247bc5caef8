//! Questions to a running RabbitMQ node in the broker's own language.
//!
//! `rabbitmqctl` starts a virtual machine for every question, which takes a second or two of a core
//! that the servers under test would need. `erl_call`, which comes with Erlang itself, is a small
//! program that speaks to the node's distribution port and is done in milliseconds.
//!
//! It ends with success whatever came of the question, and says nothing of an error in it. So every
//! expression is wrapped: its answer ends with a line that says that it is whole.

use super::folder::Folder;
use super::launch::Launch;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The last line of an answer that is whole.
const WHOLE: &str = "answered";
/// How long a node may take to answer. One that is starting takes the connection and says nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Evaluates an expression, which prints its answer with `io:format`. `node` is how the node was
/// launched: its environment names the home that has its cookie.
pub(super) fn evaluate(
    node: &Launch,
    folder: &Folder,
    distribution: SocketAddr,
    expression: &str,
) -> std::result::Result<String, String> {
    let command = node
        .beside("erl_call")
        .command(folder)
        .map_err(|error| error.to_string())?;
    run(command, distribution, expression).map_err(|error| format!("erl_call: {error}"))
}

fn run(
    mut command: Command,
    distribution: SocketAddr,
    expression: &str,
) -> std::result::Result<String, String> {
    let mut asking = command
        .args(["-r", "-e", "-fetch_stdout", "-no_result_term"])
        .args(["-timeout", &ANSWER_WITHIN.as_secs().to_string()])
        .args(["-address", &distribution.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    if let Some(mut input) = asking.stdin.take() {
        let wrapped = format!(
            "try begin {expression} end, io:format(\"~n{WHOLE}~n\") \
             catch Class:Reason -> io:format(\"~p: ~p~n\", [Class, Reason]) end.\n"
        );
        input
            .write_all(wrapped.as_bytes())
            .map_err(|error| error.to_string())?;
    }
    let output = asking
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let answer = String::from_utf8_lossy(&output.stdout);
    match answer.trim_end().strip_suffix(WHOLE) {
        Some(whole) => Ok(whole.trim_end().to_owned()),
        None => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "{} {} {}",
                output.status,
                answer.trim(),
                told.trim()
            ))
        }
    }
}
