//! The call log: the latest requests and their outcomes.
//!
//! It is meant for tests, and for people who want to see what a gateway in front of the model really sent. It is
//! bounded: the oldest requests are dropped.

use crate::engine::{ModelCall, Script};
use seawall_wire::chat::Usage;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of requests in the log.
const CAPACITY: usize = 10_000;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallRecord {
    /// The sequence number since the model started, from 0.
    pub number: u64,
    /// Arrival time, in milliseconds since the model started.
    pub at_ms: u64,
    /// The operation that was called.
    pub operation: &'static str,
    /// The model that was called; `None` if the request was malformed.
    pub model: Option<&'static str>,
    /// The HTTP status of the response; `None` if none was sent.
    pub status: Option<u16>,
    /// The name of the fault rule that applied.
    pub fault: Option<Box<str>>,
    /// Input tokens charged.
    pub input_tokens: u64,
    /// Output tokens delivered and charged.
    pub output_tokens: u64,
    /// The price of input and output.
    pub nano_dollars: u64,
    /// How the request ended.
    pub end: CallEnd,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// The request is in flight.
    Open,
    /// The answer was delivered completely.
    Complete,
    /// The model aborted the answer because of a fault.
    Broken,
    /// The caller disconnected.
    CallerGone,
}

/// The latest requests, oldest first.
#[derive(Clone, Debug, Default)]
pub struct CallLog(VecDeque<CallRecord>);

impl CallLog {
    /// Adds a request that arrived; the other fields are filled in by [`record_script`](Self::record_script).
    pub fn begin(&mut self, number: u64, at: Duration, call: &ModelCall) {
        if self.0.len() == CAPACITY {
            self.0.pop_front();
        }
        self.0.push_back(CallRecord {
            number,
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            operation: call.name(),
            model: None,
            status: None,
            fault: None,
            input_tokens: 0,
            output_tokens: 0,
            nano_dollars: 0,
            end: CallEnd::Open,
        });
    }

    /// Records the model, status and fault of a request.
    pub fn record_script(&mut self, number: u64, script: &Script) {
        if let Some(record) = self.find(number) {
            record.model = script.profile.map(|profile| profile.name);
            record.status = script.status();
            record.fault.clone_from(&script.fault);
        }
    }

    /// Records that a part of the answer was delivered.
    pub fn deliver(&mut self, number: u64, usage: Usage, nano_dollars: u64) {
        if let Some(record) = self.find(number) {
            record.input_tokens = record.input_tokens.saturating_add(usage.input);
            record.output_tokens = record.output_tokens.saturating_add(usage.output);
            record.nano_dollars = record.nano_dollars.saturating_add(nano_dollars);
        }
    }

    /// Records the end of a request. Only the first call has an effect.
    pub fn end(&mut self, number: u64, end: CallEnd) {
        if let Some(record) = self.find(number).filter(|record| record.end == CallEnd::Open) {
            record.end = end;
        }
    }

    /// The requests, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &CallRecord> {
        self.0.iter()
    }

    /// Removes all requests.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Finds a request by its index. Numbers are assigned under the same lock that guards the log, so they are
    /// consecutive and the index follows from the first number.
    fn find(&mut self, number: u64) -> Option<&mut CallRecord> {
        let first = self.0.front()?.number;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.0.get_mut(index).filter(|record| record.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, CallEnd, CallLog};
    use crate::engine::{ModelCall, Script, ScriptEnding};
    use seawall_wire::chat::Usage;
    use seawall_wire::dialect::DialectId;
    use std::time::Duration;

    fn begin(list: &mut CallLog, number: u64) {
        list.begin(number, Duration::from_millis(number), &ModelCall::of(DialectId::ANTHROPIC_MESSAGES));
        let fault = Some("slow".into());
        list.record_script(
            number,
            &Script { profile: None, steps: Vec::new(), ending: ScriptEnding::Hang, fault },
        );
    }

    #[test]
    fn the_oldest_are_forgotten_and_the_first_end_stands() {
        let mut list = CallLog::default();
        for number in 0..=CAPACITY as u64 {
            begin(&mut list, number);
        }
        list.deliver(0, Usage { output: 5, ..Usage::default() }, 7);
        list.deliver(1, Usage { input: 2, output: 5, ..Usage::default() }, 7);
        list.end(1, CallEnd::Complete);
        list.end(1, CallEnd::CallerGone);
        let first = list.iter().next().unwrap();
        assert_eq!((first.number, first.input_tokens, first.output_tokens, first.nano_dollars), (1, 2, 5, 7));
        assert_eq!((list.iter().count(), first.end), (CAPACITY, CallEnd::Complete));
        assert!(list.iter().all(|record| record.fault.as_deref() == Some("slow")));
        list.clear();
        list.end(2, CallEnd::Complete);
        begin(&mut list, 50_000);
        list.end(50_000, CallEnd::Broken);
        assert_eq!(list.iter().map(|record| record.end).collect::<Vec<_>>(), [CallEnd::Broken]);
    }
}
