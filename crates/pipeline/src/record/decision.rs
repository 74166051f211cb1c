//! What was decided about a request before and between its attempts.
//!
//! Recording happens on the request path, so nothing here is formatted: what a person reads is made from it later, on
//! another thread.

use super::SkipKind;
use crate::limit_description::LimitDescription;
use arrayvec::ArrayVec;
use seawall_core::evaluator::Plan;
use seawall_core::quota::LimitView;
use seawall_core::vocabulary::{Ceiling, Level, Rung};
use std::sync::Arc;

/// The limits that were checked for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedLimitSummary {
    /// How many limits were checked.
    pub checked: u16,
    /// The limit with the least left; for a rejection, the one with the longest wait.
    pub tightest: Arc<LimitDescription>,
    /// The units that it admits at once.
    pub capacity: u32,
    /// The units that were left of it.
    pub remaining: u32,
}

impl CheckedLimitSummary {
    pub(crate) fn new(checked: u16, tightest: Arc<LimitDescription>, view: &LimitView) -> Self {
        Self { checked, tightest, capacity: view.capacity, remaining: view.remaining }
    }
}

/// How the request was planned to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRungs {
    /// The rungs in the order to try.
    pub rungs: ArrayVec<Rung, { Rung::ALL.len() }>,
    /// The highest grade that may be used.
    pub ceiling: Ceiling,
    /// The degradation level.
    pub level: Level,
    /// The rung of the preferred model: an answer of a lower one is degraded. `None` if the plan calls no model.
    pub preferred: Option<Rung>,
}

impl PlannedRungs {
    /// `has_target` says whether the route has a target of this rung.
    pub(crate) fn of(plan: &Plan, level: Level, has_target: impl Fn(Rung) -> bool) -> Self {
        let is_model = |rung: &Rung| matches!(rung, Rung::StrongModel | Rung::FastModel) && has_target(*rung);
        let preferred = plan.rungs.iter().copied().find(is_model);
        Self { rungs: plan.rungs.clone(), ceiling: plan.ceiling, level, preferred }
    }
}

/// A target that was not called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedTarget {
    /// The target.
    pub target: Arc<str>,
    /// Why.
    pub reason: SkipKind,
}

/// The maximum number of skipped targets that a record lists.
pub(crate) const MAX_SKIPPED_TARGETS: usize = 8;

/// Whether an answer of this rung has less quality than planned: an apology, a stale answer, or the answer of a lower
/// grade or rung than the preferred one.
pub(crate) fn is_degraded(rung: Rung, planned: Option<&PlannedRungs>) -> bool {
    let preferred = planned.and_then(|planned| planned.preferred);
    match rung {
        Rung::FreshCache | Rung::StrongModel => false,
        Rung::FastModel => preferred == Some(Rung::StrongModel),
        Rung::Template | Rung::Faq => preferred.is_some(),
        Rung::StaleCache | Rung::Apology => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{PlannedRungs, is_degraded};
    use seawall_core::vocabulary::{Ceiling, Level, Rung};

    fn planned(preferred: Option<Rung>) -> PlannedRungs {
        PlannedRungs {
            rungs: Rung::ALL.into_iter().collect(),
            ceiling: Ceiling::Strong,
            level: Level::Normal,
            preferred,
        }
    }

    #[test]
    fn an_answer_below_the_planned_grade_is_degraded_and_a_planned_fast_one_is_not() {
        let degraded = |rung, preferred| is_degraded(rung, Some(&planned(preferred)));
        for rung in [Rung::FreshCache, Rung::StrongModel] {
            assert!(!degraded(rung, Some(Rung::StrongModel)), "{rung}");
        }
        assert!(degraded(Rung::FastModel, Some(Rung::StrongModel)));
        assert!(!degraded(Rung::FastModel, Some(Rung::FastModel)));
        assert!(!degraded(Rung::Template, None), "no model was planned");
        for rung in [Rung::StaleCache, Rung::Apology] {
            assert!(degraded(rung, Some(Rung::StrongModel)) && degraded(rung, None), "{rung}");
            assert!(is_degraded(rung, None), "{rung}");
        }
    }
}
