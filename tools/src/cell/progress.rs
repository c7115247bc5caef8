//! A progress bar that stays away from short work and from everything that is no terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Work that is done sooner shows no bar.
const QUIET_FOR: Duration = Duration::from_secs(2);
/// Steps between two looks at the clock, so that a hot loop may call `advance` freely.
const STEPS_PER_LOOK: u64 = 1_024;

/// Progress of one piece of work. Dropping it removes the bar.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    total: Option<u64>,
    began: Instant,
    position: u64,
    steps: u64,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress of work that is `total` long, where that is known.
    pub(super) fn new(what: &'static str, total: Option<u64>) -> Self {
        Self {
            what,
            total,
            began: Instant::now(),
            position: 0,
            steps: 0,
            bar: None,
        }
    }

    /// Says that the work went on by this much.
    pub fn advance(&mut self, by: u64) {
        self.position += by;
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            self.look();
        }
    }

    /// Says that the work went on by this much, from where nobody counts often.
    pub fn set(&mut self, by: u64) {
        self.position += by;
        self.look();
    }

    fn look(&mut self) {
        if self.bar.is_none() && self.began.elapsed() >= QUIET_FOR {
            self.bar = Some(bar(self.what, self.total));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(self.position);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The bar itself draws on stderr, and only where that is a terminal.
fn bar(what: &'static str, total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (
            ProgressBar::new(total),
            "{msg} [{wide_bar}] {percent} % · {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {msg} · {human_pos}"),
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    bar.with_style(style).with_message(what)
}
