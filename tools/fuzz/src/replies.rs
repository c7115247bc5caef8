//! What a store answers: the same replies however the bytes are cut, each made of exactly its own
//! bytes and of none behind them, and an end at the first malformed byte.

use crate::cuts::Cuts;
use conductor_io::resp::{Reader, Reply, RespError, command};

/// A bulk string so long that the reader lets go of consumed bytes behind it.
const MUCH: usize = 70_000;

/// Judges a stream; the first two bytes say how it is cut.
///
/// # Panics
/// When the reader does not keep what it promises.
pub fn check(input: &[u8]) {
    let Some((seed, bytes)) = input.split_first_chunk::<2>() else {
        return;
    };
    let single = Reading::of(bytes, |_| 1);
    single.is_exact(bytes);
    let mut cuts = Cuts::of(*seed);
    single.is_the_same_as(&Reading::of(bytes, |rest| cuts.length(rest)));
    single.is_the_same_as(&Reading::of(bytes, |rest| rest));
    if seed[0].is_multiple_of(16) {
        let mut reader = Reader::new();
        behind_much(&mut reader, &bytes[..bytes.len().min(3)]);
        let behind = Reading::with(reader, bytes, bytes.len().min(3), |rest| cuts.length(rest));
        single.is_the_same_as(&behind);
    }
    packed(bytes);
}

/// How a stream was read.
#[derive(Debug)]
struct Reading {
    replies: Vec<Reply>,
    /// Where each reply was whole: behind the piece that completed it.
    ends: Vec<usize>,
    /// Why the reader broke, and the piece in which it did.
    broken: Option<(RespError, std::ops::Range<usize>)>,
    midway: bool,
}

impl Reading {
    fn of(bytes: &[u8], length: impl FnMut(usize) -> usize) -> Self {
        Self::with(Reader::new(), bytes, 0, length)
    }

    /// Reads on with a reader that was fed so many of the bytes already.
    fn with(
        mut reader: Reader,
        bytes: &[u8],
        fed: usize,
        mut length: impl FnMut(usize) -> usize,
    ) -> Self {
        let mut reading = Self {
            replies: Vec::new(),
            ends: Vec::new(),
            broken: None,
            midway: false,
        };
        let mut piece = 0..fed;
        loop {
            if !reading.drain(&mut reader, piece.clone()) {
                return reading;
            }
            if piece.end == bytes.len() {
                reading.midway = reader.is_midway();
                return reading;
            }
            piece = piece.end..piece.end + length(bytes.len() - piece.end);
            reader.feed(&bytes[piece.clone()]);
        }
    }

    /// Takes every whole reply; whether the reader is sound.
    fn drain(&mut self, reader: &mut Reader, piece: std::ops::Range<usize>) -> bool {
        loop {
            match reader.next() {
                Ok(Some(reply)) => {
                    self.replies.push(reply);
                    self.ends.push(piece.end);
                }
                Ok(None) => return true,
                Err(error) => {
                    reader.feed(b"+OK\r\n");
                    assert_eq!(reader.next(), Err(error.clone()), "broken stays broken");
                    self.broken = Some((error, piece));
                    return false;
                }
            }
        }
    }

    /// Read byte by byte, each reply ends where its own bytes end.
    fn is_exact(&self, bytes: &[u8]) {
        let mut from = 0;
        for (reply, to) in self.replies.iter().zip(&self.ends) {
            let own = &bytes[from..*to];
            assert_eq!(spelled(reply, own), Some(&[][..]), "{reply:?}");
            from = *to;
        }
        if self.broken.is_none() {
            assert_eq!(self.midway, from < bytes.len());
        }
    }

    fn is_the_same_as(&self, cut: &Self) {
        assert_eq!(self.replies, cut.replies);
        assert_eq!(self.midway, cut.midway);
        match (&self.broken, &cut.broken) {
            (None, None) => {}
            (Some((error, byte)), Some((same, piece))) => {
                assert_eq!(error, same);
                assert!(piece.contains(&byte.start), "{byte:?} is not in {piece:?}");
            }
            differ => panic!("{differ:?}"),
        }
    }
}

/// What is left of the bytes behind this reply's spelling; nothing where they do not begin with it.
fn spelled<'a>(reply: &Reply, bytes: &'a [u8]) -> Option<&'a [u8]> {
    let line = |kind: char, text: &str| {
        let line = format!("{kind}{text}\r\n");
        bytes.strip_prefix(line.as_bytes())
    };
    match reply {
        Reply::Simple(text) => line('+', text),
        Reply::Error(text) => line('-', text),
        Reply::Integer(number) => line(':', &number.to_string()),
        Reply::Nil => line('$', "-1").or_else(|| line('*', "-1")),
        Reply::Bulk(content) => {
            let rest = line('$', &content.len().to_string())?;
            rest.strip_prefix(content.as_slice())?.strip_prefix(b"\r\n")
        }
        Reply::Array(elements) => {
            let rest = line('*', &elements.len().to_string())?;
            elements
                .iter()
                .try_fold(rest, |rest, element| spelled(element, rest))
        }
    }
}

/// Has the reader consume much, with the first bytes of the stream right behind it.
fn behind_much(reader: &mut Reader, first: &[u8]) {
    let mut bytes = format!("${MUCH}\r\n").into_bytes();
    bytes.resize(bytes.len() + MUCH, b'x');
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(first);
    reader.feed(&bytes);
    let much = reader.next().expect("it is well formed");
    assert_eq!(
        much.as_ref().and_then(Reply::bytes).map(<[u8]>::len),
        Some(MUCH)
    );
}

/// A packed command is read as the array of its parts.
fn packed(bytes: &[u8]) {
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b' ').collect();
    let mut out = Vec::new();
    command(&mut out, &parts);
    let mut reader = Reader::new();
    reader.feed(&out);
    let bulk = |part: &&[u8]| Reply::Bulk(part.to_vec());
    let whole = Reply::Array(parts.iter().map(bulk).collect());
    assert_eq!(reader.next(), Ok(Some(whole)));
    assert!(!reader.is_midway());
}
