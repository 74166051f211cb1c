//! One line per request, and the counters.
//!
//! Lines are written by a thread of their own. A sink that does not keep up loses lines, which are counted, and never
//! holds a request up. No key, no address and no text of a message is in a line.
//!
//! Waking that thread costs more than all else about a line. So it is woken for the first line only, lets others
//! gather for a moment, and writes them together.

use seawall_pipeline::{Observer, Record, Verdict};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of lines that may wait to be written: some ten thousand lines.
const WAITING: usize = 2 << 20;
/// How long lines gather. Nobody who reads a log notices, and at a hundred wake-ups a second nobody pays for them.
const GATHER: Duration = Duration::from_millis(10);
/// How long the end of the program waits for the last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);

/// What requests came to, since the start.
#[derive(Debug, Default)]
pub struct Counters {
    answered: AtomicU64,
    interrupted: AtomicU64,
    abandoned: AtomicU64,
    rejected: AtomicU64,
    attempts: AtomicU64,
    input_tokens: AtomicU64,
    output_tokens: AtomicU64,
    cost_nanos: AtomicU64,
    lines_lost: AtomicU64,
}

impl Counters {
    /// The counters as Prometheus reads them.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        text.push_str("# HELP seawall_requests_total Requests that are over, by how they ended.\n");
        text.push_str("# TYPE seawall_requests_total counter\n");
        for (verdict, counter) in [
            ("answered", &self.answered),
            ("interrupted", &self.interrupted),
            ("abandoned", &self.abandoned),
            ("rejected", &self.rejected),
        ] {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "seawall_requests_total{{verdict=\"{verdict}\"}} {}", read(counter));
        }
        for (name, help, counter) in [
            ("seawall_attempts_total", "Attempts on targets.", &self.attempts),
            ("seawall_input_tokens_total", "Tokens that went in, cached ones included.", &self.input_tokens),
            ("seawall_output_tokens_total", "Tokens that came out.", &self.output_tokens),
            ("seawall_cost_nanodollars_total", "Money posted.", &self.cost_nanos),
            ("seawall_log_lines_lost_total", "Log lines that the sink was too slow for.", &self.lines_lost),
        ] {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {}", read(counter));
        }
        text
    }

    fn count(&self, record: &Record) {
        let verdict = match record.verdict {
            Verdict::Answered => &self.answered,
            Verdict::Interrupted(_) => &self.interrupted,
            Verdict::Abandoned => &self.abandoned,
            Verdict::Rejected(_) => &self.rejected,
        };
        verdict.fetch_add(1, Ordering::Relaxed);
        let usage = &record.usage;
        let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        self.attempts.fetch_add(record.attempts.into(), Ordering::Relaxed);
        self.input_tokens.fetch_add(input, Ordering::Relaxed);
        self.output_tokens.fetch_add(usage.output, Ordering::Relaxed);
        self.cost_nanos.fetch_add(record.cost.as_nanos(), Ordering::Relaxed);
    }
}

/// Lines on their way to the thread that writes them.
#[derive(Debug, Default)]
struct Waiting {
    lines: Mutex<Lines>,
    first: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    text: String,
    /// No more will come.
    is_closed: bool,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there was room for the line.
    fn push(&self, line: &str) -> bool {
        let mut lines = self.lock();
        if lines.text.len() + line.len() > WAITING {
            return false;
        }
        let is_first = lines.text.is_empty();
        lines.text.push_str(line);
        drop(lines);
        if is_first {
            self.first.notify_one();
        }
        true
    }

    /// Waits for a line, or for the end of all lines. Whether it is the end.
    fn wait(&self) -> bool {
        let nothing_yet = |lines: &mut Lines| lines.text.is_empty() && !lines.is_closed;
        let lines = self.first.wait_while(self.lock(), nothing_yet).unwrap_or_else(PoisonError::into_inner);
        lines.is_closed
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.first.notify_one();
    }
}

/// The lines that wait, and the end of the thread that writes them.
#[derive(Debug)]
struct Writer {
    waiting: Arc<Waiting>,
    ended: Mutex<Receiver<()>>,
}

/// Takes records, counts them and has them written. Dropped, it waits for the last lines, though not for ever.
#[derive(Debug)]
pub struct AccessLog {
    counters: Arc<Counters>,
    writer: Option<Writer>,
}

impl AccessLog {
    /// Counts, and writes lines to `sink` where one is given.
    pub fn new(counters: Arc<Counters>, sink: Option<Box<dyn Write + Send>>) -> Result<Self, std::io::Error> {
        let Some(sink) = sink else { return Ok(Self { counters, writer: None }) };
        let waiting = Arc::new(Waiting::default());
        let (end, ended) = channel::<()>();
        let lines = Arc::clone(&waiting);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            write_lines(&lines, sink);
            drop(end);
        })?;
        Ok(Self { counters, writer: Some(Writer { waiting, ended: Mutex::new(ended) }) })
    }
}

impl Observer for AccessLog {
    fn settled(&self, record: &Record) {
        self.counters.count(record);
        let Some(writer) = &self.writer else { return };
        if !writer.waiting.push(&line(record)) {
            self.counters.lines_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        writer.waiting.close();
        let ended = writer.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The thread says nothing; its end closes the channel.
        let _ = ended.recv_timeout(LAST_LINES);
    }
}

/// Writes all lines that have gathered at once.
fn write_lines(waiting: &Waiting, mut sink: Box<dyn Write + Send>) {
    let mut batch = String::new();
    loop {
        let is_end = waiting.wait();
        if !is_end {
            gather();
        }
        batch.clear();
        std::mem::swap(&mut waiting.lock().text, &mut batch);
        // A sink that is gone is no reason to stop answering.
        let _ = sink.write_all(batch.as_bytes()).and_then(|()| sink.flush());
        if is_end {
            return;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the log's own thread, which no request waits for")]
fn gather() {
    std::thread::sleep(GATHER);
}

fn line(record: &Record) -> String {
    let (verdict, detail) = match &record.verdict {
        Verdict::Answered => ("answered", None),
        Verdict::Interrupted(kind) => ("interrupted", Some(kind.label())),
        Verdict::Abandoned => ("abandoned", None),
        Verdict::Rejected(reason) => ("rejected", Some(*reason)),
    };
    let mut line = String::with_capacity(256);
    // Every value is a number or one of our own words, so nothing needs escaping but a target's name.
    let _ = write!(line, "{{\"id\":\"{:016x}\",\"verdict\":\"{verdict}\"", record.id);
    if let Some(detail) = detail {
        let _ = write!(line, ",\"reason\":\"{detail}\"");
    }
    if let Some((caller, tier, _)) = record.caller {
        let _ = write!(line, ",\"caller\":\"{caller:016x}\",\"tier\":\"{}\"", tier.name());
    }
    if let Some(target) = &record.target {
        let _ = write!(line, ",\"target\":{}", serde_json::Value::from(&**target));
    }
    if let Some(first) = record.first_content {
        let _ = write!(line, ",\"first_content_us\":{}", first.as_micros());
    }
    let usage = &record.usage;
    let _ = writeln!(
        line,
        ",\"attempts\":{},\"input\":{},\"cache_read\":{},\"cache_write\":{},\"output\":{},\"cost_nanos\":{}}}",
        record.attempts,
        usage.input,
        usage.cache_read,
        usage.cache_write,
        usage.output,
        record.cost.as_nanos(),
    );
    line
}

#[cfg(test)]
mod tests {
    use super::{AccessLog, Counters, line};
    use seawall_core::failure::FailureKind;
    use seawall_core::money::{Money, Usage};
    use seawall_core::time::Timestamp;
    use seawall_pipeline::{Observer as _, Record, Tier, TierOrigin, Verdict};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn record(verdict: Verdict) -> Record {
        Record {
            id: 255,
            face: "anthropic",
            caller: Some((7, Tier::Prime, TierOrigin::Settings)),
            route: Some("manga".into()),
            rung: None,
            target: Some("str\"ong".into()),
            would_limit: false,
            verdict,
            attempts: 2,
            usage: Usage { input: 20, cache_read: 3, cache_write: 4, output: 8 },
            cost: Money::from_nanos(180_000),
            first_content: Some(Duration::from_millis(350)),
            took: Duration::from_secs(1),
            overhead: None,
            ended: Timestamp::ZERO,
        }
    }

    #[test]
    fn a_line_is_one_json_object() {
        let line = line(&record(Verdict::Interrupted(FailureKind::BrokeMidStream)));
        assert!(line.ends_with("}\n"));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["id"], "00000000000000ff");
        assert_eq!(
            (&value["verdict"], &value["reason"]),
            (&"interrupted".into(), &"broke_mid_stream".into())
        );
        assert_eq!((&value["target"], &value["tier"]), (&"str\"ong".into(), &"prime".into()));
        assert_eq!((&value["first_content_us"], &value["cost_nanos"]), (&350_000.into(), &180_000.into()));
    }

    /// A sink that others can look into.
    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_written_before_the_log_is_gone() {
        let (sink, counters) = (Sink::default(), Arc::new(Counters::default()));
        let log = AccessLog::new(Arc::clone(&counters), Some(Box::new(sink.clone()))).unwrap();
        for _ in 0..1_000 {
            log.settled(&record(Verdict::Answered));
        }
        drop(log);
        assert_eq!(sink.0.lock().unwrap().iter().filter(|byte| **byte == b'\n').count(), 1_000);
        assert!(counters.text().contains("seawall_log_lines_lost_total 0\n"));
    }

    /// A sink that takes nothing.
    struct Stuck(std::sync::mpsc::Receiver<()>);

    impl std::io::Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_sink_that_does_not_keep_up_loses_lines_and_holds_nobody_up() {
        let (hold, held) = std::sync::mpsc::channel();
        let counters = Arc::new(Counters::default());
        let log = AccessLog::new(Arc::clone(&counters), Some(Box::new(Stuck(held)))).unwrap();
        for _ in 0..3 * super::WAITING / 200 {
            log.settled(&record(Verdict::Answered));
        }
        assert!(!counters.text().contains("seawall_log_lines_lost_total 0\n"));
        drop(hold);
    }

    #[test]
    fn records_are_counted_by_how_they_ended() {
        let counters = Arc::new(Counters::default());
        let log = AccessLog::new(Arc::clone(&counters), None).unwrap();
        for verdict in
            [Verdict::Answered, Verdict::Answered, Verdict::Abandoned, Verdict::Rejected("limited")]
        {
            log.settled(&record(verdict));
        }
        let text = counters.text();
        for expected in [
            "seawall_requests_total{verdict=\"answered\"} 2\n",
            "seawall_requests_total{verdict=\"abandoned\"} 1\n",
            "seawall_requests_total{verdict=\"rejected\"} 1\n",
            "seawall_requests_total{verdict=\"interrupted\"} 0\n",
            "seawall_attempts_total 8\n",
            "seawall_input_tokens_total 108\n",
            "seawall_output_tokens_total 32\n",
            "seawall_cost_nanodollars_total 720000\n",
            "seawall_log_lines_lost_total 0\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }
}
