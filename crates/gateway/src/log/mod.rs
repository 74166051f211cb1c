//! One line per request.
//!
//! A request leaves a copy of its record and goes on; a thread of its own turns records into lines and writes them. A sink
//! that does not keep up loses lines, which are counted, and never holds a request up. No key, no address and no text of
//! a message is in a line: a caller is a hash.
//!
//! Waking that thread costs more than all else about a line. So it is woken for the first line only, lets others
//! gather for a moment, and writes them together.

mod line;
mod recent;
#[cfg(test)]
mod tests;

pub(crate) use line::{Rfc3339, write_line};
pub(crate) use recent::{Recent, SHOWN};

use crate::metrics::Metrics;
use crate::runtime::TokioRuntime;
use seawall_pipeline::{AttemptRecord, CredentialStatus, Observer, Record, Runtime as _};
use std::io::Write;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long lines gather, unless there are many. Nobody who reads a log notices, and at twenty wake-ups a second nobody
/// pays for them.
const GATHER: Duration = Duration::from_millis(50);
/// How long the end of the program waits for the last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Bytes after which lines are written though more wait: memory for text must not grow with the haste of requests.
const LARGEST_WRITE: usize = 1 << 20;
/// Records that are taken at a time: requests wait for that long.
const AT_A_TIME: usize = 64;

/// Takes records, counts them, keeps the newest and has them written. Dropped, it waits for the last lines, though not for
/// ever.
#[derive(Debug)]
pub struct AccessLog {
    metrics: Arc<Metrics>,
    recent: Arc<Recent>,
    /// The end of the thread that writes.
    ended: Option<Mutex<Receiver<()>>>,
}

impl AccessLog {
    /// Counts, and writes lines to `sink` where one is given, with the time by this clock.
    pub fn new(
        metrics: Arc<Metrics>,
        clock: TokioRuntime,
        sink: Option<Box<dyn Write + Send>>,
    ) -> Result<Self, std::io::Error> {
        let recent = Arc::new(Recent::new(sink.is_some()));
        let Some(sink) = sink else { return Ok(Self { metrics, recent, ended: None }) };
        let (end, ended) = channel::<()>();
        let records = Arc::clone(&recent);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            write_lines(&records, clock, sink);
            drop(end);
        })?;
        Ok(Self { metrics, recent, ended: Some(Mutex::new(ended)) })
    }

    /// The newest records.
    pub(crate) fn recent(&self) -> Arc<Recent> {
        Arc::clone(&self.recent)
    }
}

impl Observer for AccessLog {
    fn settled(&self, record: &Record) {
        self.metrics.settled(record);
        if self.recent.push(record) {
            self.metrics.lost_a_line();
        }
    }

    fn attempted(&self, attempt: &AttemptRecord<'_>) {
        self.metrics.attempted(attempt);
    }

    fn credential_changed(&self, target: &Arc<str>, status: CredentialStatus) {
        match status {
            CredentialStatus::Rejected => {
                eprintln!("seawall: target {target}: the vendor rejects its key; check targets.{target}.key");
            }
            CredentialStatus::Accepted | CredentialStatus::Unknown => {
                eprintln!("seawall: target {target}: the vendor accepts its key again");
            }
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        let Some(ended) = &mut self.ended else { return };
        self.recent.close();
        // The thread says nothing; its end closes the channel.
        let _ = ended.get_mut().unwrap_or_else(PoisonError::into_inner).recv_timeout(LAST_LINES);
    }
}

/// Writes all lines that have gathered at once.
fn write_lines(recent: &Recent, clock: TokioRuntime, mut sink: Box<dyn Write + Send>) {
    let (mut records, mut batch) = (Vec::with_capacity(AT_A_TIME), String::new());
    loop {
        let is_end = recent.wait(GATHER);
        batch.clear();
        let now = clock.now();
        loop {
            recent.take(AT_A_TIME, &mut records);
            records.iter().for_each(|record| write_line(&mut batch, record, now));
            if records.is_empty() || batch.len() >= LARGEST_WRITE {
                break;
            }
        }
        // A sink that is gone is no reason to stop answering.
        let _ = sink.write_all(batch.as_bytes()).and_then(|()| sink.flush());
        if is_end && records.is_empty() {
            return;
        }
    }
}
