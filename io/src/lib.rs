//! Moves bytes and owns cores.
//!
//! The engine decides; this package performs what it asks for. `wire` spells commands, events and
//! results, `keys` the names in the store and the broker, `resp` the store's protocol, `store` its
//! connections. `mailbox` and `messages` are what crosses between cores.
#![forbid(unsafe_code)]

pub mod admin;
pub mod amqp;
pub mod conductor;
pub mod keys;
pub mod mailbox;
pub mod messages;
pub mod outbox;
pub mod partition;
pub mod reconcile;
pub mod resp;
pub mod store;
pub mod wire;

/// Makes a panic end the whole process, after it was printed: a thread that is gone would leave its
/// neighbours serving as if nothing had happened, and unwinding would drop a consumer, which
/// cancels it and lets its successor overtake what is unacknowledged.
pub fn abort_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}
