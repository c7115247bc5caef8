//! A queue between tasks of one core: no lock, no atomics, one reader.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

#[derive(Debug)]
struct Shared<T> {
    waiting: VecDeque<T>,
    reader: Option<Waker>,
}

/// Either end of the queue.
#[derive(Debug)]
pub(super) struct LocalQueue<T>(Rc<RefCell<Shared<T>>>);

impl<T> Clone for LocalQueue<T> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<T> LocalQueue<T> {
    pub(super) fn new() -> Self {
        Self(Rc::new(RefCell::new(Shared {
            waiting: VecDeque::new(),
            reader: None,
        })))
    }

    pub(super) fn push(&self, message: T) {
        let mut shared = self.0.borrow_mut();
        shared.waiting.push_back(message);
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }

    pub(super) fn poll_pop(&self, context: &mut Context<'_>) -> Poll<T> {
        let mut shared = self.0.borrow_mut();
        match shared.waiting.pop_front() {
            Some(message) => Poll::Ready(message),
            None => {
                shared.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    pub(super) async fn pop(&self) -> T {
        std::future::poll_fn(|context| self.poll_pop(context)).await
    }
}
