//! How a wait for disks is spelled, for everyone who waits.
//!
//! `WAIT` stands before `WAITAOF`, in one packet with the write that is waited for: a replica that
//! is asked for its disk before it has written says no for a whole second.

use crate::resp::Packer;
use std::time::Duration;

/// Appends `WAIT` and `WAITAOF` for the primary's disk and those of so many replicas.
pub fn pack(packer: &mut Packer<'_>, replicas: u32, timeout: Duration) {
    let replicas = replicas.to_string();
    let timeout = timeout.as_millis().to_string();
    packer
        .start(b"WAIT")
        .part(replicas.as_bytes())
        .part(timeout.as_bytes())
        .end();
    packer
        .start(b"WAITAOF")
        .part(b"1")
        .part(replicas.as_bytes())
        .part(timeout.as_bytes())
        .end();
}
