//! Changes the limits while requests are in flight.

use super::book::{QuotaBook, check_groups};
use super::groups::Group;
use super::rule::{Carry, Quota, QuotaGroup};
use crate::setting::SettingError;
use crate::sync::lock;
use crate::time::Now;
use std::collections::BTreeMap;
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
    OtherUnit,
    /// A new limit, which starts empty.
    New,
    /// The limit was removed and its counts were discarded.
    Gone,
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

    /// Whether the limit is the same as before.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        self.before == self.after
    }
}

/// For operators: `guest/minute: kept, at most 12 before and 24 now`.
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
    /// Replaces all groups and returns what happened to every limit, in the given order; removed limits come last.
    ///
    /// Requests continue meanwhile. A decision sees either all old or all new limits of a group. A group id stays valid
    /// as long as there is a group with its name. A reservation made before the change can be settled after it: the
    /// unused part is refunded under limits that kept their counts, and any excess is booked under every current limit.
    ///
    /// The change takes time proportional to the number of callers, and holds the lock of one shard at a time. Returns
    /// the same errors as [`new`](QuotaBook::new), and changes nothing then.
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

/// What happens to the limits of the new group.
fn limits_of(wanted: &QuotaGroup, group: Option<&Group>) -> Vec<LimitChange> {
    let before = group.and_then(Group::rules);
    let former = |name: &str| {
        let limits = before.iter().flat_map(|rules| &rules.limits);
        limits.map(|limit| &limit.quota).find(|quota| quota.name() == name)
    };
    let change = |quota: &Quota| LimitChange::new(wanted.name(), former(quota.name()), Some(quota));
    wanted.quotas().iter().map(change).collect()
}

/// The limits that the group will no longer have.
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
    /// Whether the limits or their order differ from the current ones.
    fn is_other(&self, wanted: Option<&QuotaGroup>) -> bool {
        match (self.rules(), wanted) {
            (None, None) => false,
            (Some(rules), Some(wanted)) => !rules.limits.iter().map(|limit| &limit.quota).eq(wanted.quotas()),
            (Some(_), None) | (None, Some(_)) => true,
        }
    }
}
