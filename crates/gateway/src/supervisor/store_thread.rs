//! The threads of the embedded store, under the supervisor.
//!
//! They stop in their own stage, after everything that uses the store. The store also stops them when it is dropped. Both
//! share one deadline, so that a thread that hangs is waited for once.

use super::{ShutdownStage, Supervisor, ThreadOptions};
use crate::runtime::TokioRuntime;
use seawall_core::deadline::Deadline;
use seawall_pipeline::Timer as _;
use seawall_store::embedded::{SpawnedThread, StoreThread, ThreadSpawner};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

impl ThreadSpawner for Supervisor {
    fn spawn(&self, thread: StoreThread) -> std::io::Result<Box<dyn SpawnedThread>> {
        let StoreThread { name, body, stop } = thread;
        let (end, ended) = channel();
        let mut body = StoreThreadBody { body, _end: end };
        let request = StopRequest { stop, runtime: self.runtime, deadline: Mutex::default() };
        let request = Arc::new(request);
        let wake = Arc::clone(&request);
        let options = ThreadOptions::new(name, ShutdownStage::DataDir).wake(move || {
            wake.send();
        });
        Self::spawn(self, options, move |_| {
            body.run();
            Ok(())
        })?;
        Ok(Box::new(SupervisedStoreThread { request, ended: Mutex::new(ended) }))
    }
}

/// The fields are in their drop order: what the thread holds is dropped before its end is reported.
struct StoreThreadBody {
    body: Box<dyn FnMut() + Send>,
    _end: Sender<()>,
}

impl StoreThreadBody {
    fn run(&mut self) {
        (self.body)();
    }
}

/// Asks the thread to stop.
struct StopRequest {
    stop: Arc<dyn Fn() + Send + Sync>,
    runtime: TokioRuntime,
    /// Set by the first request.
    deadline: Mutex<Option<Deadline>>,
}

impl StopRequest {
    /// Asks the thread to stop. Returns how long to wait for it.
    fn send(&self) -> Duration {
        let now = self.runtime.monotonic();
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = ShutdownStage::DataDir.timeout(Duration::ZERO);
        let deadline = *deadline.get_or_insert_with(|| Deadline::after(now, timeout));
        (self.stop)();
        deadline.remaining(now)
    }
}

struct SupervisedStoreThread {
    request: Arc<StopRequest>,
    /// Closed when the thread has dropped everything that it held.
    ended: Mutex<Receiver<()>>,
}

impl SpawnedThread for SupervisedStoreThread {
    fn stop(&self) -> bool {
        let timeout = self.request.send();
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        !matches!(ended.recv_timeout(timeout), Err(RecvTimeoutError::Timeout))
    }
}
