//! The flusher: a thread that writes and syncs the end of the journal.
//!
//! Every few milliseconds it writes what was buffered, and at every fourth pass it syncs the journal to disk. It repeats
//! this as long as there is something to write; then it sleeps until it is woken. It runs beside the writer, whose
//! transactions may take long.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The longest time that a buffered record waits until it is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);
/// At which pass in a row the journal is synced. A sync costs a hundred times as much as a write.
const PASSES_PER_SYNC: u32 = 4;

/// The flusher thread. When it is dropped, it makes one more pass and ends.
#[derive(Debug)]
pub(super) struct Flusher {
    /// None once the thread is to end.
    wakeups: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread. `pass` writes what was buffered, syncs it if its argument is true, and returns whether another
    /// pass is needed.
    pub(super) fn start(pass: impl Fn(bool) -> bool + Send + 'static) -> std::io::Result<Self> {
        let (wakeups, receiver) = channel();
        // The journal owns this thread, and joins it when it is dropped.
        let thread = std::thread::Builder::new().name("journal-flush".to_owned());
        let thread = thread.spawn(move || run(&receiver, pass))?;
        Ok(Self { wakeups: Some(wakeups), thread: Some(thread) })
    }

    /// Wakes the thread, because there is something to write.
    pub(super) fn wake(&self) {
        if let Some(wakeups) = &self.wakeups {
            // Without the thread, the journal still survives a killed process, though not a power cut.
            let _ = wakeups.send(());
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.wakeups = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(receiver: &Receiver<()>, pass: impl Fn(bool) -> bool) {
    while receiver.recv().is_ok() {
        let mut passes = 0;
        loop {
            match receiver.recv_timeout(FLUSH_INTERVAL) {
                // A wakeup during the wait restarts the wait, because that pass would be too early.
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => {
                    passes += 1;
                    let sync_is_due = passes >= PASSES_PER_SYNC;
                    if !pass(sync_is_due) {
                        break;
                    }
                    passes = if sync_is_due { 0 } else { passes };
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    let _ = pass(true);
}
