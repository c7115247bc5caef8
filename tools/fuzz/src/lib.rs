//! What must hold of everything that reads foreign bytes, whatever the bytes.
//!
//! Each module takes the bytes that a fuzzer made up and panics where a property does not hold. The
//! properties say more than that nothing panics: what a message is, is judged a second time by
//! rules that share no code with the decoder, and a stream must give the same however it is cut.
//! The programs in `fuzz_targets` hand their input over and do nothing else.
#![forbid(unsafe_code)]

pub mod command;
mod cuts;
mod judge;
pub mod replies;
pub mod trace;
mod tree;
