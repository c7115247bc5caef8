//! The guards of the cell by name, so that each can be shown to be needed.
//!
//! A guard is one decision without which some schedule of faults loses a command, does it twice, or
//! puts two in the wrong order. The simulator switches one off, and must then find such a schedule.
//! Which guards hold is a type parameter of the machines. [`AllGuards`] is its default, has no
//! size and answers a constant, so that a machine that names nothing else holds no switch and no
//! branch on one.

use std::fmt;
use std::str::FromStr;

macro_rules! guards {
    ($($(#[$doc:meta])* $variant:ident = $name:literal: $without:literal;)*) => {
        /// One guard.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Guard {
            $($(#[$doc])* $variant,)*
        }

        impl Guard {
            /// Every guard.
            pub const ALL: &[Guard] = &[$(Guard::$variant,)*];

            /// The word on the command line and in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Guard::$variant => $name,)*
                }
            }

            /// What is done where the guard is switched off, in one sentence.
            pub const fn without(self) -> &'static str {
                match self {
                    $(Guard::$variant => $without,)*
                }
            }
        }
    };
}

guards! {
    /// A transaction is executed only while the epoch is as it was when it was watched.
    Fence = "fence":
        "a transaction is executed whoever has raised the epoch meanwhile";
    /// The next transaction is sent only after the last packet's epoch was seen to be ours.
    OnePacket = "one-packet":
        "the next transaction is sent before the last packet has shown whose epoch it is";
    /// Nothing is replied to or acknowledged before enough disks have confirmed it.
    DurableBeforeAck = "durable-before-ack":
        "a command is replied to and acknowledged as soon as its transaction was executed";
    /// An event is published only after enough disks have confirmed it.
    OutboxDurable = "outbox-durable":
        "the outbox publishes what it has read before the disks have confirmed it";
    /// Whoever publishes reads from the head of the stream.
    OutboxFromHead = "outbox-from-head":
        "the outboxes share a consumer group, and each reads what no other was given";
    /// On any doubt the channel is closed, so that everything comes back in order.
    CloseChannel = "close-channel":
        "on a doubt the deliveries are rejected one by one, or the consumer is cancelled";
    /// A delivery or an acknowledgement of an earlier channel goes nowhere.
    Generation = "generation":
        "what an earlier channel delivered is taken for the current channel's";
    /// A command that was decided before is answered from its record.
    Dedup = "dedup":
        "a command is decided again when it is delivered again";
    /// An order id is used once.
    AcceptedOrder = "accepted-order":
        "an order id that was used up is let in again";
    /// The raised epoch is on enough disks before anything is answered.
    Barrier = "barrier":
        "ownership is taken without waiting for the disks behind the raised epoch";
    /// On any doubt memory is dropped and read again.
    ReloadOnDoubt = "reload-on-doubt":
        "the book in memory is kept over a doubt";
    /// A book that was read while standing by is used only if the cursor has not moved since.
    UnmovedCursor = "unmoved-cursor":
        "a book that was read while another process was writing is used as it is";
    /// A store that no longer has what this process saw durable halts the partition.
    NeverForget = "never-forget":
        "ownership is taken over a store that has forgotten what it confirmed";
    /// A halt lasts until a person lifts it.
    StickyHalt = "sticky-halt":
        "a halt that stands in the store is not honoured";
    /// A priority is unique and only grows.
    Priority = "priority":
        "an order's place in time is its millisecond";
}

impl fmt::Display for Guard {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A word that names no guard.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no guard {0:?}; the guards are {names}", names = all_names())]
pub struct UnknownGuard(String);

fn all_names() -> String {
    let names: Vec<&str> = Guard::ALL.iter().map(|guard| guard.name()).collect();
    names.join(", ")
}

impl FromStr for Guard {
    type Err = UnknownGuard;

    fn from_str(word: &str) -> Result<Self, UnknownGuard> {
        let found = Guard::ALL.iter().find(|guard| guard.name() == word);
        found.copied().ok_or_else(|| UnknownGuard(word.to_owned()))
    }
}

/// Which guards hold.
pub trait GuardSet: Copy + fmt::Debug {
    /// Whether this one does.
    fn holds(self, guard: Guard) -> bool;
}

/// Every guard holds: the only set that a shipped binary names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllGuards;

impl GuardSet for AllGuards {
    #[inline]
    fn holds(self, _guard: Guard) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_guard_is_found_by_its_name() {
        for guard in Guard::ALL {
            assert_eq!(guard.name().parse(), Ok(*guard));
        }
        let unknown = "fences".parse::<Guard>();
        let told = unknown.expect_err("no guard has this name").to_string();
        assert!(
            told.contains("\"fences\"") && told.contains("sticky-halt"),
            "{told}"
        );
    }

    #[test]
    fn the_set_of_all_guards_has_no_size() {
        assert_eq!(size_of::<AllGuards>(), 0);
    }
}
