//! What is refused at boot is refused with its one line, and the settings page shows that line.

mod table;

use conductor_config::{ConfigError, CoreInventory, Environment, Settings, Sources};
use std::fs;
use std::path::PathBuf;
use table::{ALL, LOGINS, Refusal};

/// Loads what the case sets, in a folder of its own.
fn load(case: &Refusal, folder: &str) -> Result<(), ConfigError> {
    let filled = |text: &str| text.replace("{dir}", folder);
    let path = PathBuf::from(format!("{folder}/conductor.toml"));
    fs::write(&path, filled(case.file)).expect("the folder can be written to");
    let pairs = case
        .environment
        .iter()
        .map(|(name, value)| (*name, filled(value)));
    let named = case
        .environment
        .iter()
        .any(|(name, _)| *name == "CONDUCTOR_CONFIG");
    let sources = Sources {
        file: (!named).then_some(path),
        environment: pairs.collect(),
    };
    Settings::load_with_cores(&sources, &CoreInventory(case.cores.to_vec())).map(|_| ())
}

#[test]
fn every_refusal_gives_its_one_line() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path().to_str().expect("the folder's name is text");
    fs::write(format!("{folder}/password"), "hunter2\n").expect("a file can be written");
    fs::write(format!("{folder}/empty"), "\n").expect("a file can be written");
    fs::write(format!("{folder}/lines"), "hunter2\nhunter3\n").expect("a file can be written");
    for case in ALL.iter().copied().flatten() {
        let line = case.line.replace("{dir}", folder);
        let error = load(case, folder).err().map(|error| error.to_string());
        assert_eq!(
            error.as_deref(),
            Some(line.as_str()),
            "{:?} {}",
            case.environment,
            case.file
        );
        assert!(!line.contains('\n') && !line.contains("hunter"), "{line}");
    }
}

#[test]
fn no_error_shows_a_password_in_its_debug_form_either() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let folder = folder.path().to_str().expect("the folder's name is text");
    for case in LOGINS {
        let shown = load(case, folder).map_err(|error| format!("{error:?} {error}"));
        assert!(!shown.expect_err("it is refused").contains("hunter"));
    }
}

#[test]
fn the_settings_page_lists_every_line() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let page = fs::read_to_string(page).expect("the page is there");
    for case in ALL.iter().copied().flatten() {
        let line = case.line.replace("{dir}", "/etc/conductor");
        assert!(page.lines().any(|written| written == line), "{line}");
    }
}

#[test]
fn the_brokers_own_names_are_left_alone() {
    let environment: Environment = [("RABBITMQ_NODENAME", "a@b"), ("PATH", "/bin")]
        .into_iter()
        .collect();
    let sources = Sources {
        file: None,
        environment,
    };
    assert!(Settings::load(&sources).is_ok());
}
