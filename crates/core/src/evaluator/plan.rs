//! A plan, and why it is no better.

use crate::ladder::LevelPermits;
use crate::router::{RouteNotes, RouteReason};
use crate::vocabulary::{Ceiling, CostState, Intent, Level, Priority, Rung};
use arrayvec::ArrayVec;
use std::fmt;

/// Who has a say in a plan. The first of them are asked first; what counts is the lowest ceiling, whoever names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// An operator has set a ceiling for everybody.
    Override,
    /// An operator holds this caller down.
    Clamp,
    /// An operator has switched models off.
    ModelsOff,
    /// The money of the caller's tier.
    TierCost(CostState),
    /// Everybody's money.
    DayCost(CostState),
    /// How far the shop has stepped down.
    Level(Level),
    /// What it is about needs nothing looked up, at any level.
    Intent(Intent),
    /// It is night.
    OffPeak,
    /// Who asks, what about, and when.
    Router(RouteReason),
    /// The question is an easy one.
    Hint,
}

/// How many voices there are.
pub(super) const VOICES: usize = 10;

impl fmt::Display for Voice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Override => formatter.write_str("override"),
            Self::Clamp => formatter.write_str("caller_clamp"),
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

/// What one voice allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// The highest grade.
    pub ceiling: Ceiling,
    /// Whether prepared and kept answers come before models.
    pub templates_first: bool,
    /// How much of what was retrieved goes to the model.
    pub chunks: u8,
    /// Whether it may be ranked again.
    pub reranker: bool,
}

impl Allowance {
    /// Everything.
    pub const ALL: Self = Self {
        ceiling: Ceiling::Strong,
        templates_first: false,
        chunks: LevelPermits::of(Level::Normal).chunks,
        reranker: true,
    };

    /// What both allow.
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

/// One voice and what it allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Who.
    pub voice: Voice,
    /// What it allows.
    pub allows: Allowance,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.voice, self.allows.ceiling)
    }
}

/// The reasons of a plan in the order in which they were asked.
pub type Reasons = ArrayVec<Reason, VOICES>;

/// How one request is to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Whose turn comes first.
    pub priority: Priority,
    /// The highest grade it may use.
    pub ceiling: Ceiling,
    /// The ways to answer, in the order to try. Empty where nothing but a model could answer and none may.
    pub rungs: ArrayVec<Rung, { Rung::ALL.len() }>,
    /// How much of what is retrieved goes to the model; none where nothing is to be looked up.
    pub chunks: u8,
    /// Whether it is ranked again.
    pub reranker: bool,
    /// Every voice that allows less than everything.
    pub reasons: Reasons,
    /// What was missing or special about the request. They explain the route, and restrict nothing by themselves.
    pub notes: RouteNotes,
}

impl Plan {
    /// The reasons for which the ceiling is no higher.
    pub fn binding(&self) -> impl Iterator<Item = &Reason> {
        let binds =
            |reason: &&Reason| self.ceiling < Ceiling::Strong && reason.allows.ceiling == self.ceiling;
        self.reasons.iter().filter(binds)
    }

    /// Whether a model may be called.
    #[must_use]
    pub fn calls_models(&self) -> bool {
        self.rungs.iter().any(|rung| matches!(rung, Rung::StrongModel | Rung::FastModel))
    }
}
