//! Moves bytes and owns cores.
//!
//! The engine decides; this package performs what it asks for. `wire` spells commands, events and
//! results, `keys` the names in the store and the broker, `resp` the store's protocol, `store` its
//! connections. `mailbox` and `messages` are what crosses between cores.
//!
//! Without the feature `processes`, which is on unless it is switched off, only what is a function
//! of bytes and values is left: `wire`, `keys` and `resp`.
#![forbid(unsafe_code)]

#[cfg(feature = "processes")]
pub mod admin;
#[cfg(feature = "processes")]
pub mod amqp;
#[cfg(feature = "processes")]
mod clock;
#[cfg(feature = "processes")]
pub mod conductor;
pub mod keys;
#[cfg(feature = "processes")]
mod listener;
#[cfg(feature = "processes")]
pub mod mailbox;
#[cfg(feature = "processes")]
pub mod messages;
#[cfg(feature = "processes")]
pub mod outbox;
#[cfg(feature = "processes")]
pub mod partition;
#[cfg(feature = "processes")]
pub mod process;
#[cfg(feature = "processes")]
pub mod reconcile;
pub mod resp;
#[cfg(feature = "processes")]
pub mod store;
pub mod wire;
