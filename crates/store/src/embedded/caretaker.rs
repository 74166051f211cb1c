//! The thread that looks after the end of the journal.
//!
//! Every few milliseconds it has written what was noted, and at every fourth look it has the journal made durable. As long as
//! there is something to look after it looks by itself; then it waits to be called. It works beside the writer, whose
//! transactions take as long as they take.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long what was noted waits at most until it is written.
const LOOK_AFTER: Duration = Duration::from_millis(10);
/// At which look in a row the journal is made durable, which costs a hundred times as much as writing to it.
const SYNC_AT: u32 = 4;

/// The thread. Dropped, it looks once more and ends.
#[derive(Debug)]
pub(super) struct Caretaker {
    /// None once it is to end.
    calls: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Caretaker {
    /// Has this done now and then: it writes what was noted, makes it durable if it is told so, and says whether to look
    /// again.
    #[expect(
        clippy::disallowed_methods,
        reason = "the journal owns this thread, and joins it when it is dropped"
    )]
    pub(super) fn start(look: impl Fn(bool) -> bool + Send + 'static) -> Self {
        let (calls, called) = channel();
        let thread = std::thread::spawn(move || run(&called, look));
        Self { calls: Some(calls), thread: Some(thread) }
    }

    /// There is something to look after.
    pub(super) fn call(&self) {
        if let Some(calls) = &self.calls {
            // Without the thread the journal is as durable as a killed process needs it to be.
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
                // Called while it is looking: it has looked too early, and looks again.
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
