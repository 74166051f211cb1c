//! Changes the limits while requests are in flight.

use super::groups::Group;
use super::limiter::{RateLimiter, check_groups};
use super::rule::{CountsCarryOver, Quota, QuotaGroup};
use crate::setting::SettingError;
use crate::sync::lock;
use crate::time::Now;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What happened to the usage counted under a limit that changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsDecision {
    /// Same kind and period: the counts are kept and compared with the new numbers.
    Kept,
    /// Another kind or period: the units still in use count as used at the time of the change.
    CountedAsCurrent,
    /// Another unit (requests instead of tokens, or the reverse): the counts cannot be converted, so the limit starts
    /// empty.
    UnitChanged,
    /// A new limit, which starts empty.
    New,
    /// The limit was removed and its counts were discarded.
    Removed,
}

/// What a change did to one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// The name of the limit's group.
    pub group: Box<str>,
    /// What happened to the counts.
    pub counts: CountsDecision,
    /// The limit before the change; `None` if it is new.
    pub before: Option<Quota>,
    /// The limit after the change; `None` if it was removed.
    pub after: Option<Quota>,
}

impl LimitChange {
    fn new(group: &str, before: Option<&Quota>, after: Option<&Quota>) -> Self {
        let counts = match (before, after) {
            (Some(before), Some(after)) => match after.carry_over(before) {
                CountsCarryOver::Kept | CountsCarryOver::Rescaled { .. } => CountsDecision::Kept,
                CountsCarryOver::CountedAsCurrent => CountsDecision::CountedAsCurrent,
                CountsCarryOver::Discarded => CountsDecision::UnitChanged,
            },
            (None, _) => CountsDecision::New,
            (Some(_), None) => CountsDecision::Removed,
        };
        Self { group: group.into(), counts, before: before.cloned(), after: after.cloned() }
    }

    /// The limit's name.
    #[must_use]
    pub fn limit(&self) -> &str {
        self.after.as_ref().or(self.before.as_ref()).map_or("", Quota::name)
    }

    /// Whether the limit is the same as before.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.before == self.after
    }
}

/// For operators: `guest/minute: usage kept, limit 12 -> 24`.
impl fmt::Display for LimitChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = |quota: &Option<Quota>| quota.as_ref().map_or(0, Quota::capacity);
        let (before, after) = (capacity(&self.before), capacity(&self.after));
        write!(formatter, "{}/{}: ", self.group, self.limit())?;
        match self.counts {
            CountsDecision::Kept if self.is_unchanged() => write!(formatter, "unchanged, limit {after}"),
            CountsDecision::Kept => write!(formatter, "usage kept, limit {before} -> {after}"),
            CountsDecision::CountedAsCurrent => {
                write!(formatter, "kind or period changed; units in use count as used now, limit {after}")
            }
            CountsDecision::UnitChanged => {
                write!(formatter, "unit changed; usage starts at zero, limit {after}")
            }
            CountsDecision::New => write!(formatter, "added; usage starts at zero, limit {after}"),
            CountsDecision::Removed => write!(formatter, "removed with its usage, limit was {before}"),
        }
    }
}

impl RateLimiter {
    /// Replaces all groups and returns what happened to every limit, in the given order; removed limits come last.
    ///
    /// Requests continue meanwhile. A decision sees either all old or all new limits of a group. A group id stays valid
    /// as long as there is a group with its name. A reservation made before the change can be settled after it: the
    /// unused part is refunded under limits that kept their counts, and any excess is charged under every current limit.
    ///
    /// The change takes time proportional to the number of callers, and holds the lock of one shard at a time. Returns
    /// the same errors as [`new`](RateLimiter::new), and changes nothing then.
    pub fn change_limits(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<Vec<LimitChange>, SettingError> {
        self.check_limits(&groups)?;
        Ok(self.replace_limits(groups, now))
    }

    /// Whether [`replace_limits`](Self::replace_limits) may be called with these groups. Changes nothing.
    pub fn check_limits(&self, groups: &[QuotaGroup]) -> Result<(), SettingError> {
        check_groups(groups)?;
        let known: BTreeSet<&str> = self.groups.iter().map(|group| &*group.name).collect();
        let names = known.len() + groups.iter().filter(|group| !known.contains(group.name())).count();
        if names > usize::from(u16::MAX) {
            let problem = format!("{names} group names, including removed groups, are more than 65535");
            return Err(SettingError::new("groups", problem));
        }
        Ok(())
    }

    /// Like [`change_limits`](Self::change_limits), with groups that were [checked](Self::check_limits) since the last
    /// change. It cannot fail. Of groups that were not checked, some may be left without an id: requests that need one
    /// of these are refused.
    pub fn replace_limits(&self, groups: Vec<QuotaGroup>, now: Now) -> Vec<LimitChange> {
        let _one_at_a_time = lock(&self.changing);
        let old_groups: BTreeMap<&str, &Group> =
            self.groups.iter().map(|group| (&*group.name, group)).collect();
        let new_groups: BTreeMap<&str, &QuotaGroup> =
            groups.iter().map(|group| (group.name(), group)).collect();
        let is_new = |group: &QuotaGroup| !old_groups.contains_key(group.name());
        let mut changes = Vec::new();
        for group in &groups {
            changes.extend(changes_to(group, old_groups.get(group.name()).copied()));
        }
        for group in self.groups.iter() {
            changes.extend(removed_limits(group, new_groups.get(&*group.name).copied()));
        }
        for group in self.groups.iter() {
            let new_group = new_groups.get(&*group.name).copied();
            if group.differs_from(new_group) {
                group.change_limits(new_group, now);
            }
        }
        self.groups.push(groups.into_iter().filter(is_new).collect());
        changes
    }
}

/// What happens to the limits of the new group.
fn changes_to(new_group: &QuotaGroup, group: Option<&Group>) -> Vec<LimitChange> {
    let before = group.and_then(Group::rules);
    let previous = |name: &str| {
        let limits = before.iter().flat_map(|rules| &rules.limits);
        limits.map(|limit| &limit.quota).find(|quota| quota.name() == name)
    };
    let change = |quota: &Quota| LimitChange::new(new_group.name(), previous(quota.name()), Some(quota));
    new_group.quotas().iter().map(change).collect()
}

/// The limits that the group will no longer have.
fn removed_limits(group: &Group, new_group: Option<&QuotaGroup>) -> Vec<LimitChange> {
    let before = group.rules();
    let limits = before.iter().flat_map(|rules| &rules.limits).map(|limit| &limit.quota);
    let is_kept =
        |name: &str| new_group.is_some_and(|group| group.quotas().iter().any(|quota| quota.name() == name));
    limits
        .filter(|quota| !is_kept(quota.name()))
        .map(|quota| LimitChange::new(&group.name, Some(quota), None))
        .collect()
}

impl Group {
    /// Whether the limits or their order differ from the current ones.
    fn differs_from(&self, new_group: Option<&QuotaGroup>) -> bool {
        match (self.rules(), new_group) {
            (None, None) => false,
            (Some(rules), Some(new_group)) => {
                !rules.limits.iter().map(|limit| &limit.quota).eq(new_group.quotas())
            }
            (Some(_), None) | (None, Some(_)) => true,
        }
    }
}
