//! The rules of the pipeline, from settings.

use super::derive::DerivedState;
use super::error::ServeError;
use crate::chat::{fallback_texts, guardrails};
use crate::memory_limit::memory_limit;
use crate::store_maintenance::key_group;
use crate::target::model_lookup;
use seawall_config::{FaceName, RouteSettings, Settings};
use seawall_core::balance::BalanceStrategy;
use seawall_core::body_memory::BodyMemoryOptions;
use seawall_core::evaluator::PlanPolicy;
use seawall_core::quota::QuotaGroup;
use seawall_pipeline::callers::team_number;
use seawall_pipeline::dialect::Face;
use seawall_pipeline::{
    BalanceOptions, CallerResolver, Faces, LimitRules, ReceiveLimits, Route, RouteOptions, RuleOptions,
    WindowBudgetRules,
};
use seawall_store::{Directory, StoreError};
use seawall_wire::RequestLimits;
use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The rules of these settings.
pub(super) fn rule_options(
    settings: &Settings,
    limits: LimitRules,
    derived: &DerivedState,
    callers: &Arc<CallerResolver>,
) -> Result<RuleOptions, ServeError> {
    let route = |(name, route): (&String, &RouteSettings)| {
        Route::new(RouteOptions {
            alias: name.clone(),
            faces: face_set(&route.faces),
            guest_faces: face_set(&route.guest_faces),
            start_timeout: route.start_timeout,
            token_limit: route.tokens.map(|rate| u64::from(rate.limit)),
            fallback_texts: fallback_texts(settings, route.fallback),
            guardrails: guardrails(settings, name)?,
            targets: route.targets.iter().filter_map(|name| derived.targets.get(name)).collect(),
            balance: balance(route, settings),
        })
    };
    let server = &settings.server;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(RuleOptions {
        callers: Arc::clone(callers),
        limits,
        routes: settings.routes.iter().map(route).collect::<Result<_, _>>()?,
        models: model_lookup(settings),
        retry: settings.retry.interactive,
        retry_budget: Arc::clone(&derived.retry_budget.1),
        hedge: Arc::clone(&derived.hedge.1),
        time: settings.deadlines.limits.clone(),
        request: RequestLimits {
            max_body_size: size(server.max_body_size),
            max_depth: size(server.max_depth),
            max_fields: size(server.max_fields),
            max_items: size(server.max_items),
        },
        receive: ReceiveLimits {
            header_timeout: server.header_timeout,
            body_timeout: server.body_timeout,
            idle_timeout: server.idle_timeout,
            send_timeout: server.send_timeout,
            keep_alive_interval: server.keep_alive_interval,
            max_guest_body_size: size(server.max_guest_body_size),
        },
        plan: PlanPolicy {
            protections: settings.protections,
            guest_lite: settings.rollout.guest_lite,
            off_peak: Some(settings.hours.off_peak.clone()),
        },
        shared_caller_budget: settings.store.shared().map(|_| settings.budget.limits.caller_cap()),
        budgets: WindowBudgetRules {
            offset: settings.budget.offset,
            tiers: settings.budget.tiers,
            teams: settings.callers.teams.iter().map(|(name, caps)| (team_number(name), *caps)).collect(),
        },
    })
}

/// How the targets of a route are balanced; `None` to keep their order.
fn balance(route: &RouteSettings, settings: &Settings) -> Option<BalanceOptions> {
    let member = |name: &String| {
        let target = settings.targets.get(name)?;
        Some((target.balance_group(route.balance_across).to_owned(), target.weight))
    };
    (route.balance != BalanceStrategy::Ordered).then(|| BalanceOptions {
        strategy: route.balance,
        members: route.targets.iter().filter_map(member).collect(),
    })
}

/// The rate limits of these settings.
pub(super) fn limit_rules(settings: &Settings, key_limits: &KeyLimitSets) -> LimitRules {
    let limits = &settings.limits;
    let route_quotas = |(name, route): (&String, &RouteSettings)| Some((name.clone(), route.quotas.clone()?));
    LimitRules {
        tiers: limits.tiers.clone(),
        global: limits.global.clone(),
        by_address: limits.guests_by_address.clone(),
        routes: settings.routes.iter().filter_map(route_quotas).collect(),
        keys: key_limits.groups(settings),
        retry_after: limits.retry_after,
    }
}

/// The different lists of rate limits that keys in the caller directory have agreed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyLimitSets(BTreeSet<Vec<Box<str>>>);

/// Maximum number of different lists of rate limits. Each is a group of limits, whose rules every core reads.
pub(crate) const MAX_KEY_LIMIT_SETS: usize = 256;

impl KeyLimitSets {
    /// Reads them from the directory of a process, which answers at once.
    pub(super) fn read(directory: &dyn Directory) -> Result<Self, StoreError> {
        const PAGE: usize = 1_000;
        let (mut sets, mut after) = (Self::default(), None);
        loop {
            let page = directory.list(after, PAGE).now_or_never().unwrap_or(Ok(Vec::new()))?;
            after = page.last().map(|(credential, _)| *credential);
            for (_, record) in &page {
                if record.revoked.is_none() {
                    sets.add(&record.contract.limits);
                }
            }
            if page.len() < PAGE {
                return Ok(sets);
            }
        }
    }

    /// Adds the limits of a key. Returns whether they are new.
    pub(crate) fn add(&mut self, limits: &[Box<str>]) -> bool {
        !limits.is_empty() && !self.0.contains(limits) && self.0.insert(limits.to_vec())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The groups of these limits and of those of keys in the settings.
    fn groups(&self, settings: &Settings) -> Vec<QuotaGroup> {
        let mut sets = self.clone();
        for key in settings.callers.keys.values() {
            let limits: Vec<Box<str>> = key.terms.limits.iter().map(|limit| limit.as_str().into()).collect();
            sets.add(&limits);
        }
        // Limits are checked before they are stored.
        sets.0.iter().filter_map(|limits| key_group(limits)).collect()
    }
}

/// The memory limit for buffered request bodies.
pub(super) fn body_memory(settings: &Settings) -> BodyMemoryOptions {
    let server = &settings.server;
    BodyMemoryOptions {
        capacity: server
            .body_memory
            .or_else(|| NonZeroU64::new(memory_limit() / 4))
            .unwrap_or(NonZeroU64::MIN),
        caller_share: server.body_memory_per_caller,
        address_share: server.body_memory_per_address,
    }
}

fn face_set(names: &[FaceName]) -> Faces {
    Faces::of(names.iter().flat_map(|name| {
        match name {
            FaceName::Anthropic => &[Face::ANTHROPIC_MESSAGES][..],
            FaceName::OpenAi => &[Face::OPENAI_CHAT, Face::RESPONSES],
            FaceName::Bedrock => &[Face::BEDROCK_INVOKE, Face::BEDROCK_CONVERSE],
            FaceName::Gemini => &[Face::GEMINI],
            FaceName::Chat => &[Face::Chat],
        }
        .iter()
        .copied()
    }))
}
