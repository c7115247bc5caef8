//! Bounded mailboxes between the I/O core and the partitions' cores.
//!
//! A crossbeam channel carries the messages and a waker tells the other core that there are some;
//! the channel alone knows no wakers, and glommio's own cross-core channels are not used because
//! they can stop with small bounds. Nothing is shared but the mailbox. A full mailbox refuses: the
//! sender decides what that means, and never blocks its core.

use atomic_waker::AtomicWaker;
use crossbeam_channel::{Receiver as Channel, Sender as ChannelSender, TryRecvError, TrySendError};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The sending half; may be cloned and used from any thread.
#[derive(Debug)]
pub struct Sender<T> {
    /// Taken only when the sender is dropped.
    channel: Option<ChannelSender<T>>,
    waker: Arc<AtomicWaker>,
}

/// The receiving half; one task owns it.
#[derive(Debug)]
pub struct Receiver<T> {
    channel: Channel<T>,
    waker: Arc<AtomicWaker>,
}

/// Why a message was not taken; it is given back.
#[derive(Debug)]
pub enum Refused<T> {
    /// The mailbox is full.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// A mailbox for at most `capacity` messages.
pub fn mailbox<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    let waker = Arc::new(AtomicWaker::new());
    let sender = Sender {
        channel: Some(sender),
        waker: Arc::clone(&waker),
    };
    (
        sender,
        Receiver {
            channel: receiver,
            waker,
        },
    )
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self {
            channel: self.channel.clone(),
            waker: Arc::clone(&self.waker),
        }
    }
}

impl<T> Sender<T> {
    /// Puts a message in and wakes the receiver.
    ///
    /// # Errors
    /// Gives the message back when the mailbox is full or its receiver is gone.
    pub fn send(&self, message: T) -> Result<(), Refused<T>> {
        let Some(channel) = &self.channel else {
            return Err(Refused::Closed(message));
        };
        let sent = channel.try_send(message).map_err(|refusal| match refusal {
            TrySendError::Full(message) => Refused::Full(message),
            TrySendError::Disconnected(message) => Refused::Closed(message),
        });
        self.waker.wake();
        sent
    }

    /// How many messages wait.
    pub fn depth(&self) -> usize {
        self.channel.as_ref().map_or(0, ChannelSender::len)
    }
}

impl<T> Drop for Sender<T> {
    /// The receiver may be waiting for a message that can no longer come. It is woken after the
    /// channel has lost this sender: woken before, it would look, see a sender, and sleep for ever.
    fn drop(&mut self) {
        self.channel = None;
        self.waker.wake();
    }
}

impl<T> Receiver<T> {
    /// The next message; `None` when every sender is gone.
    pub async fn receive(&self) -> Option<T> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// The next message, if one is there.
    pub fn try_receive(&self) -> Option<T> {
        self.channel.try_recv().ok()
    }

    /// How many messages wait.
    pub fn depth(&self) -> usize {
        self.channel.len()
    }

    /// Registers before it looks a second time, so that no message is slept through.
    pub fn poll_receive(&self, context: &mut Context<'_>) -> Poll<Option<T>> {
        match self.channel.try_recv() {
            Ok(message) => return Poll::Ready(Some(message)),
            Err(TryRecvError::Disconnected) => return Poll::Ready(None),
            Err(TryRecvError::Empty) => self.waker.register(context.waker()),
        }
        match self.channel.try_recv() {
            Ok(message) => Poll::Ready(Some(message)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::block_on;

    #[test]
    fn a_full_mailbox_gives_the_message_back() {
        let (sender, receiver) = mailbox(1);
        sender.send(1).expect("there is room");
        assert!(matches!(sender.send(2), Err(Refused::Full(2))));
        assert_eq!(receiver.try_receive(), Some(1));
        drop(receiver);
        assert!(matches!(sender.send(3), Err(Refused::Closed(3))));
    }

    #[test]
    fn every_message_of_another_thread_arrives_in_order() {
        let (sender, receiver) = mailbox(64);
        let thread = std::thread::spawn(move || {
            for number in 0..100_000 {
                let mut message = number;
                while let Err(Refused::Full(back)) = sender.send(message) {
                    message = back;
                    std::thread::yield_now();
                }
            }
        });
        for expected in 0..100_000 {
            assert_eq!(block_on(receiver.receive()), Some(expected));
        }
        assert_eq!(block_on(receiver.receive()), None);
        thread.join().expect("the sending thread ends");
    }
}
