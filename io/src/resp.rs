//! The store's protocol, RESP2: commands out, replies in.
//!
//! Commands are packed by the `redis` crate; replies are read here, because the core must know
//! exactly where a reply ends, must be able to stop in the middle of one, and must never guess:
//! after one malformed byte the connection is in doubt. Both halves run on a partition's core and
//! know nothing of sockets.

mod command;
mod reader;

pub use command::{Packer, command};
pub use reader::{Reader, RespError};

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A status such as `OK` or `QUEUED`.
    Simple(String),
    /// The server's refusal, its first word included.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Several replies; an element may be an [`Reply::Error`].
    Array(Vec<Reply>),
    /// No value, or a transaction that its watch stopped.
    Nil,
}

impl Reply {
    /// The number, where it is one.
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The bytes, where it is a bulk string.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The text, where it is a bulk string or a status, and UTF-8.
    pub fn text(&self) -> Option<&str> {
        match self {
            Reply::Bulk(bytes) => std::str::from_utf8(bytes).ok(),
            Reply::Simple(text) => Some(text),
            _ => None,
        }
    }

    /// The elements, where it is an array.
    pub fn elements(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// The server's words, where it refused.
    pub fn error(&self) -> Option<&str> {
        match self {
            Reply::Error(words) => Some(words),
            _ => None,
        }
    }

    /// Whether it is this status.
    pub fn is_status(&self, status: &str) -> bool {
        matches!(self, Reply::Simple(text) if text == status)
    }

    /// Whether there is no value.
    pub const fn is_nil(&self) -> bool {
        matches!(self, Reply::Nil)
    }

    /// The first error in it, however deep. An array with one came from a transaction of which
    /// the other parts were applied.
    pub fn first_error(&self) -> Option<&str> {
        match self {
            Reply::Error(words) => Some(words),
            // The reader bounds the depth, so this does too.
            Reply::Array(elements) => elements.iter().find_map(Reply::first_error),
            _ => None,
        }
    }
}
