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
use seawall_core::handle::Timer;
use seawall_core::time::{Timestamp, UtcTime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Credentials are renewed this long before they expire.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);
/// Delay after a failed renewal.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

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
    ended: watch::Sender<u64>,
}

struct State {
    known: Option<Credentials>,
    is_renewing: bool,
    /// No renewal before this time.
    not_before: Timestamp,
}

enum Look {
    /// Valid credentials.
    Found(Credentials),
    /// A renewal is in progress; this many had completed before.
    Awaited(u64),
    /// No valid credentials, and too early for another renewal.
    Nothing,
}

impl<T: Timer> CredentialCache<T> {
    pub(in super::super) fn new(source: SharedCredentialsProvider, timer: T) -> Self {
        let state = State { known: None, is_renewing: false, not_before: Timestamp::ZERO };
        let shared = Shared { source, timer, state: Mutex::new(state), ended: watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Credentials that are valid at this date; `None` if the source has none.
    pub(in super::super) async fn get(&self, date: UtcTime) -> Option<Credentials> {
        match self.look(date) {
            Look::Found(known) => Some(known),
            Look::Nothing => None,
            Look::Awaited(before) => {
                // The channel cannot be closed: this cache holds the sender.
                let _ = self.shared.ended.subscribe().wait_for(|ended| *ended > before).await;
                self.shared.lock().holding_until(date)
            }
        }
    }

    fn look(&self, date: UtcTime) -> Look {
        let mut state = self.shared.lock();
        if let Some(fresh) = state.holding_until(date + RENEW_BEFORE) {
            return Look::Found(fresh);
        }
        let now = self.shared.timer.monotonic();
        if !state.is_renewing && now >= state.not_before {
            state.is_renewing = true;
            let renewal = Renewal { shared: Arc::clone(&self.shared), renewed: None };
            TokioTasks.start(renewal.run());
        }
        match state.holding_until(date) {
            Some(old) => Look::Found(old),
            None if state.is_renewing => Look::Awaited(*self.shared.ended.borrow()),
            None => Look::Nothing,
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
    fn holding_until(&self, date: UtcTime) -> Option<Credentials> {
        let date = SystemTime::UNIX_EPOCH + Duration::from_nanos(date.as_nanos());
        let holds = |known: &&Credentials| known.expiry().is_none_or(|end| end > date);
        self.known.as_ref().filter(holds).cloned()
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
            Some(renewed) => state.known = Some(renewed),
            None => state.not_before = self.shared.timer.monotonic() + TRY_AGAIN_AFTER,
        }
        // Sent under the lock, so that a waiter cannot miss it.
        self.shared.ended.send_modify(|ended| *ended += 1);
    }
}
