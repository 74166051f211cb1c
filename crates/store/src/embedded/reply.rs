//! A oneshot channel for a result from another thread.
//!
//! The receiver can be awaited as a future or by blocking the thread. It needs no async runtime. A sender that is
//! dropped without a result makes the receiver fail instead of wait for ever.

use super::codec::STORE;
use crate::{StoreError, lock};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

type ReplyResult<T> = Result<T, StoreError>;

#[derive(Debug)]
struct ReplySlot<T> {
    outcome: Option<ReplyResult<T>>,
    waker: Option<Waker>,
}

/// The receiving side.
#[derive(Debug)]
pub(super) struct ReplyReceiver<T>(Arc<Mutex<ReplySlot<T>>>);

/// The sending side.
#[derive(Debug)]
pub(super) struct ReplySender<T>(Option<Arc<Mutex<ReplySlot<T>>>>);

/// Creates both sides.
pub(super) fn reply_channel<T>() -> (ReplySender<T>, ReplyReceiver<T>) {
    let slot = Arc::new(Mutex::new(ReplySlot { outcome: None, waker: None }));
    (ReplySender(Some(Arc::clone(&slot))), ReplyReceiver(slot))
}

impl<T> ReplySender<T> {
    pub(super) fn send(mut self, outcome: ReplyResult<T>) {
        self.complete(outcome);
    }

    fn complete(&mut self, outcome: ReplyResult<T>) {
        let Some(slot) = self.0.take() else { return };
        let waker = {
            let mut slot = lock(&slot);
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        // Outside the lock, because a receiver that runs at once would only wait for it.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for ReplySender<T> {
    fn drop(&mut self) {
        self.complete(Err(StoreError::unavailable(STORE, "its writer has stopped")));
    }
}

impl<T> Future for ReplyReceiver<T> {
    type Output = ReplyResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = lock(&self.0);
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::reply_channel;
    use crate::embedded::tests::wait;

    #[test]
    fn an_answer_arrives_whether_it_is_early_or_late() {
        let (early, receiver) = reply_channel();
        early.send(Ok(1));
        assert_eq!(wait(receiver), Ok(1));
        let (late, receiver) = reply_channel();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(receiver));
            late.send(Ok(2));
            assert_eq!(waiting.join().unwrap(), Ok(2));
        });
    }

    #[test]
    fn a_dropped_sender_makes_the_receiver_fail() {
        let (dropped, receiver) = reply_channel::<()>();
        drop(dropped);
        let error = wait(receiver).unwrap_err();
        assert_eq!(error.to_string(), "the embedded store is unavailable: its writer has stopped");
        assert!(error.is_transient());
    }
}
