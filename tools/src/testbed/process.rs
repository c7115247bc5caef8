//! One process of the test bed: a server or one of our own binaries.
//!
//! Every process leads a group of its own and is known to the folder's keeper before its program
//! runs: it starts as a shell that waits for one line on its input and only then becomes the
//! program. An owner that dies in between closes that input, and the shell ends without having
//! started anything. What it writes goes to one log file in the folder, which a restart continues.
//!
//! Signals go to the whole group. `kill` of the shell sends them, because the system call has no
//! safe form in the standard library.

use super::error::{Result, TestbedError, file};
use super::folder::Folder;
use super::launch::Launch;
use super::wait::{self, Watched};
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Waits for the go-ahead, then becomes the program.
const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;
/// How long a killed or paused process may take to be dead or stopped.
const SIGNAL_WITHIN: Duration = Duration::from_secs(10);
/// How many lines of a log an error shows.
const LOG_LINES: usize = 30;
/// A process that ends with its owner, at the latest when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    launch: Mutex<Launch>,
    folder: Folder,
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    child: Child,
    status: Option<ExitStatus>,
    log_begin: u64,
}

impl Process {
    /// Starts a process whose log is `NAME.log` in the folder. The name must be new there.
    pub fn start(folder: &Folder, name: &str, launch: Launch) -> Result<Self> {
        let log = folder.path().join(format!("{name}.log"));
        let state = Mutex::new(spawn(folder, &launch, &log)?);
        let folder = folder.clone();
        Ok(Self {
            name: name.to_owned(),
            launch: Mutex::new(launch),
            folder,
            log,
            state,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder that it works in.
    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The name that its log and its errors carry.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id, which is its group's too. It changes with a restart.
    pub fn pid(&self) -> u32 {
        self.state().child.id()
    }

    /// Whether it has not ended. A paused process is running.
    pub fn is_running(&self) -> bool {
        self.exit_status().is_none()
    }

    /// Whether it stands still where a SIGSTOP has met it.
    pub fn is_paused(&self) -> bool {
        let tasks = PathBuf::from(format!("/proc/{}/task", self.pid()));
        self.is_running() && moving_threads(&tasks) == 0
    }

    /// How it ended, or nothing while it runs.
    pub fn exit_status(&self) -> Option<ExitStatus> {
        let mut state = self.state();
        if state.status.is_none() {
            state.status = state.child.try_wait().ok().flatten();
            if state.status.is_some() {
                self.folder.drop_group(state.child.id());
            }
        }
        state.status
    }

    /// Ends it by SIGKILL, as a crash would, and returns when it is dead.
    pub fn kill(&self) -> Result<()> {
        if self.is_running() {
            self.signal("KILL")?;
            self.wait_exit(SIGNAL_WITHIN)?;
        }
        Ok(())
    }

    /// Asks it to end by SIGTERM and waits until it has.
    pub fn terminate(&self, within: Duration) -> Result<ExitStatus> {
        if self.is_running() {
            self.signal("TERM")?;
        }
        self.wait_exit(within)
    }

    /// Stops it by SIGSTOP where it stands; returns when every thread of it has stopped.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")?;
        let tasks = PathBuf::from(format!("/proc/{}/task", self.pid()));
        self.wait_for("stop of every thread", SIGNAL_WITHIN, || {
            let moving = moving_threads(&tasks);
            if moving == 0 {
                Ok(())
            } else {
                Err(format!("{moving} threads still run"))
            }
        })
    }

    /// Lets a paused process go on.
    pub fn resume(&self) -> Result<()> {
        self.signal("CONT")
    }

    /// Starts the same thing again, after killing it if it still runs. Whoever needs it ready
    /// waits for that.
    pub fn restart(&self) -> Result<()> {
        self.kill()?;
        let fresh = spawn(&self.folder, &self.launch(), &self.log)?;
        *self.state() = fresh;
        Ok(())
    }

    /// Starts again with something else to run, in the same folder and with the same log.
    pub fn restart_with(&self, launch: Launch) -> Result<()> {
        *self.launch.lock().unwrap_or_else(PoisonError::into_inner) = launch;
        self.restart()
    }

    /// What it runs.
    pub fn launch(&self) -> Launch {
        self.launch
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until it has ended by itself.
    pub fn wait_exit(&self, within: Duration) -> Result<ExitStatus> {
        wait::until(self, "end of the process", within, || {
            self.exit_status().ok_or_else(|| "it still runs".to_owned())
        })
    }

    /// Looks again and again until there is something to see. Ends early when the process does.
    pub fn wait_for<T>(
        &self,
        awaited: &str,
        within: Duration,
        look: impl FnMut() -> std::result::Result<T, String>,
    ) -> Result<T> {
        wait::while_running(self, awaited, within, look)
    }

    /// Waits until its log since the last start has a line that holds the text; gives that line.
    pub fn wait_for_log(&self, text: &str, within: Duration) -> Result<String> {
        let begin = self.state().log_begin;
        self.wait_for_log_from(begin, text, within)
    }

    /// As [`Process::wait_for_log`], in what was written after [`Process::log_length`] was taken.
    pub fn wait_for_log_from(&self, begin: u64, text: &str, within: Duration) -> Result<String> {
        self.wait_for(&format!("line with {text:?} in the log"), within, || {
            let log = self.log_from(begin);
            let line = log.lines().find(|line| line.contains(text));
            line.map(str::to_owned)
                .ok_or_else(|| "no such line".to_owned())
        })
    }

    /// How much it has written so far, in bytes.
    pub fn log_length(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |found| found.len())
    }

    /// All that it has written since the last start.
    pub fn log(&self) -> String {
        self.log_from(self.state().log_begin)
    }

    fn log_from(&self, begin: u64) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let begin = usize::try_from(begin)
            .unwrap_or(usize::MAX)
            .min(bytes.len());
        String::from_utf8_lossy(&bytes[begin..]).into_owned()
    }

    /// The last lines that it has written.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.log_from(0);
        let all: Vec<&str> = log.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    /// The file that holds what it writes.
    pub fn log_path(&self) -> &Path {
        &self.log
    }

    fn signal(&self, signal: &'static str) -> Result<()> {
        if !self.is_running() {
            return Err(self.signal_failed(signal, "it has ended".to_owned()));
        }
        let sent = Command::new("/bin/sh")
            .args([
                "-c",
                r#"kill -s "$1" -- "-$2""#,
                "kill",
                signal,
                &self.pid().to_string(),
            ])
            .stdin(Stdio::null())
            .output();
        match sent {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                Err(self.signal_failed(signal, said))
            }
            Err(error) => Err(self.signal_failed(signal, error.to_string())),
        }
    }

    fn signal_failed(&self, signal: &'static str, reason: String) -> TestbedError {
        TestbedError::Signal {
            signal,
            name: self.name.clone(),
            reason,
        }
    }
}

impl Watched for Process {
    fn name(&self) -> &str {
        &self.name
    }

    fn ended(&self) -> Option<ExitStatus> {
        self.exit_status()
    }

    fn last_lines(&self) -> String {
        self.log_tail(LOG_LINES)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The keeper kills what this cannot.
        let _ = self.kill();
    }
}

fn spawn(folder: &Folder, launch: &Launch, log: &Path) -> Result<State> {
    let mut gate = launch.behind(GATE, folder)?;
    let mut options = fs::OpenOptions::new();
    let opened = options
        .create(true)
        .append(true)
        .open(log)
        .map_err(file("open", log))?;
    let again = opened.try_clone().map_err(file("open", log))?;
    let log_begin = opened.metadata().map_err(file("read", log))?.len();
    let mut child = gate
        .current_dir(folder.path())
        .stdin(Stdio::piped())
        .stdout(opened)
        .stderr(again)
        .process_group(0)
        .spawn()
        .map_err(|source| TestbedError::Program {
            program: "/bin/sh".into(),
            source,
        })?;
    folder.add_group(child.id())?;
    if let Some(mut gate) = child.stdin.take() {
        gate.write_all(b"go\n")
            .map_err(file("start the program of", log))?;
    }
    Ok(State {
        child,
        status: None,
        log_begin,
    })
}

/// How many threads of a process are not stopped. The state follows the name, which is in
/// parentheses and may hold anything.
fn moving_threads(tasks: &Path) -> usize {
    let Ok(entries) = fs::read_dir(tasks) else {
        return 0;
    };
    entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok())
        .filter(|stat| {
            let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
            !state.starts_with(['T', 't', 'Z', 'X'])
        })
        .count()
}
