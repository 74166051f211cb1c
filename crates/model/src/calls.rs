//! Who asked for what, and what became of it.
//!
//! A list of the latest requests, for tests and for people who want to see what a gateway in front really sent. Bounded:
//! the oldest are forgotten.

use crate::engine::{ModelCall, Script};
use seawall_wire::chat::Usage;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// How many requests are remembered.
const KEPT: usize = 10_000;

/// One request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallRecord {
    /// Which it was since the model started, from 0.
    pub number: u64,
    /// When it came, in milliseconds since the model started.
    pub at_ms: u64,
    /// What was called.
    pub call: &'static str,
    /// Who was asked; nobody when it was not understood.
    pub model: Option<&'static str>,
    /// The status of the answer; none where none was sent.
    pub status: Option<u16>,
    /// The name of the rule by which it went wrong.
    pub fault: Option<Box<str>>,
    /// Input tokens that were charged.
    pub input_tokens: u64,
    /// Output tokens that were delivered and charged.
    pub output_tokens: u64,
    /// The price of both.
    pub nano_dollars: u64,
    /// How it ended.
    pub end: CallEnd,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallEnd {
    /// It is being answered.
    Open,
    /// The answer was delivered to its end.
    Complete,
    /// The model broke it off, as it was told to.
    Broken,
    /// The caller went away.
    CallerGone,
}

/// The latest requests, the oldest first.
#[derive(Clone, Debug, Default)]
pub struct CallList(VecDeque<CallRecord>);

impl CallList {
    /// A request came in; what is not known of it yet is told by [`decide`](Self::decide).
    pub fn begin(&mut self, number: u64, at: Duration, call: &ModelCall) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(CallRecord {
            number,
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            call: call.name(),
            model: None,
            status: None,
            fault: None,
            input_tokens: 0,
            output_tokens: 0,
            nano_dollars: 0,
            end: CallEnd::Open,
        });
    }

    /// What will become of a request.
    pub fn decide(&mut self, number: u64, script: &Script) {
        if let Some(record) = self.find(number) {
            record.model = script.profile.map(|profile| profile.name);
            record.status = script.status();
            record.fault.clone_from(&script.fault);
        }
    }

    /// A part of the answer was delivered.
    pub fn deliver(&mut self, number: u64, usage: Usage, nano_dollars: u64) {
        if let Some(record) = self.find(number) {
            record.input_tokens = record.input_tokens.saturating_add(usage.input);
            record.output_tokens = record.output_tokens.saturating_add(usage.output);
            record.nano_dollars = record.nano_dollars.saturating_add(nano_dollars);
        }
    }

    /// It is over. The first to say so is right.
    pub fn end(&mut self, number: u64, end: CallEnd) {
        if let Some(record) = self.find(number).filter(|record| record.end == CallEnd::Open) {
            record.end = end;
        }
    }

    /// The requests, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &CallRecord> {
        self.0.iter()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whoever lists a request gives it its number under the same lock, so that they rise without a gap from the first on,
    /// and the place of each is known.
    fn find(&mut self, number: u64) -> Option<&mut CallRecord> {
        let first = self.0.front()?.number;
        let place = usize::try_from(number.checked_sub(first)?).ok()?;
        self.0.get_mut(place).filter(|record| record.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::{CallEnd, CallList, KEPT};
    use crate::engine::{Ending, ModelCall, Script};
    use seawall_wire::chat::Usage;
    use std::time::Duration;

    fn begin(list: &mut CallList, number: u64) {
        list.begin(number, Duration::from_millis(number), &ModelCall::Messages);
        let fault = Some("slow".into());
        list.decide(number, &Script { profile: None, steps: Vec::new(), ending: Ending::Hang, fault });
    }

    #[test]
    fn the_oldest_are_forgotten_and_the_first_end_stands() {
        let mut list = CallList::default();
        for number in 0..=KEPT as u64 {
            begin(&mut list, number);
        }
        list.deliver(0, Usage { output: 5, ..Usage::default() }, 7);
        list.deliver(1, Usage { input: 2, output: 5, ..Usage::default() }, 7);
        list.end(1, CallEnd::Complete);
        list.end(1, CallEnd::CallerGone);
        let first = list.iter().next().unwrap();
        assert_eq!((first.number, first.input_tokens, first.output_tokens, first.nano_dollars), (1, 2, 5, 7));
        assert_eq!((list.iter().count(), first.end), (KEPT, CallEnd::Complete));
        assert!(list.iter().all(|record| record.fault.as_deref() == Some("slow")));
        list.clear();
        list.end(2, CallEnd::Complete);
        begin(&mut list, 50_000);
        list.end(50_000, CallEnd::Broken);
        assert_eq!(list.iter().map(|record| record.end).collect::<Vec<_>>(), [CallEnd::Broken]);
    }
}
