//! The public workloads: a header, then records of forty bytes, as they are published or packed
//! with zstd.
//!
//! Their ids are numbers; ours are texts, and each of their orders gets an owner. Both are made
//! here, before anything is timed, as a conductor's commands are decoded before they are decided.

use anyhow::{Context, bail, ensure};
use conductor_engine::units::{Price, Quantity};
use conductor_engine::{OrderId, Side, UserId};
use std::fs;
use std::path::Path;

const HEADER_BYTES: usize = 16;
const RECORD_BYTES: usize = 40;
const VERSION: u32 = 1;
/// How every file of zstd begins.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    New,
    /// A new order that is closed rather than rested.
    Immediate,
    Cancel,
    /// A cancel and a new order under the same id, which always loses its place.
    Modify,
}

/// One message. Its sequence is its place in the workload.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) side: Side,
    pub(crate) id: OrderId,
    pub(crate) user: UserId,
    pub(crate) price: Option<Price>,
    pub(crate) volume: Quantity,
}

/// Reads a workload whole.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Message>> {
    let shown = path.display();
    let bytes = fs::read(path).with_context(|| format!("cannot read {shown}"))?;
    let bytes = if bytes.starts_with(&ZSTD_MAGIC) {
        unpack(&bytes).with_context(|| format!("cannot unpack {shown}"))?
    } else {
        bytes
    };
    messages(&bytes).with_context(|| format!("{shown} is no workload"))
}

fn unpack(packed: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut reader = ruzstd::decoding::StreamingDecoder::new(packed)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut bytes)?;
    Ok(bytes)
}

fn messages(bytes: &[u8]) -> anyhow::Result<Vec<Message>> {
    ensure!(bytes.len() >= HEADER_BYTES, "it has no header");
    let (header, records) = bytes.split_at(HEADER_BYTES);
    let (version, count) = (number(header, 8, 4)?, number(header, 12, 4)?);
    ensure!(
        version == u64::from(VERSION),
        "its version is {version}, not {VERSION}"
    );
    let (records, rest) = records.as_chunks::<RECORD_BYTES>();
    ensure!(
        rest.is_empty() && records.len() as u64 == count,
        "it announces {count} messages and holds {} bytes of them",
        bytes.len() - HEADER_BYTES
    );
    let read = records.iter().zip(0..).map(|(record, place)| {
        message(record, place).with_context(|| format!("message {place} cannot be read"))
    });
    read.collect()
}

fn message(record: &[u8; RECORD_BYTES], place: u64) -> anyhow::Result<Message> {
    let sequence = number(record, 8, 8)?;
    ensure!(sequence == place, "its sequence is {sequence}");
    let id = number(record, 16, 8)?;
    let kind = match (record[0], record[2]) {
        (0, 0) => Kind::New,
        (0, _) => Kind::Immediate,
        (1, _) => Kind::Cancel,
        (2, _) => Kind::Modify,
        (other, _) => bail!("there is no message of type {other}"),
    };
    let price = Price::new(number(record, 24, 8)?);
    ensure!(
        price.is_some() || kind == Kind::Cancel,
        "its price is out of range"
    );
    Ok(Message {
        kind,
        side: match record[1] {
            0 => Side::Bid,
            _ => Side::Ask,
        },
        id: OrderId::new(&id.to_string())?,
        user: UserId::new(&format!("u-{id}"))?,
        price,
        volume: Quantity::new(number(record, 4, 4)?).context("its volume is out of range")?,
    })
}

/// The little-endian number of so many bytes.
fn number(bytes: &[u8], at: usize, length: usize) -> anyhow::Result<u64> {
    let field = bytes.get(at..at + length).context("it ends early")?;
    let digits = field.iter().rev();
    Ok(digits.fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}
