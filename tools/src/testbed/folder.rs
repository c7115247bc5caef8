//! The folder of a test bed, and the keeper that clears it away.
//!
//! Whatever happens to the process that owns the servers, they must end and their folder must go:
//! a test that fails, a panic that aborts, Ctrl-C, and a SIGKILL after which no line of the owner
//! runs. So the cleaning is not the owner's work at all. A small shell, the *keeper*, holds the
//! reading end of a pipe from the owner and learns every process group that the owner starts. When
//! the pipe closes, for whatever reason, it kills those groups, unmounts the small disks in the
//! folder and removes it. The ordinary
//! way out closes the pipe too and waits for the keeper, so there is one way and every test takes it.
//!
//! The keeper lives in a process group of its own, so that the terminal's signals pass it by.
//! The kernel's parent-death signal is not used: it fires when the *thread* that started the child
//! ends, which in a test runner is long before the process does.

use super::error::{Result, TestbedError, file};
use super::small_disk;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// Reads `add GROUP` and `drop GROUP` until the pipe closes, then kills what is left and removes
/// the folder. A group may take a moment to be gone, and a file may appear while the folder is
/// being removed, so both are tried again, for five seconds at most. In the list of mounts a blank
/// is written as its octal number, which `printf` reads.
const KEEPER: &str = r#"
trap '' HUP INT TERM
groups=
while read -r word group; do
    case $word in
        add) groups="$groups $group" ;;
        drop)
            rest=
            for known in $groups; do
                [ "$known" = "$group" ] || rest="$rest $known"
            done
            groups=$rest ;;
    esac
done
tries=0
while [ $tries -lt 100 ]; do
    alive=
    for group in $groups; do
        kill -s KILL -- "-$group" 2>/dev/null && alive=yes
    done
    [ -n "$alive" ] || break
    tries=$((tries + 1))
    sleep 0.05
done
while read -r source place _; do
    [ "$source" = "$2" ] || continue
    place=$(printf "$place")
    case $place in
        "$1"/*) umount -- "$place" 2>/dev/null || umount -l -- "$place" ;;
    esac
done </proc/self/mounts
tries=0
until rm -rf -- "$1" 2>/dev/null || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
done
"#;

/// A temporary folder with the process groups that work in it. Clones share it; with the last one
/// the groups end and the folder goes.
#[derive(Clone, Debug)]
pub struct Folder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    pipe: Mutex<Option<ChildStdin>>,
    keeper: Mutex<Child>,
}

impl Folder {
    /// Makes a folder that only this user can enter, under the system's temporary folder.
    pub fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        let folder = tempfile::Builder::new()
            .prefix("conductor-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()
            .map_err(file("make a folder in", base))?;
        let mut keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "conductor-keeper"])
            .arg(folder.path())
            .arg(small_disk::SOURCE)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|source| TestbedError::Program {
                program: "/bin/sh".into(),
                source,
            })?;
        let pipe = Mutex::new(keeper.stdin.take());
        let inner = Inner {
            path: folder.keep(),
            pipe,
            keeper: Mutex::new(keeper),
        };
        Ok(Self(Arc::new(inner)))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Makes a folder inside it, open to this user alone as the whole is.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::create_dir_all(&path).map_err(file("make", &path))?;
        Ok(path)
    }

    /// Writes a file that only this user can read, for whatever holds a password.
    pub fn secret_file(&self, name: &str, content: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        let _ = fs::remove_file(&path);
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut opened = options.open(&path).map_err(file("write", &path))?;
        opened
            .write_all(content.as_bytes())
            .map_err(file("write", &path))?;
        Ok(path)
    }

    /// Tells the keeper of a process group before anything runs in it.
    pub(super) fn add_group(&self, group: u32) -> Result<()> {
        self.tell(&format!("add {group}\n"))
    }

    /// Tells the keeper that a group is gone, so that its number may belong to somebody else.
    pub(super) fn drop_group(&self, group: u32) {
        // A keeper that is gone has nothing left to mistake for ours.
        let _ = self.tell(&format!("drop {group}\n"));
    }

    fn tell(&self, line: &str) -> Result<()> {
        let mut pipe = self.0.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let written = match pipe.as_mut() {
            Some(pipe) => pipe.write_all(line.as_bytes()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(file("tell the keeper of", &self.0.path))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(
            self.pipe
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        // Nothing useful can be done here about a keeper that somebody else has ended.
        let _ = self
            .keeper
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .wait();
    }
}

/// A password nobody has used before: 32 hexadecimal digits from the system's random source.
pub fn fresh_password() -> Result<String> {
    let mut bytes = [0_u8; 16];
    let source = "/dev/urandom";
    fs::File::open(source)
        .and_then(|mut random| random.read_exact(&mut bytes))
        .map_err(file("read", source))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
