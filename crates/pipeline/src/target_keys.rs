//! The keys of a target that has several: a connector for each, and the pool that chooses.
//!
//! A target with one key has none of this, so that it costs such a target nothing.

use seawall_core::failure::{AttemptOutcome, FailureKind};
use seawall_core::key_pool::{KeyEvidence, KeyPool, KeyReport, KeyView, condition_after};
use seawall_core::time::{Now, Timestamp};
use seawall_provider::Target;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module documentation.
pub(crate) struct TargetKeys {
    /// A connector per key, in the order of the settings.
    upstreams: Box<[Arc<dyn Target>]>,
    pool: Arc<Mutex<KeyPool>>,
}

impl TargetKeys {
    /// The keys behind these connectors; `None` for a single one.
    pub(crate) fn new(first: &Arc<dyn Target>, more: Vec<Arc<dyn Target>>) -> Option<Self> {
        if more.is_empty() {
            return None;
        }
        let upstreams: Box<[Arc<dyn Target>]> = std::iter::once(Arc::clone(first)).chain(more).collect();
        let pool = Arc::new(Mutex::new(KeyPool::new(upstreams.len(), Now::default())));
        Some(Self { upstreams, pool })
    }

    /// The same keys with what was learned about them, if their connectors are the same.
    pub(crate) fn continuing(self, previous: Option<&Self>) -> Self {
        let is_same = |previous: &&Self| {
            previous.upstreams.len() == self.upstreams.len()
                && previous.upstreams.iter().zip(&self.upstreams).all(|(one, other)| Arc::ptr_eq(one, other))
        };
        match previous.filter(is_same) {
            Some(previous) => Self { pool: Arc::clone(&previous.pool), ..self },
            None => self,
        }
    }

    /// The same keys for another model.
    pub(crate) fn for_model(&self, model: &str) -> Self {
        let named =
            |upstream: &Arc<dyn Target>| upstream.for_model(model).unwrap_or_else(|| Arc::clone(upstream));
        Self { upstreams: self.upstreams.iter().map(named).collect(), pool: Arc::clone(&self.pool) }
    }

    pub(crate) fn count(&self) -> usize {
        self.upstreams.len()
    }

    pub(crate) fn upstreams(&self) -> &[Arc<dyn Target>] {
        &self.upstreams
    }

    pub(crate) fn choose(&self, now: Timestamp) -> usize {
        self.lock().choose(now)
    }

    /// Whether another key could be used after a failure of this kind.
    pub(crate) fn may_rotate(&self, kind: FailureKind, now: Timestamp) -> bool {
        condition_after(kind).is_some() && self.lock().has_usable(now)
    }

    /// Records the outcome of an attempt that was sent at `sent` with this key.
    pub(crate) fn record(
        &self,
        key: usize,
        outcome: &AttemptOutcome,
        sent: Timestamp,
        now: Now,
        error: impl FnOnce() -> Box<str>,
    ) -> KeyReport {
        match KeyEvidence::of(outcome) {
            Some(evidence) => self.lock().record(key, evidence, sent, now, error),
            None => KeyReport::default(),
        }
    }

    pub(crate) fn views(&self, now: Timestamp) -> Vec<KeyView> {
        self.lock().views(now)
    }

    fn lock(&self) -> MutexGuard<'_, KeyPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
