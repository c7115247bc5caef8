//! The store's side of a connection, whatever runtime owns the socket.
//!
//! [`Link`] asks and reads on one connection. [`discover`] finds a partition's primary and checks
//! that it is one. [`checks`] refuses a store that cannot keep the promises. A partition's core
//! brings glommio's sockets to this, the I/O core and the outbox bring tokio's.

pub mod checks;
pub mod discover;
mod link;
pub mod meta;
pub mod over_tokio;
pub mod replication;
pub mod waits;

pub use link::{Link, LinkError, is_out_of_memory, is_wrong_type, refused, unexpected};
