//! What is under way: published and not done.
//!
//! A message is done when the broker has confirmed it and its answer has come, or will not come any
//! more. Messages leave in the order of publishing. An answer is best effort, so one can be lost:
//! with the connection whose queue it was to come to, or in a conductor that died between disk and
//! broker. The second is seen by what overtakes it: a partition answers in order, so when a later
//! command was answered a while ago, an earlier one is not answered any more.

use super::super::record::Published;
use super::super::script::Message;
use conductor_engine::PartitionId;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How long after a later command's answer an earlier one may still come: a new owner answers again
/// what it finds unacknowledged, from the oldest on.
const OVERTAKEN_FOR: Duration = Duration::from_secs(5);
/// Between two notes of how far a partition has answered.
const NOTE_EVERY: Duration = Duration::from_millis(500);

/// One message under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) message: Message,
    /// When it was to be published.
    pub(super) due: Instant,
    /// When it was, for the first time.
    pub(super) published: Instant,
    pub(super) confirmed: bool,
    answered: bool,
    /// Its answer will not come any more.
    given_up: bool,
}

impl Open {
    fn is_done(&self) -> bool {
        let waits = self.message.answer.is_some() && !self.answered && !self.given_up;
        self.confirmed && !waits
    }

    fn is_overdue(&self) -> bool {
        self.confirmed && self.message.answer.is_some() && !self.answered && !self.given_up
    }
}

/// What an answer was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The first to its message, and right; with when the message was due and first published.
    First { due: Instant, published: Instant },
    /// One more to a message that was answered.
    Again,
    /// To a message that is done.
    Late,
    /// Not what the oracle says.
    Differs { expected: String },
}

/// Everything under way, the oldest first.
#[derive(Debug)]
pub(super) struct Window {
    first: u64,
    open: VecDeque<Open>,
    /// How far each partition has answered, and when that was noted.
    notes: BTreeMap<PartitionId, VecDeque<(Instant, u64)>>,
    answered_up_to: BTreeMap<PartitionId, u64>,
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            first: 0,
            open: VecDeque::new(),
            notes: BTreeMap::new(),
            answered_up_to: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// The number that the next message has.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.open.len() as u64
    }

    /// Adds the next message.
    pub(super) fn add(&mut self, message: Message, due: Instant, published: Instant) {
        debug_assert_eq!(message.number, self.next_number());
        self.open.push_back(Open {
            message,
            due,
            published,
            confirmed: false,
            answered: false,
            given_up: false,
        });
    }

    /// The broker has a message; whether that is news.
    pub(super) fn confirm(&mut self, number: u64) -> bool {
        let open = self.find(number).filter(|open| !open.confirmed);
        open.is_some_and(|open| {
            open.confirmed = true;
            true
        })
    }

    /// An answer came.
    pub(super) fn answer(&mut self, number: u64, body: &[u8]) -> Answer {
        let Some(open) = self.find(number) else {
            return Answer::Late;
        };
        let expected = open.message.answer.as_deref().unwrap_or_default();
        if expected != body {
            let expected = String::from_utf8_lossy(expected).into_owned();
            return Answer::Differs { expected };
        }
        if open.answered {
            return Answer::Again;
        }
        open.answered = true;
        let (partition, due, published) = (open.message.partition, open.due, open.published);
        let up_to = self.answered_up_to.entry(partition).or_default();
        *up_to = (*up_to).max(number);
        Answer::First { due, published }
    }

    /// The connection is gone, and with it the queue of answers. Whatever was answered had been in
    /// its queue, confirmed or not. Gives how many answers are lost.
    pub(super) fn disconnect(&mut self) -> u64 {
        let mut lost = 0;
        for open in &mut self.open {
            open.confirmed |= open.answered;
            if open.is_overdue() {
                open.given_up = true;
                lost += 1;
            }
        }
        lost
    }

    /// What has to be published again, in order.
    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = &Open> {
        self.open.iter().filter(|open| !open.confirmed)
    }

    /// Gives up on answers that were overtaken a while ago; how many.
    pub(super) fn give_up_on_overtaken(&mut self, now: Instant) -> u64 {
        let mut overtaken = BTreeMap::new();
        for (partition, up_to) in &self.answered_up_to {
            let notes = self.notes.entry(*partition).or_default();
            if notes
                .back()
                .is_none_or(|(noted, _)| now - *noted >= NOTE_EVERY)
            {
                notes.push_back((now, *up_to));
            }
            // The newest note that is old enough says how far things were then.
            while notes
                .get(1)
                .is_some_and(|(noted, _)| now - *noted >= OVERTAKEN_FOR)
            {
                notes.pop_front();
            }
            if let Some((noted, up_to)) = notes.front()
                && now - *noted >= OVERTAKEN_FOR
            {
                overtaken.insert(*partition, *up_to);
            }
        }
        let mut given_up = 0;
        for open in &mut self.open {
            let up_to = overtaken.get(&open.message.partition);
            if open.is_overdue() && up_to.is_some_and(|up_to| open.message.number < *up_to) {
                open.given_up = true;
                given_up += 1;
            }
        }
        given_up
    }

    /// The oldest message, once it is done.
    pub(super) fn take_done(&mut self) -> Option<Published> {
        self.open.front().filter(|open| open.is_done())?;
        self.take()
    }

    /// The oldest message, as it stands.
    pub(super) fn take(&mut self) -> Option<Published> {
        let open = self.open.pop_front()?;
        self.first += 1;
        Some(Published::of(&open.message, open.confirmed, open.answered))
    }

    /// What the oldest message waits for, in words.
    pub(super) fn stands(&self) -> String {
        let Some(oldest) = self.open.front() else {
            return "nothing is under way".to_owned();
        };
        let unconfirmed = self.unconfirmed().count();
        let waits = if oldest.confirmed {
            "an answer"
        } else {
            "its confirm"
        };
        format!(
            "{} messages are under way, {unconfirmed} of them unconfirmed; the oldest is {} (number \
             {}, partition {}), which waits for {waits}",
            self.open.len(),
            oldest.message.message_id,
            oldest.message.number,
            oldest.message.partition
        )
    }

    fn find(&mut self, number: u64) -> Option<&mut Open> {
        let place = number.checked_sub(self.first)?;
        self.open.get_mut(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tester::script::Kind;

    fn message(number: u64) -> Message {
        Message {
            number,
            partition: PartitionId(0),
            kind: Kind::Command,
            slip: None,
            message_id: format!("c-{number}"),
            body: b"body".as_slice().into(),
            answer: Some(format!("answer {number}").into_bytes().into()),
        }
    }

    fn window(count: u64, now: Instant) -> Window {
        let mut window = Window::new();
        for number in 0..count {
            window.add(message(number), now, now);
        }
        window
    }

    #[test]
    fn messages_leave_in_order_once_they_are_confirmed_and_answered() {
        let now = Instant::now();
        let mut window = window(2, now);
        assert!(window.confirm(1));
        let first = Answer::First {
            due: now,
            published: now,
        };
        assert_eq!(window.answer(1, b"answer 1"), first);
        assert_eq!(window.answer(1, b"answer 1"), Answer::Again);
        assert_eq!(window.take_done(), None);
        assert!(window.confirm(0) && !window.confirm(0));
        assert_eq!(window.take_done(), None);
        let differs = Answer::Differs {
            expected: "answer 0".to_owned(),
        };
        assert_eq!(window.answer(0, b"answer 1"), differs);
        assert_eq!(window.answer(0, b"answer 0"), first);
        let left: Vec<u64> = std::iter::from_fn(|| window.take_done())
            .map(|published| published.number)
            .collect();
        assert_eq!(left, [0, 1]);
        assert_eq!(window.answer(0, b"answer 0"), Answer::Late);
    }

    #[test]
    fn a_lost_connection_loses_answers_and_leaves_the_unconfirmed_to_be_published_again() {
        let now = Instant::now();
        let mut window = window(4, now);
        window.confirm(0);
        window.answer(2, b"answer 2");
        assert_eq!(window.disconnect(), 1);
        let again: Vec<u64> = window
            .unconfirmed()
            .map(|open| open.message.number)
            .collect();
        assert_eq!(again, [1, 3]);
        assert_eq!(window.take_done().map(|it| it.answered), Some(false));
    }

    #[test]
    fn an_answer_that_was_overtaken_long_ago_is_given_up() {
        let now = Instant::now();
        let mut window = window(3, now);
        assert!((0..3).all(|number| window.confirm(number)));
        window.answer(1, b"answer 1");
        assert_eq!(window.give_up_on_overtaken(now), 0);
        assert_eq!(window.give_up_on_overtaken(now + OVERTAKEN_FOR / 2), 0);
        assert_eq!(window.give_up_on_overtaken(now + OVERTAKEN_FOR), 1);
        let left: Vec<u64> = std::iter::from_fn(|| window.take_done())
            .map(|published| published.number)
            .collect();
        assert_eq!(left, [0, 1], "2 is still waited for");
    }
}
