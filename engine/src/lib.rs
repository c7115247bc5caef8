//! What a cell decides, and nothing else.
//!
//! Everything here is a plain value or a function of plain values: the same commands give the same
//! events, the same results and the same book on every machine and at every time. There is no
//! runtime, no network, no JSON, no clock and no randomness in this package's manifest; whoever
//! drives it brings those along and hands their outcome in.
//!
//! Start reading at [`step`], which names the nine steps of a command's life, then [`matching`],
//! which decides one command, then [`partition`] and [`outbox`], the two state machines.
#![forbid(unsafe_code)]

pub mod book;
pub mod command;
pub mod event;
pub mod guards;
pub mod ids;
pub mod limits;
pub mod matching;
pub mod naive;
pub mod outbox;
pub mod partition;
pub mod staging;
pub mod step;
pub mod units;
pub mod violation;

pub use book::{Book, FastBook};
pub use command::{Body, Command, Incoming, NewOrder, OrderKind, Refusal, Side, TimeInForce};
pub use event::{Event, Payload};
pub use ids::{CommandId, OrderId, PairId, PartitionId, Timestamp, UserId};
pub use naive::NaiveBook;
pub use step::Step;
pub use units::{Decimal, PairDecimals, Price, Quantity};
pub use violation::Violation;
