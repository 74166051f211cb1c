//! The threads of the embedded store, started by whoever opens it.
//!
//! A process that supervises its threads passes a [`ThreadSpawner`], and stops them at the end of its shutdown like all
//! others, with a deadline: a disk that hangs must not keep the process. Without a supervisor, [`UnsupervisedThreads`]
//! are waited for however long they take, because what the store has accepted must be written.
//!
//! A thread that is left behind keeps the data directory locked, so that no other process opens what it may still write.

use crate::lock;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, ThreadId};

/// A thread of the store, before it runs.
pub struct StoreThread {
    /// The name, at most 15 bytes, so that the kernel shows all of it.
    pub name: &'static str,
    /// Runs until the thread was stopped. After a panic it may be called again.
    pub body: Box<dyn FnMut() + Send>,
    /// Tells the thread to finish what has arrived and to end. Does not wait for that.
    pub stop: Arc<dyn Fn() + Send + Sync>,
}

/// Starts the threads of a store.
pub trait ThreadSpawner: fmt::Debug + Send + Sync {
    /// Starts a thread.
    fn spawn(&self, thread: StoreThread) -> std::io::Result<Box<dyn SpawnedThread>>;
}

/// A thread that was started.
pub trait SpawnedThread: Send + Sync {
    /// Stops the thread, and waits until it has ended and has dropped its body, or until it must not be waited for any
    /// longer. Returns whether it has ended. May be called again.
    fn stop(&self) -> bool;
}

/// Threads that are waited for without a deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnsupervisedThreads;

struct UnsupervisedThread {
    stop: Arc<dyn Fn() + Send + Sync>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl ThreadSpawner for UnsupervisedThreads {
    fn spawn(&self, thread: StoreThread) -> std::io::Result<Box<dyn SpawnedThread>> {
        let StoreThread { name, body, stop } = thread;
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Box::new(UnsupervisedThread { stop, handle: Mutex::new(Some(handle)) }))
    }
}

impl SpawnedThread for UnsupervisedThread {
    fn stop(&self) -> bool {
        (self.stop)();
        if let Some(handle) = lock(&self.handle).take() {
            // A panic has ended it as well.
            let _ = handle.join();
        }
        true
    }
}

/// A thread that the store uses. It is stopped when this is dropped.
pub(super) struct OwnedThread {
    thread: Box<dyn SpawnedThread>,
    request_stop: Arc<dyn Fn() + Send + Sync>,
    /// The thread's id, once it runs.
    id: Arc<Mutex<Option<ThreadId>>>,
}

impl OwnedThread {
    pub(super) fn start(threads: &dyn ThreadSpawner, thread: StoreThread) -> std::io::Result<Self> {
        let StoreThread { name, mut body, stop } = thread;
        let id = Arc::<Mutex<Option<ThreadId>>>::default();
        let own_id = Arc::clone(&id);
        let body = Box::new(move || {
            *lock(&own_id) = Some(std::thread::current().id());
            body();
        });
        let request_stop = Arc::clone(&stop);
        Ok(Self { thread: threads.spawn(StoreThread { name, body, stop })?, request_stop, id })
    }

    /// Stops the thread. Returns whether it has ended.
    pub(super) fn stop(&self) -> bool {
        // A woken task may have dropped the last handle on this very thread, which cannot wait for itself.
        let is_own = *lock(&self.id) == Some(std::thread::current().id());
        if is_own {
            (self.request_stop)();
        }
        !is_own && self.thread.stop()
    }
}

impl fmt::Debug for OwnedThread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnedThread").field("id", &*lock(&self.id)).finish_non_exhaustive()
    }
}

impl Drop for OwnedThread {
    fn drop(&mut self) {
        self.stop();
    }
}
