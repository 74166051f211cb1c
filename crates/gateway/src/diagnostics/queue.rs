//! The queue between those who emit events and the thread that writes them.

use crate::diagnostic;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// Maximum number of bytes that wait to be written: some thousand events.
pub(super) const CAPACITY: usize = 1 << 20;

/// Formatted events, in order. When it is full, the newest are dropped: the first event of an incident says the most.
#[derive(Debug, Default)]
pub(super) struct DiagnosticQueue {
    lines: Mutex<QueuedLines>,
    awaited: Condvar,
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct QueuedLines {
    text: Vec<u8>,
    /// Events that were dropped since the last one was accepted, and are not reported yet.
    unreported: u64,
    is_closed: bool,
}

impl DiagnosticQueue {
    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one event, or drops it if there is no room. Never waits for the writer.
    pub(super) fn push(&self, line: &[u8]) {
        let mut lines = self.lock();
        // An event that is larger than the queue is accepted while nothing else waits.
        let has_room = lines.text.is_empty() || lines.text.len().saturating_add(line.len()) <= CAPACITY;
        if has_room && !lines.is_closed {
            lines.text.extend_from_slice(line);
        } else {
            lines.unreported += 1;
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        drop(lines);
        self.awaited.notify_one();
    }

    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.awaited.notify_one();
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Writes everything to `sink` until the queue is closed and empty.
    pub(super) fn write_to(&self, sink: &mut impl Write) {
        loop {
            let is_idle = |lines: &mut QueuedLines| lines.text.is_empty() && !lines.is_closed;
            let lines = self.awaited.wait_while(self.lock(), is_idle);
            let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
            let text = std::mem::take(&mut lines.text);
            let (unreported, is_closed) = (std::mem::take(&mut lines.unreported), lines.is_closed);
            drop(lines);
            // A failed sink is no reason to stop: the next write may succeed.
            let _ = sink.write_all(&text).and_then(|()| sink.flush());
            if unreported > 0 && !is_closed {
                diagnostic!(
                    DIAGNOSTICS_DROPPED,
                    count = unreported,
                    "{unreported} diagnostics were dropped because standard error was not read in time"
                );
            }
            if is_closed {
                return;
            }
        }
    }
}

/// Puts what a formatter writes into the queue. A formatter writes each event at once.
pub(super) struct QueueWriter(pub(super) Arc<DiagnosticQueue>);

impl Write for &QueueWriter {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for QueueWriter {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> Self::Writer {
        self
    }
}
