//! The end of the time in which requests may finish.

use crate::unread::OpenStreams;
use tokio::sync::watch;

/// Tells when requests under way have had their time. Clones tell alike.
#[derive(Clone)]
pub(crate) struct Cut {
    over: Option<watch::Receiver<bool>>,
    /// The streams that have time of their own until then.
    pub(crate) streams: OpenStreams,
}

impl Cut {
    /// What is told through this sender.
    pub(crate) fn pair() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self { over: Some(receiver), streams: OpenStreams::default() })
    }

    /// One that never comes.
    pub(crate) fn never() -> Self {
        Self { over: None, streams: OpenStreams::default() }
    }

    /// Ends when the time is over.
    pub(crate) async fn told(self) {
        let Some(mut receiver) = self.over else { return std::future::pending().await };
        // Who could have told is gone: nobody will.
        if receiver.wait_for(|is_over| *is_over).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
