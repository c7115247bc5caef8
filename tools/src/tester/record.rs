//! The record of a run: one SQLite file with everything that was published and every event that
//! came of it.
//!
//! It is all that the audit needs, so a run can be judged again later. A message is written once it
//! is done, in the order of publishing; the inbox's tables are [`super::inbox`]'s. The file is
//! written by one thread in transactions, survives the death of the process at any moment, and grows
//! with the run: about a kilobyte a command, events included.

use super::script::{Kind, Message};
use super::start::Start;
use conductor_engine::PartitionId;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Pages of the log that may gather before they move into the file; fewer moves disturb the disk
/// that the cell under test waits for less.
const LOG_PAGES: u32 = 16_384;
/// The form of the file; another one is refused.
const FORM: u32 = 1;
const TABLES: &str = "
    CREATE TABLE about (form INTEGER NOT NULL, text TEXT NOT NULL);
    CREATE TABLE command (
        number INTEGER PRIMARY KEY,
        partition INTEGER NOT NULL,
        kind TEXT NOT NULL,
        repeats INTEGER,
        slip TEXT,
        confirmed INTEGER NOT NULL,
        answered INTEGER NOT NULL,
        body BLOB NOT NULL
    );
    CREATE TABLE event (
        partition INTEGER NOT NULL,
        sequence INTEGER NOT NULL,
        event_id TEXT NOT NULL UNIQUE,
        body BLOB NOT NULL,
        PRIMARY KEY (partition, sequence)
    );
    CREATE TABLE resting (
        order_id TEXT PRIMARY KEY,
        partition INTEGER NOT NULL,
        pair INTEGER NOT NULL,
        side TEXT NOT NULL,
        user TEXT,
        price TEXT NOT NULL,
        remaining TEXT NOT NULL,
        priority INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE traded (
        pair INTEGER PRIMARY KEY,
        deals INTEGER NOT NULL,
        volume TEXT NOT NULL,
        quote_volume TEXT NOT NULL
    );";

/// Why a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// SQLite.
    #[error("the record {path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// What happened.
        error: rusqlite::Error,
    },
    /// It is there already.
    #[error("{0} is there already; a record is never overwritten: name another file")]
    Exists(PathBuf),
    /// It is something else.
    #[error("{path} is no record of this version: {reason}")]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// What run it is the record of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct About {
    pub(super) seed: u64,
    pub(super) partition_count: u32,
    pub(super) event_queue: String,
    /// What every id begins with.
    pub(super) prefix: String,
    pub(super) start: Start,
}

/// A message as the record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Published {
    pub(super) number: u64,
    pub(super) partition: PartitionId,
    pub(super) kind: Kind,
    /// How somebody got it wrong.
    pub(super) slip: Option<String>,
    /// Whether the broker said that a queue has it.
    pub(super) confirmed: bool,
    pub(super) answered: bool,
    pub(super) body: Vec<u8>,
}

impl Published {
    pub(super) fn of(message: &Message, confirmed: bool, answered: bool) -> Self {
        Self {
            number: message.number,
            partition: message.partition,
            kind: message.kind,
            slip: message.slip.map(str::to_owned),
            confirmed,
            answered,
            body: message.body.to_vec(),
        }
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    connection: Connection,
}

impl Record {
    /// A new one.
    pub(super) fn create(path: &Path, about: &About) -> Result<Self, RecordError> {
        if path.exists() {
            return Err(RecordError::Exists(path.to_owned()));
        }
        let making = || -> rusqlite::Result<Connection> {
            let connection = Connection::open(path)?;
            prepare(&connection)?;
            connection.execute_batch(TABLES)?;
            let text = serde_json::to_string(about).expect("plain values are JSON");
            connection.execute("INSERT INTO about VALUES (?1, ?2)", params![FORM, text])?;
            Ok(connection)
        };
        let connection = making().map_err(|error| failed(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            connection,
        })
    }

    /// One that is there.
    pub(super) fn open(path: &Path) -> Result<(Self, About), RecordError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opening = || -> rusqlite::Result<(Connection, u32, String)> {
            let connection = Connection::open_with_flags(path, flags)?;
            prepare(&connection)?;
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let (form, text) = connection.query_row("SELECT form, text FROM about", [], read)?;
            Ok((connection, form, text))
        };
        let (connection, form, text) = opening().map_err(|error| failed(path, error))?;
        let wrong = |reason| RecordError::Form {
            path: path.to_owned(),
            reason,
        };
        if form != FORM {
            return Err(wrong(format!("its form is {form}, not {FORM}")));
        }
        let about = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let record = Self {
            path: path.to_owned(),
            connection,
        };
        Ok((record, about))
    }

    /// An error of SQLite in this file.
    pub(super) fn failed(&self, error: rusqlite::Error) -> RecordError {
        failed(&self.path, error)
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.connection.transaction()
    }

    /// The file's tables.
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Up to so many messages from this number on.
    pub(super) fn published(&self, from: u64, count: usize) -> Result<Vec<Published>, RecordError> {
        let reading = || -> rusqlite::Result<Vec<Published>> {
            let mut statement = self.connection.prepare_cached(
                "SELECT number, partition, kind, repeats, slip, confirmed, answered, body
                 FROM command WHERE number >= ?1 ORDER BY number LIMIT ?2",
            )?;
            let rows = statement.query_map(params![from, count], read_published)?;
            rows.collect()
        };
        reading().map_err(|error| self.failed(error))
    }

    /// The bytes of one message.
    pub(super) fn body(&self, number: u64) -> Result<Option<Vec<u8>>, RecordError> {
        let reading = || {
            let query = "SELECT body FROM command WHERE number = ?1";
            let mut statement = self.connection.prepare_cached(query)?;
            statement.query_row([number], |row| row.get(0)).optional()
        };
        reading().map_err(|error| self.failed(error))
    }
}

/// Adds a message.
pub(super) fn add(transaction: &Transaction<'_>, message: &Published) -> rusqlite::Result<()> {
    let (kind, repeats) = match message.kind {
        Kind::Command => ("command", None),
        Kind::Repeat(number) => ("repeat", Some(number)),
        Kind::Parked => ("parked", None),
    };
    let mut statement = transaction
        .prepare_cached("INSERT INTO command VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    statement.execute(params![
        message.number,
        message.partition.0,
        kind,
        repeats,
        message.slip,
        message.confirmed,
        message.answered,
        message.body
    ])?;
    Ok(())
}

fn read_published(row: &Row<'_>) -> rusqlite::Result<Published> {
    let kind = match (row.get_ref(2)?.as_str()?, row.get(3)?) {
        ("parked", _) => Kind::Parked,
        ("repeat", Some(number)) => Kind::Repeat(number),
        _ => Kind::Command,
    };
    Ok(Published {
        number: row.get(0)?,
        partition: PartitionId(row.get(1)?),
        kind,
        slip: row.get(4)?,
        confirmed: row.get(5)?,
        answered: row.get(6)?,
        body: row.get(7)?,
    })
}

/// A log that survives the process; the disk is waited for only when the log moves into the file.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)
}

fn failed(path: &Path, error: rusqlite::Error) -> RecordError {
    RecordError::File {
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_reads_back_and_is_never_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("record");
        let about = About {
            seed: 7,
            partition_count: 2,
            event_queue: "q".to_owned(),
            prefix: String::new(),
            start: Start::nothing(2),
        };
        let rows: Vec<Published> = [Kind::Command, Kind::Repeat(0), Kind::Parked]
            .into_iter()
            .zip(0..)
            .map(|(kind, number)| Published {
                number,
                partition: PartitionId(1),
                kind,
                slip: (kind == Kind::Parked).then(|| "no JSON".to_owned()),
                confirmed: number != 1,
                answered: number == 0,
                body: vec![0xff, 0, 1],
            })
            .collect();
        {
            let mut record = Record::create(&path, &about).expect("it is made");
            let transaction = record.begin().expect("it begins");
            for row in &rows {
                add(&transaction, row).expect("it is added");
            }
            transaction.commit().expect("it is kept");
            let transaction = record.begin().expect("it begins");
            let row = Published {
                number: 3,
                ..rows[0].clone()
            };
            add(&transaction, &row).expect("it is added");
            // The process dies before the commit.
        }
        let (record, found) = Record::open(&path).expect("it is there");
        assert_eq!(found, about);
        assert_eq!(record.published(0, 10).expect("they read"), rows);
        assert_eq!(record.published(1, 1).expect("they read"), rows[1..2]);
        assert_eq!(record.body(2).expect("it reads"), Some(vec![0xff, 0, 1]));
        let again = Record::create(&path, &about).expect_err("it is there");
        assert!(matches!(again, RecordError::Exists(_)), "{again}");
    }
}
