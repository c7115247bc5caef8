//! What the tools, the demo and the tests of the workspace share.
#![forbid(unsafe_code)]

pub mod cell;
pub mod client;
pub mod consumer;
pub mod expectation;
pub mod lobster;
pub mod private_cell;
pub mod replay;
pub mod sim;
pub mod testbed;
pub mod tester;
pub mod trace;
pub mod workload;
