//! What may change while requests are under way.
//!
//! A request takes the rules that hold when it comes in and keeps them to its end; others that come in later may have
//! others. What was counted, spent and learned is not part of them and outlives them.

use crate::callers::Callers;
use crate::chat_rules::ChatRules;
use crate::limit_name::{LimitName, LimitScope, policy_item};
use crate::limits::Limits;
use crate::target::Route;
use seawall_core::credit::RetryBudget;
use seawall_core::deadline::TimeLimits;
use seawall_core::evaluator::Posture;
use seawall_core::money::Money;
use seawall_core::quota::{ComeBackRule, GroupId, LimitId, QuotaGroup};
use seawall_core::retry::{HedgePolicy, RetryPolicy};
use seawall_core::setting::SettingError;
use seawall_core::vocabulary::Tier;
use seawall_wire::RequestLimits;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a request may take to arrive, and how large a guest's may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrivalLimits {
    /// Its head.
    pub head: Duration,
    /// Its body.
    pub body: Duration,
    /// How long a connection may be open without a request under way.
    pub idle: Duration,
    /// How long an answer may wait for its caller to read on.
    pub send: Duration,
    /// The largest body of a guest's request, in bytes.
    pub guest_body: usize,
}

/// The limits of everybody, as somebody wrote them.
#[derive(Clone, Debug)]
pub struct LimitRules {
    /// The limits of each tier's callers, in the order of [`Tier::ALL`].
    pub tiers: [QuotaGroup; 3],
    /// The limits of everybody together.
    pub everybody: QuotaGroup,
    /// The limits of guests from one address.
    pub by_address: Option<QuotaGroup>,
    /// The limits of routes, by name.
    pub routes: Vec<(String, QuotaGroup)>,
    /// What callers are told whom a limit refuses.
    pub come_back: ComeBackRule,
}

impl LimitRules {
    /// All limits, in the order in which they are kept.
    #[must_use]
    pub fn groups(&self) -> Vec<QuotaGroup> {
        let fixed = self.tiers.iter().chain([&self.everybody]).chain(&self.by_address);
        fixed.chain(self.routes.iter().map(|(_, group)| group)).cloned().collect()
    }
}

/// Rules as somebody wrote them.
pub struct RuleOptions {
    /// Who may ask. Handed on from rules to rules as long as it stays the same.
    pub callers: Arc<Callers>,
    /// How often.
    pub limits: LimitRules,
    /// The names callers use, and the targets behind each.
    pub routes: Vec<Route>,
    /// How to retry.
    pub retry: RetryPolicy,
    /// How much retrying the node may add. Handed on from rules to rules as long as it stays the same.
    pub retry_budget: Arc<RetryBudget>,
    /// When to start a second attempt beside a slow one. Handed on likewise.
    pub hedge: Arc<HedgePolicy>,
    /// How long anything may take.
    pub time: TimeLimits,
    /// How large a request may be.
    pub request: RequestLimits,
    /// How long it may take to arrive.
    pub arrival: ArrivalLimits,
    /// How things stand.
    pub posture: Posture,
    /// What a caller may spend on a day, where a store that a fleet shares keeps that. The books keep it otherwise.
    pub shared_caller_day: Option<Money>,
    /// What our own face goes by, where a route has it.
    pub chat: Option<Arc<ChatRules>>,
}

impl RuleOptions {
    /// Everything that can be wrong with rules whose limits were taken.
    pub fn check(&self) -> Result<(), SettingError> {
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
}

/// Rules that fit together.
pub(crate) struct Rules {
    pub(crate) callers: Arc<Callers>,
    pub(crate) groups: Groups,
    pub(crate) come_back: ComeBackRule,
    pub(crate) routes: BTreeMap<Box<str>, Arc<Route>>,
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_budget: Arc<RetryBudget>,
    pub(crate) hedge: Arc<HedgePolicy>,
    pub(crate) time: TimeLimits,
    pub(crate) request: RequestLimits,
    pub(crate) arrival: ArrivalLimits,
    pub(crate) posture: Posture,
    pub(crate) shared_caller_day: Option<Money>,
    pub(crate) chat: Option<Arc<ChatRules>>,
    policies: [Arc<str>; 3],
}

impl Rules {
    /// All limits of a tier, as a header of answers has them.
    pub(crate) fn policy(&self, tier: Tier) -> Arc<str> {
        Arc::clone(&self.policies[tier.index()])
    }

    /// Of rules that were [checked](RuleOptions::check). The limits must be kept already.
    pub(crate) fn new(options: RuleOptions, limits: &Limits) -> Result<Self, SettingError> {
        let RuleOptions {
            callers,
            limits: wanted,
            routes,
            retry,
            retry_budget,
            hedge,
            time,
            request,
            arrival,
            posture,
            shared_caller_day,
            chat,
        } = options;
        let groups = Groups::new(limits, &wanted)?;
        let policies = wanted.tiers.each_ref().map(policy);
        let routes = routes.into_iter().map(|route| (route.alias.as_ref().into(), Arc::new(route))).collect();
        let come_back = wanted.come_back;
        Ok(Self {
            callers,
            groups,
            come_back,
            routes,
            retry,
            retry_budget,
            hedge,
            time,
            request,
            arrival,
            posture,
            shared_caller_day,
            chat,
            policies,
        })
    }
}

/// The limits of a group, each as its name, how many it lets through, and in how many seconds.
fn policy(group: &QuotaGroup) -> Arc<str> {
    group.quotas().iter().map(policy_item).collect::<Vec<_>>().join(", ").into()
}

/// Where each limit is kept.
pub(crate) struct Groups {
    tiers: [GroupId; 3],
    pub(crate) everybody: GroupId,
    pub(crate) by_address: Option<GroupId>,
    routes: BTreeMap<Box<str>, GroupId>,
    /// What limits are called, by group and number: told with every answer, so that it is not asked for then.
    names: BTreeMap<LimitId, Arc<LimitName>>,
}

/// No group has more limits, of those it has or ever had, whose names are worth remembering.
const MOST_NUMBERS: usize = 64;

fn names(limits: &Limits, wanted: &LimitRules) -> BTreeMap<LimitId, Arc<LimitName>> {
    let tiers = Tier::ALL.into_iter().zip(&wanted.tiers).map(|(tier, group)| (LimitScope::Tier(tier), group));
    let everybody = (LimitScope::Global, &wanted.everybody);
    let by_address = wanted.by_address.iter().map(|group| (LimitScope::Address, group));
    let routes = wanted.routes.iter().map(|(name, group)| (LimitScope::Route(name.as_str().into()), group));
    let mut names = BTreeMap::new();
    for (scope, group) in tiers.chain([everybody]).chain(by_address).chain(routes) {
        let Some(id) = limits.group(group.name()) else { continue };
        for limit in (0..MOST_NUMBERS).map(|quota| LimitId { group: id, quota }) {
            let Some(name) = limits.name(limit) else { continue };
            // A limit that settings no longer have may still hold somebody's counts.
            let quota = group.quotas().iter().find(|quota| quota.name() == &*name);
            let named =
                quota.map_or_else(|| LimitName::unknown(&name), |quota| LimitName::new(quota, scope.clone()));
            names.insert(limit, Arc::new(named));
        }
    }
    names
}

impl Groups {
    fn new(limits: &Limits, wanted: &LimitRules) -> Result<Self, SettingError> {
        let find = |group: &QuotaGroup| {
            let missing = || SettingError::new("groups", format!("{} is missing", group.name()));
            limits.group(group.name()).ok_or_else(missing)
        };
        let [prime, standard, guest] = &wanted.tiers;
        let of_route = |(name, group): &(String, QuotaGroup)| Ok((name.as_str().into(), find(group)?));
        Ok(Self {
            tiers: [find(prime)?, find(standard)?, find(guest)?],
            everybody: find(&wanted.everybody)?,
            by_address: wanted.by_address.as_ref().map(find).transpose()?,
            routes: wanted.routes.iter().map(of_route).collect::<Result<_, SettingError>>()?,
            names: names(limits, wanted),
        })
    }

    /// What a limit is called.
    pub(crate) fn name(&self, limit: LimitId) -> Arc<str> {
        self.names.get(&limit).map_or_else(|| "limit".into(), |named| Arc::clone(&named.name))
    }

    /// All that there is to say of a limit.
    pub(crate) fn named(&self, limit: LimitId) -> Arc<LimitName> {
        self.names.get(&limit).cloned().unwrap_or_else(|| Arc::new(LimitName::unknown("limit")))
    }

    pub(crate) fn of(&self, tier: Tier) -> GroupId {
        self.tiers[tier.index()]
    }

    pub(crate) fn of_route(&self, alias: &str) -> Option<GroupId> {
        // Most shops have none.
        if self.routes.is_empty() { None } else { self.routes.get(alias).copied() }
    }
}
