//! What an operator is told, as values; one line each when it is spelled.

use super::{Epoch, Generation, HaltRecord};
use std::fmt;

/// One line for the operator. The partition's number is added by whoever prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A consumer is registered and waits for its first delivery.
    StandingBy {
        /// The channel.
        generation: Generation,
    },
    /// The book was read while standing by; taking over needs no reading while nobody writes.
    Prepared {
        /// Orders that were loaded.
        orders: usize,
        /// The last event's sequence.
        sequence: u64,
    },
    /// What was read while standing by is not kept; the next owner reads and judges it.
    NotPrepared {
        /// What needs a judgement.
        fault: String,
    },
    /// Ownership was taken.
    Claimed {
        /// The new epoch.
        epoch: Epoch,
        /// Orders that were loaded.
        orders: usize,
        /// Index members that were skipped.
        skipped: usize,
        /// Writes that bring older members into today's form.
        rewritten: usize,
        /// The last event's sequence.
        sequence: u64,
    },
    /// An index member has no usable record.
    SkippedMember {
        /// Which, and why.
        member: String,
    },
    /// Everything in memory was dropped.
    Doubt {
        /// Why.
        reason: String,
    },
    /// The next try comes after a pause.
    Waiting {
        /// What is missing.
        reason: String,
    },
    /// A group is committed, but too few disks have it.
    NotDurable {
        /// What is missing.
        reason: String,
    },
    /// Enough disks have it again.
    DurableAgain,
    /// An invariant broke; the halt is being written.
    Halting {
        /// What was found.
        record: HaltRecord,
    },
    /// The partition is halted.
    Halted {
        /// What was found.
        record: HaltRecord,
    },
    /// A person lifted the halt.
    Resumed,
    /// An order id was used before and its order was skipped.
    DuplicateOrders {
        /// How many in this group.
        orders: usize,
    },
}

impl Note {
    /// Whether somebody should look at it.
    pub const fn is_warning(&self) -> bool {
        !matches!(
            self,
            Note::StandingBy { .. }
                | Note::Prepared { .. }
                | Note::Claimed { .. }
                | Note::DurableAgain
                | Note::Resumed
        )
    }
}

impl fmt::Display for Note {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::StandingBy { generation } => {
                write!(out, "standing by on channel generation {generation}")
            }
            Note::Prepared { orders, sequence } => write!(
                out,
                "the book is loaded while standing by: {orders} orders, last sequence {sequence}"
            ),
            Note::NotPrepared { fault } => write!(
                out,
                "the book was read while standing by and is not kept, a takeover will read it \
                 again: {fault}; run `cell reconcile`"
            ),
            Note::Claimed {
                epoch,
                orders,
                skipped,
                rewritten,
                sequence,
            } => write!(
                out,
                "ownership taken with epoch {epoch}: {orders} orders loaded, {skipped} index \
                 members skipped, {rewritten} writes to bring older members into form, last \
                 sequence {sequence}"
            ),
            Note::SkippedMember { member } => {
                write!(
                    out,
                    "skipped an index member: {member}; run `cell reconcile`"
                )
            }
            Note::Doubt { reason } => {
                write!(
                    out,
                    "doubt: {reason}; memory is dropped and ownership taken anew"
                )
            }
            Note::Waiting { reason } => write!(out, "waiting: {reason}"),
            Note::NotDurable { reason } => {
                write!(out, "not durable yet, nothing is acknowledged: {reason}")
            }
            Note::DurableAgain => write!(out, "durable again, acknowledging goes on"),
            Note::Halting { record } => write!(out, "halting: {}", record.reason),
            Note::Halted { record } => {
                write!(out, "halted: {}", record.reason)?;
                if let Some(command) = &record.command {
                    write!(out, " (command {command})")?;
                }
                write!(out, "; mend the cause, then run `cell resume`")
            }
            Note::Resumed => write!(out, "the halt was lifted, starting again"),
            Note::DuplicateOrders { orders } => {
                write!(
                    out,
                    "{orders} orders were skipped: their ids were used before"
                )
            }
        }
    }
}
