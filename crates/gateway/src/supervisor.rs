//! Starts, watches and stops the background threads of the process.
//!
//! Every thread has a name, which `ps -T` and `top -H` show, and a [`ShutdownStage`]. Threads receive a
//! [`StopSignal`] and are joined stage by stage, so that each can rely on those of later stages until it has ended:
//! the last request is settled and posted before the stores stop, and its line is written before the log stops.
//!
//! **A panic is noticed.** It is counted by thread, reported, and the thread is started again after a pause. Why is that
//! right? What must survive is owned by the thread's closure or shared with it, behind locks that tolerate a panic, and
//! not on its stack. What is on the stack may be lost: the connections of one core, one batch of lines of the access log, one
//! batch of settlements. A body that returns an error, for example because no file descriptor is left for a runtime, is
//! treated the same way. A body that returns without one has nothing left to do and is not started again.
//!
//! **A thread that does not stop is not waited for.** Each stage has a deadline; what has not ended by then is reported
//! and left behind, and the next stage begins. The embedded store recovers from that as it does from a crash.
//!
//! The two threads of the embedded store are among these: they write what the store has accepted, and stop after everything
//! that uses it. The store keeps its directory locked for one that is left behind.

mod signal;
mod store_thread;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use signal::StopSignal;
pub use thread::ShutdownStage;
pub(crate) use thread::ThreadOptions;

use crate::diagnostic;
use crate::runtime::TokioRuntime;
use seawall_core::deadline::Deadline;
use seawall_pipeline::Timer as _;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thread::SupervisedThread;

/// The background threads of one gateway. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    runtime: TokioRuntime,
    threads: Arc<Mutex<Vec<SupervisedThread>>>,
    panics: PanicCounts,
}

/// Panics by the name of the thread; a thread without one has a zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct PanicCounts(Arc<Mutex<BTreeMap<String, u64>>>);

impl PanicCounts {
    fn add(&self, thread: &str, panics: u64) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(thread.to_owned()).or_default() += panics;
    }

    fn snapshot(&self) -> Vec<(String, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(thread, count)| (thread.clone(), *count)).collect()
    }
}

impl Supervisor {
    /// A supervisor without threads. Deadlines are measured with this clock.
    #[must_use]
    pub fn new(runtime: TokioRuntime) -> Self {
        Self { runtime, ..Self::default() }
    }

    /// Starts a thread that runs `body` until it returns, and again if it fails or panics.
    pub(crate) fn spawn(
        &self,
        options: ThreadOptions,
        body: impl FnMut(&mut StopSignal) -> std::io::Result<()> + Send + 'static,
    ) -> std::io::Result<()> {
        self.panics.add(&options.name, 0);
        let thread = SupervisedThread::start(options, self.runtime, self.panics.clone(), body)?;
        let mut threads = self.lock();
        // Threads that have ended on their own, because what they served is gone.
        threads.retain(|thread| !thread.has_ended());
        threads.push(thread);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SupervisedThread>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Panics since the start, by thread, in the order of names.
    pub(crate) fn panics(&self) -> Vec<(String, u64)> {
        self.panics.snapshot()
    }

    /// Stops the threads of all stages up to and including this one, stage by stage. Listeners drain requests in flight
    /// for at most `drain_timeout`. Returns the names of those that did not stop in time.
    pub fn stop_through(&self, last: ShutdownStage, drain_timeout: Duration) -> Vec<String> {
        let stages = ShutdownStage::ALL.into_iter().take_while(|stage| *stage <= last);
        stages.flat_map(|stage| self.stop(stage, drain_timeout)).collect()
    }

    /// Stops the threads of one stage.
    pub fn stop(&self, stage: ShutdownStage, drain_timeout: Duration) -> Vec<String> {
        let threads: Vec<SupervisedThread> =
            self.lock().extract_if(.., |thread| thread.stage == stage).collect();
        // All of them first: they stop at the same time.
        for thread in &threads {
            thread.request_stop(drain_timeout);
        }
        let timeout = stage.timeout(drain_timeout);
        let deadline = Deadline::after(self.runtime.monotonic(), timeout);
        let mut late = Vec::new();
        for thread in threads {
            if let Err(name) = thread.join(deadline.remaining(self.runtime.monotonic())) {
                diagnostic!(
                    THREAD_LATE,
                    thread = name,
                    deadline_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX),
                    "the thread {name} did not stop within {timeout:?}; the shutdown continues without it"
                );
                late.push(name);
            }
        }
        late
    }
}

/// The threads of a gateway, which stop when this is dropped: also when a start fails half-way.
#[derive(Debug)]
pub(crate) struct GatewayThreads(pub(crate) Supervisor);

impl GatewayThreads {
    /// Stops all of them. Diagnostics go on: the program has more to report.
    pub(crate) fn stop(&self, drain_timeout: Duration) {
        self.0.stop_through(ShutdownStage::Log, drain_timeout);
    }
}

impl Drop for GatewayThreads {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}
