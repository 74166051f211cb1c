//! Configuration that can be reloaded while requests are in progress.
//!
//! A request loads the rules on arrival and keeps them to its end; later requests may run under newer rules. Counts,
//! spend, measurements and the posture are not part of the rules and survive a reload.

use crate::callers::{Caller, CallerResolver};
use crate::limit_description::{LimitDescription, LimitScope, policy_item};
use crate::quota_store::QuotaStore;
use crate::route::Route;
use crate::route_table::{ModelLookup, RouteTable};
use seawall_core::budget::{CalendarOffset, PeriodCaps, WindowCaps};
use seawall_core::credit::RetryBudget;
use seawall_core::deadline::TimeLimits;
use seawall_core::evaluator::PlanPolicy;
use seawall_core::money::Money;
use seawall_core::quota::{
    GroupId, LimitChange, LimitId, QuotaGroup, QuotaScope, RetryAfterPolicy, check_request_groups,
};
use seawall_core::retry::{HedgePolicy, RetryPolicy};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use seawall_core::vocabulary::Tier;
use seawall_store::{CheckedLimits, Placement};
use seawall_wire::RequestLimits;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Timeouts for receiving requests and sending responses, and the body limit of guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveLimits {
    /// Timeout for the request head.
    pub header_timeout: Duration,
    /// Timeout for the request body.
    pub body_timeout: Duration,
    /// How long a connection may be idle between requests.
    pub idle_timeout: Duration,
    /// How long a response may wait for the caller to read.
    pub send_timeout: Duration,
    /// How long a streamed response may be silent before a keep-alive is sent; `None` for no keep-alives.
    pub keep_alive_interval: Option<Duration>,
    /// Maximum body size of a guest's request, in bytes.
    pub max_guest_body_size: usize,
}

impl ReceiveLimits {
    /// The same timeout for everything, and a quarter of a mebibyte for guests.
    #[must_use]
    pub const fn uniform(timeout: Duration) -> Self {
        Self {
            header_timeout: timeout,
            body_timeout: timeout,
            idle_timeout: timeout,
            send_timeout: timeout,
            keep_alive_interval: None,
            max_guest_body_size: 1 << 18,
        }
    }
}

/// Rate limits, as the settings define them.
#[derive(Clone, Debug)]
pub struct LimitRules {
    /// Limits per caller for each tier that has any, in the order of [`Tier::ALL`].
    pub tiers: [Option<QuotaGroup>; 3],
    /// Limits over all requests.
    pub global: QuotaGroup,
    /// Limits of all guests of one network.
    pub by_address: Option<QuotaGroup>,
    /// Limits per route, by route name.
    pub routes: Vec<(String, QuotaGroup)>,
    /// Limits of API keys. Each group has the limits of all keys that agreed the same ones.
    pub keys: Vec<QuotaGroup>,
    /// How the Retry-After of a rejection is computed.
    pub retry_after: RetryAfterPolicy,
}

impl LimitRules {
    /// All limits, in the order in which the quota store keeps them.
    #[must_use]
    pub fn groups(&self) -> Vec<QuotaGroup> {
        let fixed =
            self.tiers.iter().flatten().chain([&self.global]).chain(&self.by_address).chain(&self.keys);
        fixed.chain(self.routes.iter().map(|(_, group)| group)).cloned().collect()
    }

    /// All limits, with where a store shared by a fleet keeps their counts: with the caller, or for all callers.
    #[must_use]
    pub fn placed_groups(&self) -> Vec<(QuotaGroup, Placement)> {
        let placed = |group: QuotaGroup| {
            let mut per_caller = self.tiers.iter().flatten().chain(&self.by_address).chain(&self.keys);
            let is_per_caller = per_caller.any(|own| own.name() == group.name());
            let placement = if is_per_caller { Placement::Partition } else { Placement::Fleet };
            (group, placement)
        };
        self.groups().into_iter().map(placed).collect()
    }

    /// Rejects limits of which more can apply to one request than a decision supports.
    fn check(&self) -> Result<(), SettingError> {
        let route = self.routes.first().map(|(_, group)| group);
        let check = |tier: &Option<QuotaGroup>| {
            let others = || tier.iter().chain([&self.global]).chain(&self.by_address).chain(route);
            check_request_groups(others())?;
            self.keys.iter().try_for_each(|key| check_request_groups(others().chain([key])))
        };
        self.tiers.iter().try_for_each(check)
    }
}

/// Rules as the settings define them.
pub struct RuleOptions {
    /// Identifies callers. A reload passes it on while its settings are unchanged.
    pub callers: Arc<CallerResolver>,
    /// Rate limits.
    pub limits: LimitRules,
    /// The routes, with the targets behind each.
    pub routes: Vec<Route>,
    /// The terms of models that callers name, for routes with a wildcard.
    pub models: ModelLookup,
    /// The retry policy.
    pub retry: RetryPolicy,
    /// The node's retry budget. A reload passes it on while its settings are unchanged.
    pub retry_budget: Arc<RetryBudget>,
    /// When to hedge a slow attempt. Passed on like the retry budget.
    pub hedge: Arc<HedgePolicy>,
    /// Timeouts of requests and streams.
    pub time: TimeLimits,
    /// Size limits of requests.
    pub request: RequestLimits,
    /// Timeouts for receiving requests.
    pub receive: ReceiveLimits,
    /// What the settings define for every plan.
    pub plan: PlanPolicy,
    /// The daily budget per caller, if a shared store keeps it. Otherwise the local ledger does.
    pub shared_caller_budget: Option<Money>,
    /// Budgets by calendar window of teams and tiers. Those of keys are in their contracts.
    pub budgets: WindowBudgetRules,
}

/// Budgets by calendar window.
#[derive(Clone, Debug, Default)]
pub struct WindowBudgetRules {
    /// The calendar of all windows.
    pub offset: CalendarOffset,
    /// The caps of each tier, in the order of [`Tier::ALL`].
    pub tiers: [PeriodCaps; 3],
    /// The caps of each team, by its [number](crate::callers::team_number).
    pub teams: BTreeMap<u64, PeriodCaps>,
}

impl WindowBudgetRules {
    /// The budgets that apply to a caller's requests.
    #[must_use]
    pub fn caps(&self, caller: &Caller) -> WindowCaps {
        let (mut key, mut team, mut of_team) = (PeriodCaps::NONE, 0, PeriodCaps::NONE);
        if let Some(contract) = &caller.contract {
            (key, team) = (contract.budgets, contract.team);
            // Most deployments have no budgets of teams.
            of_team = if team == 0 { None } else { self.teams.get(&team).copied() }.unwrap_or_default();
        }
        WindowCaps { offset: self.offset, team, caps: [key, of_team, self.tiers[caller.tier.index()]] }
    }
}

impl RuleOptions {
    /// Validates the rules for a pipeline with this quota store, and changes nothing.
    pub fn check(self, quotas: &QuotaStore) -> Result<CheckedRules, SettingError> {
        if self.routes.is_empty() {
            return Err(SettingError::new("routes", "at least one route is required"));
        }
        self.limits.check()?;
        for (index, route) in self.routes.iter().enumerate() {
            if self.routes[..index].iter().any(|earlier| earlier.alias == route.alias) {
                return Err(SettingError::new("routes", format!("duplicate route name {}", route.alias)));
            }
        }
        let limits = quotas.check_limits(self.limits.groups())?;
        Ok(CheckedRules { options: self, limits })
    }
}

/// Validated rules. Putting them in force cannot fail.
pub struct CheckedRules {
    options: RuleOptions,
    limits: CheckedLimits,
}

impl CheckedRules {
    /// Changes the limits in the quota store, and prepares the rules for use by requests.
    pub(crate) fn install(self, quotas: &QuotaStore, now: Now) -> (PipelineRules, Vec<LimitChange>) {
        let changes = quotas.change_limits(self.limits, now);
        (PipelineRules::new(self.options, quotas), changes)
    }
}

/// The rules at one moment. An assistant makes its question and has it answered under the same rules.
#[derive(Clone)]
pub struct RulesSnapshot(pub(crate) Arc<PipelineRules>);

impl RulesSnapshot {
    /// Size limits of requests.
    #[must_use]
    pub fn request_limits(&self) -> &RequestLimits {
        &self.0.request
    }
}

impl fmt::Debug for RulesSnapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RulesSnapshot").finish_non_exhaustive()
    }
}

/// Validated rules, prepared for use by requests.
pub(crate) struct PipelineRules {
    pub(crate) callers: Arc<CallerResolver>,
    pub(crate) groups: LimitGroups,
    pub(crate) retry_after: RetryAfterPolicy,
    pub(crate) routes: RouteTable,
    pub(crate) retry: RetryPolicy,
    pub(crate) retry_budget: Arc<RetryBudget>,
    pub(crate) hedge: Arc<HedgePolicy>,
    pub(crate) time: TimeLimits,
    pub(crate) request: RequestLimits,
    pub(crate) receive: ReceiveLimits,
    pub(crate) plan: PlanPolicy,
    pub(crate) shared_caller_budget: Option<Money>,
    pub(crate) budgets: WindowBudgetRules,
    policies: [Option<Arc<str>>; 3],
}

impl PipelineRules {
    /// All limits of a tier, as the value of a `RateLimit-Policy` header; `None` if it has none.
    pub(crate) fn policy(&self, tier: Tier) -> Option<Arc<str>> {
        self.policies[tier.index()].clone()
    }

    /// The quota store already contains the limits.
    fn new(options: RuleOptions, quotas: &QuotaStore) -> Self {
        let RuleOptions {
            callers,
            limits: limit_rules,
            routes,
            models,
            retry,
            retry_budget,
            hedge,
            time,
            request,
            receive,
            plan,
            shared_caller_budget,
            budgets,
        } = options;
        let groups = LimitGroups::new(quotas, &limit_rules);
        let policies = limit_rules.tiers.each_ref().map(|group| group.as_ref().map(policy));
        let routes = RouteTable::new(routes, models);
        let retry_after = limit_rules.retry_after;
        Self {
            callers,
            groups,
            retry_after,
            routes,
            retry,
            retry_budget,
            hedge,
            time,
            request,
            receive,
            plan,
            shared_caller_budget,
            budgets,
            policies,
        }
    }
}

/// The limits of a group as `RateLimit-Policy` items: name, number of units, and period in seconds.
fn policy(group: &QuotaGroup) -> Arc<str> {
    group.quotas().iter().map(policy_item).collect::<Vec<_>>().join(", ").into()
}

/// Identifiers of the limit groups in the quota store.
pub(crate) struct LimitGroups {
    tiers: [Option<GroupId>; 3],
    pub(crate) global: GroupId,
    pub(crate) by_address: Option<GroupId>,
    routes: BTreeMap<Box<str>, GroupId>,
    /// By the name of the group.
    keys: BTreeMap<Box<str>, GroupId>,
    /// Names by limit. Cached, because every response reports one.
    names: BTreeMap<LimitId, Arc<LimitDescription>>,
    /// The number of limits in each group.
    sizes: BTreeMap<GroupId, u16>,
}

fn group_size(group: &QuotaGroup) -> u16 {
    u16::try_from(group.quotas().len()).unwrap_or(u16::MAX)
}

/// Names are cached for at most this many limits per group, including removed ones.
const MAX_LIMITS_PER_GROUP: usize = 64;

fn names(quotas: &QuotaStore, limit_rules: &LimitRules) -> BTreeMap<LimitId, Arc<LimitDescription>> {
    let tiers = Tier::ALL
        .into_iter()
        .zip(&limit_rules.tiers)
        .filter_map(|(tier, group)| Some((LimitScope::Caller(tier), group.as_ref()?)));
    let global = (LimitScope::Global, &limit_rules.global);
    let by_address = limit_rules.by_address.iter().map(|group| (LimitScope::Network, group));
    let routes =
        limit_rules.routes.iter().map(|(name, group)| (LimitScope::Route(name.as_str().into()), group));
    let mut names = BTreeMap::new();
    let keys = limit_rules.keys.iter().map(|group| (LimitScope::Key, group));
    for (scope, group) in tiers.chain([global]).chain(by_address).chain(routes).chain(keys) {
        let Some(id) = quotas.group(group.name()) else { continue };
        for limit in (0..MAX_LIMITS_PER_GROUP).map(|quota| LimitId { group: id, quota }) {
            let Some(name) = quotas.name(limit) else { continue };
            // A limit that was removed from the settings may still hold counts.
            let quota = group.quotas().iter().find(|quota| quota.name() == &*name);
            let named = quota.map_or_else(
                || LimitDescription::unknown(&name),
                |quota| LimitDescription::new(quota, scope.clone()),
            );
            names.insert(limit, Arc::new(named));
        }
    }
    names
}

impl LimitGroups {
    fn new(quotas: &QuotaStore, limit_rules: &LimitRules) -> Self {
        // A store that has checked and changed to these limits has every group. If one were missing, requests that count
        // against it would be rejected, because no group has this id.
        let find = |group: &QuotaGroup| quotas.group(group.name()).unwrap_or(GroupId::from_index(u16::MAX));
        Self {
            tiers: limit_rules.tiers.each_ref().map(|group| group.as_ref().map(find)),
            global: find(&limit_rules.global),
            by_address: limit_rules.by_address.as_ref().map(find),
            routes: limit_rules
                .routes
                .iter()
                .map(|(name, group)| (name.as_str().into(), find(group)))
                .collect(),
            keys: limit_rules.keys.iter().map(|group| (group.name().into(), find(group))).collect(),
            names: names(quotas, limit_rules),
            sizes: limit_rules.groups().iter().map(|group| (find(group), group_size(group))).collect(),
        }
    }

    pub(crate) fn name(&self, limit: LimitId) -> Arc<str> {
        self.names.get(&limit).map_or_else(|| "limit".into(), |named| Arc::clone(&named.name))
    }

    /// The full description of a limit.
    pub(crate) fn describe(&self, limit: LimitId) -> Arc<LimitDescription> {
        self.names.get(&limit).cloned().unwrap_or_else(|| Arc::new(LimitDescription::unknown("limit")))
    }

    /// The number of limits that these scopes have together.
    pub(crate) fn limits_in(&self, scopes: &[QuotaScope]) -> u16 {
        scopes.iter().filter_map(|scope| self.sizes.get(&scope.group)).sum()
    }

    pub(crate) fn of_tier(&self, tier: Tier) -> Option<GroupId> {
        self.tiers[tier.index()]
    }

    /// The group of an API key's limits. Requests are rejected if there is none, which is a bug: a limit must not be skipped.
    pub(crate) fn of_key_limits(&self, name: &str) -> GroupId {
        self.keys.get(name).copied().unwrap_or(GroupId::from_index(u16::MAX))
    }

    pub(crate) fn of_route(&self, alias: &str) -> Option<GroupId> {
        // Most deployments have no limits per route.
        if self.routes.is_empty() { None } else { self.routes.get(alias).copied() }
    }
}
