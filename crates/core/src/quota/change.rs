//! Other limits while requests go on.

use super::book::{QuotaBook, check_groups};
use super::groups::Group;
use super::rule::{Carry, Quota, QuotaGroup};
use crate::setting::SettingError;
use crate::sync::lock;
use crate::time::Now;
use std::collections::BTreeMap;
use std::fmt;

/// What became of what callers had used of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsDecision {
    /// It is of the same kind and period: the counts go on, judged by the numbers it has now.
    Kept,
    /// Its kind or period is another: what was in use counts as used at the change.
    CountedAsCurrent,
    /// It counts requests where it counted tokens, or the other way round: nothing can be said, and it begins empty.
    OtherUnit,
    /// It is new and begins empty.
    New,
    /// It is gone, and what was used of it is forgotten.
    Gone,
}

/// What a change did to one limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    /// Its group.
    pub group: Box<str>,
    /// What became of its counts.
    pub counts: CountsDecision,
    /// The limit as it was, if it was there.
    pub before: Option<Quota>,
    /// The limit as it is, if it is there.
    pub after: Option<Quota>,
}

impl LimitChange {
    fn new(group: &str, before: Option<&Quota>, after: Option<&Quota>) -> Self {
        let counts = match (before, after) {
            (Some(before), Some(after)) => match after.carry(before) {
                Carry::Kept | Carry::Rescaled { .. } => CountsDecision::Kept,
                Carry::AsCurrent => CountsDecision::CountedAsCurrent,
                Carry::Nothing => CountsDecision::OtherUnit,
            },
            (None, _) => CountsDecision::New,
            (Some(_), None) => CountsDecision::Gone,
        };
        Self { group: group.into(), counts, before: before.cloned(), after: after.cloned() }
    }

    /// The limit's name.
    #[must_use]
    pub fn limit(&self) -> &str {
        self.after.as_ref().or(self.before.as_ref()).map_or("", Quota::name)
    }

    /// Whether the limit is what it was.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.before == self.after
    }
}

/// For an operator: `guest/minute: kept, at most 12 before and 24 now`.
impl fmt::Display for LimitChange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = |quota: &Option<Quota>| quota.as_ref().map_or(0, Quota::capacity);
        let (before, after) = (capacity(&self.before), capacity(&self.after));
        write!(formatter, "{}/{}: ", self.group, self.limit())?;
        match self.counts {
            CountsDecision::Kept if self.is_unchanged() => write!(formatter, "unchanged, at most {after}"),
            CountsDecision::Kept => write!(formatter, "kept, at most {before} before and {after} now"),
            CountsDecision::CountedAsCurrent => {
                write!(
                    formatter,
                    "another kind or period; what was in use counts as used now, at most {after}"
                )
            }
            CountsDecision::OtherUnit => {
                write!(formatter, "counts another unit and begins empty, at most {after}")
            }
            CountsDecision::New => write!(formatter, "new and empty, at most {after}"),
            CountsDecision::Gone => write!(formatter, "gone and forgotten, at most {before} before"),
        }
    }
}

impl QuotaBook {
    /// Replaces all groups by these and says what became of every limit, in their order; what is gone comes last.
    ///
    /// Requests go on meanwhile. A caller's next decision sees all the old limits of a group or all the new ones. The id of
    /// a group stays good as long as a group of its name is there. A reservation from before the change may be settled
    /// after it: what it did not use goes back where its limit kept its counts, and what went beyond it is booked on every
    /// limit that is there.
    ///
    /// It takes time in proportion to the callers, a few at a time. Refuses what [`new`](QuotaBook::new) refuses, and
    /// changes nothing then.
    pub fn change(&self, groups: Vec<QuotaGroup>, now: Now) -> Result<Vec<LimitChange>, SettingError> {
        let _one_at_a_time = lock(&self.changing);
        check_groups(&groups)?;
        let known: BTreeMap<&str, &Group> = self.groups.iter().map(|group| (&*group.name, group)).collect();
        let wanted: BTreeMap<&str, &QuotaGroup> = groups.iter().map(|group| (group.name(), group)).collect();
        let is_new = |group: &QuotaGroup| !known.contains_key(group.name());
        let names = known.len() + groups.iter().filter(|group| is_new(group)).count();
        if names > usize::from(u16::MAX) {
            let problem = format!("{names} names, of groups that are and that were, are more than 65535");
            return Err(SettingError::new("groups", problem));
        }
        let mut changes = Vec::new();
        for group in &groups {
            changes.extend(limits_of(group, known.get(group.name()).copied()));
        }
        for group in self.groups.iter() {
            changes.extend(limits_gone(group, wanted.get(&*group.name).copied()));
        }
        for group in self.groups.iter() {
            let wanted = wanted.get(&*group.name).copied();
            if group.is_other(wanted) {
                group.change(wanted, now);
            }
        }
        self.groups.push(groups.into_iter().filter(is_new).collect());
        Ok(changes)
    }
}

/// What becomes of the limits that a group will have.
fn limits_of(wanted: &QuotaGroup, group: Option<&Group>) -> Vec<LimitChange> {
    let before = group.and_then(Group::rules);
    let former = |name: &str| {
        let limits = before.iter().flat_map(|rules| &rules.limits);
        limits.map(|limit| &limit.quota).find(|quota| quota.name() == name)
    };
    let change = |quota: &Quota| LimitChange::new(wanted.name(), former(quota.name()), Some(quota));
    wanted.quotas().iter().map(change).collect()
}

/// The limits that a group had and will not have.
fn limits_gone(group: &Group, wanted: Option<&QuotaGroup>) -> Vec<LimitChange> {
    let before = group.rules();
    let limits = before.iter().flat_map(|rules| &rules.limits).map(|limit| &limit.quota);
    let stays =
        |name: &str| wanted.is_some_and(|group| group.quotas().iter().any(|quota| quota.name() == name));
    limits
        .filter(|quota| !stays(quota.name()))
        .map(|quota| LimitChange::new(&group.name, Some(quota), None))
        .collect()
}

impl Group {
    /// Whether these are other limits than it has, or in another order.
    fn is_other(&self, wanted: Option<&QuotaGroup>) -> bool {
        match (self.rules(), wanted) {
            (None, None) => false,
            (Some(rules), Some(wanted)) => !rules.limits.iter().map(|limit| &limit.quota).eq(wanted.quotas()),
            (Some(_), None) | (None, Some(_)) => true,
        }
    }
}
