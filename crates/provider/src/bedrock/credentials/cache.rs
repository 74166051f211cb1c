//! The keys of a source, until they end.
//!
//! **When it acts.** Keys that hold for more than five minutes are used as they are. From then on they are renewed by
//! one at a time, in the background, and used until they end. Only who finds no keys that hold waits. A renewal that
//! failed is tried again after a second, by the next who asks.
//!
//! **What it will not do.** It does not ask ahead of need, and it does not look whether keys without an end still hold.

use crate::tasks::TokioTasks;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use seawall_core::handle::Timer;
use seawall_core::time::{Timestamp, UtcTime};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;

/// Keys that end are renewed this long before their end.
const RENEW_BEFORE: Duration = Duration::from_secs(5 * 60);
/// A source that failed is left alone this long.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// See the module. Clones share what is known.
#[derive(Clone)]
pub(in super::super) struct CredentialCache<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    source: SharedCredentialsProvider,
    timer: T,
    state: Mutex<State>,
    /// How many renewals have ended.
    ended: watch::Sender<u64>,
}

struct State {
    known: Option<Credentials>,
    is_renewing: bool,
    /// No renewal before this moment.
    not_before: Timestamp,
}

enum Look {
    /// These hold.
    Found(Credentials),
    /// A renewal is under way; so many had ended before.
    Awaited(u64),
    /// There are none, and it is too early to ask again.
    Nothing,
}

impl<T: Timer> CredentialCache<T> {
    pub(in super::super) fn new(source: SharedCredentialsProvider, timer: T) -> Self {
        let state = State { known: None, is_renewing: false, not_before: Timestamp::ZERO };
        let shared = Shared { source, timer, state: Mutex::new(state), ended: watch::Sender::new(0) };
        Self { shared: Arc::new(shared) }
    }

    /// Keys that hold at this date; nothing if the source has none.
    pub(in super::super) async fn get(&self, date: UtcTime) -> Option<Credentials> {
        match self.look(date) {
            Look::Found(known) => Some(known),
            Look::Nothing => None,
            Look::Awaited(before) => {
                // It cannot be closed while we hold the other end.
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
        // What is changed under it is replaced whole.
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

/// A renewal under way. However it ends, the next may begin.
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
        // Under the lock, so that nobody waits for an end that was.
        self.shared.ended.send_modify(|ended| *ended += 1);
    }
}
