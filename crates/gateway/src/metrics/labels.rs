//! The closed lists of label values, and the index of each value in its list.

use seawall_core::breaker::BreakerPhase;
use seawall_core::failure::FailureKind;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{AttemptOutcomeKind, LimitScope, Rejection, RequestInterruption, RequestOutcome};

/// Stands for a value that is missing from its list, which is a bug.
const OTHER: &str = "other";

/// The number of labels for faces.
pub(super) const FACES: usize = Face::ALL.len() + 1;

/// The labels of the faces.
pub(super) fn face_labels() -> [&'static str; FACES] {
    std::array::from_fn(|index| Face::ALL.get(index).map_or(OTHER, |face| face.name()))
}

pub(super) fn face_index(name: &str) -> usize {
    Face::ALL.iter().position(|face| face.name() == name).unwrap_or(Face::ALL.len())
}

/// The number of possible outcomes of a request.
pub(super) const REQUEST_OUTCOMES: usize = INTERRUPTED + INTERRUPT_REASONS + Rejection::LABELS.len() + 1;
const KINDS: usize = FailureKind::ALL.len();
const INTERRUPT_REASONS: usize = KINDS + RequestInterruption::OWN.len();
const ANSWERED: usize = 0;
const ABANDONED: usize = 1;
const DEGRADED: usize = 2;
const INTERRUPTED: usize = 3;
const REJECTED: usize = INTERRUPTED + INTERRUPT_REASONS;

pub(super) fn request_outcome(outcome: &RequestOutcome) -> usize {
    match outcome {
        RequestOutcome::Answered => ANSWERED,
        RequestOutcome::Degraded => DEGRADED,
        RequestOutcome::Abandoned => ABANDONED,
        RequestOutcome::Interrupted(RequestInterruption::Failed(kind)) => INTERRUPTED + *kind as usize,
        RequestOutcome::Interrupted(reason) => {
            let own = RequestInterruption::OWN.iter().position(|own| own == reason).unwrap_or_default();
            INTERRUPTED + KINDS + own
        }
        RequestOutcome::Rejected(label) => REJECTED + index_of(&Rejection::LABELS, label),
    }
}

/// The outcome and the reason at this index.
pub(super) fn request_outcome_labels(index: usize) -> (&'static str, &'static str) {
    let reason = |index: usize| match FailureKind::ALL.get(index) {
        Some(kind) => kind.label(),
        None => RequestInterruption::OWN.get(index - KINDS).map_or(OTHER, |reason| reason.label()),
    };
    match index {
        ANSWERED => ("answered", ""),
        ABANDONED => ("abandoned", ""),
        DEGRADED => ("degraded", ""),
        INTERRUPTED..REJECTED => ("interrupted", reason(index - INTERRUPTED)),
        _ => ("rejected", Rejection::LABELS.get(index - REJECTED).unwrap_or(&OTHER)),
    }
}

/// The tiers, and one index for unknown callers.
pub(super) const TIERS: usize = Tier::ALL.len() + 1;

pub(super) fn tier_index(tier: Option<Tier>) -> usize {
    tier.map_or(Tier::ALL.len(), Tier::index)
}

pub(super) fn tier_label(index: usize) -> &'static str {
    Tier::ALL.get(index).map_or("", |tier| tier.name())
}

/// The phases of a breaker, in the order of the values of its gauge.
pub(super) const PHASES: [&str; 3] = ["closed", "half_open", "open"];

pub(super) const fn phase_index(phase: BreakerPhase) -> usize {
    match phase {
        BreakerPhase::Closed => 0,
        BreakerPhase::HalfOpen { .. } => 1,
        BreakerPhase::Open => 2,
    }
}

/// The number of possible outcomes of an attempt.
pub(super) const ATTEMPT_OUTCOMES: usize = 2 + KINDS;

pub(super) fn attempt_outcome(outcome: AttemptOutcomeKind) -> usize {
    match outcome {
        AttemptOutcomeKind::Succeeded => 0,
        AttemptOutcomeKind::Abandoned => 1,
        AttemptOutcomeKind::Failed(kind) => 2 + kind as usize,
    }
}

pub(super) fn attempt_outcome_label(index: usize) -> &'static str {
    match index {
        0 => "succeeded",
        1 => "abandoned",
        _ => FailureKind::ALL.get(index - 2).map_or(OTHER, |kind| kind.label()),
    }
}

/// The index of a value; one behind the last for a value that is not in the list.
fn index_of(list: &[&str], label: &str) -> usize {
    let last = if list.last() == Some(&OTHER) { list.len() - 1 } else { list.len() };
    list.iter().position(|known| *known == label).unwrap_or(last)
}

/// The names of limits. Settings choose their sizes, not their names.
pub(super) const LIMITS: [&str; 8] =
    ["second", "minute", "hour", "day", "month", "requests", "tokens", OTHER];

/// Whether a limit rejects requests or only records them.
pub(super) const MODES: [&str; 2] = ["enforce", "observe"];

/// The number of series of limits.
pub(super) const LIMIT_SERIES: usize = LIMITS.len() * LimitScope::LABELS.len() * MODES.len();

/// The index of a limit, its scope and its mode.
pub(super) fn limit_index(limit: &str, scope: &LimitScope, is_observed: bool) -> usize {
    let scopes = LimitScope::LABELS;
    let scope = scopes.iter().position(|name| *name == scope.label()).unwrap_or_default();
    (index_of(&LIMITS, limit) * scopes.len() + scope) * MODES.len() + usize::from(is_observed)
}

/// The limit, the scope and the mode at this index.
pub(super) fn limit_labels(index: usize) -> [&'static str; 3] {
    let (scopes, modes) = (LimitScope::LABELS, MODES.len());
    let limit = LIMITS.get(index / modes / scopes.len()).unwrap_or(&OTHER);
    [limit, scopes[index / modes % scopes.len()], MODES[index % modes]]
}

#[cfg(test)]
mod tests {
    use super::{
        ATTEMPT_OUTCOMES, REQUEST_OUTCOMES, attempt_outcome, attempt_outcome_label, face_index, face_labels,
        request_outcome, request_outcome_labels,
    };
    use seawall_core::failure::FailureKind;
    use seawall_pipeline::dialect::Face;
    use seawall_pipeline::{AttemptOutcomeKind, Rejection, RequestInterruption, RequestOutcome};

    #[test]
    fn every_outcome_has_its_own_labels() {
        assert_eq!(request_outcome_labels(request_outcome(&RequestOutcome::Answered)), ("answered", ""));
        assert_eq!(request_outcome_labels(request_outcome(&RequestOutcome::Abandoned)), ("abandoned", ""));
        assert_eq!(request_outcome_labels(request_outcome(&RequestOutcome::Degraded)), ("degraded", ""));
        let failed = FailureKind::ALL.into_iter().map(RequestInterruption::Failed);
        for reason in failed.chain(RequestInterruption::OWN) {
            assert_eq!(
                request_outcome_labels(request_outcome(&RequestOutcome::Interrupted(reason))),
                ("interrupted", reason.label())
            );
        }
        for kind in FailureKind::ALL {
            assert_eq!(
                attempt_outcome_label(attempt_outcome(AttemptOutcomeKind::Failed(kind))),
                kind.label()
            );
        }
        for label in Rejection::LABELS {
            assert_eq!(
                request_outcome_labels(request_outcome(&RequestOutcome::Rejected(label))),
                ("rejected", label)
            );
        }
        assert_eq!(request_outcome(&RequestOutcome::Rejected("a new word")), REQUEST_OUTCOMES - 1);
        assert_eq!(request_outcome_labels(REQUEST_OUTCOMES - 1), ("rejected", "other"));
        assert_eq!(attempt_outcome_label(attempt_outcome(AttemptOutcomeKind::Succeeded)), "succeeded");
        assert_eq!(attempt_outcome_label(attempt_outcome(AttemptOutcomeKind::Abandoned)), "abandoned");
        assert_eq!(attempt_outcome(AttemptOutcomeKind::Failed(FailureKind::Filtered)), ATTEMPT_OUTCOMES - 1);
    }

    #[test]
    fn no_two_outcomes_have_the_same_labels() {
        let mut all: Vec<_> = (0..REQUEST_OUTCOMES).map(request_outcome_labels).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), REQUEST_OUTCOMES);
    }

    #[test]
    fn every_face_has_its_own_index() {
        for known in Face::ALL {
            assert_eq!(face_labels()[face_index(known.name())], known.name());
        }
        assert_eq!(
            (face_labels()[face_index("chat")], face_labels()[face_index("telex")]),
            ("chat", "other")
        );
    }
}
