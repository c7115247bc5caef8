//! A cell on real servers with its conductors and outboxes as processes that a test starts, kills
//! and pauses as it likes, and what it must come to by the engine alone.
//!
//! [`LiveCell`] has the servers; [`Sending`] sends messages beside the test and keeps the replies;
//! [`Expected`] is what the same messages give with no server at all; [`EventLog`] is a consumer
//! of every event that holds the outbox to its order. Every wait is for a condition and bounded.
#![allow(dead_code, unused_imports, reason = "each test file uses a part")]

mod cell;
mod event_log;
mod expected;
mod message;
mod sending;
mod shown;

pub(crate) use cell::LiveCell;
pub(crate) use event_log::EventLog;
pub(crate) use expected::{Expected, assert_same_events};
pub(crate) use message::{Message, limit, workload};
pub(crate) use sending::{Sending, Sent};
pub(crate) use shown::{metric, partition_of, wait_metric, wait_partition};

use std::time::Duration;

/// Longer than a process on a busy machine takes to start and to check its servers.
pub(crate) const LATER: Duration = Duration::from_secs(60);
/// What a standby is allowed between a kill of the active conductor and its own first commit.
pub(crate) const TAKE_OVER: Duration = Duration::from_secs(5);
