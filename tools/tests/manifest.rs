//! The engine's manifest keeps its promise: it decides, and has nothing to wait, talk, roll dice or
//! read a clock with.
//!
//! The list says what may be there, not what may not. A dependency that is new to it fails here
//! until somebody has looked at it and at everything that it brings along.

use std::collections::BTreeSet;
use std::process::Command;

/// Everything that the engine may be built of, and why it is there.
const ALLOWED: [(&str, &str); 10] = [
    ("conductor-engine", "the engine itself"),
    ("foldhash", "a hash whose seed is handed in"),
    ("hashbrown", "the table behind the index of orders"),
    ("smol_str", "short ids without an allocation"),
    ("thiserror", "words for errors"),
    ("thiserror-impl", "its macro, which runs in the compiler"),
    ("proc-macro2", "of that macro"),
    ("quote", "of that macro"),
    ("syn", "of that macro"),
    ("unicode-ident", "of that macro"),
];

#[test]
fn the_engine_is_built_of_nothing_that_waits_talks_or_tells_the_time() {
    let arguments = [
        "tree",
        "-p",
        "conductor-engine",
        "-e",
        "normal",
        "--locked",
        "--offline",
    ];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let tree = String::from_utf8_lossy(&output.stdout);
    let found: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(found.contains("conductor-engine"), "{tree}");
    let known: BTreeSet<&str> = ALLOWED.iter().map(|(name, _)| *name).collect();
    let strangers: Vec<&&str> = found.difference(&known).collect();
    assert!(
        strangers.is_empty(),
        "the engine has come to depend on {strangers:?}:\n{tree}"
    );
}
