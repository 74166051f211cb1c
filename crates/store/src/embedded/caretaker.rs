//! The flusher: a thread that writes and syncs the end of the journal.
//!
//! Every few milliseconds it writes what was noted, and at every fourth pass it syncs the journal to disk. It repeats
//! this as long as there is something to write; then it sleeps until it is called. It runs beside the writer, whose
//! transactions may take long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time that a noted record waits until it is written.
const LOOK_AFTER: Duration = Duration::from_millis(10);
/// At which pass in a row the journal is synced. A sync costs a hundred times as much as a write.
const SYNC_AT: u32 = 4;

/// The flusher thread. When it is dropped, it makes one more pass and ends.
#[derive(Debug)]
pub(super) struct Caretaker {
    /// None once the thread is to end.
    calls: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Caretaker {
    /// Starts the thread. `look` writes what was noted, syncs it if its argument is true, and returns whether another
    /// pass is needed.
    #[expect(
        clippy::disallowed_methods,
        reason = "the journal owns this thread, and joins it when it is dropped"
    )]
    pub(super) fn start(look: impl Fn(bool) -> bool + Send + 'static) -> Self {
        let (calls, called) = channel();
        let thread = std::thread::spawn(move || run(&called, look));
        Self { calls: Some(calls), thread: Some(thread) }
    }

    /// Wakes the thread, because there is something to write.
    pub(super) fn call(&self) {
        if let Some(calls) = &self.calls {
            // Without the thread, the journal still survives a killed process, though not a power cut.
            let _ = calls.send(());
        }
    }
}

impl Drop for Caretaker {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(called: &Receiver<()>, look: impl Fn(bool) -> bool) {
    while called.recv().is_ok() {
        let mut looks = 0;
        loop {
            match called.recv_timeout(LOOK_AFTER) {
                // A call during the wait restarts the wait, because that pass would be too early.
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => {
                    looks += 1;
                    let is_due = looks >= SYNC_AT;
                    if !look(is_due) {
                        break;
                    }
                    looks = if is_due { 0 } else { looks };
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    let _ = look(true);
}
