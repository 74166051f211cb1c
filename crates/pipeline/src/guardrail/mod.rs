//! Guardrails for requests and answers.
//!
//! A [`Guardrail`] checks a question before any model is called, and an answer while it streams. [`DenyList`] is the
//! built-in one: texts that must not occur, however they are spelled. [`Guardrails`] combines several, which must all
//! pass.
//!
//! **When it acts.** On all texts of a request, at every face of its route: at the chat face the message and its
//! history, at vendors' faces every string of the body. On answers at the chat face only, with every piece: an
//! [`AnswerInspector`] returns how much of the text so far may be released, and [`GuardedText`] holds the rest back until
//! it is decided. Released text is not taken back; after a block nothing follows.
//!
//! **What it does not do.** It never releases text that could still become part of a match, so there is no unchecked
//! tail. It reports the rule but never the text that the rule matches. It does not write the replacement text. And it
//! fails closed: an inspector that cannot decide, or returns an impossible decision, blocks.
//!
//! ```
//! use seawall_pipeline::guardrail::{DenyList, Guardrail, GuardedText};
//!
//! let list = DenyList::new(&["forbidden fruit".to_owned()]).unwrap();
//! let mut text = GuardedText::new(list.inspect_answer());
//! assert_eq!(text.take("An apple is no For"), "An apple is no ");
//! assert_eq!(text.take("tune."), "Fortune.");
//! assert_eq!(text.take(" ＦＯＲＢＩＤＤＥＮ　"), " ");
//! assert_eq!((text.take("fruit!").as_str(), text.blocked_by()), ("", Some("deny_list.1")));
//! ```

mod all;
mod deny_list;
mod disguise;
mod fold;
mod guarded_text;
mod request;
mod strings;
#[cfg(test)]
mod tests;

pub use all::Guardrails;
pub use deny_list::DenyList;
pub use guarded_text::GuardedText;
pub use request::check_neighbours;
pub(crate) use request::check_texts;

/// The rule reported when an inspector failed.
const FAILED: &str = "failed";

/// Checks questions and answers. Called concurrently by many requests.
pub trait Guardrail: Send + Sync {
    /// Checks a question. An implementation that cannot decide must block.
    fn check_question(&self, question: &str) -> GuardrailDecision;

    /// Starts to check one answer.
    fn inspect_answer(&self) -> Box<dyn AnswerInspector>;
}

/// The decision about a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardrailDecision {
    /// The text may pass.
    Pass,
    /// The text is blocked.
    Block {
        /// The name of the rule, for logs and metrics. Never the text that the rule matches.
        rule: Box<str>,
    },
}

/// Checks one answer, piece by piece.
pub trait AnswerInspector: Send {
    /// Takes the next piece and returns how much of all text so far may be released. Pieces may have any size and end
    /// between any two characters.
    fn take(&mut self, piece: &str) -> InspectionDecision;

    /// Ends the answer: everything may be released, or the answer is blocked.
    fn end(&mut self) -> InspectionDecision;
}

/// How much of an answer may be released, in bytes from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectionDecision {
    /// Release this much; never less than before.
    Release(u64),
    /// Release no more than this, ever.
    Block {
        /// The name of the rule.
        rule: Box<str>,
        /// The harmless bytes before the match.
        release: u64,
    },
    /// The inspector cannot decide, which counts as a block.
    Failed,
}

/// A validated decision: how much may be released, and the rule that blocks the rest.
#[derive(Debug)]
struct CheckedDecision {
    release: u64,
    blocked_by: Option<Box<str>>,
}

impl CheckedDecision {
    /// Accepts only plausible decisions: not less than before, not more than was received, and everything at the end.
    fn of(decision: InspectionDecision, before: u64, length: u64, is_end: bool) -> Self {
        let is_possible = |release: u64| (before..=length).contains(&release);
        match decision {
            InspectionDecision::Release(release)
                if is_possible(release) && (!is_end || release == length) =>
            {
                Self { release, blocked_by: None }
            }
            InspectionDecision::Block { rule, release } => {
                Self { release: if is_possible(release) { release } else { before }, blocked_by: Some(rule) }
            }
            InspectionDecision::Release(_) | InspectionDecision::Failed => {
                Self { release: before, blocked_by: Some(FAILED.into()) }
            }
        }
    }
}
