//! Private servers for the length of a demo or a test: RabbitMQ, Valkey, Sentinel, and our own
//! binaries against them.
//!
//! Everything lives in one temporary folder, listens on ports of 127.0.0.1 that nobody else has,
//! has passwords of its own, and is gone afterwards on every way out, a SIGKILL of the owner
//! included (see [`folder`]). Nothing here touches a server that it did not start.
//!
//! All of it is plain blocking code, so that it can be used in any test and beside any runtime.
//! Every wait is for a condition, with a bound; what does not come about says what was last seen
//! and how the log of the process ends.
//!
//! [`CellServers::start`] gives the servers of a whole cell; [`CellServers::conductor`] and
//! [`CellServers::outbox`] start our binaries on them, which must have been built before (see
//! [`mod@binary`]). [`Valkey`], [`Sentinels`], [`Rabbit`] and [`RabbitCluster`] start single servers,
//! and [`HoldProxy`] delays what passes between two of them.

pub mod amqp;
pub mod binary;
pub mod cell;
mod cell_settings;
mod erlang;
pub mod error;
pub mod folder;
mod launch;
pub mod ports;
pub mod process;
pub mod proxy;
pub mod rabbit;
pub mod rabbit_cluster;
pub mod role;
pub mod sentinels;
mod small_disk;
pub mod valkey;
pub mod versions;
mod wait;

pub use binary::{Instance, binary, fetch};
pub use cell::{CellServers, Layout, StoreGroup};
pub use cell_settings::{CellSettings, StoreAddresses};
pub use error::{Result, TestbedError};
pub use folder::{Folder, fresh_password};
pub use launch::Launch;
pub use ports::Port;
pub use process::Process;
pub use proxy::{Direction, HoldProxy};
pub use rabbit::{Rabbit, RabbitOptions};
pub use rabbit_cluster::{QueueState, RabbitCluster};
pub use role::Role;
pub use sentinels::{Sentinels, WatchedGroup};
pub use valkey::{Valkey, ValkeyOptions, ValkeyUsers};
pub use versions::Versions;
pub use wait::wait_for;
