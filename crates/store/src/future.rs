//! The future that every store operation returns.

use crate::StoreError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// The pending result of a store operation.
///
/// Traits of stores return this type instead of `impl Future`, so that a store can be a trait object. A store in this
/// process carries the operation out when the method is called and returns the result without an allocation; a remote
/// store returns a boxed future. Like any future, it must be awaited for the operation to take place, and must not be polled
/// again after its result.
#[must_use = "an operation of a remote store does nothing unless it is awaited"]
pub struct StoreFuture<'a, T>(OperationProgress<'a, T>);

enum OperationProgress<'a, T> {
    Ready(Option<Result<T, StoreError>>),
    Pending(Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>),
}

impl<'a, T> StoreFuture<'a, T> {
    /// The result of an operation that has been carried out.
    pub const fn ready(result: Result<T, StoreError>) -> Self {
        Self(OperationProgress::Ready(Some(result)))
    }

    /// Carries an operation out at once.
    pub fn run(operation: impl FnOnce() -> Result<T, StoreError>) -> Self {
        Self::ready(operation())
    }

    /// An operation that has to be waited for.
    pub fn boxed(operation: impl Future<Output = Result<T, StoreError>> + Send + 'a) -> Self {
        Self(OperationProgress::Pending(Box::pin(operation)))
    }

    /// The result, if nothing has to be waited for. Otherwise the operation is dropped after its first step.
    pub fn now_or_never(mut self) -> Option<Result<T, StoreError>> {
        match Pin::new(&mut self).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        }
    }
}

// The result is never pinned.
impl<T> Unpin for StoreFuture<'_, T> {}

impl<T> Future for StoreFuture<'_, T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            OperationProgress::Ready(result) => result.take().map_or(Poll::Pending, Poll::Ready),
            OperationProgress::Pending(operation) => operation.as_mut().poll(context),
        }
    }
}

impl<T> fmt::Debug for StoreFuture<'_, T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("StoreFuture")
    }
}

#[cfg(test)]
mod tests {
    use super::StoreFuture;
    use std::future::pending;

    #[test]
    fn an_operation_in_this_process_has_its_result_at_once_and_one_that_waits_has_none() {
        assert_eq!(StoreFuture::run(|| Ok(1)).now_or_never(), Some(Ok(1)));
        assert_eq!(StoreFuture::boxed(async { Ok(2) }).now_or_never(), Some(Ok(2)));
        assert_eq!(StoreFuture::<u8>::boxed(pending()).now_or_never(), None);
    }
}
