//! What a process of the test bed runs: a program of a set of versions, its arguments, its
//! environment.

use super::error::{Result, TestbedError};
use super::folder::Folder;
use super::versions::Versions;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings of the caller's own environment that must not reach a private process.
const FOREIGN: [&str; 6] = [
    "MATCHING_",
    "REDIS_",
    "RABBITMQ_",
    "CONDUCTOR_",
    "ERL_",
    "VALKEY_",
];

/// What to run: a program, its arguments and what is added to its environment. Passwords belong
/// in files; arguments can be read by every user of the machine.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    versions: Versions,
}

impl Launch {
    /// A program of this machine by path, or by name as the `PATH` has it.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            versions: Versions::Host,
        }
    }

    /// The same program of a set of versions.
    #[must_use]
    pub fn of(mut self, versions: &Versions) -> Self {
        self.versions = versions.clone();
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<OsString>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Adds many variables to the environment.
    #[must_use]
    pub fn variables<N, V>(self, pairs: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        pairs
            .into_iter()
            .fold(self, |launch, (name, value)| launch.variable(name, value))
    }

    /// Another program of the same versions with the same environment, without arguments.
    #[must_use]
    pub(super) fn beside(&self, program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            ..self.clone()
        }
    }

    /// A command that waits behind a shell's script; what it is to run follows as arguments.
    pub(super) fn behind(&self, script: &str, folder: &Folder) -> Result<Command> {
        let mut command = self.with_environment("/bin/sh");
        command
            .args(["-c", script, "conductor-gate"])
            .args(self.words(folder)?);
        Ok(command)
    }

    /// A command that runs it at once.
    pub(super) fn command(&self, folder: &Folder) -> Result<Command> {
        let words = self.words(folder)?;
        let mut command = self.with_environment(&words[0]);
        command.args(&words[1..]).current_dir(folder.path());
        Ok(command)
    }

    fn words(&self, folder: &Folder) -> Result<Vec<OsString>> {
        let program = find(&self.program, self.versions.root())?;
        let mut words = self.versions.words(folder);
        words.push(program.into_os_string());
        words.extend(self.arguments.iter().cloned());
        Ok(words)
    }

    /// A command with this environment and none of the caller's own settings.
    fn with_environment(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if FOREIGN
                .iter()
                .any(|prefix| name.to_string_lossy().starts_with(prefix))
            {
                command.env_remove(name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// The program's full path under a root, so that one that is missing is an error here and not a
/// line in a log.
fn find(program: &Path, root: &Path) -> Result<PathBuf> {
    let inside = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path)).is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = if program.components().count() > 1 {
        OsString::from("/")
    } else {
        path
    };
    std::env::split_paths(&folders)
        .chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(program))
        .find(|candidate| inside(candidate))
        .ok_or_else(|| TestbedError::Program {
            program: root.join(program).display().to_string(),
            source: std::io::ErrorKind::NotFound.into(),
        })
}
