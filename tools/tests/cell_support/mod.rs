//! Running the command line as an operator does: as a process, judged by its words and exit code.
#![allow(dead_code, reason = "each test file uses a part")]

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run of `cell` said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The result, of a run that must have ended with this code.
    pub(crate) fn json(&self, code: i32) -> Value {
        assert_eq!(self.code, code, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The line on stderr, of a run that must have failed.
    pub(crate) fn refusal(&self) -> &str {
        assert_eq!(self.code, 1, "{self:?}");
        self.err.lines().last().expect("a failure says why")
    }
}

/// The command line with one cell's settings.
pub(crate) struct Line<'a> {
    pub(crate) config: &'a Path,
    pub(crate) environment: Vec<(String, String)>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(config: &'a Path) -> Self {
        Self {
            config,
            environment: Vec::new(),
        }
    }

    /// Runs a command with these words.
    pub(crate) fn run(&self, words: &[&str]) -> Said {
        self.feed(words, b"")
    }

    /// Runs a command that reads this.
    pub(crate) fn feed(&self, words: &[&str], input: &[u8]) -> Said {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cell"))
            .args(words)
            .env("CONDUCTOR_CONFIG", self.config)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command line starts");
        let mut stdin = child.stdin.take().expect("its input is ours");
        let input = input.to_vec();
        // A command that reads nothing closes its input; that is no failure of ours.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().expect("the command line ends");
        writer.join().expect("the input is written");
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
