//! A blocking connection to a store, with the conductor's own packing and reading of replies.
//!
//! One thread, one connection, one packet in flight: what a partition's core does, without the core.

use anyhow::{Context, bail, ensure};
use conductor_io::resp::{Reader, Reply, command};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Nothing that a store is asked here takes longer.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const CHUNK_BYTES: usize = 64 << 10;

/// Where a store is, and as whom to log in.
#[derive(Clone, Debug)]
pub(crate) struct StoreAt {
    pub(crate) address: SocketAddr,
    pub(crate) login: Option<(String, String)>,
}

/// The connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    reader: Reader,
    chunk: Vec<u8>,
    packet: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(store: &StoreAt) -> anyhow::Result<Self> {
        let cannot = || format!("cannot connect to the store at {}", store.address);
        let stream = TcpStream::connect(store.address).with_context(cannot)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut connection = Self {
            stream,
            reader: Reader::new(),
            chunk: vec![0; CHUNK_BYTES],
            packet: Vec::new(),
        };
        if let Some((user, password)) = &store.login {
            connection.ask(&["AUTH", user, password])?;
        }
        Ok(connection)
    }

    /// Sends bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// The next reply, whatever it is.
    pub(crate) fn reply(&mut self) -> anyhow::Result<Reply> {
        loop {
            if let Some(reply) = self.reader.next()? {
                return Ok(reply);
            }
            let read = self.stream.read(&mut self.chunk)?;
            ensure!(read > 0, "the store closed the connection");
            self.reader.feed(&self.chunk[..read]);
        }
    }

    /// One command by its words; a refusal is an error.
    pub(crate) fn ask(&mut self, words: &[&str]) -> anyhow::Result<Reply> {
        let parts: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.packet.clear();
        command(&mut self.packet, &parts);
        self.stream.write_all(&self.packet)?;
        let reply = self.reply()?;
        match reply.first_error() {
            // The words after the first may be a password.
            Some(error) => bail!("the store refuses {}: {error}", words[0]),
            None => Ok(reply),
        }
    }

    /// A number.
    pub(crate) fn number(&mut self, words: &[&str]) -> anyhow::Result<u64> {
        let reply = self.ask(words)?;
        let number = reply
            .integer()
            .and_then(|number| u64::try_from(number).ok());
        number.with_context(|| format!("the store answers {} with {reply:?}", words[0]))
    }

    /// One figure of a section of `INFO`.
    pub(crate) fn info(&mut self, section: &str, name: &str) -> anyhow::Result<String> {
        let reply = self.ask(&["INFO", section])?;
        let text = reply.text().unwrap_or_default();
        let start = format!("{name}:");
        let line = text.lines().find_map(|line| line.strip_prefix(&start));
        let found = line.map(|value| value.trim().to_owned());
        found.with_context(|| format!("the store's INFO {section} has no {name}"))
    }

    /// A figure of `INFO` that is a whole number.
    pub(crate) fn info_number(&mut self, section: &str, name: &str) -> anyhow::Result<u64> {
        Ok(self.info(section, name)?.parse()?)
    }
}
