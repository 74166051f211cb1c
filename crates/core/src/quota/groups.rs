//! The groups of a limiter. Groups can be added later but never move, so a lookup takes no lock.

use super::decision::GroupId;
use super::rule::QuotaGroup;
use super::rules::{NumberedQuota, QuotaGroupRules};
use super::saving::group_tag;
use super::shard::Shard;
use crate::sync::{Mutex, lock};
use crate::time::Now;
use std::sync::{Arc, OnceLock};

/// The number of shards, enough that two threads rarely contend for one.
pub(super) const SHARDS: usize = 64;

/// One group. It outlives its limits, so that name and id map to each other for the limiter's lifetime.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Box<str>,
    pub(super) tag: u64,
    pub(super) shards: Box<[Mutex<Shard>]>,
    current: Mutex<CurrentLimits>,
}

/// The most recently requested limits. They reach the shards one after the other.
#[derive(Debug, Default)]
struct CurrentLimits {
    rules: Option<Arc<QuotaGroupRules>>,
    /// All names that limits have had; the position of a name is its limit's number.
    names: Vec<Box<str>>,
    version: u32,
}

impl Group {
    pub(super) fn new(new_group: &QuotaGroup) -> Self {
        let mut current = CurrentLimits::default();
        let rules = Arc::new(QuotaGroupRules::new(current.limits(new_group), 0));
        current.rules = Some(Arc::clone(&rules));
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new(Arc::clone(&rules)))).collect();
        let (name, tag) = (new_group.name().into(), group_tag(new_group.name()));
        Self { name, tag, shards, current: Mutex::new(current) }
    }

    /// The most recently requested limits; `None` if the group was removed.
    pub(super) fn rules(&self) -> Option<Arc<QuotaGroupRules>> {
        lock(&self.current).rules.clone()
    }

    /// Replaces the limits, or removes them with `None`. The caller must serialize changes of a limiter.
    pub(super) fn change_limits(&self, new_group: Option<&QuotaGroup>, now: Now) {
        let rules = lock(&self.current).change_limits(new_group, now);
        for shard in &self.shards {
            lock(shard).change_limits(rules.as_ref(), now);
        }
    }
}

impl CurrentLimits {
    fn limits(&mut self, new_group: &QuotaGroup) -> Box<[NumberedQuota]> {
        let limit = |quota: &super::Quota| {
            let existing = self.names.iter().position(|name| **name == *quota.name());
            let number = existing.unwrap_or_else(|| {
                self.names.push(quota.name().into());
                self.names.len() - 1
            });
            NumberedQuota { quota: quota.clone(), number }
        };
        new_group.quotas().iter().map(limit).collect()
    }

    fn change_limits(&mut self, new_group: Option<&QuotaGroup>, now: Now) -> Option<Arc<QuotaGroupRules>> {
        self.version = self.version.wrapping_add(1);
        let limits = new_group.map(|new_group| self.limits(new_group));
        self.rules = limits.map(|limits| {
            Arc::new(match &self.rules {
                Some(before) => QuotaGroupRules::after(before, limits, self.version, now),
                None => QuotaGroupRules::new(limits, self.version),
            })
        });
        self.rules.clone()
    }
}

/// An append-only linked list of blocks.
#[derive(Debug)]
pub(super) struct GroupList {
    first: Box<[Group]>,
    more: OnceLock<Box<GroupList>>,
}

impl GroupList {
    pub(super) fn new(groups: Vec<QuotaGroup>) -> Self {
        Self { first: groups.into_iter().map(|group| Group::new(&group)).collect(), more: OnceLock::new() }
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        let (mut part, mut index) = (self, usize::from(id.0));
        loop {
            if let Some(group) = part.first.get(index) {
                return Some(group);
            }
            index -= part.first.len();
            part = part.more.get()?;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        let parts = std::iter::successors(Some(self), |part| part.more.get().map(|more| &**more));
        parts.flat_map(|part| &part.first)
    }

    /// Appends groups. The caller must serialize changes of a limiter.
    pub(super) fn push(&self, groups: Vec<QuotaGroup>) {
        let mut last = self;
        while let Some(more) = last.more.get() {
            last = more;
        }
        if !groups.is_empty() {
            let _ = last.more.set(Box::new(Self::new(groups)));
        }
    }
}

impl Drop for GroupList {
    /// Iterative, because recursive drops of a long list would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.more.take();
        while let Some(mut part) = next {
            next = part.more.take();
        }
    }
}
