//! The plan of a request and the reasons for its restrictions.

use super::routing::RoutingNotes;
use crate::ladder::LevelPermits;
use crate::vocabulary::{Ceiling, CostState, Level, Priority, Rung};
use arrayvec::ArrayVec;
use std::fmt;

/// An input of a plan, in the order of evaluation. The lowest ceiling wins, whichever input sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanInput {
    /// An operator has set a ceiling for all requests.
    Override,
    /// An operator has suspended this caller's access to models.
    CallerSuspended,
    /// An operator has switched model calls off.
    ModelsOff,
    /// Cost state of the caller's tier.
    TierCost(CostState),
    /// Cost state of the global daily budget.
    DayCost(CostState),
    /// Level of the degradation ladder.
    Level(Level),
    /// An intent, by name, that needs no retrieval at any level.
    Intent(&'static str),
    /// Off-peak hours.
    OffPeak,
    /// The rule, by name, that the router applied.
    Router(&'static str),
    /// A complexity estimate: a lower grade is sufficient.
    Hint,
}

/// Number of inputs.
pub(super) const PLAN_INPUTS: usize = 10;

impl fmt::Display for PlanInput {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Override => formatter.write_str("override"),
            Self::CallerSuspended => formatter.write_str("caller_suspended"),
            Self::ModelsOff => formatter.write_str("models_off"),
            Self::TierCost(state) => write!(formatter, "tier_cost:{state}"),
            Self::DayCost(state) => write!(formatter, "day_cost:{state}"),
            Self::Level(level) => write!(formatter, "level:{level}"),
            Self::Intent(intent) => write!(formatter, "intent:{intent}"),
            Self::OffPeak => formatter.write_str("off_peak"),
            Self::Router(reason) => write!(formatter, "router:{reason}"),
            Self::Hint => formatter.write_str("complexity_hint"),
        }
    }
}

/// What one input allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The highest grade.
    pub ceiling: Ceiling,
    /// Whether templates and cached answers come before models.
    pub templates_first: bool,
    /// Number of retrieved chunks passed to the model.
    pub chunks: u8,
    /// Whether retrieved chunks may be reranked.
    pub reranker: bool,
}

impl Allowance {
    /// No restriction.
    pub const ALL: Self = Self {
        ceiling: Ceiling::Strong,
        templates_first: false,
        chunks: LevelPermits::of(Level::Normal).chunks,
        reranker: true,
    };

    /// The stricter of both in every respect.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            ceiling: self.ceiling.min(other.ceiling),
            templates_first: self.templates_first || other.templates_first,
            chunks: self.chunks.min(other.chunks),
            reranker: self.reranker && other.reranker,
        }
    }
}

/// An input that restricts a plan, with what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanReason {
    /// The input.
    pub input: PlanInput,
    /// What it allows.
    pub allows: Allowance,
}

impl fmt::Display for PlanReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.input, self.allows.ceiling)
    }
}

/// The reasons of a plan, in the order of evaluation.
pub type PlanReasons = ArrayVec<PlanReason, PLAN_INPUTS>;

/// How one request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Scheduling priority in the queue.
    pub priority: Priority,
    /// The highest grade that may be used.
    pub ceiling: Ceiling,
    /// The rungs in the order to try. Empty if only a model could answer and none may be called.
    pub rungs: ArrayVec<Rung, { Rung::ALL.len() }>,
    /// Number of retrieved chunks passed to the model; 0 skips retrieval.
    pub chunks: u8,
    /// Whether retrieved chunks are reranked.
    pub reranker: bool,
    /// Every input that restricts the plan.
    pub reasons: PlanReasons,
    /// What was missing or special about the request. Notes explain the routing and restrict nothing by themselves.
    pub notes: RoutingNotes,
}

impl Plan {
    /// The reasons that determine the ceiling, if it is below the strong grade.
    pub fn binding(&self) -> impl Iterator<Item = &PlanReason> {
        let binds =
            |reason: &&PlanReason| self.ceiling < Ceiling::Strong && reason.allows.ceiling == self.ceiling;
        self.reasons.iter().filter(binds)
    }

    /// Whether a model may be called.
    #[must_use]
    pub fn calls_models(&self) -> bool {
        self.rungs.iter().any(|rung| matches!(rung, Rung::StrongModel | Rung::FastModel))
    }
}
