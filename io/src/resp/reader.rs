//! Reading replies from chunks of bytes, wherever the chunks end.
//!
//! Nothing is read twice: half an array stays on a stack of open arrays, half a line keeps the
//! place to which it was searched. What the server announces is believed only as far as its
//! limits, and memory is taken for what has arrived, not for what was announced. One malformed
//! byte breaks the reader for good; the caller must drop the connection, never resynchronise.

use super::Reply;

/// Longest bulk string that is read, in bytes.
const BULK_BYTES_MAX: usize = 64 << 20;
/// Longest status, error or number line, in bytes.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Most elements of one array: a page of an index with room to spare.
const ARRAY_ELEMENTS_MAX: usize = 4 << 20;
/// Deepest nesting: our deepest reply, a transaction of stream entries, has five.
const DEPTH_MAX: usize = 8;
/// Elements for which an announced array takes memory at once.
const ELEMENTS_RESERVED_MAX: usize = 1_024;
/// Consumed bytes that may stay in front of the buffer before the rest moves down.
const CONSUMED_BYTES_KEPT: usize = 64 << 10;

/// Why the bytes are no reply. The connection they came from must be dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RespError {
    /// A reply starts with a byte that means nothing.
    #[error("a reply starts with the byte {0:#04x}; drop the connection")]
    Kind(u8),
    /// A line ends with something other than carriage return and line feed.
    #[error("a line of a reply does not end with CR LF; drop the connection")]
    LineEnd,
    /// A line is longer than any that the server sends.
    #[error("a line of a reply is longer than {LINE_BYTES_MAX} bytes; drop the connection")]
    LineLength,
    /// A status or error is not UTF-8.
    #[error("a status or error of a reply is not UTF-8; drop the connection")]
    Text,
    /// A number or length is not spelled as one.
    #[error("a number or length of a reply cannot be read; drop the connection")]
    Number,
    /// A bulk string is announced too long.
    #[error("a reply announces {0} bytes, above {BULK_BYTES_MAX}; drop the connection")]
    BulkLength(i64),
    /// An array is announced too long.
    #[error("a reply announces {0} elements, above {ARRAY_ELEMENTS_MAX}; drop the connection")]
    ArrayLength(i64),
    /// Arrays are nested too deep.
    #[error("a reply is nested deeper than {DEPTH_MAX}; drop the connection")]
    Depth,
}

/// Takes chunks of bytes and gives replies.
#[derive(Debug, Default)]
pub struct Reader {
    buffer: Vec<u8>,
    /// Everything before is consumed.
    start: usize,
    /// The line that starts at `start` does not end before here.
    searched: usize,
    /// A bulk string of this length starts at `start`.
    bulk: Option<usize>,
    open: Vec<OpenArray>,
    broken: Option<RespError>,
}

#[derive(Debug)]
struct OpenArray {
    elements: Vec<Reply>,
    missing: usize,
}

/// What the next bytes were.
enum Token {
    Whole(Reply),
    /// The head of something that goes on.
    Head,
}

impl Reader {
    /// A reader at the start of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the bytes that arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.buffer.len() {
            self.buffer.clear();
            self.start = 0;
        } else if self.start > CONSUMED_BYTES_KEPT && self.start * 2 > self.buffer.len() {
            self.buffer.drain(..self.start);
            self.searched = self.searched.saturating_sub(self.start);
            self.start = 0;
        }
        self.searched = self.searched.max(self.start).min(self.buffer.len());
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole reply, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`RespError`] on the first malformed byte, and the same one ever after.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator's end is for good, this one's is not"
    )]
    pub fn next(&mut self) -> Result<Option<Reply>, RespError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        self.advance()
            .inspect_err(|error| self.broken = Some(error.clone()))
    }

    /// Whether a reply has begun and is not whole.
    pub fn is_midway(&self) -> bool {
        self.start < self.buffer.len() || self.bulk.is_some() || !self.open.is_empty()
    }

    fn advance(&mut self) -> Result<Option<Reply>, RespError> {
        while let Some(token) = self.token()? {
            if let Token::Whole(reply) = token
                && let Some(reply) = self.place(reply)
            {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn token(&mut self) -> Result<Option<Token>, RespError> {
        if let Some(length) = self.bulk {
            return Ok(self.bulk_string(length)?.map(Token::Whole));
        }
        let Some((from, to)) = self.line()? else {
            return Ok(None);
        };
        let (kind, line) = (self.buffer[from], &self.buffer[from + 1..to]);
        let token = match kind {
            b'+' => Token::Whole(Reply::Simple(text(line)?)),
            b'-' => Token::Whole(Reply::Error(text(line)?)),
            b':' => Token::Whole(Reply::Integer(number(line)?)),
            b'$' => match number(line)? {
                -1 => Token::Whole(Reply::Nil),
                length => {
                    self.bulk = Some(bulk_length(length)?);
                    Token::Head
                }
            },
            b'*' => match number(line)? {
                -1 => Token::Whole(Reply::Nil),
                0 => Token::Whole(Reply::Array(Vec::new())),
                length => {
                    let missing = array_length(length)?;
                    if self.open.len() == DEPTH_MAX {
                        return Err(RespError::Depth);
                    }
                    let elements = Vec::with_capacity(missing.min(ELEMENTS_RESERVED_MAX));
                    self.open.push(OpenArray { elements, missing });
                    Token::Head
                }
            },
            other => return Err(RespError::Kind(other)),
        };
        Ok(Some(token))
    }

    /// Where the next line is, without its end; consumed when whole.
    fn line(&mut self) -> Result<Option<(usize, usize)>, RespError> {
        let from = self.start;
        match self.buffer.get(from) {
            None => return Ok(None),
            Some(b'+' | b'-' | b':' | b'$' | b'*') => {}
            Some(&other) => return Err(RespError::Kind(other)),
        }
        let search = self.searched.max(from);
        let ends = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let found = self.buffer[search..].iter().position(ends);
        let to = found.map_or(self.buffer.len(), |place| search + place);
        if to - from > LINE_BYTES_MAX {
            return Err(RespError::LineLength);
        }
        self.searched = to;
        match (self.buffer.get(to), self.buffer.get(to + 1)) {
            (None, _) | (Some(b'\r'), None) => Ok(None),
            (Some(b'\r'), Some(b'\n')) => {
                self.start = to + 2;
                Ok(Some((from, to)))
            }
            _ => Err(RespError::LineEnd),
        }
    }

    fn bulk_string(&mut self, length: usize) -> Result<Option<Reply>, RespError> {
        let rest = &self.buffer[self.start..];
        // What has arrived of the end is judged at once.
        match (rest.get(length), rest.get(length + 1)) {
            (Some(b'\r'), Some(b'\n')) => {}
            (None, _) | (Some(b'\r'), None) => return Ok(None),
            _ => return Err(RespError::LineEnd),
        }
        let bytes = rest[..length].to_vec();
        self.start += length + 2;
        self.bulk = None;
        Ok(Some(Reply::Bulk(bytes)))
    }

    /// Puts a reply into the innermost open array and closes every array that it completes; gives
    /// it back when none is left open.
    fn place(&mut self, mut reply: Reply) -> Option<Reply> {
        while let Some(array) = self.open.last_mut() {
            array.elements.push(reply);
            array.missing -= 1;
            if array.missing > 0 {
                return None;
            }
            reply = Reply::Array(self.open.pop()?.elements);
        }
        Some(reply)
    }
}

fn text(line: &[u8]) -> Result<String, RespError> {
    let text = std::str::from_utf8(line).map_err(|_| RespError::Text)?;
    Ok(text.to_owned())
}

/// A number as the server spells it: no plus, no leading zero, no blank.
fn number(line: &[u8]) -> Result<i64, RespError> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    let plain = match digits {
        [b'0'] => line.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    let parsed = std::str::from_utf8(line).ok().filter(|_| plain);
    parsed
        .and_then(|text| text.parse().ok())
        .ok_or(RespError::Number)
}

fn bulk_length(length: i64) -> Result<usize, RespError> {
    within(length, BULK_BYTES_MAX).ok_or(RespError::BulkLength(length))
}

fn array_length(length: i64) -> Result<usize, RespError> {
    within(length, ARRAY_ELEMENTS_MAX).ok_or(RespError::ArrayLength(length))
}

fn within(length: i64, max: usize) -> Option<usize> {
    usize::try_from(length).ok().filter(|&length| length <= max)
}
