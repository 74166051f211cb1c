//! Why each target of a route did not answer, in words for the caller's error and the log.
//!
//! A cause is recorded when a target fails or is skipped, which no request that succeeds at once pays for, and is put
//! into words only when the request is rejected. The text has names from the settings, HTTP statuses and fixed words; a
//! vendor's own words are never part of it. Its length is bounded, however many targets there are.

use super::cascade_failure::SkipReason;
use crate::record::SkipKind;
use seawall_core::failure::FailureKind;
use seawall_provider::CallError;
use seawall_wire::RequestError;
use std::fmt::Write as _;
use std::sync::Arc;

/// Maximum number of targets that are named; the others are counted.
const MAX_NAMED: usize = 8;
/// Maximum length of a target's name, and of the feature that it cannot express, in characters.
const MAX_NAME_CHARS: usize = 48;

/// The causes by target, in the order in which the targets were first considered.
#[derive(Debug, Default)]
pub(super) struct TargetCauses(Vec<(Arc<str>, TargetCause)>);

#[derive(Debug, PartialEq, Eq)]
enum TargetCause {
    Failed {
        kind: FailureKind,
        /// The HTTP status, if there was a response.
        status: Option<u16>,
    },
    Skipped {
        kind: SkipKind,
        /// What the target's dialect cannot express.
        feature: Option<Box<str>>,
    },
}

impl TargetCauses {
    /// Records how an attempt failed. It says more than why the target was skipped at another time.
    pub(super) fn record_failure(&mut self, target: &Arc<str>, error: &CallError) {
        let cause = TargetCause::Failed { kind: error.failure.kind, status: error.status };
        match self.0.iter_mut().find(|(known, _)| known == target) {
            Some((_, earlier)) => *earlier = cause,
            None => self.0.push((Arc::clone(target), cause)),
        }
    }

    /// Records why a target was not called.
    pub(super) fn record_skip(&mut self, target: &Arc<str>, reason: &SkipReason) {
        let feature = match reason {
            SkipReason::Untranslatable(
                RequestError::Untranslatable { field, .. } | RequestError::UnsupportedByTarget { field, .. },
            ) => Some(printable(field).into()),
            _ => None,
        };
        let cause = TargetCause::Skipped { kind: reason.kind(), feature };
        match self.0.iter_mut().find(|(known, _)| known == target) {
            Some((_, earlier @ TargetCause::Skipped { .. })) => *earlier = cause,
            Some((_, TargetCause::Failed { .. })) => {}
            None => self.0.push((Arc::clone(target), cause)),
        }
    }

    /// All causes in words: `all targets failed: sonnet 401 (key rejected), haiku 529 (overloaded)`. A target of the route
    /// that was not reached is listed, too. `None` if no target was considered, or if all were skipped for one reason
    /// that the error itself names.
    pub(super) fn describe<'n>(&self, route: impl Iterator<Item = &'n Arc<str>>) -> Option<Arc<str>> {
        let (_, first) = self.0.first()?;
        let is_named_by_error = |cause: &TargetCause| cause == first && !cause.is_worth_naming();
        if self.0.iter().all(|(_, cause)| is_named_by_error(cause)) {
            return None;
        }
        let not_tried: Vec<&Arc<str>> =
            route.filter(|name| !self.0.iter().any(|(known, _)| known == *name)).collect();
        let failures = self.0.iter().filter(|(_, cause)| cause.is_failure()).count();
        let mut text = String::from(match failures {
            0 => "no target could be called: ",
            all if all == self.0.len() && not_tried.is_empty() => "all targets failed: ",
            _ => "no target answered: ",
        });
        let all = self.0.iter().map(|(name, cause)| (name, Some(cause)));
        let all = all.chain(not_tried.iter().map(|name| (*name, None)));
        for (index, (name, cause)) in all.take(MAX_NAMED).enumerate() {
            text.push_str(if index == 0 { "" } else { ", " });
            text.push_str(&printable(name));
            match cause {
                Some(cause) => cause.write(&mut text),
                None => text.push_str(" not tried"),
            }
        }
        let more = (self.0.len() + not_tried.len()).saturating_sub(MAX_NAMED);
        if more > 0 {
            // Writing to a string cannot fail.
            let _ = write!(text, ", and {more} more");
        }
        Some(text.into())
    }
}

impl TargetCause {
    const fn is_failure(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }

    /// Whether the error for callers does not name the reason by itself.
    const fn is_worth_naming(&self) -> bool {
        match self {
            Self::Failed { .. } => true,
            Self::Skipped { kind, .. } => {
                matches!(
                    kind,
                    SkipKind::BreakerOpen | SkipKind::Busy | SkipKind::Throttled | SkipKind::CostOverruns
                )
            }
        }
    }

    fn write(&self, text: &mut String) {
        // Writing to a string cannot fail.
        let _ = match self {
            Self::Failed { kind, status: Some(status) } => write!(text, " {status} ({})", failed(*kind)),
            Self::Failed { kind, status: None } => write!(text, " ({})", failed(*kind)),
            Self::Skipped { feature: Some(feature), .. } => {
                write!(text, " skipped (cannot express {feature})")
            }
            Self::Skipped { kind, feature: None } => write!(text, " skipped ({})", skipped(*kind)),
        };
    }
}

/// A name, shortened and without control characters.
fn printable(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(MAX_NAME_CHARS).collect()
}

const fn failed(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Throttled => "rate limited",
        FailureKind::Overloaded => "overloaded",
        FailureKind::QuotaExhausted => "quota exhausted",
        FailureKind::NotReady => "model not ready",
        FailureKind::TimedOut => "timed out",
        FailureKind::StartTimeout => "no answer in time",
        FailureKind::Unreachable => "unreachable",
        FailureKind::StreamInterrupted => "stream interrupted",
        FailureKind::ServerFault => "server error",
        FailureKind::ModelFault => "model error",
        FailureKind::Unrecognised => "unreadable answer",
        FailureKind::BadRequest => "request rejected",
        FailureKind::TooLong => "request too long",
        FailureKind::Unauthorized => "key rejected",
        FailureKind::NotFound => "model not found",
        FailureKind::Filtered => "blocked by a content filter",
    }
}

const fn skipped(kind: SkipKind) -> &'static str {
    match kind {
        SkipKind::BudgetExhausted => "budget exhausted",
        SkipKind::BudgetHeld => "budget reserved by requests in progress",
        SkipKind::ExceedsRemainingBudget => "exceeds the remaining budget",
        SkipKind::ExceedsDailyBudget => "exceeds the daily budget",
        SkipKind::BreakerOpen => "circuit open",
        SkipKind::CostOverruns => "suspended for cost overruns",
        SkipKind::Busy => "all concurrency slots are taken",
        SkipKind::ConcurrencyShare => "concurrency limit of the caller",
        SkipKind::Throttled => "rate limited",
        SkipKind::UnsupportedByTarget => "cannot express the request",
        SkipKind::UntrackedInput => "cost cannot be bounded",
        SkipKind::JournalUnavailable => "journal unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_CHARS, MAX_NAMED, SkipReason, TargetCauses};
    use seawall_core::failure::{Failure, FailureKind};
    use seawall_provider::CallError;
    use seawall_wire::RequestError;
    use std::sync::Arc;
    use std::time::Duration;

    fn failure(kind: FailureKind, status: Option<u16>) -> CallError {
        CallError { status, ..Failure::of(kind).into() }
    }

    fn target(name: &str) -> Arc<str> {
        name.into()
    }

    fn describe(causes: &TargetCauses, route: &[&str]) -> Option<String> {
        let route: Vec<Arc<str>> = route.iter().map(|name| target(name)).collect();
        causes.describe(route.iter()).map(|text| text.as_ref().to_owned())
    }

    #[test]
    fn every_target_is_named_with_its_cause() {
        let mut causes = TargetCauses::default();
        causes.record_failure(&target("sonnet"), &failure(FailureKind::Unauthorized, Some(401)));
        causes.record_failure(&target("haiku"), &failure(FailureKind::Overloaded, Some(529)));
        let failed = "sonnet 401 (key rejected), haiku 529 (overloaded)";
        assert_eq!(describe(&causes, &["sonnet", "haiku"]), Some(format!("all targets failed: {failed}")));
        assert_eq!(
            describe(&causes, &["sonnet", "haiku", "local"]),
            Some(format!("no target answered: {failed}, local not tried"))
        );
        causes.record_failure(&target("local"), &failure(FailureKind::Unreachable, None));
        causes.record_skip(&target("opus"), &SkipReason::BreakerOpen(Some(Duration::from_secs(3))));
        let field = "response_format".to_owned();
        let unsupported = RequestError::Untranslatable { field, problem: "no schemas", feature: None };
        causes.record_skip(&target("gemini"), &SkipReason::Untranslatable(unsupported));
        assert_eq!(
            describe(&causes, &[]),
            Some(format!(
                "no target answered: {failed}, local (unreachable), opus skipped (circuit open), \
                 gemini skipped (cannot express response_format)"
            ))
        );
    }

    #[test]
    fn the_last_failure_of_a_target_counts_and_a_skip_replaces_none() {
        let mut causes = TargetCauses::default();
        causes.record_skip(&target("a"), &SkipReason::BreakerOpen(None));
        assert_eq!(
            describe(&causes, &[]).as_deref(),
            Some("no target could be called: a skipped (circuit open)")
        );
        causes.record_failure(&target("a"), &failure(FailureKind::ServerFault, Some(500)));
        causes.record_failure(&target("a"), &failure(FailureKind::Overloaded, Some(503)));
        causes.record_skip(&target("a"), &SkipReason::Busy(None));
        assert_eq!(describe(&causes, &[]).as_deref(), Some("all targets failed: a 503 (overloaded)"));
        causes.record_skip(&target("b"), &SkipReason::Busy(None));
        causes.record_skip(&target("b"), &SkipReason::JournalUnavailable);
        assert_eq!(
            describe(&causes, &[]).as_deref(),
            Some("no target answered: a 503 (overloaded), b skipped (journal unavailable)")
        );
    }

    #[test]
    fn what_the_error_says_by_itself_is_not_repeated() {
        let mut causes = TargetCauses::default();
        assert_eq!(describe(&causes, &["a"]), None);
        for name in ["a", "b"] {
            causes.record_skip(&target(name), &SkipReason::JournalUnavailable);
        }
        assert_eq!(describe(&causes, &["a", "b"]), None);
        causes.record_skip(&target("c"), &SkipReason::Busy(None));
        let text = describe(&causes, &[]).unwrap();
        assert!(text.starts_with("no target could be called: a skipped (journal unavailable), b"), "{text}");
    }

    #[test]
    fn the_text_is_bounded_and_printable() {
        let mut causes = TargetCauses::default();
        for number in 0..100 {
            let name = format!("{number}\u{7}\n{}", "x".repeat(1_000));
            causes.record_failure(&target(&name), &failure(FailureKind::Filtered, Some(400)));
        }
        let text = describe(&causes, &["more"]).unwrap();
        assert!(text.ends_with(", and 93 more") && !text.contains(['\n', '\u{7}']), "{text}");
        assert!(text.len() < MAX_NAMED * (MAX_NAME_CHARS + 60) + 40, "{}", text.len());
    }
}
