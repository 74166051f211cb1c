//! Caches the credentials of a source until they expire.
//!
//! **When it acts.** Credentials that are valid for more than five minutes are used as they are. After that they are
//! renewed in the background, one renewal at a time, and used until they expire. A call waits only if there are no
//! valid credentials. A failed renewal is retried after one second, by the next call.
//!
//! **What it does not do.** It does not prefetch, and it does not check whether credentials without an expiry still
//! work.

use crate::tasks::TokioTasks;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use seawall_core::runtime::Timer;
use seawall_core::time::{Timestamp, UtcTime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Credentials are renewed this long before they expire.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);
/// Delay after a failed renewal.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// See the module documentation. Clones share the cached credentials.
#[derive(Clone)]
pub(in super::super) struct CredentialCache<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    source: SharedCredentialsProvider,
    timer: T,
    state: Mutex<State>,
    /// Number of completed renewals.
    completed: watch::Sender<u64>,
}

struct State {
    cached: Option<Credentials>,
    is_renewing: bool,
    /// No renewal before this time.
    not_before: Timestamp,
}

enum CacheLookup {
    /// Valid credentials.
    Valid(Credentials),
    /// A renewal is in progress; this many had completed before.
    Pending(u64),
    /// No valid credentials, and too early for another renewal.
    Unavailable,
}

impl<T: Timer> CredentialCache<T> {
    pub(in super::super) fn new(source: SharedCredentialsProvider, timer: T) -> Self {
        let state = State { cached: None, is_renewing: false, not_before: Timestamp::ZERO };
        let shared = Shared { source, timer, state: Mutex::new(state), completed: watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Credentials that are valid at this date; `None` if the source has none.
    pub(in super::super) async fn get(&self, date: UtcTime) -> Option<Credentials> {
        match self.lookup(date) {
            CacheLookup::Valid(cached) => Some(cached),
            CacheLookup::Unavailable => None,
            CacheLookup::Pending(before) => {
                // The channel cannot be closed: this cache holds the sender.
                let _ = self.shared.completed.subscribe().wait_for(|completed| *completed > before).await;
                self.shared.lock().valid_at(date)
            }
        }
    }

    fn lookup(&self, date: UtcTime) -> CacheLookup {
        let mut state = self.shared.lock();
        if let Some(fresh) = state.valid_at(date + RENEW_BEFORE) {
            return CacheLookup::Valid(fresh);
        }
        let now = self.shared.timer.monotonic();
        if !state.is_renewing && now >= state.not_before {
            state.is_renewing = true;
            let renewal = Renewal { shared: Arc::clone(&self.shared), renewed: None };
            TokioTasks.spawn(renewal.run());
        }
        match state.valid_at(date) {
            Some(old) => CacheLookup::Valid(old),
            None if state.is_renewing => CacheLookup::Pending(*self.shared.completed.borrow()),
            None => CacheLookup::Unavailable,
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Safe after a panic: every change under the lock is a single assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn valid_at(&self, date: UtcTime) -> Option<Credentials> {
        let date = SystemTime::UNIX_EPOCH + Duration::from_nanos(date.as_nanos());
        let holds = |cached: &&Credentials| cached.expiry().is_none_or(|end| end > date);
        self.cached.as_ref().filter(holds).cloned()
    }
}

/// A renewal in progress. Dropping it allows the next one, however it ended.
struct Renewal<T: Timer> {
    shared: Arc<Shared<T>>,
    renewed: Option<Credentials>,
}

impl<T: Timer> Renewal<T> {
    async fn run(mut self) {
        self.renewed = self.shared.source.provide_credentials().await.ok();
    }
}

impl<T: Timer> Drop for Renewal<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_renewing = false;
        match self.renewed.take() {
            Some(renewed) => state.cached = Some(renewed),
            None => state.not_before = self.shared.timer.monotonic() + RETRY_AFTER,
        }
        // Sent under the lock, so that a waiter cannot miss it.
        self.shared.completed.send_modify(|completed| *completed += 1);
    }
}
