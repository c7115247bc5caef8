//! Messages: whatever the bytes, the decoder takes them for what the second judge takes them for, and
//! loses nothing of what it accepts.

use crate::judge::{Fate, fate, once};
use crate::tree::Tree;
use conductor_engine::command::RefusedCommand;
use conductor_engine::limits::DETAIL_BYTES_MAX;
use conductor_engine::{Command, Incoming, PairId, Refusal, Timestamp};
use conductor_io::wire::{decode, decode_event, decode_result, encode_command};

/// Judges a message.
///
/// # Panics
/// When the decoder does not keep what it promises.
pub fn check(bytes: &[u8]) {
    let incoming = decode(bytes);
    let tree = serde_json::from_slice::<Tree>(bytes).ok();
    if let Some(tree) = &tree {
        assert_eq!(taken_for(&incoming), fate(tree), "{incoming:?}");
    }
    match (&incoming, &tree) {
        (Incoming::Command(command), Some(tree)) => accepted(command, tree),
        (Incoming::Command(command), None) => panic!("{command:?} is no JSON"),
        (Incoming::Refused(refused), tree) => explained(refused, tree.as_ref()),
        (Incoming::Unusable(reason), _) => sentence(reason),
    }
    // These two read what the cell itself wrote, and must be as calm about anything else.
    let _ = decode_event(bytes);
    let _ = decode_result(bytes);
}

fn taken_for(incoming: &Incoming) -> Fate {
    match incoming {
        Incoming::Command(_) => Fate::Command,
        Incoming::Refused(refused) => Fate::Refused {
            oversized: refused.refusal == Refusal::BatchTooLarge,
        },
        Incoming::Unusable(_) => Fate::Unusable,
    }
}

/// What is accepted says what was written, and is read again as itself.
fn accepted(command: &Command, tree: &Tree) {
    let written = encode_command(command);
    let again = serde_json::from_slice::<Tree>(&written).expect("a command is spelled as JSON");
    assert_eq!(plain(again), plain(tree.clone()), "{command:?}");
    assert_eq!(decode(&written), Incoming::Command(command.clone()));
}

/// A tree without what may be said in two ways: the order of fields, no user, the usual time in force.
fn plain(tree: Tree) -> Tree {
    match tree {
        Tree::List(entries) => Tree::List(entries.into_iter().map(plain).collect()),
        Tree::Object(fields) => {
            let usual = |name: &str, value: &Tree| match name {
                "userId" => *value == Tree::Null,
                "timeInForce" => value.text() == Some("gtc"),
                _ => false,
            };
            let kept = fields
                .into_iter()
                .filter(|(name, value)| !usual(name, value));
            let mut kept: Vec<(String, Tree)> =
                kept.map(|(name, value)| (name, plain(value))).collect();
            kept.sort_by(|(one, _), (other, _)| one.cmp(other));
            Tree::Object(kept)
        }
        leaf => leaf,
    }
}

/// What is refused says why, and for which command.
fn explained(refused: &RefusedCommand, tree: Option<&Tree>) {
    sentence(&refused.detail);
    assert!(matches!(
        refused.refusal,
        Refusal::Malformed | Refusal::BatchTooLarge
    ));
    assert!(
        !refused.detail.contains("cannot be read"),
        "{}",
        refused.detail
    );
    let Some(fields) = tree.and_then(Tree::fields) else {
        return;
    };
    let id = once(fields, "commandId").and_then(Tree::text);
    assert_eq!(id, Some(refused.id.as_str()));
    let pair = once(fields, "pairId").and_then(Tree::whole);
    let pair = pair.and_then(|pair| u32::try_from(pair).ok()).map(PairId);
    assert_eq!(refused.pair, pair);
    let timestamp = once(fields, "timestamp").and_then(Tree::whole);
    assert_eq!(refused.timestamp, timestamp.and_then(Timestamp::new));
}

/// It is stored and published, so it is short, and it says something.
fn sentence(words: &str) {
    assert!(!words.trim().is_empty() && words.len() <= DETAIL_BYTES_MAX);
}
