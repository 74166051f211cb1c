//! Combines several guardrails.

use super::{AnswerWatch, Guardrail, GuardrailDecision, Judged, WatchDecision};
use std::fmt;
use std::sync::Arc;

/// Guardrails that must all pass. An empty list passes everything.
#[derive(Clone, Default)]
pub struct Guardrails(pub Vec<Arc<dyn Guardrail>>);

impl Guardrails {
    /// Checks a complete answer.
    #[must_use]
    pub fn check_answer(&self, answer: &str) -> GuardrailDecision {
        let mut watch = self.watch();
        for decision in [watch.take(answer), watch.end()] {
            if let WatchDecision::Block { rule, .. } = decision {
                return GuardrailDecision::Block { rule };
            }
        }
        GuardrailDecision::Pass
    }
}

impl Guardrail for Guardrails {
    /// The first guardrail that blocks names the rule.
    fn check_question(&self, question: &str) -> GuardrailDecision {
        let mut decisions = self.0.iter().map(|guardrail| guardrail.check_question(question));
        decisions.find(|decision| *decision != GuardrailDecision::Pass).unwrap_or(GuardrailDecision::Pass)
    }

    /// Releases what every guardrail releases. It never returns [`WatchDecision::Failed`]: a failure has become a block
    /// by then.
    fn watch(&self) -> Box<dyn AnswerWatch> {
        let watches = self.0.iter().map(|guardrail| (guardrail.watch(), 0)).collect();
        Box::new(AllWatches { watches, length: 0, released: 0, blocked_by: None })
    }
}

impl fmt::Debug for Guardrails {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Guardrails({})", self.0.len())
    }
}

struct AllWatches {
    /// Each watch with the number of bytes it has released.
    watches: Vec<(Box<dyn AnswerWatch>, u64)>,
    /// Bytes received.
    length: u64,
    /// Bytes that every watch has released.
    released: u64,
    blocked_by: Option<Box<str>>,
}

impl AllWatches {
    fn ask(&mut self, is_end: bool, ask: impl Fn(&mut dyn AnswerWatch) -> WatchDecision) -> WatchDecision {
        if self.blocked_by.is_none() {
            let mut least = self.length;
            for (watch, released) in &mut self.watches {
                let judged = Judged::of(ask(watch.as_mut()), *released, self.length, is_end);
                *released = judged.release;
                least = least.min(judged.release);
                if self.blocked_by.is_none() {
                    self.blocked_by = judged.blocked_by;
                }
            }
            self.released = least;
        }
        match &self.blocked_by {
            Some(rule) => WatchDecision::Block { rule: rule.clone(), release: self.released },
            None => WatchDecision::Release(self.released),
        }
    }
}

impl AnswerWatch for AllWatches {
    fn take(&mut self, piece: &str) -> WatchDecision {
        if self.blocked_by.is_none() {
            self.length = self.length.saturating_add(piece.len() as u64);
        }
        self.ask(false, |watch| watch.take(piece))
    }

    fn end(&mut self) -> WatchDecision {
        self.ask(true, |watch| watch.end())
    }
}
