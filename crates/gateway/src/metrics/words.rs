//! The closed lists of label values, and the index of each value in its list.

use seawall_core::failure::FailureKind;
use seawall_core::vocabulary::Tier;
use seawall_pipeline::{AttemptEnding, LimitScope, Rejection, Verdict};

/// Stands for a value that is missing from its list, which is a bug.
const OTHER: &str = "other";

/// The faces.
pub(super) const FACES: [&str; 6] =
    ["anthropic", "openai", "bedrock_invoke", "bedrock_converse", "chat", OTHER];

pub(super) fn face(name: &str) -> usize {
    place(&FACES, name)
}

/// The number of possible outcomes of a request.
pub(super) const ENDINGS: usize = INTERRUPTED + KINDS + Rejection::LABELS.len() + 1;
const KINDS: usize = FailureKind::ALL.len();
const ANSWERED: usize = 0;
const ABANDONED: usize = 1;
const INTERRUPTED: usize = 2;
const REJECTED: usize = INTERRUPTED + KINDS;

pub(super) fn ending(verdict: &Verdict) -> usize {
    match verdict {
        Verdict::Answered => ANSWERED,
        Verdict::Abandoned => ABANDONED,
        Verdict::Interrupted(kind) => INTERRUPTED + *kind as usize,
        Verdict::Rejected(label) => REJECTED + place(&Rejection::LABELS, label),
    }
}

/// The outcome and the reason at this index.
pub(super) fn ending_words(place: usize) -> (&'static str, &'static str) {
    let kind = |place: usize| FailureKind::ALL.get(place).map_or(OTHER, |kind| kind.label());
    match place {
        ANSWERED => ("answered", ""),
        ABANDONED => ("abandoned", ""),
        INTERRUPTED..REJECTED => ("interrupted", kind(place - INTERRUPTED)),
        _ => ("rejected", Rejection::LABELS.get(place - REJECTED).unwrap_or(&OTHER)),
    }
}

/// The tiers, and one index for unknown callers.
pub(super) const TIERS: usize = Tier::ALL.len() + 1;

pub(super) fn tier(tier: Option<Tier>) -> usize {
    tier.map_or(Tier::ALL.len(), Tier::index)
}

pub(super) fn tier_word(place: usize) -> &'static str {
    Tier::ALL.get(place).map_or("", |tier| tier.name())
}

/// The number of possible outcomes of an attempt.
pub(super) const OUTCOMES: usize = 2 + KINDS;

pub(super) fn outcome(ending: AttemptEnding) -> usize {
    match ending {
        AttemptEnding::Succeeded => 0,
        AttemptEnding::Abandoned => 1,
        AttemptEnding::Failed(kind) => 2 + kind as usize,
    }
}

pub(super) fn outcome_word(place: usize) -> &'static str {
    match place {
        0 => "succeeded",
        1 => "abandoned",
        _ => FailureKind::ALL.get(place - 2).map_or(OTHER, |kind| kind.label()),
    }
}

/// The index of a value; one behind the last for a value that is not in the list.
fn place(list: &[&str], word: &str) -> usize {
    let last = if list.last() == Some(&OTHER) { list.len() - 1 } else { list.len() };
    list.iter().position(|known| *known == word).unwrap_or(last)
}

/// The names of limits. Settings choose their sizes, not their names.
pub(super) const LIMITS: [&str; 8] =
    ["second", "minute", "hour", "day", "month", "requests", "tokens", OTHER];

/// The index of a limit and its scope.
pub(super) fn limited(limit: &str, scope: &LimitScope) -> usize {
    let scopes = LimitScope::LABELS;
    let scope = scopes.iter().position(|name| *name == scope.label()).unwrap_or_default();
    place(&LIMITS, limit) * scopes.len() + scope
}

#[cfg(test)]
mod tests {
    use super::{ENDINGS, FACES, OUTCOMES, ending, ending_words, face, outcome, outcome_word};
    use seawall_core::failure::FailureKind;
    use seawall_pipeline::speech::Face;
    use seawall_pipeline::{AttemptEnding, Rejection, Verdict};

    #[test]
    fn every_verdict_leads_to_its_own_words_and_back() {
        assert_eq!(ending_words(ending(&Verdict::Answered)), ("answered", ""));
        assert_eq!(ending_words(ending(&Verdict::Abandoned)), ("abandoned", ""));
        for kind in FailureKind::ALL {
            assert_eq!(ending_words(ending(&Verdict::Interrupted(kind))), ("interrupted", kind.label()));
            assert_eq!(outcome_word(outcome(AttemptEnding::Failed(kind))), kind.label());
        }
        for label in Rejection::LABELS {
            assert_eq!(ending_words(ending(&Verdict::Rejected(label))), ("rejected", label));
        }
        assert_eq!(ending(&Verdict::Rejected("a new word")), ENDINGS - 1);
        assert_eq!(ending_words(ENDINGS - 1), ("rejected", "other"));
        assert_eq!(outcome_word(outcome(AttemptEnding::Succeeded)), "succeeded");
        assert_eq!(outcome_word(outcome(AttemptEnding::Abandoned)), "abandoned");
        assert_eq!(outcome(AttemptEnding::Failed(FailureKind::Filtered)), OUTCOMES - 1);
    }

    #[test]
    fn no_two_endings_have_the_same_words() {
        let mut all: Vec<_> = (0..ENDINGS).map(ending_words).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), ENDINGS);
    }

    #[test]
    fn every_face_has_a_place_of_its_own() {
        for known in Face::ALL {
            assert_eq!(FACES[face(known.name())], known.name());
        }
        assert_eq!((FACES[face("chat")], FACES[face("telex")]), ("chat", "other"));
    }
}
