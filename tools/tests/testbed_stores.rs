//! The stores of a private cell through a failover and back, and with a disk that is full.

use conductor_tools::testbed::{
    CellServers, Folder, Layout, Role, Valkey, ValkeyOptions, wait_for,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(60);
/// Names the file in which an owner that is to be killed says what it owns.
const OWNER_FILE: &str = "TESTBED_SMALL_DISK_OWNER_FILE";
/// Far more than an empty server needs.
const SMALL: u64 = 8 * 1024 * 1024;

/// Whether this user is root, without whom nothing can be mounted; says so if not.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = std::fs::metadata("/proc/self").expect("/proc").uid();
    if own != 0 {
        println!("skipped: only root can mount a small disk");
    }
    own == 0
}

#[test]
fn a_group_of_stores_is_whole_again_after_a_failover_and_after_the_way_back() {
    let layout = Layout {
        sentinels: 3,
        replicas: 2,
        ..Layout::default()
    };
    let cell = CellServers::start(&layout).expect("the cell starts");
    let first = cell.wait_whole(0, LATER).expect("it is whole");
    assert_eq!(first.address(), cell.store(0).primary.address());

    let second = fail_over(&cell, first);
    let third = fail_over(&cell, second);
    assert_ne!(third.address(), second.address());
    assert_eq!(
        third
            .command::<String>(&["GET", "matching:kept"])
            .expect("a read"),
        "2",
        "what was on all disks is there"
    );
}

/// Kills the primary, waits for another, brings the old one back and waits until all is well.
fn fail_over<'a>(cell: &'a CellServers, primary: &Valkey) -> &'a Valkey {
    primary
        .command::<u32>(&["INCR", "matching:kept"])
        .expect("a write");
    primary.wait_durable(2, SOON).expect("on all disks");
    primary.process().kill().expect("it dies");
    let name = CellServers::sentinel_group(0);
    let sentinels = cell.sentinels().expect("Sentinels were asked for");
    sentinels
        .wait_switched(&name, primary.address(), LATER)
        .expect("another is promoted");
    cell.wait_whole(0, Duration::from_secs(1))
        .expect_err("one server is away");
    primary.restart().expect("it comes back");
    let fresh = cell.wait_whole(0, LATER).expect("it is whole again");
    assert_ne!(fresh.address(), primary.address());
    assert_eq!(
        primary.role().expect("it answers"),
        Role::Replica {
            of: fresh.port(),
            state: "connected".into()
        }
    );
    let named = cell.current_primary(0).expect("Sentinels agree");
    assert_eq!(named.address(), fresh.address());
    fresh
}

#[test]
fn a_full_disk_ends_the_server_and_room_brings_it_back_with_its_data() {
    if !is_root() {
        return;
    }
    let folder = Folder::new().expect("a folder");
    let options = ValkeyOptions {
        small_disk: Some(SMALL),
        ..ValkeyOptions::named("store")
    };
    let store = Valkey::primary(&folder, &options).expect("it starts");
    store
        .command::<()>(&["SET", "kept", "yes"])
        .expect("a write");
    let taken = store.fill_disk().expect("it can be filled");
    assert!(
        taken > SMALL / 2 && taken < SMALL,
        "{taken} bytes were left"
    );

    let large = "x".repeat(64 * 1024);
    store
        .command::<()>(&["SET", "lost", &large])
        .expect_err("there is no room for it");
    store.process().wait_exit(SOON).expect("it ends");
    assert!(
        store.process().log().contains("AOF write error"),
        "{}",
        store.process().log()
    );

    store.free_disk().expect("there is room again");
    store.restart().expect("it starts");
    let kept: (String, bool) = (
        store.command(&["GET", "kept"]).expect("a read"),
        store.command(&["EXISTS", "lost"]).expect("a read"),
    );
    assert_eq!(kept, ("yes".into(), false));
    store
        .command::<()>(&["SET", "later", &large])
        .expect("a write");

    let ordinary = Valkey::primary(&folder, &ValkeyOptions::named("other")).expect("it starts");
    let error = ordinary.fill_disk().expect_err("it has none").to_string();
    assert!(error.contains("small_disk"), "{error}");
    drop((store, ordinary));
    let path = folder.path().to_owned();
    drop(folder);
    assert!(!path.exists() && mounts_in(&path).is_empty(), "all is gone");
}

/// Not a test of its own: what the next one starts as an owner and kills.
#[test]
fn owner_of_a_small_disk_that_is_killed() {
    let Some(file) = std::env::var_os(OWNER_FILE).map(PathBuf::from) else {
        return;
    };
    let folder = Folder::new().expect("a folder");
    let options = ValkeyOptions {
        small_disk: Some(SMALL),
        ..ValkeyOptions::named("store")
    };
    let _store = Valkey::primary(&folder, &options).expect("it starts");
    let whole = file.with_extension("whole");
    std::fs::write(&whole, folder.path().display().to_string()).expect("it can be written");
    std::fs::rename(&whole, &file).expect("it can be renamed");
    loop {
        std::thread::park();
    }
}

#[test]
fn a_killed_owner_leaves_no_mount() {
    if !is_root() {
        return;
    }
    let own = Folder::new().expect("a folder");
    let file = own.path().join("owned");
    // The keeper finds the mount in a folder with a blank in its name, too.
    let temporary = own.subfolder("a blank").expect("a folder");
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "owner_of_a_small_disk_that_is_killed",
            "--nocapture",
        ])
        .env(OWNER_FILE, &file)
        .env("TMPDIR", &temporary)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("an owner starts");
    let owned = wait_for("folder of the owner", LATER, || {
        std::fs::read_to_string(&file).map_err(|error| error.to_string())
    });
    let folder = PathBuf::from(owned.expect("the owner says what it owns"));
    assert_eq!(mounts_in(&folder).len(), 1, "its disk is mounted");

    owner.kill().expect("the owner is killed");
    owner.wait().expect("and is dead");
    wait_for("end of all that it owned", SOON, || {
        let left = mounts_in(&folder);
        if left.is_empty() && !folder.exists() {
            Ok(())
        } else {
            Err(format!("{left:?}, folder: {}", folder.exists()))
        }
    })
    .expect("nothing is left");
}

/// What is mounted in a folder.
fn mounts_in(folder: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("the list of mounts");
    let folder = folder.display().to_string().replace(' ', "\\040");
    let inside = |line: &&str| line.contains(&folder);
    mounts.lines().filter(inside).map(str::to_owned).collect()
}
