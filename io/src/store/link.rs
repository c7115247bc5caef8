//! One connection: packets out, replies in, in order.
//!
//! A link that failed once is never used again: what its peer has or has not done is unknown then.
//! Time limits are the caller's, who drops the link when one is over.

use crate::resp::{Packer, Reader, Reply, RespError, command};
use conductor_config::Login;
use futures_lite::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Why a link can no longer be used, or what a server refused.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The socket failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] std::io::Error),
    /// The peer closed it.
    #[error("the server closed the connection")]
    Closed,
    /// The peer sent something that is no reply.
    #[error("the server sent something unreadable: {0}")]
    Unreadable(#[from] RespError),
    /// The server refused a command.
    #[error("the server refused {command}: {words}")]
    Refused {
        /// The command's name, without its arguments.
        command: String,
        /// The server's words.
        words: String,
    },
    /// The server answered with something else than was expected.
    #[error("the server answered {command} with something unexpected")]
    Unexpected {
        /// The command's name.
        command: String,
    },
    /// A record about the cell itself is there and is not what it must be.
    #[error(
        "the store's {key} cannot be read: {detail}; this is no store of a cell, or somebody \
         changed it by hand: restore it, or connect to the right one"
    )]
    Record {
        /// Which key.
        key: String,
        /// What is wrong with it.
        detail: String,
    },
    /// It took too long.
    #[error("no answer in time")]
    TimedOut,
}

impl LinkError {
    /// The server's words, where it refused.
    pub fn refusal(&self) -> Option<&str> {
        match self {
            LinkError::Refused { words, .. } => Some(words),
            _ => None,
        }
    }

    /// Whether the server has no memory left for writes.
    pub fn is_full(&self) -> bool {
        self.refusal().is_some_and(is_out_of_memory)
    }
}

/// Whether a server's words say that a key holds something of another kind.
pub fn is_wrong_type(words: &str) -> bool {
    words.starts_with("WRONGTYPE")
}

/// Whether a server's words say that it has no memory left for writes.
pub fn is_out_of_memory(words: &str) -> bool {
    words.starts_with("OOM") || words.contains("because of: OOM")
}

/// One connection.
#[derive(Debug)]
pub struct Link<S> {
    stream: S,
    reader: Reader,
    chunk: Vec<u8>,
}

const CHUNK_BYTES: usize = 64 * 1024;

impl<S: AsyncRead + AsyncWrite + Unpin> Link<S> {
    /// A link over a fresh connection.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            reader: Reader::new(),
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Logs in, where there is something to log in with.
    ///
    /// # Errors
    /// [`LinkError::Refused`] when the server does not know the login; never with the password.
    pub async fn log_in(&mut self, login: Option<&Login>) -> Result<(), LinkError> {
        let Some(login) = login else { return Ok(()) };
        let password = login.password.expose().as_bytes();
        let reply = match &login.username {
            Some(user) => self.ask(&[b"AUTH", user.as_bytes(), password]).await?,
            None => self.ask(&[b"AUTH", password]).await?,
        };
        if reply.is_status("OK") {
            Ok(())
        } else {
            Err(unexpected("AUTH"))
        }
    }

    /// Sends one command and reads its reply.
    ///
    /// # Errors
    /// [`LinkError`]; a refusal too.
    pub async fn ask(&mut self, parts: &[&[u8]]) -> Result<Reply, LinkError> {
        let mut packet = Vec::new();
        command(&mut packet, parts);
        let name = parts.first().copied().unwrap_or_default();
        self.send(&packet).await?;
        match self.reply().await? {
            Reply::Error(words) => Err(refused(String::from_utf8_lossy(name), words)),
            reply => Ok(reply),
        }
    }

    /// Sends several commands at once and reads all their replies, refusals among them.
    ///
    /// # Errors
    /// [`LinkError`] when the link failed.
    pub async fn ask_all(
        &mut self,
        pack: impl FnOnce(&mut Packer<'_>),
    ) -> Result<Vec<Reply>, LinkError> {
        let mut packet = Vec::new();
        let mut packer = Packer::new(&mut packet);
        pack(&mut packer);
        let count = packer.packed();
        self.send(&packet).await?;
        let mut replies = Vec::with_capacity(count);
        for _ in 0..count {
            replies.push(self.reply().await?);
        }
        Ok(replies)
    }

    /// Sends bytes that are whole commands.
    ///
    /// # Errors
    /// [`LinkError::Socket`].
    pub async fn send(&mut self, packet: &[u8]) -> Result<(), LinkError> {
        self.stream.write_all(packet).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// The next reply.
    ///
    /// # Errors
    /// [`LinkError`] when the link failed.
    pub async fn reply(&mut self) -> Result<Reply, LinkError> {
        loop {
            if let Some(reply) = self.reader.next()? {
                return Ok(reply);
            }
            let read = self.stream.read(&mut self.chunk).await?;
            if read == 0 {
                return Err(LinkError::Closed);
            }
            self.reader.feed(&self.chunk[..read]);
        }
    }

    /// The socket and what was read and not yet taken.
    pub fn into_parts(self) -> (S, Reader) {
        (self.stream, self.reader)
    }
}

/// A server that refuses a command, in its words.
pub fn refused(command: impl Into<String>, words: impl Into<String>) -> LinkError {
    LinkError::Refused {
        command: command.into(),
        words: words.into(),
    }
}

/// A reply that is not of the expected kind.
pub fn unexpected(command: &str) -> LinkError {
    LinkError::Unexpected {
        command: command.to_owned(),
    }
}
