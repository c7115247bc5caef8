//! A small language for books, so that a trader can read a test.
//!
//! ```text
//! alice sells 10 @ 100.25 as S1          a limit order, good till cancelled
//! bob buys 4 @ 100.25 ioc as B1          immediate or cancel
//! bob buys 4 at market as B2
//! house buys 4 @ 99 as B3                "house" is an order without a user
//! cancel S1
//! amend S1 price 101 volume 5            either may be left out
//! replace: cancel S1; alice sells 10 @ 101 as S2
//! refused malformed: a sentence          what the wire refuses before the book sees it
//! ```
//!
//! Before a command: `pair 2`, `time 7` (in milliseconds; otherwise the command's own number),
//! `partition 3` (as its producer declares it). Behind an order: `decimals 5/0/2` (price, amount,
//! quote), `stamped 7` (the order's own time). Alone on a line: `decimals 5/0/2` for all orders
//! that follow, `cell 1 of 4`, `configure pair 3 decimals 2/0/2`.

mod draw;
mod parse;

pub(crate) use draw::{draw_book, draw_decided};
pub(crate) use parse::{Line, Reader};
