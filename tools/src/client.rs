//! What a client of a cell does: publish commands and hear of them, read the admin pages, set up
//! and mend a partition's records.
//!
//! Shared by the command line, the demo and the tests, so that all of them see a cell as a real
//! producer does: through RabbitMQ with confirms, and through the pages. [`Producer`] drives load
//! in bounded memory, [`Subscription`] reads a queue without ever handing its messages on out of
//! order, [`Store`] writes the two records that no conductor may write, and [`Pages`] asks the
//! instances. Everything runs on a tokio runtime of one thread, which [`block_on`] makes.

mod pages;
mod parking;
mod producer;
mod settings;
mod setup;
mod store;
mod subscription;
mod summary;

pub use pages::{Page, Pages, PagesError};
pub use parking::{
    Parked, ParkedCounts, ParkingError, Which, park_command, parked, parked_counts, redrive,
};
pub use producer::{Done, Interrupted, Load, Producer, ProducerOptions, Request};
pub use settings::{SettingsArgs, UNNAMED, block_on, load};
pub use setup::{PartitionSetUp, SetUp, SetUpError, set_up};
pub use store::{Store, StoreError, TopologyWritten};
pub use subscription::Subscription;
pub use summary::{Latencies, Replies, Summary};
