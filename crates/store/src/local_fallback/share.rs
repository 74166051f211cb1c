//! A node's share of the limits, by which it decides without the store.

use crate::memory::{MemoryQuotaReservation, MemoryQuotas};
use crate::quotas::{AdmissionRequest, AdmitDecision, CallerBudgetRequest, Settlement};
use crate::{StoreError, lock};
use seawall_core::money::Money;
use seawall_core::quota::{
    LimitId, LimitView, Quota, QuotaGroup, QuotaKind, QuotaRefusal, QuotaUnit, QuotaUnits,
};
use seawall_core::setting::SettingError;
use seawall_core::time::Now;
use std::sync::Mutex;
use std::time::Duration;

/// The node's local rate limiter, with its share of every limit.
#[derive(Debug)]
pub(super) struct NodeShare {
    pub(super) quotas: MemoryQuotas,
    /// The limits of the whole fleet.
    fleet_groups: Mutex<Vec<QuotaGroup>>,
    pub(super) nodes: u32,
}

/// The suggested wait for a request that is larger than the node's share. It needs the store, and when that will be
/// back is unknown.
const LARGER_THAN_SHARE: Duration = Duration::from_secs(1);

impl NodeShare {
    pub(super) fn new(groups: &[QuotaGroup], nodes: u32, seed: u64) -> Result<Self, SettingError> {
        let quotas = MemoryQuotas::new(shares(groups, nodes)?, seed)?;
        Ok(Self { quotas, fleet_groups: Mutex::new(groups.to_vec()), nodes: nodes.max(1) })
    }

    /// Whether the node has a share of each of these limits.
    pub(super) fn check_limits(&self, groups: &[QuotaGroup]) -> Result<(), SettingError> {
        self.quotas.limiter().check_limits(&shares(groups, self.nodes)?)
    }

    /// Changes to limits that were checked; what was used of them stays used.
    pub(super) fn change_limits(&self, groups: &[QuotaGroup], now: Now) {
        // Only a share for another number of nodes than at the check can fail here. The previous share then stays.
        if let Ok(shares) = shares(groups, self.nodes) {
            self.quotas.limiter().replace_limits(shares, now);
            *lock(&self.fleet_groups) = groups.to_vec();
        }
    }

    /// Whether a request would fit under the whole limit.
    fn fits_fleet_limit(&self, limit: LimitId, cost: QuotaUnits) -> bool {
        let fleet_groups = lock(&self.fleet_groups);
        let group = fleet_groups.get(usize::from(limit.group.index()));
        group.and_then(|group| group.quotas().get(limit.quota)).is_some_and(|quota| {
            let units = match quota.unit() {
                QuotaUnit::Request => cost.requests,
                QuotaUnit::Token => cost.tokens,
            };
            units <= quota.capacity()
        })
    }

    pub(super) fn reserve(
        &self,
        request: &AdmissionRequest<'_>,
        now: Now,
    ) -> Result<AdmitDecision<MemoryQuotaReservation>, StoreError> {
        let share = |cap: Money| Money::from_nanos(cap.as_nanos().div_ceil(u64::from(self.nodes)));
        let money = request.money.map(|money| CallerBudgetRequest { cap: share(money.cap), ..money });
        let decision = self.quotas.reserve_sync(&AdmissionRequest { money, ..request.clone() }, now)?;
        Ok(match decision {
            AdmitDecision::TooLarge { limit, capacity } if self.fits_fleet_limit(limit, request.units) => {
                let binding = LimitView { limit, capacity, remaining: 0 };
                AdmitDecision::RateLimited(QuotaRefusal { binding, wait: LARGER_THAN_SHARE })
            }
            decision => decision,
        })
    }

    /// Charges what the store has granted, whether the share has room for it or not. Also returns whether it had no
    /// room.
    pub(super) fn charge(
        &self,
        request: &AdmissionRequest<'_>,
        now: Now,
    ) -> Result<(Option<MemoryQuotaReservation>, bool), StoreError> {
        let money = request.money.map(|money| CallerBudgetRequest { cap: Money::MAX, ..money });
        let granted = AdmissionRequest { money, ..request.clone() };
        if let AdmitDecision::Granted { reservation, .. } = self.quotas.reserve_sync(&granted, now)? {
            return Ok((Some(reservation), false));
        }
        // A request for nothing is always granted; settled with the actual cost, it becomes debt.
        let nothing =
            AdmissionRequest { units: QuotaUnits::NOTHING, money: None, claim: None, ..request.clone() };
        if let AdmitDecision::Granted { reservation, .. } = self.quotas.reserve_sync(&nothing, now)? {
            let spent = Settlement { units: request.units, ..Settlement::default() };
            self.quotas.settle_sync(reservation, spent, now);
        }
        let rest = AdmissionRequest { units: QuotaUnits::NOTHING, ..granted };
        match self.quotas.reserve_sync(&rest, now)? {
            AdmitDecision::Granted { reservation, .. } => Ok((Some(reservation), true)),
            _ => Ok((None, true)),
        }
    }
}

/// Divides limits so that `nodes` nodes together admit no more than the whole, apart from rounding up on each node.
pub(super) fn shares(groups: &[QuotaGroup], nodes: u32) -> Result<Vec<QuotaGroup>, SettingError> {
    let share_of = |group: &QuotaGroup| {
        let quotas: Result<_, _> = group.quotas().iter().map(|quota| share(quota, nodes.max(1))).collect();
        QuotaGroup::new(group.name(), quotas?)
    };
    groups.iter().map(share_of).collect()
}

fn share(quota: &Quota, nodes: u32) -> Result<Quota, SettingError> {
    let (name, unit) = (quota.name(), quota.unit());
    match quota.kind() {
        QuotaKind::Rate { unit: span, burst } => {
            Quota::rate(name, unit, 1, span.saturating_mul(nodes), burst.div_ceil(nodes))
        }
        QuotaKind::Sliding { slice, limit } => {
            Quota::sliding(name, unit, limit.div_ceil(nodes), slice.saturating_mul(60), 0)
        }
        QuotaKind::Calendar { period, limit } => Quota::calendar(name, unit, limit.div_ceil(nodes), period),
    }
}

/// How long it takes until nothing that was admitted before counts any more. Calendar days and months are ignored:
/// otherwise a store that comes back empty at the start of a month would not be trusted until the end of it.
pub(super) fn longest_window(groups: &[QuotaGroup]) -> Duration {
    let window = |quota: &Quota| match quota.kind() {
        QuotaKind::Rate { unit, burst } => unit.saturating_mul(burst),
        QuotaKind::Sliding { slice, .. } => slice.saturating_mul(61),
        QuotaKind::Calendar { .. } => Duration::from_secs(3_600),
    };
    groups.iter().flat_map(QuotaGroup::quotas).map(window).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{longest_window, shares};
    use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, QuotaKind, QuotaUnit};
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    fn group() -> QuotaGroup {
        let quotas = vec![
            Quota::rate("rate", QuotaUnit::Request, 5, SECOND, 10).unwrap(),
            Quota::sliding("minute", QuotaUnit::Token, 100, SECOND * 60, 1).unwrap(),
            Quota::calendar("day", QuotaUnit::Request, 7, CalendarPeriod::Day).unwrap(),
        ];
        QuotaGroup::new("tier", quotas).unwrap()
    }

    #[test]
    fn a_share_is_rounded_up_to_a_whole_unit_and_alone_it_is_everything() {
        let kinds = |nodes| -> Vec<QuotaKind> {
            shares(&[group()], nodes).unwrap()[0].quotas().iter().map(Quota::kind).collect()
        };
        let slice = SECOND;
        let period = CalendarPeriod::Day;
        let third = [
            QuotaKind::Rate { unit: SECOND * 3 / 5, burst: 4 },
            QuotaKind::Sliding { slice, limit: 34 },
            QuotaKind::Calendar { period, limit: 3 },
        ];
        assert_eq!(kinds(3), third);
        let all: Vec<QuotaKind> = group().quotas().iter().map(Quota::kind).collect();
        assert_eq!((kinds(1), kinds(0)), (all.clone(), all));
        assert!(kinds(1_000).iter().all(|kind| !matches!(kind, QuotaKind::Sliding { limit: 0, .. })));
    }

    #[test]
    fn the_longest_window_is_the_one_that_is_waited_for() {
        assert_eq!(longest_window(&[group()]), SECOND * 3_600);
        let short = Quota::sliding("minute", QuotaUnit::Token, 100, SECOND * 60, 1).unwrap();
        let short = QuotaGroup::new("short", vec![short]).unwrap();
        assert_eq!(longest_window(&[short]), SECOND * 61);
        assert_eq!(longest_window(&[]), Duration::ZERO);
    }
}
