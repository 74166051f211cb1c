//! What a call has used and cost, as a line of the books.

use seawall_core::money::{Money, Usage};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::Tier;
use std::sync::Arc;

/// The name of one call to a model: the request it was made for, and which try it was. The same call told twice is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The request.
    pub request: u128,
    /// Which try, counted from 0.
    pub attempt: u32,
}

/// How sure an amount is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The vendor has told what was used.
    Told,
    /// Counted by us, because the vendor did not get to tell.
    Counted,
    /// Nobody knows: the most that it can have been.
    Worst,
}

impl Certainty {
    /// Every value, in order.
    pub const ALL: [Self; 3] = [Self::Told, Self::Counted, Self::Worst];

    /// The name in books and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Counted => "counted",
            Self::Worst => "worst",
        }
    }
}

/// One call that cost something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageEvent {
    /// Which call.
    pub id: CallId,
    /// When it ended.
    pub at: UtcTime,
    /// The day whose money it is, counted from 1970: the day it was reserved on.
    pub day: u64,
    /// Who asked.
    pub caller: u64,
    /// The tier whose money it is.
    pub tier: Tier,
    /// The vendor's name of the model.
    pub model: Arc<str>,
    /// What it used.
    pub usage: Usage,
    /// What that cost.
    pub cost: Money,
    /// How sure that is.
    pub certainty: Certainty,
}
