//! The limit of the path: the same messages, writes, events, confirms and replies, moved by a
//! process that decodes nothing and decides nothing.
//!
//! What it does for each command is made beforehand by the engine ([`script`]); the process itself
//! ([`process`]) only moves bytes. The outbox beside it is the one that is shipped, so the ratio is
//! about the conductor.

pub(crate) mod process;
mod script;

use crate::bed::{Bed, READY_WITHIN};
use conductor_engine::Command;
use conductor_tools::testbed::{Launch, Process};

/// Starts it on the servers of a cell. It can take so many commands as there are here.
pub(crate) fn start(
    bed: &Bed,
    replicas: usize,
    commands: impl Iterator<Item = Command>,
) -> anyhow::Result<Process> {
    let folder = bed.servers.folder();
    let path = folder.path().join("bare.script");
    script::write(&path, commands)?;
    let primary = &bed.servers.store(0).primary;
    let launch = Launch::new(std::env::current_exe()?)
        .argument("bare-conductor")
        .argument("--script")
        .argument(path)
        .argument("--settings")
        .argument(bed.servers.settings_file())
        .argument("--store")
        .argument(primary.address().to_string())
        .argument("--replicas")
        .argument(replicas.to_string())
        .variable(process::PASSWORD, &primary.users().admin);
    let process = Process::start(folder, "bare-conductor", launch)?;
    process.wait_for_log(process::CONSUMING, READY_WITHIN)?;
    Ok(process)
}
