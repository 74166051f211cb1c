//! The groups of a book. Groups can be added later but never move, so a lookup takes no lock.

use super::decision::GroupId;
use super::rule::QuotaGroup;
use super::rules::{Limit, Rules};
use super::saving::group_tag;
use super::shard::Shard;
use crate::sync::{Mutex, lock};
use crate::time::Now;
use std::sync::{Arc, OnceLock};

/// The number of shards, enough that two threads rarely contend for one.
pub(super) const SHARDS: usize = 64;

/// One group. It outlives its limits, so that name and id map to each other for the book's lifetime.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Box<str>,
    pub(super) tag: u64,
    pub(super) shards: Box<[Mutex<Shard>]>,
    standing: Mutex<Standing>,
}

/// The most recently requested limits. They reach the shards one after the other.
#[derive(Debug, Default)]
struct Standing {
    rules: Option<Arc<Rules>>,
    /// All names that limits have had; the position of a name is its limit's number.
    names: Vec<Box<str>>,
    version: u32,
}

impl Group {
    pub(super) fn new(wanted: &QuotaGroup) -> Self {
        let mut standing = Standing::default();
        let rules = Arc::new(Rules::new(standing.limits(wanted), 0));
        standing.rules = Some(Arc::clone(&rules));
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::new(Arc::clone(&rules)))).collect();
        let (name, tag) = (wanted.name().into(), group_tag(wanted.name()));
        Self { name, tag, shards, standing: Mutex::new(standing) }
    }

    /// The most recently requested limits; `None` if the group was removed.
    pub(super) fn rules(&self) -> Option<Arc<Rules>> {
        lock(&self.standing).rules.clone()
    }

    /// Replaces the limits, or removes them with `None`. The caller must serialize changes of a book.
    pub(super) fn change(&self, wanted: Option<&QuotaGroup>, now: Now) {
        let rules = lock(&self.standing).change(wanted, now);
        for shard in &self.shards {
            lock(shard).change(rules.as_ref(), now);
        }
    }
}

impl Standing {
    fn limits(&mut self, wanted: &QuotaGroup) -> Box<[Limit]> {
        let limit = |quota: &super::Quota| {
            let known = self.names.iter().position(|name| **name == *quota.name());
            let number = known.unwrap_or_else(|| {
                self.names.push(quota.name().into());
                self.names.len() - 1
            });
            Limit { quota: quota.clone(), number }
        };
        wanted.quotas().iter().map(limit).collect()
    }

    fn change(&mut self, wanted: Option<&QuotaGroup>, now: Now) -> Option<Arc<Rules>> {
        self.version = self.version.wrapping_add(1);
        let limits = wanted.map(|wanted| self.limits(wanted));
        self.rules = limits.map(|limits| {
            Arc::new(match &self.rules {
                Some(before) => Rules::after(before, limits, self.version, now),
                None => Rules::new(limits, self.version),
            })
        });
        self.rules.clone()
    }
}

/// An append-only linked list of blocks.
#[derive(Debug)]
pub(super) struct Groups {
    first: Box<[Group]>,
    more: OnceLock<Box<Groups>>,
}

impl Groups {
    pub(super) fn new(wanted: Vec<QuotaGroup>) -> Self {
        Self { first: wanted.into_iter().map(|group| Group::new(&group)).collect(), more: OnceLock::new() }
    }

    pub(super) fn get(&self, id: GroupId) -> Option<&Group> {
        let (mut part, mut place) = (self, usize::from(id.0));
        loop {
            if let Some(group) = part.first.get(place) {
                return Some(group);
            }
            place -= part.first.len();
            part = part.more.get()?;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        let parts = std::iter::successors(Some(self), |part| part.more.get().map(|more| &**more));
        parts.flat_map(|part| &part.first)
    }

    /// Appends groups. The caller must serialize changes of a book.
    pub(super) fn push(&self, wanted: Vec<QuotaGroup>) {
        let mut last = self;
        while let Some(more) = last.more.get() {
            last = more;
        }
        if !wanted.is_empty() {
            let _ = last.more.set(Box::new(Self::new(wanted)));
        }
    }
}

impl Drop for Groups {
    /// Iterative, because recursive drops of a long list would overflow the stack.
    fn drop(&mut self) {
        let mut next = self.more.take();
        while let Some(mut part) = next {
            next = part.more.take();
        }
    }
}
