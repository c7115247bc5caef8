//! Messages on their way, beside the test.

use super::Message;
use conductor_config::BrokerSettings;
use conductor_tools::client::{Done, Load, Producer, ProducerOptions, Request, Summary, block_on};
use conductor_tools::testbed::wait_for;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages under way at once: several groups, so that a kill meets some of each kind.
const WINDOW: usize = 256;

/// Messages that a thread of its own sends in order.
pub(crate) struct Sending {
    done: Arc<AtomicUsize>,
    thread: JoinHandle<anyhow::Result<Sent>>,
}

/// What became of them.
pub(crate) struct Sent {
    pub(crate) summary: Summary,
    /// A reply can be missing after a kill, and never be another one.
    pub(crate) replies: Vec<Option<Vec<u8>>>,
}

impl Sending {
    pub(super) fn start(
        broker: &BrokerSettings,
        messages: Vec<Message>,
        reply_within: Duration,
    ) -> Self {
        let done = Arc::new(AtomicUsize::new(0));
        let (broker, counted) = (broker.clone(), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            let mut load = Queue {
                messages: messages.into_iter(),
                replies: Vec::new(),
                done: counted,
            };
            let options = ProducerOptions {
                window: WINDOW,
                reply_within: Some(reply_within),
            };
            let summary = block_on(async {
                let mut producer = Producer::connect(&broker, "test").await?;
                let summary = producer.run(&mut load, options).await;
                producer.close().await;
                Ok(summary?)
            });
            Ok(Sent {
                summary: summary?,
                replies: load.replies,
            })
        });
        Self { done, thread }
    }

    /// How many messages are done, in their order.
    pub(crate) fn done(&self) -> usize {
        self.done.load(Ordering::Relaxed)
    }

    /// Waits until so many are done.
    pub(crate) fn wait_done(&self, wanted: usize, within: Duration) {
        let awaited = format!("{wanted} messages that are done");
        let waited = wait_for(&awaited, within, || match self.done() {
            done if done >= wanted => Ok(()),
            _ if self.thread.is_finished() => Ok(()),
            done => Err(format!("{done} are")),
        });
        waited.expect("the cell goes on");
        assert!(self.done() >= wanted, "the sending ended early");
    }

    /// Waits until every message was confirmed and has its reply, or has waited long enough.
    pub(crate) fn finish(self) -> Sent {
        let ended = self.thread.join().expect("the sending ends");
        let sent = ended.expect("everything is sent");
        assert_eq!(sent.summary.confirmed, sent.summary.sent);
        let replies = &sent.summary.replies;
        assert_eq!((replies.contradicting, replies.unreadable), (0, 0));
        sent
    }
}

impl Sent {
    /// Holds every reply that came against what it must be; gives how many came.
    pub(crate) fn assert_replies(&self, expected: &[Vec<u8>]) -> usize {
        assert_eq!(self.replies.len(), expected.len());
        let mut came = 0;
        for (reply, expected) in self.replies.iter().zip(expected) {
            let Some(reply) = reply else { continue };
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(reply), text(expected));
            came += 1;
        }
        came
    }
}

struct Queue {
    messages: std::vec::IntoIter<Message>,
    replies: Vec<Option<Vec<u8>>>,
    done: Arc<AtomicUsize>,
}

impl Load for Queue {
    fn next(&mut self) -> anyhow::Result<Option<Request>> {
        Ok(self.messages.next().map(|message| Request {
            partition: message.partition,
            body: message.body,
            message_id: Some(message.id),
            answered: true,
        }))
    }

    fn done(&mut self, done: Done) -> anyhow::Result<()> {
        done.published?;
        self.replies.push(done.reply);
        self.done.store(self.replies.len(), Ordering::Relaxed);
        Ok(())
    }
}
