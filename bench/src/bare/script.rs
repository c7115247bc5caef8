//! What the bare conductor is to do for each command, made before anything runs: the writes as the
//! store takes them, what it would look up, where the partition stands then, and the reply.
//!
//! A file, because the bare conductor is a process of its own: lengths and bytes, nothing else.

use anyhow::{Context, ensure};
use conductor_engine::matching::{AcceptedOrders, Cell, Matcher};
use conductor_engine::staging::{Cursor, Write as Change};
use conductor_engine::{Body, Command, FastBook, PartitionId};
use conductor_io::keys::Keys;
use conductor_io::wire::{encode_result, store_writes};
use std::fs;
use std::path::Path;

/// What is done for one command.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Its writes, and how many they are.
    pub(crate) writes: Vec<u8>,
    pub(crate) count: usize,
    /// The cursor behind it: one more write, of the last command of a group.
    pub(crate) cursor: Vec<u8>,
    /// Keys to look up, each ended by a line feed.
    pub(crate) look_ups: Vec<u8>,
    pub(crate) reply: Vec<u8>,
}

/// Decides the commands and writes what is to be done for each.
pub(crate) fn write(path: &Path, commands: impl Iterator<Item = Command>) -> anyhow::Result<()> {
    let keys = Keys::new(PartitionId(0));
    let mut matcher = Matcher::new(Cell::single(), FastBook::default(), Cursor::default());
    let mut out = Vec::new();
    for command in commands {
        let (mut accepted, mut writes) = (AcceptedOrders::default(), Vec::new());
        let result = matcher.apply(&command, &mut accepted, &mut writes)?;
        let (mut spelled, mut cursor, mut keys_of, mut reply) =
            <(Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)>::default();
        number(store_writes(&keys, &writes, None, &mut spelled), &mut out)?;
        let standing = [Change::Cursor(matcher.cursor().clone())];
        store_writes(&keys, &standing, None, &mut cursor);
        look_ups(&keys, &command, &mut keys_of);
        encode_result(&result, &mut reply);
        for part in [spelled, cursor, keys_of, reply] {
            number(part.len(), &mut out)?;
            out.extend_from_slice(&part);
        }
    }
    Ok(fs::write(path, out)?)
}

fn look_ups(keys: &Keys, command: &Command, out: &mut Vec<u8>) {
    keys.write_processed_command(&command.id, out);
    out.push(b'\n');
    let places: &[_] = match &command.body {
        Body::Place(order) => std::slice::from_ref(order),
        Body::Replace { place, .. } => place,
        Body::Cancel { .. } | Body::Amend { .. } => &[],
    };
    for order in places {
        keys.write_accepted_order(&order.id, out);
        out.push(b'\n');
    }
}

fn number(number: usize, out: &mut Vec<u8>) -> anyhow::Result<()> {
    out.extend_from_slice(&u32::try_from(number)?.to_le_bytes());
    Ok(())
}

/// Reads them back.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Line>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let (mut rest, mut lines) = (bytes.as_slice(), Vec::new());
    while !rest.is_empty() {
        let mut line = Line {
            count: length(&mut rest)?,
            ..Line::default()
        };
        for part in [
            &mut line.writes,
            &mut line.cursor,
            &mut line.look_ups,
            &mut line.reply,
        ] {
            let length = length(&mut rest)?;
            ensure!(length <= rest.len(), "the script ends early");
            let (own, behind) = rest.split_at(length);
            part.extend_from_slice(own);
            rest = behind;
        }
        lines.push(line);
    }
    Ok(lines)
}

fn length(rest: &mut &[u8]) -> anyhow::Result<usize> {
    let (own, behind) = rest
        .split_first_chunk::<4>()
        .context("the script ends early")?;
    *rest = behind;
    Ok(usize::try_from(u32::from_le_bytes(*own))?)
}
