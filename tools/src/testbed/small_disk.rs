//! A disk that is small enough to be filled: a file system in memory of a size that is chosen.
//!
//! It is mounted in the test bed's folder, which needs root. The folder's keeper unmounts it, so
//! that it is gone after every way out; nothing here does.

use super::error::{Result, TestbedError, file};
use super::versions::may_mount;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What the keeper knows such a mount by.
pub(super) const SOURCE: &str = "conductor-small-disk";
/// The file that takes what is left.
const FILLER: &str = "filler";
/// How much is written to it at once.
const PIECE: usize = 64 * 1024;

/// A small disk.
#[derive(Debug)]
pub(super) struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts one of so many bytes on a folder that is there.
    pub(super) fn mount(place: &Path, bytes: u64) -> Result<Self> {
        let what = "mount a small disk";
        may_mount(what)?;
        let output = Command::new("mount")
            .args([
                "-t",
                "tmpfs",
                "-o",
                &format!("size={bytes},mode=700"),
                SOURCE,
            ])
            .arg(place)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| TestbedError::Program {
                program: "mount".into(),
                source,
            })?;
        if output.status.success() {
            return Ok(Self {
                place: place.to_owned(),
            });
        }
        let reason = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(TestbedError::Rights { what, reason })
    }

    /// Takes all that is left; gives how much that was. The last page of each other file may
    /// still have room, of at most four kilobytes.
    pub(super) fn fill(&self) -> Result<u64> {
        let path = self.place.join(FILLER);
        let failed = |error| file("fill the small disk with", &path)(error);
        let mut options = fs::OpenOptions::new();
        let mut filler = options
            .append(true)
            .create(true)
            .open(&path)
            .map_err(failed)?;
        let begin = filler.metadata().map_err(failed)?.len();
        let piece = vec![0_u8; PIECE];
        loop {
            match filler.write(&piece) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => break,
                Err(error) => return Err(failed(error)),
            }
        }
        let end = filler.metadata().map_err(failed)?.len();
        Ok(end - begin)
    }

    /// Gives back what was taken.
    pub(super) fn free(&self) -> Result<()> {
        let path = self.place.join(FILLER);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(file("remove", &path)(error)),
            _ => Ok(()),
        }
    }
}
