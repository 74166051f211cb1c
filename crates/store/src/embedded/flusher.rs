//! The flusher: a thread that writes and syncs the end of the journal.
//!
//! Every few milliseconds it writes what was buffered, and at every fourth pass it syncs the journal to disk. It repeats
//! this as long as there is something to write; then it sleeps until it is woken. It runs beside the writer, whose
//! transactions may take long.

use super::data_dir::DataDir;
use super::threads::{OwnedThread, StoreThread, ThreadSpawner};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The longest time that a buffered record waits until it is written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(10);
/// At which pass in a row the journal is synced. A sync costs a hundred times as much as a write.
const PASSES_PER_SYNC: u32 = 4;

enum FlusherMessage {
    Wake,
    Stop,
}

/// The flusher thread. When it is dropped, it makes one more pass and ends.
#[derive(Debug)]
pub(super) struct Flusher {
    messages: Sender<FlusherMessage>,
    thread: OwnedThread,
}

impl Flusher {
    /// Starts the thread. `pass` writes what was buffered, syncs it if its argument is true, and returns whether another
    /// pass is needed.
    pub(super) fn start(
        threads: &dyn ThreadSpawner,
        data_dir: Arc<DataDir>,
        pass: impl Fn(bool) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let (messages, receiver) = channel();
        let stop_messages = messages.clone();
        let thread = StoreThread {
            name: "journal-flush",
            body: Box::new(move || {
                // The directory stays locked as long as this thread can write.
                let _ = &data_dir;
                run(&receiver, &pass);
            }),
            stop: Arc::new(move || drop(stop_messages.send(FlusherMessage::Stop))),
        };
        Ok(Self { messages, thread: OwnedThread::start(threads, thread)? })
    }

    /// Wakes the thread, because there is something to write.
    pub(super) fn wake(&self) {
        // Without the thread, the journal still survives a killed process, though not a power cut.
        let _ = self.messages.send(FlusherMessage::Wake);
    }

    /// Stops the thread after one more pass. Returns whether it has ended.
    pub(super) fn stop(&self) -> bool {
        self.thread.stop()
    }
}

/// Makes passes until it is stopped.
fn run(receiver: &Receiver<FlusherMessage>, pass: &impl Fn(bool) -> bool) {
    while let Ok(FlusherMessage::Wake) = receiver.recv() {
        if !flush_until_idle(receiver, pass) {
            break;
        }
    }
    let _ = pass(true);
}

/// Makes passes as long as one is needed. Returns whether the thread goes on.
fn flush_until_idle(receiver: &Receiver<FlusherMessage>, pass: &impl Fn(bool) -> bool) -> bool {
    let mut passes = 0;
    loop {
        match receiver.recv_timeout(FLUSH_INTERVAL) {
            // A wakeup during the wait restarts the wait, because that pass would be too early.
            Ok(FlusherMessage::Wake) => {}
            Err(RecvTimeoutError::Timeout) => {
                passes += 1;
                let sync_is_due = passes >= PASSES_PER_SYNC;
                if !pass(sync_is_due) {
                    return true;
                }
                passes = if sync_is_due { 0 } else { passes };
            }
            Ok(FlusherMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}
