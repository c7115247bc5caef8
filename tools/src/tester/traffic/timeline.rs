//! When answers came: the silences between them, and how long the newest took.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Shorter silences are not remembered.
const SILENCE_MIN: Duration = Duration::from_millis(20);
/// Silences and answers that are remembered.
const REMEMBERED: usize = 1 << 16;

/// The answers of one run, as far as they are remembered.
#[derive(Debug)]
pub(super) struct Timeline {
    began: Instant,
    last: Option<Instant>,
    silences: VecDeque<(Instant, Instant)>,
    /// When a command was first published, and when it was answered.
    answers: VecDeque<(Instant, Instant)>,
}

impl Timeline {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            last: None,
            silences: VecDeque::new(),
            answers: VecDeque::new(),
        }
    }

    pub(super) fn answered(&mut self, published: Instant, now: Instant) {
        let before = self.last.unwrap_or(self.began);
        if now.saturating_duration_since(before) >= SILENCE_MIN {
            push(&mut self.silences, (before, now));
        }
        self.last = Some(now);
        push(&mut self.answers, (published, now));
    }

    /// When the last answer came.
    pub(super) const fn last(&self) -> Option<Instant> {
        self.last
    }

    /// The longest time without an answer from `since` until `now`.
    pub(super) fn longest_silence(&self, since: Instant, now: Instant) -> Duration {
        let within =
            |(from, to): &(Instant, Instant)| to.saturating_duration_since(since.max(*from));
        let over = self.silences.iter().map(within).max();
        let last = self.last.unwrap_or(self.began);
        let open = now.saturating_duration_since(since.max(last));
        over.unwrap_or_default().max(open)
    }

    /// From `after` to the answer with which so many commands that were first published behind it
    /// are answered.
    pub(super) fn acknowledged(&self, after: Instant, count: usize) -> Option<Duration> {
        let answers = self.answers.iter().rev();
        // From the newest on, until answers are older than any that could count.
        let recent = answers.take_while(|(_, answered)| *answered > after);
        let later: Vec<Instant> = recent
            .filter(|(published, _)| *published > after)
            .map(|(_, answered)| *answered)
            .collect();
        let place = later.len().checked_sub(count.max(1))?;
        Some(later[place].saturating_duration_since(after))
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == REMEMBERED {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silence_is_measured_from_the_moment_that_is_asked_for() {
        let began = Instant::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let mut timeline = Timeline::new(began);
        assert_eq!(
            timeline.longest_silence(at(50), at(80)),
            Duration::from_millis(30)
        );
        timeline.answered(at(90), at(100));
        timeline.answered(at(95), at(110));
        timeline.answered(at(105), at(400));
        timeline.answered(at(300), at(405));
        let silence = |since, now| timeline.longest_silence(at(since), at(now)).as_millis();
        assert_eq!(silence(0, 410), 290);
        // It had lasted a while when the fault struck.
        assert_eq!(silence(200, 410), 200);
        assert_eq!(silence(400, 410), 5);
        // Nothing has come since.
        assert_eq!(silence(200, 900), 495);
    }

    #[test]
    fn only_commands_of_behind_the_moment_count_as_acknowledged() {
        let began = Instant::now();
        let at = |milliseconds| began + Duration::from_millis(milliseconds);
        let mut timeline = Timeline::new(began);
        timeline.answered(at(10), at(300));
        timeline.answered(at(110), at(320));
        timeline.answered(at(120), at(340));
        let acknowledged = |after, count| timeline.acknowledged(at(after), count);
        assert_eq!(acknowledged(100, 1), Some(Duration::from_millis(220)));
        assert_eq!(acknowledged(100, 2), Some(Duration::from_millis(240)));
        assert_eq!(acknowledged(100, 3), None);
    }
}
