//! Reading a trace, line by line, in bounded memory.

use conductor_engine::limits::MESSAGE_BYTES_MAX;
use conductor_engine::{Incoming, PairId, PartitionId};
use conductor_io::wire::decode;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// Where goes what names no partition.
const FIRST: PartitionId = PartitionId(0);

/// One line of a trace and what it turned out to be.
#[derive(Debug)]
pub struct TraceLine<'a> {
    /// Its number, from one.
    pub number: u64,
    /// How many bytes of the trace it took, with its end.
    pub bytes_read: u64,
    /// The message, without the line's end; `None` for one that is longer than a message may be.
    pub message: Option<&'a [u8]>,
    /// What it is.
    pub incoming: Incoming,
}

impl TraceLine<'_> {
    /// The partition whose queue the message goes to. See [`destination`].
    pub fn destination(&self, partition_count: u32) -> PartitionId {
        destination(&self.incoming, self.message, partition_count)
    }
}

/// Reads a trace.
#[derive(Debug)]
pub struct TraceReader<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> TraceReader<R> {
    /// A reader from the start of a trace.
    pub const fn new(source: R) -> Self {
        Self {
            source,
            line: Vec::new(),
            number: 0,
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// When the source cannot be read. What a line holds is never an error.
    pub fn read(&mut self) -> io::Result<Option<TraceLine<'_>>> {
        let Some(length) = self.fill()? else {
            return Ok(None);
        };
        self.number += 1;
        let whole = length.message == self.line.len() as u64;
        let incoming = if whole {
            decode(&self.line)
        } else {
            Incoming::Unusable(format!(
                "the message has {} bytes; send at most {MESSAGE_BYTES_MAX}",
                length.message
            ))
        };
        Ok(Some(TraceLine {
            number: self.number,
            bytes_read: length.read,
            message: whole.then_some(self.line.as_slice()),
            incoming,
        }))
    }

    /// Reads up to the line's end and keeps what a message may have of it.
    fn fill(&mut self) -> io::Result<Option<Length>> {
        self.line.clear();
        let mut length = Length::default();
        loop {
            let chunk = match self.source.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                return Ok((length.read > 0).then_some(length));
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let part = &chunk[..end.unwrap_or(chunk.len())];
            let room = MESSAGE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            let taken = part.len() + usize::from(end.is_some());
            length.message += part.len() as u64;
            length.read += taken as u64;
            self.source.consume(taken);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }
}

/// How long a line is, and how much was read for it.
#[derive(Clone, Copy, Debug, Default)]
struct Length {
    message: u64,
    read: u64,
}

/// The partition whose queue a message goes to, of this many.
///
/// A command goes where it says, if there is such a partition, and else where its pair belongs; a
/// command that says the wrong one is therefore refused by the partition that it named, as it
/// would be in a cell. What is no valid command goes to its pair's partition, else to the one it
/// names, else to the first, as far as that can be read.
pub fn destination(
    incoming: &Incoming,
    message: Option<&[u8]>,
    partition_count: u32,
) -> PartitionId {
    let exists = |partition: &PartitionId| partition.0 < partition_count;
    let owner = |pair: PairId| pair.partition(partition_count);
    let named = || field(message, "partition").map(PartitionId).filter(exists);
    match incoming {
        Incoming::Command(command) => command
            .partition
            .filter(exists)
            .unwrap_or_else(|| owner(command.pair)),
        Incoming::Refused(refused) => refused.pair.map(owner).or_else(named).unwrap_or(FIRST),
        Incoming::Unusable(_) => {
            let pair = field(message, "pairId").map(PairId);
            pair.map(owner).or_else(named).unwrap_or(FIRST)
        }
    }
}

/// A number that a message holds, whatever else is wrong with it.
fn field(message: Option<&[u8]>, name: &str) -> Option<u32> {
    let fields: BTreeMap<String, &RawValue> = serde_json::from_slice(message?).ok()?;
    serde_json::from_str(fields.get(name)?.get()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Read};

    #[test]
    fn a_line_that_is_far_too_long_is_not_held() {
        let endless = io::repeat(b'x').take(64 << 20);
        let trace = endless.chain(&b"\n{}\n"[..]);
        let mut reader = TraceReader::new(BufReader::new(trace));
        let line = reader.read().expect("it can be read").expect("a line");
        assert_eq!((line.message, line.bytes_read), (None, (64 << 20) + 1));
        // A vector grows by doubling.
        assert!(reader.line.capacity() <= 2 * MESSAGE_BYTES_MAX);
        let line = reader.read().expect("it can be read").expect("a line");
        assert_eq!(line.message, Some(&b"{}"[..]));
    }
}
