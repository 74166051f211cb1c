//! What may change while requests are under way.
//!
//! A request takes the rules that hold when it comes in and keeps them to its end; others that come in later may have
//! others. What was counted, spent and learned is not part of them and outlives them.

use crate::identify::Directory;
use crate::target::Route;
use seawall_core::credit::RetryBudget;
use seawall_core::deadline::TimeLimits;
use seawall_core::quota::{ComeBackRule, GroupId, QuotaBook, QuotaGroup};
use seawall_core::retry::RetryPolicy;
use seawall_core::setting::SettingError;
use seawall_core::vocabulary::Tier;
use seawall_wire::RequestLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a request may take to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalLimits {
    /// Its head.
    pub head: Duration,
    /// Its body.
    pub body: Duration,
}

/// Rules as somebody wrote them.
pub struct RuleOptions {
    /// Who may ask.
    pub directory: Directory,
    /// The limits of each tier's callers, in the order of [`Tier::ALL`].
    pub tiers: [QuotaGroup; 3],
    /// The limits of everybody together.
    pub everybody: QuotaGroup,
    /// What callers are told whom a limit refuses.
    pub come_back: ComeBackRule,
    /// The names callers use, and the targets behind each.
    pub routes: Vec<Route>,
    /// How to retry.
    pub retry: RetryPolicy,
    /// How much retrying the node may add. Handed on from rules to rules as long as it stays the same.
    pub retry_budget: Arc<RetryBudget>,
    /// How long anything may take.
    pub time: TimeLimits,
    /// How large a request may be.
    pub request: RequestLimits,
    /// How long it may take to arrive.
    pub arrival: ArrivalLimits,
}

impl RuleOptions {
    /// Everything that can be wrong with rules whose limits a book has taken.
    pub(crate) fn check(&self) -> Result<(), SettingError> {
        if self.routes.is_empty() {
            return Err(SettingError::new("routes", "there is none, so nobody could be answered"));
        }
        for (index, route) in self.routes.iter().enumerate() {
            if self.routes[..index].iter().any(|earlier| earlier.alias == route.alias) {
                return Err(SettingError::new("routes", format!("two routes are named {}", route.alias)));
            }
        }
        Ok(())
    }

    /// All limits, in the order in which a book keeps them.
    pub(crate) fn groups(&self) -> Vec<QuotaGroup> {
        let mut groups = self.tiers.to_vec();
        groups.push(self.everybody.clone());
        groups
    }
}

/// Rules that fit together.
pub(crate) struct Rules {
    pub(crate) directory: Directory,
    pub(crate) groups: Groups,
    pub(crate) come_back: ComeBackRule,
    pub(crate) routes: BTreeMap<Box<str>, Arc<Route>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_budget: Arc<RetryBudget>,
    pub(crate) time: TimeLimits,
    pub(crate) request: RequestLimits,
    pub(crate) arrival: ArrivalLimits,
}

impl Rules {
    /// Of rules that were [checked](RuleOptions::check). The book must have their limits already.
    pub(crate) fn new(options: RuleOptions, book: &QuotaBook) -> Result<Self, SettingError> {
        let RuleOptions {
            directory,
            tiers,
            everybody,
            come_back,
            routes,
            retry,
            retry_budget,
            time,
            request,
            arrival,
        } = options;
        let groups = Groups::new(book, &tiers, &everybody)?;
        let routes = routes.into_iter().map(|route| (route.alias.as_str().into(), Arc::new(route))).collect();
        Ok(Self { directory, groups, come_back, routes, retry, retry_budget, time, request, arrival })
    }
}

/// The groups of the quota book.
pub(crate) struct Groups {
    tiers: [GroupId; 3],
    pub(crate) everybody: GroupId,
}

impl Groups {
    fn new(book: &QuotaBook, tiers: &[QuotaGroup; 3], everybody: &QuotaGroup) -> Result<Self, SettingError> {
        let find = |group: &QuotaGroup| {
            let missing = || SettingError::new("groups", format!("{} is missing", group.name()));
            book.group(group.name()).ok_or_else(missing)
        };
        let [prime, standard, guest] = tiers;
        Ok(Self { tiers: [find(prime)?, find(standard)?, find(guest)?], everybody: find(everybody)? })
    }

    pub(crate) fn of(&self, tier: Tier) -> GroupId {
        self.tiers[tier.index()]
    }
}
