//! The time of day, for what is compared with a producer's own clock. Everything that is measured
//! goes by the monotonic one.

use std::time::{SystemTime, UNIX_EPOCH};

/// Milliseconds since the year 1970; zero on a machine whose clock stands before it.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
