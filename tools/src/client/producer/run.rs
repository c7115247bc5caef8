//! One run: what is open, what came of it, and when it is over.

use super::{Done, Interrupted, Load, Producer, ProducerOptions, Request};
use crate::client::summary::Summary;
use conductor_io::amqp::PublishError;
use futures_util::stream::{FuturesUnordered, StreamExt};
use lapin::message::Delivery;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A command that is not done.
struct Open {
    since: Instant,
    published: Option<Result<(), PublishError>>,
    awaits_reply: bool,
    reply: Option<(Vec<u8>, Duration)>,
}

impl Open {
    /// Nothing more is to come of it.
    fn is_done(&self) -> bool {
        match &self.published {
            None => false,
            Some(Ok(())) => !self.awaits_reply || self.reply.is_some(),
            Some(Err(_)) => true,
        }
    }
}

type Confirm = Pin<Box<dyn Future<Output = (u64, Result<(), PublishError>)> + Send>>;

/// One run of a producer.
pub(super) struct Run {
    options: ProducerOptions,
    began: Instant,
    last_done: Option<Instant>,
    /// The number, within the producer, of the oldest open command.
    first: u64,
    open: VecDeque<Open>,
    confirms: FuturesUnordered<Confirm>,
    summary: Summary,
}

impl Run {
    /// A run whose first command has this number within the producer.
    pub(super) fn new(first: u64, options: ProducerOptions) -> Self {
        Self {
            options,
            began: Instant::now(),
            last_done: None,
            first,
            open: VecDeque::new(),
            confirms: FuturesUnordered::new(),
            summary: Summary::default(),
        }
    }

    pub(super) async fn drive(
        mut self,
        producer: &mut Producer,
        load: &mut dyn Load,
    ) -> Result<Summary, Interrupted> {
        let started = producer.before;
        let mut more = true;
        loop {
            while more && self.open.len() < self.options.window.max(1) {
                match load.next().map_err(Interrupted::Load)? {
                    Some(request) => self.send(producer, request),
                    None => more = false,
                }
            }
            producer.before = self.first + self.open.len() as u64;
            if !more && self.open.is_empty() {
                return Ok(self.finish());
            }
            let late = self.deadline();
            tokio::select! {
                Some((number, outcome)) = self.confirms.next() => self.confirmed(number, outcome)?,
                reply = producer.replies.next() => match reply {
                    Ok(delivery) => self.replied(delivery),
                    Err(error) => return Err(self.lost(error.to_string())),
                },
                () = wait_until(late) => self.give_up_on_late(),
            }
            while self.open.front().is_some_and(Open::is_done) {
                let open = self.open.pop_front().expect("it was just looked at");
                let done = self.settle(open, started);
                load.done(done).map_err(Interrupted::Load)?;
            }
        }
    }

    fn send(&mut self, producer: &Producer, request: Request) {
        let awaits_reply = request.answered && self.options.reply_within.is_some();
        let number = self.first + self.open.len() as u64;
        self.open.push_back(Open {
            since: Instant::now(),
            published: None,
            awaits_reply,
            reply: None,
        });
        self.summary.sent += 1;
        let publication = producer.publish(request, awaits_reply.then_some(number));
        self.confirms
            .push(Box::pin(async move { (number, publication.await) }));
    }

    fn confirmed(
        &mut self,
        number: u64,
        outcome: Result<(), PublishError>,
    ) -> Result<(), Interrupted> {
        match &outcome {
            Ok(()) => self.summary.confirmed += 1,
            Err(PublishError::Returned { .. }) => self.summary.returned += 1,
            Err(error) if error.channel_survives() => self.summary.refused += 1,
            Err(error) => return Err(self.lost(error.to_string())),
        }
        // One that was given up on has left; its confirm is counted all the same.
        if let Some(open) = self.find(number) {
            open.published = Some(outcome);
        }
        Ok(())
    }

    fn replied(&mut self, delivery: Delivery) {
        let correlation = delivery.properties.correlation_id().as_ref();
        let number = correlation.and_then(|id| id.as_str().parse::<u64>().ok());
        let Some(open) = number.and_then(|number| self.find(number)) else {
            // Its command is done already: a new owner answers once more what it finds unacked.
            self.summary.replies.repeated += 1;
            return;
        };
        match &open.reply {
            Some((first, _)) => {
                let differs = *first != delivery.data;
                self.summary.replies.repeated += 1;
                self.summary.replies.contradicting += u64::from(differs);
            }
            None => {
                let waited = open.since.elapsed();
                self.summary.replies.count(&delivery.data);
                self.summary.publish_to_reply_ms.record(waited);
                let open = number.and_then(|number| self.find(number));
                open.expect("it was just found").reply = Some((delivery.data, waited));
            }
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Open> {
        let place = number.checked_sub(self.first)?;
        self.open.get_mut(usize::try_from(place).ok()?)
    }

    /// When the oldest command that is confirmed and not answered is late.
    fn deadline(&self) -> Option<Instant> {
        let oldest = self
            .open
            .front()
            .filter(|open| open.published == Some(Ok(())))?;
        Some(oldest.since + self.options.reply_within?)
    }

    /// Counts the replies that are late as missing, so that the run goes on.
    fn give_up_on_late(&mut self) {
        let Some(within) = self.options.reply_within else {
            return;
        };
        for open in &mut self.open {
            let late = open.since.elapsed() >= within;
            if late && open.published == Some(Ok(())) && open.awaits_reply && open.reply.is_none() {
                open.awaits_reply = false;
                self.summary.replies.missing += 1;
            }
        }
    }

    fn settle(&mut self, open: Open, started: u64) -> Done {
        let number = self.first - started;
        self.first += 1;
        self.last_done = Some(Instant::now());
        let published = open
            .published
            .expect("what is done was settled by the broker");
        if published.is_ok() && self.summary.confirmed_in_order == number {
            self.summary.confirmed_in_order += 1;
        }
        let (reply, waited) = open.reply.unzip();
        Done {
            number,
            published,
            reply,
            waited,
        }
    }

    fn finish(mut self) -> Summary {
        let ended = self.last_done.unwrap_or(self.began);
        self.summary.seconds = (ended - self.began).as_secs_f64();
        let finished = self.summary.confirmed - self.summary.replies.missing;
        self.summary.commands_per_second = finished as f64 / self.summary.seconds.max(f64::EPSILON);
        self.summary
    }

    fn lost(&mut self, reason: String) -> Interrupted {
        let mut run = Self {
            open: std::mem::take(&mut self.open),
            confirms: FuturesUnordered::new(),
            summary: std::mem::take(&mut self.summary),
            ..*self
        };
        if run.summary.confirmed_in_order == run.summary.sent - run.open.len() as u64 {
            let in_order = run
                .open
                .iter()
                .take_while(|open| open.published == Some(Ok(())));
            run.summary.confirmed_in_order += in_order.count() as u64;
        }
        run.last_done = Some(Instant::now());
        let summary = Box::new(run.finish());
        Interrupted::Lost { reason, summary }
    }
}

/// Waits for a moment, or for ever.
async fn wait_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}
