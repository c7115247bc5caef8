//! One batch on its way to the broker: in order, within the window, nothing past a failure.

use super::{Action, Entry, Note, Outbox, Phase};
use crate::guards::GuardSet;

/// The batch that is being published.
#[derive(Debug, Default)]
pub(super) struct Work {
    entries: Vec<Entry>,
    answers: Vec<Answer>,
    next: usize,
    pub(super) unconfirmed: usize,
    failure: Option<Failure>,
}

/// What the broker said of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Awaited,
    Taken,
    Refused,
}

/// The first publication of a batch that failed.
#[derive(Debug)]
struct Failure {
    place: usize,
    reason: String,
}

impl<G: GuardSet> Outbox<G> {
    /// Entries that are no events leave first; the rest is read again and published.
    pub(super) fn begin_batch(&mut self, entries: Vec<Entry>) {
        let mut foreign = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            if let Err(reason) = &entry.event {
                foreign.push((place, reason.clone()));
                self.foreign.push((entry.stream_id.clone(), reason.clone()));
            }
        }
        if !foreign.is_empty() {
            self.phase = Phase::DeadLettering;
            return self.act(Action::DeadLetter(foreign));
        }
        let answers = vec![Answer::Awaited; entries.len()];
        self.work = Work {
            entries,
            answers,
            ..Work::default()
        };
        self.phase = Phase::Publishing;
        self.publish();
    }

    pub(super) fn dead_lettered(&mut self) {
        for (stream_id, reason) in std::mem::take(&mut self.foreign) {
            self.counters.dead_lettered += 1;
            self.act(Action::Note(Note::DeadLettered { stream_id, reason }));
        }
        self.read();
    }

    fn publish(&mut self) {
        let window = if self.failures == 0 {
            self.settings.window
        } else {
            1
        };
        while self.work.failure.is_none()
            && self.work.next < self.work.entries.len()
            && self.work.unconfirmed < window
            && self.lease
            && !self.stopping
        {
            let place = self.work.next;
            self.work.next += 1;
            self.work.unconfirmed += 1;
            self.act(Action::Publish(place));
        }
    }

    pub(super) fn published(&mut self, place: usize) {
        if self.is_open(place) {
            self.work.answers[place] = Answer::Taken;
            self.counters.published += 1;
            self.failures = 0;
            self.answered();
        }
    }

    pub(super) fn refused(&mut self, place: usize, reason: String) {
        if !self.is_open(place) {
            return;
        }
        self.work.answers[place] = Answer::Refused;
        let earlier = self.work.failure.as_ref();
        if earlier.is_none_or(|failure| place < failure.place) {
            self.work.failure = Some(Failure { place, reason });
        }
        self.answered();
    }

    /// Whether an answer for this place of the batch is still awaited.
    fn is_open(&self, place: usize) -> bool {
        self.phase == Phase::Publishing
            && place < self.work.next
            && self.work.answers[place] == Answer::Awaited
    }

    fn answered(&mut self) {
        self.work.unconfirmed -= 1;
        self.publish();
        if self.work.unconfirmed == 0 {
            self.conclude();
        }
    }

    fn event_at(&self, place: usize) -> String {
        let entry = self.work.entries.get(place);
        let event = entry.and_then(|entry| entry.event.as_ref().ok());
        event.cloned().unwrap_or_default()
    }

    /// Every publication is answered: delete what lies before the first failure, and go on or try
    /// again.
    pub(super) fn conclude(&mut self) {
        let answers = self.work.answers.iter();
        let good = answers
            .take_while(|answer| **answer == Answer::Taken)
            .count();
        let tried = self.work.next - good;
        let failed = (tried > 0).then(|| self.event_at(good));
        let failure = self.work.failure.take();
        let delete = self.work.entries.drain(..good).map(|entry| {
            let event = entry.event.unwrap_or_default();
            (entry.stream_id, event)
        });
        self.delete.extend(delete);
        self.forget_batch();
        if self.broker && failed.is_none() {
            if self.lease {
                self.problem = None;
            }
            return self.read();
        }
        self.counters.retried += tried as u64;
        if let (Some(Failure { reason, .. }), Some(event), true) = (failure, &failed, self.broker) {
            self.problem = Some(format!("the broker did not take event {event}: {reason}"));
            let event = event.clone();
            self.act(Action::Note(Note::Refused { event, reason }));
        }
        let delete = std::mem::take(&mut self.delete);
        if delete.is_empty() && failed.is_none() {
            return self.back_off();
        }
        self.phase = Phase::Settling;
        self.act(Action::Settle { delete, failed });
    }
}
