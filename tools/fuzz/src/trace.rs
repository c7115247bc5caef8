//! Traces: every line is judged as a message is, however the source hands the bytes out, and none
//! that is longer than a message may be is kept.

use crate::cuts::Cuts;
use conductor_engine::limits::MESSAGE_BYTES_MAX;
use conductor_engine::{Incoming, PartitionId};
use conductor_io::wire::decode;
use reader::{TraceReader, destination};
use std::io::{self, BufRead, Read};

// The reader as it stands in the tools, whose package would bring every dependency of theirs.
#[path = "../../src/trace/reader.rs"]
pub mod reader;

/// Stands for a run: behind it come how long, and of which byte.
const RUN: u8 = 1;
/// Bytes of the shortest run.
const RUN_BYTES: usize = 16;
/// Bytes of the shortest run where the second byte of the input is zero: two such runs can make a
/// line too long. Most inputs have none, because each takes as long as a thousand others.
const LONG_RUN_BYTES: usize = 4 << 10;
/// Runs do not make a trace longer than this.
const TRACE_BYTES_MAX: usize = 5 << 19;

/// Judges a trace; the first two bytes say how it is handed out.
///
/// # Panics
/// When the reader does not keep what it promises.
pub fn check(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let trace = expanded(
        bytes,
        if seed[1] == 0 {
            LONG_RUN_BYTES
        } else {
            RUN_BYTES
        },
    );
    let mut reader = TraceReader::new(Source {
        rest: &trace,
        piece: 0,
        cuts: Cuts::of(*seed),
    });
    let partitions = 1 + u32::from(seed[0] % 8);
    let mut number = 0;
    for line in lines(&trace) {
        number += 1;
        let read = reader.read().expect("memory can be read");
        let read = read.expect("there is a line left");
        let message = line.strip_suffix(b"\n").unwrap_or(line);
        let kept = Some(message).filter(|message| message.len() <= MESSAGE_BYTES_MAX);
        assert_eq!(read.number, number);
        assert_eq!(read.bytes_read, line.len() as u64);
        assert!(read.message == kept, "line {number} is another one");
        assert_eq!(read.incoming, decode(message));
        let goes = read.destination(partitions);
        assert!(goes.0 < partitions);
        named(&read.incoming, partitions).inspect(|named| assert_eq!(goes, *named));
        assert_eq!(goes, destination(&read.incoming, kept, partitions));
    }
    assert!(reader.read().expect("memory can be read").is_none());
}

/// The lines, each with its end; only the end of the last line stands for nothing.
fn lines(trace: &[u8]) -> impl Iterator<Item = &[u8]> {
    trace.split_inclusive(|byte| *byte == b'\n')
}

/// The partition that a command names, where there is such a one.
fn named(incoming: &Incoming, partitions: u32) -> Option<PartitionId> {
    let Incoming::Command(command) = incoming else {
        return None;
    };
    command.partition.filter(|named| named.0 < partitions)
}

/// The trace that an input stands for: a fuzzer makes up short inputs, and lines are too long only
/// from a mebibyte on.
fn expanded(mut bytes: &[u8], shortest: usize) -> Vec<u8> {
    let mut trace = Vec::new();
    while let [first, rest @ ..] = bytes {
        bytes = rest;
        match (first, rest) {
            (&RUN, [length, of, rest @ ..]) => {
                bytes = rest;
                let length = (usize::from(*length) + 1) * shortest;
                // Millions of empty lines would say no more than a few.
                let of = if *of == b'\n' { b' ' } else { *of };
                let room = TRACE_BYTES_MAX.saturating_sub(trace.len());
                trace.resize(trace.len() + length.min(room), of);
            }
            (other, _) => trace.push(*other),
        }
    }
    trace
}

/// Hands the bytes out in pieces, and is interrupted now and then.
struct Source<'a> {
    rest: &'a [u8],
    piece: usize,
    cuts: Cuts,
}

impl Read for Source<'_> {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.piece == 0 {
            if self.cuts.below(8) == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.piece = self.cuts.length(self.rest.len());
            // Long runs in small pieces would take long and say nothing more.
            if self.rest.len() > 4 * LONG_RUN_BYTES {
                self.piece = self.rest.len().min(self.piece * 64);
            }
        }
        Ok(&self.rest[..self.piece])
    }

    fn consume(&mut self, bytes: usize) {
        self.piece = self.piece.checked_sub(bytes).expect("it was handed out");
        self.rest = &self.rest[bytes..];
    }
}
