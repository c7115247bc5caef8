//! Moves bytes and owns cores.
//!
//! The engine decides; this package performs what it asks for. `wire` spells commands, events and
//! results, `keys` the names in the store and the broker, `resp` the store's protocol, `store` its
//! connections. `mailbox` and `messages` are what crosses between cores.
#![forbid(unsafe_code)]

pub mod amqp;
pub mod keys;
pub mod mailbox;
pub mod messages;
pub mod resp;
pub mod store;
pub mod wire;
