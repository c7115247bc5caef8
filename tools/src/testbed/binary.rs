//! Our own binaries as processes of a test bed.
//!
//! Cargo builds a package's binaries for that package's own tests only, and these tests live beside
//! the tools, so the binaries must have been built before: `cargo build --workspace`. They are found
//! in the folder of the running program's own profile. A binary that was built earlier and is stale
//! runs as it is; build again after a change.

use super::error::{Result, TestbedError};
use super::folder::Folder;
use super::launch::Launch;
use super::ports::Port;
use super::process::Process;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

/// How long a page may take to answer.
const PAGE_WITHIN: Duration = Duration::from_secs(5);

/// The path of one of our binaries, such as `conductor`.
pub fn binary(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(|source| TestbedError::Program {
        program: name.to_owned(),
        source,
    })?;
    let mut profile = own.parent().map(PathBuf::from).unwrap_or_default();
    if profile.ends_with("deps") || profile.ends_with("examples") {
        profile.pop();
    }
    let path = profile.join(name);
    if path.is_file() {
        return Ok(path);
    }
    let flags = if profile.ends_with("release") {
        " --release"
    } else {
        ""
    };
    Err(TestbedError::NotBuilt { path, flags })
}

/// One running conductor or outbox, with its admin pages.
#[derive(Debug)]
pub struct Instance {
    process: Process,
    admin: Port,
}

impl Instance {
    /// Starts a binary whose admin pages listen on a port of their own. The variable names the
    /// setting that tells it so.
    pub fn start(
        folder: &Folder,
        name: &str,
        launch: Launch,
        admin_variable: &str,
    ) -> Result<Self> {
        let admin = Port::take()?;
        let launch = launch.variable(admin_variable, admin.address().to_string());
        Ok(Self {
            process: Process::start(folder, name, launch)?,
            admin,
        })
    }

    /// Its process, to be killed, paused and read.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The address of one of its admin pages, such as `/ready`.
    pub fn url(&self, page: &str) -> String {
        format!("http://{}{page}", self.admin.address())
    }

    /// What one of its admin pages answers: status and body.
    pub fn page(&self, page: &str) -> Result<(u16, String)> {
        fetch(&self.url(page)).map_err(|answer| TestbedError::Answer {
            name: format!("{} of {}", page, self.process.name()),
            answer,
        })
    }

    /// Waits until `/ready` answers with 200; gives what it says.
    pub fn wait_ready(&self, within: Duration) -> Result<String> {
        self.wait_page("/ready", within, |status, _| status == 200)
    }

    /// Waits until one of its pages answers as wanted; gives the body.
    pub fn wait_page(
        &self,
        page: &str,
        within: Duration,
        mut wanted: impl FnMut(u16, &str) -> bool,
    ) -> Result<String> {
        self.process
            .wait_for(&format!("wanted answer of {page}"), within, || {
                let (status, body) = fetch(&self.url(page))?;
                if wanted(status, &body) {
                    Ok(body)
                } else {
                    Err(format!("{status} {body}"))
                }
            })
    }

    /// Asks it to end and waits until it has.
    pub fn terminate(&self, within: Duration) -> Result<ExitStatus> {
        self.process.terminate(within)
    }

    /// Kills it if it runs and starts it again on the same admin port. Does not wait for readiness.
    pub fn restart(&self) -> Result<()> {
        self.process.restart()
    }
}

/// Reads a page; any status is an answer.
pub fn fetch(url: &str) -> std::result::Result<(u16, String), String> {
    let settings = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(PAGE_WITHIN))
        .build();
    let mut answer = ureq::Agent::new_with_config(settings)
        .get(url)
        .call()
        .map_err(|e| e.to_string())?;
    let body = answer
        .body_mut()
        .read_to_string()
        .map_err(|e| e.to_string())?;
    Ok((answer.status().as_u16(), body))
}
