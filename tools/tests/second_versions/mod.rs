//! Whether this machine has a second set of versions, for tests that run on it.

use conductor_tools::testbed::Versions;
use std::os::unix::fs::MetadataExt;

/// The second set, or nothing where there cannot be one.
pub(crate) fn second_set() -> Option<Versions> {
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has = |line: &str| release.lines().any(|one| one.replace('"', "") == line);
    if !(has("ID=debian") && has("VERSION_ID=12")) {
        println!("skipped: the second set of versions is for Debian 12");
        return None;
    }
    if std::fs::metadata("/proc/self").expect("/proc").uid() != 0 {
        println!("skipped: only root can run the second set of versions");
        return None;
    }
    Some(Versions::debian_13().expect("the second set of versions"))
}
