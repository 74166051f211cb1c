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

type Outcome<T> = Result<T, StoreError>;

#[derive(Debug)]
struct Place<T> {
    outcome: Option<Outcome<T>>,
    waker: Option<Waker>,
}

/// The receiving side.
#[derive(Debug)]
pub(super) struct Answer<T>(Arc<Mutex<Place<T>>>);

/// The sending side.
#[derive(Debug)]
pub(super) struct Promise<T>(Option<Arc<Mutex<Place<T>>>>);

/// Creates both sides.
pub(super) fn promise<T>() -> (Promise<T>, Answer<T>) {
    let place = Arc::new(Mutex::new(Place { outcome: None, waker: None }));
    (Promise(Some(Arc::clone(&place))), Answer(place))
}

impl<T> Promise<T> {
    pub(super) fn keep(mut self, outcome: Outcome<T>) {
        self.give(outcome);
    }

    fn give(&mut self, outcome: Outcome<T>) {
        let Some(place) = self.0.take() else { return };
        let waker = {
            let mut place = lock(&place);
            place.outcome = Some(outcome);
            place.waker.take()
        };
        // Outside the lock, because a receiver that runs at once would only wait for it.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.give(Err(StoreError::away(STORE, "its writer has stopped")));
    }
}

impl<T> Future for Answer<T> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut place = lock(&self.0);
        match place.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                place.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::promise;
    use crate::embedded::tests::wait;

    #[test]
    fn an_answer_arrives_whether_it_is_early_or_late() {
        let (early, answer) = promise();
        early.keep(Ok(1));
        assert_eq!(wait(answer), Ok(1));
        let (late, answer) = promise();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| wait(answer));
            late.keep(Ok(2));
            assert_eq!(waiting.join().unwrap(), Ok(2));
        });
    }

    #[test]
    fn a_promise_that_is_dropped_is_an_answer() {
        let (dropped, answer) = promise::<()>();
        drop(dropped);
        let error = wait(answer).unwrap_err();
        assert_eq!(error.to_string(), "the embedded store is away: its writer has stopped");
        assert!(error.may_pass());
    }
}
