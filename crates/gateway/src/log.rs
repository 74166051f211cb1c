//! One line per request, and the counters.
//!
//! Lines are written by a thread of their own. A sink that does not keep up loses lines, which are counted, and never
//! holds a request up. No key, no address and no text of a message is in a line.

use seawall_pipeline::{Observer, Record, Verdict};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Lines that may wait to be written.
const WAITING: usize = 8_192;

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

/// Takes records, counts them and has them written.
#[derive(Debug)]
pub struct AccessLog {
    counters: std::sync::Arc<Counters>,
    lines: Option<SyncSender<String>>,
}

impl AccessLog {
    /// Counts, and writes lines to `sink` where one is given.
    pub fn new(
        counters: std::sync::Arc<Counters>,
        sink: Option<Box<dyn Write + Send>>,
    ) -> Result<Self, std::io::Error> {
        let lines = match sink {
            Some(sink) => {
                let (sender, receiver) = sync_channel(WAITING);
                std::thread::Builder::new()
                    .name("log".to_owned())
                    .spawn(move || write_lines(&receiver, sink))?;
                Some(sender)
            }
            None => None,
        };
        Ok(Self { counters, lines })
    }
}

impl Observer for AccessLog {
    fn settled(&self, record: &Record) {
        self.counters.count(record);
        let Some(lines) = &self.lines else { return };
        if lines.try_send(line(record)).is_err() {
            self.counters.lines_lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Writes all lines that are ready at once: one system call for many when there are many.
fn write_lines(receiver: &Receiver<String>, mut sink: Box<dyn Write + Send>) {
    while let Ok(mut batch) = receiver.recv() {
        while batch.len() < 1 << 16
            && let Ok(line) = receiver.try_recv()
        {
            batch.push_str(&line);
        }
        // A sink that is gone is no reason to stop answering.
        let _ = sink.write_all(batch.as_bytes());
    }
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
    if let Some((caller, tier)) = record.caller {
        let _ = write!(line, ",\"caller\":\"{caller:016x}\",\"tier\":\"{}\"", tier.name());
    }
    if let Some(target) = &record.target {
        let _ = write!(line, ",\"target\":{}", serde_json::Value::from(target.as_str()));
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
    use seawall_core::money::{Money, TokenCounts};
    use seawall_core::time::Timestamp;
    use seawall_pipeline::{Observer as _, Record, Tier, Verdict};
    use std::sync::Arc;
    use std::time::Duration;

    fn record(verdict: Verdict) -> Record {
        Record {
            id: 255,
            caller: Some((7, Tier::Prime)),
            target: Some("str\"ong".to_owned()),
            verdict,
            attempts: 2,
            usage: TokenCounts { input: 20, cache_read: 3, cache_write: 4, output: 8 },
            cost: Money::from_nanos(180_000),
            first_content: Some(Duration::from_millis(350)),
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
