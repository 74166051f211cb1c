//! Limits as the integers that scripts compute with.

use super::specialized::SpecializedScripts;
use crate::quotas::Placement;
use crate::redis::key;
use crate::redis::packing::{MAX_EXACT, micros};
use seawall_core::quota::{
    CalendarPeriod, LimitId, Quota, QuotaGroup, QuotaKind, QuotaScope, QuotaUnit, QuotaUnits,
};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;

/// One limit in the representation of the scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LimitRule {
    pub(super) limit: LimitId,
    /// A hash of the names of group and limit.
    pub(super) id: u64,
    /// The kind and its time in one number, as described in `lua/common.lua`.
    pub(super) shape: u64,
    pub(super) capacity: u32,
    pub(super) unit: QuotaUnit,
}

#[derive(Debug)]
pub(super) struct GroupRules {
    pub(super) name: Box<str>,
    pub(super) placement: Placement,
    pub(super) limits: Vec<LimitRule>,
    /// The names of the limits, in the same order.
    pub(super) limit_names: Vec<Box<str>>,
}

/// All groups, in the order in which they were passed in.
#[derive(Debug)]
pub(super) struct ScriptRules {
    pub(super) groups: Vec<GroupRules>,
    /// The specialised scripts that were generated for them.
    pub(super) specialized: SpecializedScripts,
}

/// The time parameter of a limit, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitTime {
    Sliding { slice: u64 },
    Rate { unit: u64 },
    Day,
    Month,
}

const DAY: u64 = 2;
const MONTH: u64 = 6;
pub(super) const DAY_MICROS: u64 = 86_400_000_000;
/// The longest period: a time stamp plus a few periods must stay exact.
const MAX_PERIOD: u64 = MAX_EXACT / 8;

impl ScriptRules {
    pub(super) fn new(groups: &[QuotaGroup], partitioned: &[Box<str>]) -> Result<Self, SettingError> {
        Self::check(groups)?;
        Ok(Self::of_checked(groups, partitioned))
    }

    /// Whether scripts can count these limits.
    pub(super) fn check(groups: &[QuotaGroup]) -> Result<(), SettingError> {
        if groups.is_empty() || groups.len() > usize::from(u16::MAX) {
            return Err(SettingError::new("groups", format!("{} is not between 1 and 65535", groups.len())));
        }
        for (index, group) in groups.iter().enumerate() {
            if groups[..index].iter().any(|earlier| earlier.name() == group.name()) {
                return Err(SettingError::new("groups", format!("two groups are named {}", group.name())));
            }
            group.quotas().iter().try_for_each(|quota| LimitRule::check(group.name(), quota))?;
        }
        Ok(())
    }

    /// The rules of limits that were [checked](Self::check).
    pub(super) fn of_checked(groups: &[QuotaGroup], partitioned: &[Box<str>]) -> Self {
        let rules = |(index, group): (u16, &QuotaGroup)| {
            let is_partitioned = partitioned.iter().any(|name| **name == *group.name());
            let placement = if is_partitioned { Placement::Partition } else { Placement::Fleet };
            let limits = group.quotas().iter().enumerate().map(|(quota, rule)| {
                let limit = LimitId { group: seawall_core::quota::GroupId::from_index(index), quota };
                LimitRule::new(group.name(), limit, rule)
            });
            let limit_names = group.quotas().iter().map(|quota| quota.name().into()).collect();
            GroupRules { name: group.name().into(), placement, limits: limits.collect(), limit_names }
        };
        let groups = (0..=u16::MAX).zip(groups).map(rules).collect();
        Self { groups, specialized: SpecializedScripts::default() }
    }

    pub(super) fn group(&self, scope: &QuotaScope) -> Option<&GroupRules> {
        self.groups.get(usize::from(scope.group.index()))
    }
}

impl LimitRule {
    fn check(group: &str, quota: &Quota) -> Result<(), SettingError> {
        let (shape, longest) = Self::shape(quota);
        if shape > MAX_PERIOD || longest > MAX_PERIOD {
            let problem = format!("the period of {group}.{} is too long for Redis scripts", quota.name());
            return Err(SettingError::new("quotas", problem));
        }
        Ok(())
    }

    fn new(group: &str, limit: LimitId, quota: &Quota) -> Self {
        let id = key::hash_48(&[group.as_bytes(), quota.name().as_bytes()]);
        Self { limit, id, shape: Self::shape(quota).0, capacity: quota.capacity(), unit: quota.unit() }
    }

    /// The kind and its time in one number, and the longest period to count, in microseconds.
    fn shape(quota: &Quota) -> (u64, u64) {
        match quota.kind() {
            QuotaKind::Rate { unit, burst } => {
                let unit = micros(unit).max(1);
                (unit.saturating_mul(4).saturating_add(1), unit.saturating_mul(u64::from(burst)))
            }
            QuotaKind::Sliding { slice, .. } => {
                let slice = micros(slice).max(1);
                (slice.saturating_mul(4), slice.saturating_mul(64))
            }
            QuotaKind::Calendar { period: CalendarPeriod::Day, .. } => (DAY, 0),
            QuotaKind::Calendar { period: CalendarPeriod::Month, .. } => (MONTH, 0),
        }
    }

    pub(super) fn time(&self) -> LimitTime {
        match (self.shape % 4, self.shape) {
            (0, shape) => LimitTime::Sliding { slice: shape / 4 },
            (1, shape) => LimitTime::Rate { unit: shape / 4 },
            (_, DAY) => LimitTime::Day,
            _ => LimitTime::Month,
        }
    }

    /// How long units that are taken now may count, in microseconds.
    pub(super) fn retention(&self) -> u64 {
        match self.time() {
            LimitTime::Sliding { slice } => slice * 62,
            LimitTime::Rate { unit } => unit * u64::from(self.capacity) + 1_000_000,
            LimitTime::Day => 2 * DAY_MICROS,
            LimitTime::Month => 32 * DAY_MICROS,
        }
    }

    /// Identifies the window that units were taken from at this time, in the representation of the scripts.
    pub(super) fn mark(&self, cost: QuotaUnits, mono: u64, utc: u64) -> u64 {
        match self.time() {
            LimitTime::Sliding { slice } => mono / slice.max(1),
            LimitTime::Rate { unit } => mono + unit * u64::from(self.units(cost)),
            LimitTime::Day => utc / DAY_MICROS,
            LimitTime::Month => {
                let (year, month, _) = UtcTime::from_nanos(utc.saturating_mul(1_000)).civil();
                u64::try_from(year).unwrap_or(0) * 12 + u64::from(month)
            }
        }
    }

    pub(super) fn units(&self, cost: QuotaUnits) -> u32 {
        match self.unit {
            QuotaUnit::Request => cost.requests,
            QuotaUnit::Token => cost.tokens,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitRule, ScriptRules};
    use seawall_core::quota::{CalendarPeriod, Quota, QuotaGroup, QuotaUnit};
    use std::time::Duration;

    fn rule(quota: Quota) -> LimitRule {
        ScriptRules::new(&[QuotaGroup::new("group", vec![quota]).unwrap()], &[]).unwrap().groups[0].limits[0]
    }

    #[test]
    fn times_become_whole_microseconds_and_are_never_generous() {
        let second = Duration::from_secs(1);
        assert_eq!(rule(Quota::rate("a", QuotaUnit::Request, 5, second, 10).unwrap()).shape, 200_000 * 4 + 1);
        assert_eq!(rule(Quota::rate("a", QuotaUnit::Request, 3, second, 10).unwrap()).shape, 333_334 * 4 + 1);
        assert_eq!(rule(Quota::sliding("a", QuotaUnit::Request, 5, second, 0).unwrap()).shape, 16_667 * 4);
        assert_eq!(rule(Quota::calendar("a", QuotaUnit::Token, 5, CalendarPeriod::Day).unwrap()).shape, 2);
        assert_eq!(rule(Quota::calendar("a", QuotaUnit::Token, 5, CalendarPeriod::Month).unwrap()).shape, 6);
    }

    #[test]
    fn what_a_script_cannot_count_is_refused_by_name() {
        let group = |quota| [QuotaGroup::new("group", vec![quota]).unwrap()];
        let year = Duration::from_secs(366 * 86_400);
        let long = group(Quota::rate("long", QuotaUnit::Request, 1, year, 100).unwrap());
        let error = ScriptRules::new(&long, &[]).unwrap_err();
        assert_eq!(error.to_string(), "quotas: the period of group.long is too long for Redis scripts");
        let two = [group(Quota::sliding("a", QuotaUnit::Request, 1, year, 0).unwrap()), long].concat();
        assert_eq!(
            ScriptRules::new(&two, &[]).unwrap_err().to_string(),
            "groups: two groups are named group"
        );
        assert!(ScriptRules::new(&[], &[]).is_err());
    }
}
