//! Why each guard is there, and what its absence comes to: how a story begins and how it ends, for a
//! reader who does not know the code.

use conductor_engine::guards::Guard;

/// Who is who in every story.
pub const WHO_IS_WHO: &str = "\
Two conductors, A and B: the active one decides the commands, the other stands by. Two outboxes, of
which one publishes the events. The nodes are the store: the primary executes transactions, its
replicas copy it. The broker hands every command to the active conductor, keeps it until it is
acknowledged, and gives it to the other one when a channel ends before that.
The steps of a command: decode, it has arrived; claim, a conductor becomes the owner by raising the
epoch; commit, its transaction goes to the store; durable, enough disks have it; reply, its producer
hears of it; ack, the broker may forget it. A conductor in doubt no longer knows what is true: it
drops what it holds and begins anew. \"c-1 (ask o-1 1.8 at 10)\" is the command c-1, which sells 1.8
at 10 as the order o-1.";

/// What a story is about.
#[derive(Clone, Copy, Debug)]
pub struct Moral {
    /// What the guard is there for.
    pub protects: &'static str,
    /// What happened without it, as half a sentence.
    pub without: &'static str,
}

impl Moral {
    /// The moral of every story without this guard.
    pub const fn of(guard: Guard) -> Self {
        match guard {
            Guard::Fence
            | Guard::OnePacket
            | Guard::DurableBeforeAck
            | Guard::Barrier
            | Guard::ReloadOnDoubt
            | Guard::UnmovedCursor
            | Guard::NeverForget
            | Guard::StickyHalt => of_ownership(guard),
            Guard::OutboxDurable
            | Guard::OutboxFromHead
            | Guard::CloseChannel
            | Guard::Generation
            | Guard::Dedup
            | Guard::AcceptedOrder
            | Guard::Priority => of_order(guard),
        }
    }
}

/// Guards of who may write, and of what is on disks.
const fn of_ownership(guard: Guard) -> Moral {
    match guard {
        Guard::Fence => Moral {
            protects: "Two conductors can believe at once that a partition is theirs: one goes \
                silent, the broker gives its commands to the other, and then a transaction of the \
                first one arrives after all. So each owner raises a number in the store, the \
                epoch, and the store executes a transaction only while that number is its sender's.",
            without: "a conductor that had been replaced still wrote into the store, over what its \
                successor had decided",
        },
        Guard::OnePacket => Moral {
            protects: "The store's check of the epoch holds for one transaction and is armed again \
                behind it. So a conductor sends its next transaction only after the answer to the \
                last one has shown that the epoch is still its own.",
            without: "a conductor sent a second transaction before it could know that it had been \
                replaced, and nothing in the store turned that one away",
        },
        Guard::DurableBeforeAck => Moral {
            protects: "A store that dies forgets what no disk has. So a command is answered, and \
                taken out of the queue, only when enough disks have what came of it.",
            without: "somebody was told that a command is done while a crash could still undo it",
        },
        Guard::Barrier => Moral {
            protects: "A new owner finds in the store what its predecessor wrote, and cannot see \
                whether the disks have it. So it first writes something itself and waits until the \
                disks have that, and with it everything before; only then does it answer.",
            without: "a new owner answered from a record that a crash could still undo",
        },
        Guard::ReloadOnDoubt => Moral {
            protects: "The book in memory runs ahead of the store. When a conductor does not know \
                whether a transaction was executed, its memory may hold what the store never got. \
                So it throws its memory away and reads the store again.",
            without: "the next transaction was built on a memory that was ahead of the store",
        },
        Guard::UnmovedCursor => Moral {
            protects: "The conductor that stands by reads the book in advance, while the active one \
                goes on writing. Every transaction moves a cursor in the store. So what was read in \
                advance is used only if the cursor has not moved since before the read.",
            without: "a new owner took over with a book that its predecessor had changed after it \
                was read",
        },
        Guard::NeverForget => Moral {
            protects: "Should every disk lose its end, or a replica be promoted that lacks the \
                last transactions, the store has forgotten what it confirmed. So a conductor \
                remembers what it saw on enough disks, and halts the partition when it finds a \
                store without it.",
            without: "a conductor went on over a store that had forgotten acknowledged work",
        },
        _ => Moral {
            protects: "A partition that must not go on is halted by a record in the store. Every \
                later owner honours it until a person lifts it; otherwise the next conductor would \
                go on over whatever made the first one stop.",
            without: "a conductor went on with a partition that had been halted",
        },
    }
}

/// Guards of the order of commands and events, and of doing each once.
const fn of_order(guard: Guard) -> Moral {
    match guard {
        Guard::OutboxDurable => Moral {
            protects: "An event is in the store's stream before the disks have it. So the outbox \
                waits for the disks too, and nobody hears of a deal that a crash then undoes.",
            without: "the world was told of an event that the store could still lose",
        },
        Guard::OutboxFromHead => Moral {
            protects: "Consumers rely on the order of events. So whichever outbox publishes begins \
                with the oldest event that is still in the stream, and overtakes nothing.",
            without: "one outbox was handed what comes behind the other's share, and published it \
                while that share was still out",
        },
        Guard::CloseChannel => Moral {
            protects: "When a conductor is in doubt, the commands that it holds must go back in the \
                order in which they came. Only the end of the whole channel does that: what is \
                rejected goes to the end of the queue, and a consumer that is cancelled keeps what \
                it holds while its successor is given what came later.",
            without: "commands were decided in another order than the one in which they were sent",
        },
        Guard::Generation => Moral {
            protects: "The broker numbers the deliveries of each channel from 1 on. So a delivery, \
                and its acknowledgement, belong to the channel on which it came and are dropped \
                together with it.",
            without: "something of a channel that was gone was taken for something of the present \
                one that has the same number",
        },
        Guard::Dedup => Moral {
            protects: "A command comes again when its acknowledgement was lost or its producer \
                sends it twice. So its result is stored with it, and answers every repeat.",
            without: "a command that had been decided was decided a second time",
        },
        Guard::AcceptedOrder => Moral {
            protects: "An order id is used once, for ever: an order that was filled or cancelled \
                must not trade again because another command names it again.",
            without: "an order id that had been used was treated as one that nobody knows",
        },
        _ => Moral {
            protects: "Orders at one price trade in the order in which they were let in. Several \
                are let in within one millisecond, and producers' clocks go back. So each order \
                gets a number above every earlier one's.",
            without: "two orders got the same place in time, or a later one an earlier place",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_guard_has_a_moral_of_its_own() {
        let morals = Guard::ALL.iter().map(|guard| Moral::of(*guard));
        let told: BTreeSet<_> = morals.map(|it| (it.protects, it.without)).collect();
        assert_eq!(told.len(), Guard::ALL.len());
        assert!(told.iter().all(|(protects, without)| {
            protects.ends_with('.') && !without.ends_with('.') && !protects.contains("  ")
        }));
    }
}
