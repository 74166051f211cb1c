//! Streams whose callers may have stopped reading.
//!
//! **When it acts.** A server asks a body for more only when its caller has taken what came before. Who opens a stream and
//! reads nothing would hold its place at a target, its money and the lead of its flight for as long as the connection lasts.
//! So once a second somebody else looks at every open stream, and one whose time is over gives everything back.
//!
//! **What it will not do.** It ends no connection, and no stream before its deadline: slow is not gone.

use crate::stopping::{hold, present};
use std::sync::{Mutex, Weak};

/// Something that has to be looked at now and then.
pub(crate) trait Watched: Send + Sync {
    /// Gives back what it holds, if its time is over.
    fn look(&self);

    /// Says that no more will come.
    fn stop(&self);
}

/// The streams that are open on one core.
#[derive(Default)]
pub(crate) struct OpenStreams(Mutex<Vec<Weak<dyn Watched>>>);

impl OpenStreams {
    /// Looks after this one until it is dropped.
    pub(crate) fn add(&self, stream: Weak<dyn Watched>) {
        hold(&self.0).push(stream);
    }

    /// Looks at all of them, and forgets those that are gone.
    pub(crate) fn look(&self) {
        present(&self.0).iter().for_each(|stream| stream.look());
    }

    /// Ends all of them. One that always has something to send does not notice otherwise that it should.
    pub(crate) fn stop(&self) {
        present(&self.0).iter().for_each(|stream| stream.stop());
    }
}

#[cfg(test)]
mod tests {
    use super::{OpenStreams, Watched};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Weak};

    #[derive(Default)]
    struct Looked(AtomicUsize);

    impl Watched for Looked {
        fn look(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn stop(&self) {
            self.0.fetch_add(100, Ordering::Relaxed);
        }
    }

    #[test]
    fn every_open_stream_is_looked_at_and_no_other_is_remembered() {
        let (open, first, second) =
            (OpenStreams::default(), Arc::<Looked>::default(), Arc::<Looked>::default());
        let weak = |stream: &Arc<Looked>| -> Weak<dyn Watched> { Arc::<Looked>::downgrade(stream) };
        open.add(weak(&first));
        open.add(weak(&second));
        open.look();
        drop(second);
        open.look();
        assert_eq!(first.0.load(Ordering::Relaxed), 2);
        open.stop();
        assert_eq!(first.0.load(Ordering::Relaxed), 102);
        assert_eq!(open.0.lock().unwrap().len(), 1);
    }
}
