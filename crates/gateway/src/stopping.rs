//! The end of the time in which requests may finish.

use tokio::sync::watch;

/// Tells when requests under way have had their time. Clones tell alike.
#[derive(Clone, Debug)]
pub(crate) struct Cut(Option<watch::Receiver<bool>>);

impl Cut {
    /// What is told through this sender.
    pub(crate) fn pair() -> (watch::Sender<bool>, Self) {
        let (sender, receiver) = watch::channel(false);
        (sender, Self(Some(receiver)))
    }

    /// One that never comes.
    pub(crate) const fn never() -> Self {
        Self(None)
    }

    /// Ends when the time is over.
    pub(crate) async fn told(self) {
        let Some(mut receiver) = self.0 else { return std::future::pending().await };
        // Who could have told is gone: nobody will.
        if receiver.wait_for(|is_over| *is_over).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
