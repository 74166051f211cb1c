//! Spawns background tasks: HTTP/2 connection drivers, and renewals of DNS results and credentials.
//!
//! They run on the runtime of the core that started them and end with it. None of them holds money, a permit or a
//! caller's request, so nothing is left unsettled when one is dropped.

use std::future::Future;

/// Spawns tasks on the runtime of the calling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioTasks;

impl TokioTasks {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real tasks")]
    pub(crate) fn spawn(self, work: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(work));
    }
}

impl<F> hyper::rt::Executor<F> for TokioTasks
where
    F: Future + Send + 'static,
{
    fn execute(&self, work: F) {
        self.spawn(async {
            work.await;
        });
    }
}
