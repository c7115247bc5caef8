//! Real order flow: a LOBSTER message file and its book file, made into a trace.
//!
//! LOBSTER gives the messages that touched the best levels of one stock on NASDAQ, and the best
//! levels after each. What such a file does not say is what was in the book before it begins, and
//! what was placed beyond its levels later. Both are told by the first row of the book file and by
//! the messages that touch an order which the file never places; see `untold`. The rest is one
//! command a message; see [`convert()`]. [`check()`] replays the outcome and holds it against the
//! book file.
//!
//! Nothing is made to fit: a row of the book file other than the first one never changes a size
//! or a price of the trace.

pub mod check;
pub mod convert;
pub mod read;
mod untold;

pub use check::{Agreement, Disagreement, Execution, check};
pub use convert::{Imported, ImportedCommand, Omitted, Options, Origin, convert};
pub use read::{BookRow, Kind, Message, ReadError, Recording, read};
