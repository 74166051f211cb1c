//! The usage and cost of a call, as an event of the ledger.

use seawall_core::money::{Money, Usage};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use std::sync::Arc;

/// The id of one call to a model: the request it was made for, and the number of the attempt. Events with the same id
/// are duplicates and count once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The id of the request.
    pub request: u128,
    /// The number of the attempt, counted from 0.
    pub attempt: u32,
}

/// How reliable an amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The vendor reported the usage.
    Reported,
    /// We counted the usage, because the vendor's report did not arrive.
    Counted,
    /// The usage is unknown and assumed to be the maximum.
    Maximum,
}

impl Certainty {
    /// Every value, in order.
    pub const ALL: [Self; 3] = [Self::Reported, Self::Counted, Self::Maximum];

    /// The label in the ledger and in logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Counted => "counted",
            Self::Maximum => "maximum",
        }
    }
}

/// The names by which spending is reported, beside caller, tier and model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpendLabels {
    /// The target that was called.
    pub target: Arc<str>,
    /// The route that was requested.
    pub route: Arc<str>,
    /// The labels of the caller's API key, if it presented one.
    pub key: Option<Arc<KeyLabels>>,
}

impl SpendLabels {
    /// Whether nothing is labelled.
    pub(crate) fn is_empty(&self) -> bool {
        self.target.is_empty() && self.route.is_empty() && self.key.is_none()
    }
}

/// The labels of an API key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyLabels {
    /// The team that it belongs to.
    pub team: Option<Box<str>>,
    /// Names with values, sorted by name.
    pub tags: Box<[(Box<str>, Box<str>)]>,
}

/// One call that cost something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageEvent {
    /// The id of the call.
    pub id: CallId,
    /// When the call ended.
    pub at: UtcTime,
    /// The day whose budget pays, in days since 1970: the day on which it was reserved.
    pub day: u64,
    /// The caller that pays.
    pub caller: u64,
    /// The tier whose budget pays.
    pub tier: Tier,
    /// The vendor's name of the model.
    pub model: Arc<str>,
    /// What the call was made for.
    pub labels: SpendLabels,
    /// The usage of the call.
    pub usage: Usage,
    /// The cost of that usage.
    pub cost: Money,
    /// How reliable usage and cost are.
    pub certainty: Certainty,
}
