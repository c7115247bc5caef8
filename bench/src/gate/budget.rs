//! An enforced budget of processor time and disk writes for some processes, by control groups of
//! either version.
//!
//! A group is made under the root of its hierarchy, takes processes by number, and goes when it is
//! dropped, which its processes must not outlive; a group that still has some stays behind, empty
//! of limits that matter to anybody else.

use anyhow::{Context, bail, ensure};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const ROOT: &str = "/sys/fs/cgroup";
/// The length of a period in which processor time is counted, in microseconds.
const PERIOD: u32 = 100_000;

/// What a cell may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Hundredths of one core.
    pub(crate) cpu_percent: u32,
    /// Writes to its disk, a second.
    pub(crate) write_iops: u32,
}

impl Limits {
    /// What so many cells may use together.
    pub(crate) const fn times(self, cells: u32) -> Self {
        Self {
            cpu_percent: self.cpu_percent * cells,
            write_iops: self.write_iops * cells,
        }
    }
}

/// A group that holds processes to its limits.
#[derive(Debug)]
pub(crate) struct Budget {
    folders: Vec<PathBuf>,
}

impl Budget {
    /// Makes a group; the disk is the one that holds this folder.
    pub(crate) fn new(name: &str, limits: Limits, on: &Path) -> anyhow::Result<Self> {
        let name = format!("conductor-bench-{}-{name}", std::process::id());
        let disk = disk(on)?;
        let root = Path::new(ROOT);
        let made = if root.join("cgroup.controllers").is_file() {
            second(root, &name, limits, &disk)
        } else {
            first(root, &name, limits, &disk)
        };
        made.with_context(|| {
            format!(
                "no budget can be enforced: neither the cpu and io controllers of a control group \
                 tree of version 2 at {ROOT} nor those of version 1 at {ROOT}/cpu and {ROOT}/blkio \
                 can be written; run this as root on a host, not inside a container that hides them"
            )
        })
    }

    /// Puts a process into it, and whatever that process starts from now on.
    pub(crate) fn take(&self, process: u32) -> anyhow::Result<()> {
        for folder in &self.folders {
            put(&folder.join("cgroup.procs"), &process.to_string())?;
        }
        Ok(())
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        for folder in &self.folders {
            // What is busy stays; see above.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn second(root: &Path, name: &str, limits: Limits, disk: &str) -> anyhow::Result<Budget> {
    put(&root.join("cgroup.subtree_control"), "+cpu +io")?;
    let budget = Budget {
        folders: vec![make(root.join(name))?],
    };
    let folder = &budget.folders[0];
    let quota = limits.cpu_percent * PERIOD / 100;
    put(&folder.join("cpu.max"), &format!("{quota} {PERIOD}"))?;
    put(
        &folder.join("io.max"),
        &format!("{disk} wiops={}", limits.write_iops),
    )?;
    Ok(budget)
}

fn first(root: &Path, name: &str, limits: Limits, disk: &str) -> anyhow::Result<Budget> {
    let mut budget = Budget {
        folders: Vec::new(),
    };
    for controller in ["cpu", "blkio"] {
        let parent = root.join(controller);
        ensure!(parent.is_dir(), "{} is not there", parent.display());
        budget.folders.push(make(parent.join(name))?);
    }
    let quota = limits.cpu_percent * PERIOD / 100;
    put(
        &budget.folders[0].join("cpu.cfs_period_us"),
        &PERIOD.to_string(),
    )?;
    put(
        &budget.folders[0].join("cpu.cfs_quota_us"),
        &quota.to_string(),
    )?;
    let writes = format!("{disk} {}", limits.write_iops);
    put(
        &budget.folders[1].join("blkio.throttle.write_iops_device"),
        &writes,
    )?;
    Ok(budget)
}

fn make(folder: PathBuf) -> anyhow::Result<PathBuf> {
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn put(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {text:?} to {}", file.display()))
}

/// The whole disk under a folder, as `major:minor`.
fn disk(folder: &Path) -> anyhow::Result<String> {
    let device = fs::metadata(folder)?.dev();
    let (major, minor) = numbers(device);
    let block = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !block.exists() {
        bail!(
            "{} lies on no block device, whose writes could be limited",
            folder.display()
        );
    }
    if !block.join("partition").exists() {
        return Ok(format!("{major}:{minor}"));
    }
    let whole = fs::canonicalize(&block)?.join("../dev");
    Ok(fs::read_to_string(whole)?.trim().to_owned())
}

/// A device's numbers, as the kernel packs them for programs.
const fn numbers(device: u64) -> (u64, u64) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff);
    (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_its_numbers() {
        assert_eq!(numbers(0xfe00), (254, 0));
        assert_eq!(numbers(0x803), (8, 3));
        assert_eq!(numbers(0x0010_0000 | 0x1234), (0x12, 0x134));
    }
}
