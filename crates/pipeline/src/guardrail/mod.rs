//! What must be neither asked nor answered.
//!
//! A [`Guardrail`] looks at a question before any model is asked, and at an answer while it comes. [`DenyList`] is the one
//! that is built in: texts that must not occur, however they are spelled. [`Guardrails`] are several that must all agree.
//!
//! **When it acts.** On every text of a request at once, whichever face of its route it came in at: at our own face the
//! message and what was said before, at vendors' faces every string of the body. On an answer of our own face with every piece: an [`AnswerWatch`] says how much of all text
//! so far may be released, and [`GuardedText`] keeps the rest back until it is decided. What was released stays released;
//! after a block nothing follows.
//!
//! **What it will not do.** It never releases text that could still become part of what it blocks: there is no tail that
//! nobody looked at. It never tells what it was looking for, only which rule it was. It does not write what the caller is told
//! instead. And it does not fail open: a watch that cannot decide, or decides what cannot be, blocks.
//!
//! ```
//! use seawall_pipeline::guardrail::{DenyList, Guardrail, GuardedText};
//!
//! let list = DenyList::new(&["forbidden fruit".to_owned()]).unwrap();
//! let mut text = GuardedText::new(list.watch());
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
#[cfg(test)]
mod tests;

pub use all::Guardrails;
pub use deny_list::DenyList;
pub use guarded_text::GuardedText;
pub(crate) use request::check_texts;

/// The rule by which a watch is blocked that could not decide.
const FAILED: &str = "failed";

/// Something that looks at questions and answers. Several requests ask it at the same time.
pub trait Guardrail: Send + Sync {
    /// Whether a question may be asked. One that cannot tell must block.
    fn check_question(&self, question: &str) -> GuardrailDecision;

    /// Begins to look at one answer.
    fn watch(&self) -> Box<dyn AnswerWatch>;
}

/// What becomes of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuardrailDecision {
    /// Nothing speaks against it.
    Pass,
    /// It must not go on.
    Block {
        /// Which rule it was, for logs and metrics. Never the text that the rule looks for.
        rule: Box<str>,
    },
}

/// Looks at one answer, piece by piece.
pub trait AnswerWatch: Send {
    /// Takes the next piece, and says how much of all text so far may be released. Pieces may be of any size, and end
    /// anywhere between two characters.
    fn take(&mut self, piece: &str) -> WatchDecision;

    /// There is no more. Everything may be released, or the answer is blocked.
    fn end(&mut self) -> WatchDecision;
}

/// How much of an answer may be released. Numbers are bytes from the answer's beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchDecision {
    /// This much; never less than was said before.
    Release(u64),
    /// No more than this, ever.
    Block {
        /// Which rule it was.
        rule: Box<str>,
        /// What comes before it, and is harmless.
        release: u64,
    },
    /// The watch cannot tell, which counts as a block.
    Failed,
}

/// What a decision comes to: how much may be released, and the rule that forbids the rest.
#[derive(Debug)]
struct Judged {
    release: u64,
    blocked_by: Option<Box<str>>,
}

impl Judged {
    /// Believes a decision only where it can be: no less than before, no more than there is, and all of it at the end.
    fn of(decision: WatchDecision, before: u64, length: u64, is_end: bool) -> Self {
        let is_possible = |release: u64| (before..=length).contains(&release);
        match decision {
            WatchDecision::Release(release) if is_possible(release) && (!is_end || release == length) => {
                Self { release, blocked_by: None }
            }
            WatchDecision::Block { rule, release } => {
                Self { release: if is_possible(release) { release } else { before }, blocked_by: Some(rule) }
            }
            WatchDecision::Release(_) | WatchDecision::Failed => {
                Self { release: before, blocked_by: Some(FAILED.into()) }
            }
        }
    }
}
