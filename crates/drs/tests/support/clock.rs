//! A virtual clock for code that runs on Tokio and may talk to real sockets.
//!
//! Time stands still while anything can make progress: tasks that are ready, or requests that are in flight. Only when
//! all wait for the clock does it jump to the next timer. Ten minutes of waiting take milliseconds, and arrival times are
//! exact.

use seawall_core::random::{Draw, SeededRandom};
use seawall_core::runtime::{Runtime, Timer};
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// Rounds in which every ready task was polled and none used the clock: nothing but time can go on.
const QUIET_ROUNDS: u32 = 20;

#[derive(Clone)]
pub(crate) struct VirtualClock(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    settled: Notify,
}

struct State {
    now: Timestamp,
    random: SeededRandom,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    next_number: u64,
    /// Changes with every use of the clock.
    activity: u64,
    in_flight: u64,
}

/// A request that is in flight; the clock stands still until it is dropped.
pub(crate) struct InFlight(VirtualClock);

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.in_flight -= 1;
        state.activity += 1;
        drop(state);
        self.0.0.settled.notify_one();
    }
}

impl VirtualClock {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            now: Timestamp::ZERO,
            random: SeededRandom::new(seed),
            timers: BTreeMap::new(),
            next_number: 0,
            activity: 0,
            in_flight: 0,
        };
        Self(Arc::new(Shared { state: Mutex::new(state), settled: Notify::new() }))
    }

    /// Holds the clock.
    #[allow(dead_code, reason = "only tests with sockets have requests in flight")]
    pub(crate) fn hold(&self) -> InFlight {
        let mut state = self.state();
        state.in_flight += 1;
        state.activity += 1;
        drop(state);
        InFlight(self.clone())
    }

    /// Runs a test to its end.
    pub(crate) fn run<T>(&self, test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::select! {
                biased;
                outcome = test => outcome,
                () = self.drive() => unreachable!("the clock runs forever"),
            }
        })
    }

    async fn drive(&self) {
        let (mut quiet, mut seen) = (0, u64::MAX);
        loop {
            tokio::task::yield_now().await;
            let (activity, in_flight) = {
                let state = self.state();
                (state.activity, state.in_flight)
            };
            if in_flight > 0 {
                self.0.settled.notified().await;
                quiet = 0;
            } else if activity != seen {
                (quiet, seen) = (0, activity);
            } else if quiet < QUIET_ROUNDS {
                quiet += 1;
            } else {
                self.advance();
                quiet = 0;
            }
        }
    }

    fn advance(&self) {
        let mut state = self.state();
        let Some((&(moment, _), _)) = state.timers.first_key_value() else { return };
        state.now = state.now.max(moment);
        let later = state.timers.split_off(&(moment, u64::MAX));
        let due = std::mem::replace(&mut state.timers, later);
        state.activity += 1;
        drop(state);
        due.into_values().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }
}

impl Timer for VirtualClock {
    fn monotonic(&self) -> Timestamp {
        let mut state = self.state();
        state.activity += 1;
        state.now
    }

    fn sleep_until(&self, moment: Timestamp) -> impl Future<Output = ()> + Send + 'static {
        VirtualSleep { clock: self.clone(), moment, number: None }
    }
}

impl Runtime for VirtualClock {
    fn now(&self) -> Now {
        let now = self.monotonic();
        Now::new(now, UtcTime::from_civil(2026, 11, 18) + (now - Timestamp::ZERO))
    }

    fn draw(&self) -> Draw {
        self.state().random.draw()
    }
}

struct VirtualSleep {
    clock: VirtualClock,
    moment: Timestamp,
    number: Option<u64>,
}

impl Future for VirtualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.clock.state();
        if state.now >= this.moment {
            return Poll::Ready(());
        }
        let number = *this.number.get_or_insert_with(|| {
            state.next_number += 1;
            state.next_number
        });
        state.timers.insert((this.moment, number), context.waker().clone());
        state.activity += 1;
        Poll::Pending
    }
}

impl Drop for VirtualSleep {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.clock.state().timers.remove(&(self.moment, number));
        }
    }
}
