//! Combines several guardrails.

use super::{AnswerInspector, CheckedDecision, Guardrail, GuardrailDecision, InspectionDecision};
use std::fmt;
use std::sync::Arc;

/// Guardrails that must all pass. An empty list passes everything.
#[derive(Clone, Default)]
pub struct Guardrails(pub Vec<Arc<dyn Guardrail>>);

impl Guardrails {
    /// Checks a complete answer.
    #[must_use]
    pub fn check_answer(&self, answer: &str) -> GuardrailDecision {
        let mut inspector = self.inspect_answer();
        for decision in [inspector.take(answer), inspector.end()] {
            if let InspectionDecision::Block { rule, .. } = decision {
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

    /// Releases what every guardrail releases. It never returns [`InspectionDecision::Failed`]: a failure has become a block
    /// by then.
    fn inspect_answer(&self) -> Box<dyn AnswerInspector> {
        let inspectors = self.0.iter().map(|guardrail| (guardrail.inspect_answer(), 0)).collect();
        Box::new(CombinedInspector { inspectors, length: 0, released: 0, blocked_by: None })
    }
}

impl fmt::Debug for Guardrails {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Guardrails({})", self.0.len())
    }
}

struct CombinedInspector {
    /// Each inspector with the number of bytes it has released.
    inspectors: Vec<(Box<dyn AnswerInspector>, u64)>,
    /// Bytes received.
    length: u64,
    /// Bytes that every inspector has released.
    released: u64,
    blocked_by: Option<Box<str>>,
}

impl CombinedInspector {
    fn combine(
        &mut self,
        is_end: bool,
        poll: impl Fn(&mut dyn AnswerInspector) -> InspectionDecision,
    ) -> InspectionDecision {
        if self.blocked_by.is_none() {
            let mut released_by_all = self.length;
            for (inspector, released) in &mut self.inspectors {
                let checked = CheckedDecision::of(poll(inspector.as_mut()), *released, self.length, is_end);
                *released = checked.release;
                released_by_all = released_by_all.min(checked.release);
                if self.blocked_by.is_none() {
                    self.blocked_by = checked.blocked_by;
                }
            }
            self.released = released_by_all;
        }
        match &self.blocked_by {
            Some(rule) => InspectionDecision::Block { rule: rule.clone(), release: self.released },
            None => InspectionDecision::Release(self.released),
        }
    }
}

impl AnswerInspector for CombinedInspector {
    fn take(&mut self, piece: &str) -> InspectionDecision {
        if self.blocked_by.is_none() {
            self.length = self.length.saturating_add(piece.len() as u64);
        }
        self.combine(false, |inspector| inspector.take(piece))
    }

    fn end(&mut self) -> InspectionDecision {
        self.combine(true, |inspector| inspector.end())
    }
}
