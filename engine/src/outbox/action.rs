//! What an outbox asks for. Whoever drives it performs these and tells it what came of them.

use super::Note;

/// What an outbox asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Find the primary and connect to it. Replaces any connection.
    ConnectStore,
    /// Drop the store's connection.
    DisconnectStore,
    /// Open a publishing channel.
    ConnectBroker,
    /// Take the lease, unless another worker has it.
    TakeLease,
    /// Renew the lease, while what is published waits for its confirms.
    RenewLease,
    /// Give the lease up; on a connection of its own where the other was lost.
    ReleaseLease,
    /// Delete what was confirmed with its attempts, read from the head, renew the lease, and wait
    /// for disks: one packet.
    Read {
        /// Entries to delete, with their event ids.
        delete: Vec<(String, String)>,
        /// Entries to read.
        count: usize,
    },
    /// Renew the lease and wait for disks again, on the same connection.
    AwaitDisks,
    /// Wait until the stream has an entry, for a second at most.
    AwaitEvents,
    /// Publish the entry at this place of the batch.
    Publish(usize),
    /// Move the entries at these places to the dead letters, each with its reason.
    DeadLetter(Vec<(usize, String)>),
    /// Delete what was confirmed before a failure, and count one more try of what failed.
    Settle {
        /// Entries to delete, with their event ids.
        delete: Vec<(String, String)>,
        /// The event that failed, where it was one event's failure.
        failed: Option<String>,
    },
    /// Report when about this many milliseconds are over; the driver adds jitter.
    Pause(u64),
    /// Tell the operator.
    Note(Note),
    /// The machine has ended.
    Stopped,
}
