//! Which set of versions the servers of a test bed are.
//!
//! The machine's own packages are one set. The other, on a Debian 12 host, is a Debian 13 tree that
//! `tools/setup --second-versions` makes in a cache folder. A program of the tree runs in a mount
//! namespace of its own whose root is put together for it: the tree's `usr` and `etc`, closed to
//! writing, the machine's `proc`, `sys` and `dev`, and the test bed's folder at its own path. So
//! nothing is ever written to the tree, any number of programs use it at once, and there is nothing
//! to clean up, because the namespace goes with its last process.
//!
//! Every step on the way replaces the one before, so that the program has the process id that was
//! started, and signals reach it and nothing in between.

use super::error::{Result, TestbedError};
use super::folder::Folder;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Chooses the versions of every server for which nothing else is said.
const CHOICE: &str = "CONDUCTOR_VERSIONS";
/// The name of the tree in the cache folder, which is also the choice's value.
const DEBIAN_13: &str = "debian-13";
/// What the tree must have to be one.
const NEEDED: [&str; 3] = [
    "usr/bin/valkey-server",
    "usr/bin/valkey-sentinel",
    "usr/lib/rabbitmq/bin/rabbitmq-server",
];

/// Leaves the machine's mounts as they are, and lets an unmounting there be seen inside.
const UNSHARE: [&str; 4] = ["unshare", "--mount", "--propagation", "slave"];
/// Puts the root together and becomes the program in it. Its arguments are the tree, the folder,
/// the program and the program's own.
const ENTER: &str = r#"
set -e
tree=$1 folder=$2
shift 2
mount -t tmpfs -o mode=755 conductor-root "$tree/mnt"
cd "$tree/mnt"
mkdir usr etc proc sys dev tmp run var
chmod 1777 tmp
for name in bin sbin lib lib64; do
    ln -s "usr/$name" "$name"
done
for name in usr etc; do
    mount --bind "$tree/$name" "$name"
    mount -o remount,bind,ro "$name"
done
for name in proc sys dev; do
    mount --rbind "/$name" "$name"
done
mkdir -p ".$folder"
mount --rbind "$folder" ".$folder"
exec chroot . /bin/sh -c 'cd "$1"; shift; exec "$@"' conductor-inside "$folder" "$@"
"#;

/// A set of versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Versions {
    /// What is installed on this machine.
    Host,
    /// What is installed in a Debian 13 tree.
    Debian13(PathBuf),
}

impl Versions {
    /// The set that the environment chooses by `CONDUCTOR_VERSIONS`: `host`, which is also meant
    /// when it says nothing, or `debian-13`.
    pub fn chosen() -> Result<Self> {
        match std::env::var(CHOICE) {
            Err(std::env::VarError::NotPresent) => Ok(Self::Host),
            Ok(value) if value.is_empty() || value == "host" => Ok(Self::Host),
            Ok(value) if value == DEBIAN_13 => Self::debian_13(),
            Ok(value) => Err(unknown(&value)),
            Err(std::env::VarError::NotUnicode(value)) => Err(unknown(&value.to_string_lossy())),
        }
    }

    /// The set that is asked for, or else the one that the environment chooses.
    pub(super) fn or_chosen(asked: Option<&Self>) -> Result<Self> {
        asked.cloned().map_or_else(Self::chosen, Ok)
    }

    /// The Debian 13 tree, if it is there and can be used.
    pub fn debian_13() -> Result<Self> {
        let tree = cache()?.join(DEBIAN_13);
        if let Some(missing) = NEEDED.iter().find(|name| !tree.join(name).is_file()) {
            return Err(TestbedError::Versions {
                reason: format!(
                    "there is no {}; make the tree first, as root: tools/setup --second-versions",
                    tree.join(missing).display()
                ),
            });
        }
        may_mount("run the programs of another Debian")?;
        Ok(Self::Debian13(tree))
    }

    /// What stands before a program and its arguments to run it in this set.
    pub(super) fn words(&self, folder: &Folder) -> Vec<OsString> {
        let Self::Debian13(tree) = self else {
            return Vec::new();
        };
        let words = UNSHARE
            .into_iter()
            .chain(["/bin/sh", "-c", ENTER, "conductor-enter"]);
        words
            .map(OsString::from)
            .chain([tree.clone().into_os_string(), folder.path().into()])
            .collect()
    }

    /// Where the root of this set is on the machine.
    pub(super) fn root(&self) -> &Path {
        match self {
            Self::Host => Path::new("/"),
            Self::Debian13(tree) => tree,
        }
    }
}

fn unknown(choice: &str) -> TestbedError {
    TestbedError::Versions {
        reason: format!("{CHOICE} is {choice:?}; it may be host or {DEBIAN_13}"),
    }
}

/// Tries whether this user may mount, because what the kernel grants root depends on what the
/// machine runs in.
pub(super) fn may_mount(what: &'static str) -> Result<()> {
    let own = std::fs::metadata("/proc/self").map(|found| found.uid());
    if !matches!(own, Ok(0)) {
        return Err(TestbedError::Rights {
            what,
            reason: "this user is not root".into(),
        });
    }
    let [program, arguments @ ..] = UNSHARE;
    let tried = Command::new(program)
        .args(arguments)
        .arg("true")
        .stdin(Stdio::null())
        .output();
    let reason = match tried {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => format!("{program}: {error}"),
    };
    Err(TestbedError::Rights { what, reason })
}

/// The cache folder, as `tools/setup` has it.
fn cache() -> Result<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(own) = named("CONDUCTOR_CACHE") {
        return Ok(PathBuf::from(own));
    }
    if let Some(all) = named("XDG_CACHE_HOME") {
        return Ok(PathBuf::from(all).join("conductor"));
    }
    named("HOME")
        .map(|home| PathBuf::from(home).join(".cache/conductor"))
        .ok_or_else(|| TestbedError::Versions {
            reason: "neither CONDUCTOR_CACHE nor HOME says where the cache folder is".into(),
        })
}
