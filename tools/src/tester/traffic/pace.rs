//! When the next message is due.
//!
//! At a rate the moments are fixed from the beginning on: an open loop. A cell that stood still
//! does not make the load smaller, and what waited for it counts from when it was due.

use std::time::{Duration, Instant};

/// The moments at which messages are due.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    began: Instant,
    rate: Option<f64>,
}

impl Pace {
    pub(super) const fn new(began: Instant, rate: Option<f64>) -> Self {
        Self { began, rate }
    }

    /// The same pace from another moment on.
    pub(super) const fn begun(self, began: Instant) -> Self {
        Self { began, ..self }
    }

    /// When a message is due; `None` where it is due as soon as there is room for it.
    pub(super) fn due(&self, number: u64) -> Option<Instant> {
        let rate = self.rate?;
        let seconds = number as f64 / rate;
        Some(self.began + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_fixes_every_moment_and_full_speed_none() {
        let began = Instant::now();
        let pace = Pace::new(began, Some(200.0));
        assert_eq!(pace.due(0), Some(began));
        assert_eq!(pace.due(300), Some(began + Duration::from_millis(1_500)));
        assert_eq!(Pace::new(began, None).due(300), None);
    }
}
