//! Balancing among the targets of a route that serve the same model.
//!
//! The members of a group stand together in the place of its first member; [`balance`](seawall_core::balance) orders them
//! for each request, and groups keep the order of the route. A target that is not ready comes last in its group, and so
//! does one whose vendor states a problem with our account, except for one call a minute, which shows whether that is
//! over.

use crate::answer::caller_key;
use crate::pipeline::Pipeline;
use crate::plan::PlannedRequest;
use crate::target::GuardedTarget;
use seawall_core::balance::{BalanceMember, BalanceStrategy, PeakEwma, StableHash, balance};
use seawall_core::failure::{AttemptOutcome, Health};
use seawall_core::runtime::Runtime;
use seawall_core::setting::SettingError;
use seawall_core::time::Timestamp;
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a failed attempt counts as, so that a target that fails fast does not look fast.
const FAILURE_LATENCY: Duration = Duration::from_secs(5);

/// How the targets of a route are balanced.
#[derive(Clone, Debug)]
pub struct BalanceOptions {
    /// How the first member of a group is chosen.
    pub strategy: BalanceStrategy,
    /// For each target of the route, in order: the name of its group, and its weight.
    pub members: Vec<(String, u32)>,
}

/// The groups of a route. See the module documentation.
#[derive(Debug)]
pub(crate) struct RouteBalance {
    strategy: BalanceStrategy,
    groups: Vec<Vec<GroupMember>>,
}

#[derive(Debug)]
struct GroupMember {
    /// The position of the target in the route.
    target: usize,
    id: u64,
    weight: u32,
}

impl RouteBalance {
    pub(crate) fn new(options: BalanceOptions, targets: &[Arc<GuardedTarget>]) -> Result<Self, SettingError> {
        let BalanceOptions { strategy, members } = options;
        if members.len() != targets.len() {
            return Err(SettingError::new("balance", "must name the group of every target"));
        }
        let mut groups: Vec<(&str, Vec<GroupMember>)> = Vec::new();
        for (index, ((group, weight), target)) in members.iter().zip(targets).enumerate() {
            let member =
                GroupMember { target: index, id: StableHash::of(target.name.as_bytes()), weight: *weight };
            match groups.iter_mut().find(|(name, _)| name == group) {
                Some((_, members)) => members.push(member),
                None => groups.push((group, vec![member])),
            }
            if strategy == BalanceStrategy::LeastLatency {
                target.latency.get_or_init(Mutex::default);
            }
        }
        Ok(Self { strategy, groups: groups.into_iter().map(|(_, members)| members).collect() })
    }

    pub(crate) fn has_affinity(&self) -> bool {
        self.strategy == BalanceStrategy::Affinity
    }

    fn order<R: Runtime>(
        &self,
        pipeline: &Pipeline<R>,
        planned: &PlannedRequest,
        targets: &[Arc<GuardedTarget>],
    ) -> Vec<Arc<GuardedTarget>> {
        let now = pipeline.runtime.monotonic();
        let key = match self.strategy {
            BalanceStrategy::Affinity => planned.request.parsed.affinity_key(),
            BalanceStrategy::Ordered => 0,
            BalanceStrategy::Weighted | BalanceStrategy::LeastLatency => pipeline.runtime.draw().bits(),
        };
        let caller = caller_key(&planned.caller);
        let mut ordered = Vec::with_capacity(targets.len());
        for group in &self.groups {
            let member = |member: &GroupMember| {
                let target = targets.get(member.target)?;
                let is_available = !target.health.is_stated() && target.is_ready(caller, now);
                Some(BalanceMember {
                    id: member.id,
                    weight: member.weight,
                    is_available,
                    in_flight: target.in_flight.in_flight(),
                    latency: target.latency(now),
                })
            };
            let members: Vec<BalanceMember> = group.iter().filter_map(member).collect();
            let begin = ordered.len();
            for index in balance(self.strategy, &members, key) {
                let target = group.get(index).and_then(|member| targets.get(member.target));
                ordered.extend(target.cloned());
            }
            let probe = ordered[begin..].iter().position(|target: &Arc<GuardedTarget>| {
                target.is_ready(caller, now) && target.health.claim_probe(now)
            });
            if let Some(probe) = probe {
                ordered[begin..=begin + probe].rotate_right(1);
            }
        }
        ordered
    }
}

/// The targets of a request's route, in the order in which they are tried.
pub(crate) fn ordered_targets<'p, R: Runtime>(
    pipeline: &Pipeline<R>,
    planned: &'p PlannedRequest,
) -> Cow<'p, [Arc<GuardedTarget>]> {
    let targets = &*planned.route.targets;
    match &planned.route.balance {
        Some(balance) => Cow::Owned(balance.order(pipeline, planned, targets)),
        None => Cow::Borrowed(targets),
    }
}

impl GuardedTarget {
    /// The time that a call usually takes to start, if a route balances by it.
    fn latency(&self, now: Timestamp) -> Duration {
        let latency =
            |latency: &Mutex<PeakEwma>| latency.lock().unwrap_or_else(PoisonError::into_inner).value(now);
        self.latency.get().map(latency).unwrap_or_default()
    }

    /// Records how long an attempt took to start or to fail, if a route balances by it.
    pub(crate) fn record_latency(&self, outcome: &AttemptOutcome, took: Duration, now: Timestamp) {
        let Some(latency) = self.latency.get() else { return };
        let sample = match self.health_of(outcome) {
            Health::Good | Health::Slow => took,
            Health::Bad | Health::TimedOut => took.max(FAILURE_LATENCY),
            Health::Unknown => return,
        };
        latency.lock().unwrap_or_else(PoisonError::into_inner).record(sample, now);
    }
}
