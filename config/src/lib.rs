//! Settings of a cell: parsed once, then trusted.
//!
//! A settings file and the environment are read, each into the same raw shape; the environment is
//! put over the file; one conversion, which can fail, makes [`Settings`] of it. After that nobody
//! asks again. What is unknown, contradictory or out of bounds is a [`ConfigError`]: one line that
//! says what to change, with which a process ends before it has touched a queue or a key.
//!
//! Nothing here reads the process's own environment, pins a core or opens a connection. Passwords
//! are [`Secret`]s from the first line that sees them and are never part of an error.
//!
//! Start reading at [`Settings`]; the names of every setting are in [`keys`], the bounds in
//! [`limits`], and `conductor.toml` beside this crate shows them with their defaults.
#![forbid(unsafe_code)]

mod address;
mod cores;
mod environment;
mod error;
mod judge;
pub mod keys;
pub mod limits;
mod load;
mod login;
mod raw;
mod secret;
mod settings;

pub use cores::{CoreInventory, CoreMap};
pub use environment::Environment;
pub use error::ConfigError;
pub use load::Sources;
pub use secret::Secret;
pub use settings::{
    BrokerNode, BrokerSettings, Durability, GroupBounds, Login, OutboxSettings, PartitionSettings,
    Settings, StoreAddress,
};
