//! Where work is started that nobody waits for: the driver of an HTTP/2 connection, and looking a name up again.
//!
//! Both belong to the runtime of the core that asked, and end with it. Neither holds money, a permit or a caller's
//! request, so that nothing is left unsettled when it is dropped.

use std::future::Future;

/// Starts tasks on the runtime of the calling thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioTasks;

impl TokioTasks {
    #[expect(clippy::disallowed_methods, reason = "this is the handle that owns the real tasks")]
    pub(crate) fn start(self, work: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(work));
    }
}

impl<F> hyper::rt::Executor<F> for TokioTasks
where
    F: Future + Send + 'static,
{
    fn execute(&self, work: F) {
        self.start(async {
            work.await;
        });
    }
}
