//! What an outbox is told: its settings once, then what came of what it asked for.

use crate::partition::{Confirmed, Durability};

/// What an outbox is told once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Disks that must confirm; `None` in memory mode.
    pub durability: Option<Durability>,
    /// Events that are read at once.
    pub batch: usize,
    /// Publications that may wait for their confirm.
    pub window: usize,
}

/// One entry of the stream. Its bytes stay with whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The stream's own id for it.
    pub stream_id: String,
    /// The event's id, or why the entry is no envelope.
    pub event: Result<String, String>,
}

/// What one read brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Entries from the head of the stream.
    pub entries: Vec<Entry>,
    /// Whether the lease was still this worker's, and is renewed.
    pub lease_held: bool,
    /// Entries in the stream.
    pub stream_length: u64,
}

/// What an outbox is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// The store is connected.
    StoreConnected,
    /// The store is not there, or its answer is unknown.
    StoreLost(String),
    /// The broker takes publications.
    BrokerReady,
    /// The broker is gone; unconfirmed publications have failed.
    BrokerLost(String),
    /// Whether the lease was taken, or was renewed: by a further wait for disks, or by itself.
    Lease(bool),
    /// The lease was last renewed a while ago, and runs out if nobody does.
    LeaseDue,
    /// A read came back; its wait is still under way.
    Read(Batch),
    /// How many disks had confirmed when the wait ended.
    Confirmed(Confirmed),
    /// Entries may be there, or a second is over.
    Awaited,
    /// The broker confirmed the entry at this place of the batch.
    Published(usize),
    /// The broker refused or returned the entry at this place of the batch.
    Refused(usize, String),
    /// Entries that are no events are in the dead letters.
    DeadLettered,
    /// What was confirmed is deleted, and the failed tries are counted.
    Settled,
    /// The pause is over.
    PauseOver,
    /// The process is to end.
    Stop,
}
