//! When a target that throttles takes the next call.
//!
//! [`ThrottleGate`] decides; this is where requests ask it and wait, first come first served. Asking costs a lock only while
//! the gate is active. Each waiter sleeps for as long as those before it take at the present pace, so that a send does not
//! wake all of them.

use crate::target::GuardedTarget;
use crate::usual::Usual;
use seawall_core::breaker::BreakerPhase;
use seawall_core::failure::Outcome;
use seawall_core::handle::Runtime;
use seawall_core::pressure::{Pressure, PressureGauge};
use seawall_core::retry::WORTH_WAITING_HERE;
use seawall_core::sender::{SendDecision, ThrottleGate, ThrottleVerdict};
use seawall_core::time::Timestamp;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many requests wait for one target at most; who comes then is told when to come back.
const MAX_WAITING: usize = 1_000;

/// Nobody sleeps for longer than this behind others: the pace may have risen.
const LONGEST_NAP: Duration = Duration::from_millis(250);
/// Nor for less: the one before may take its turn a moment late.
const SHORTEST_NAP: Duration = Duration::from_millis(5);

/// What is measured of a target's answers, behind one lock because every attempt reports to all of it.
pub(crate) struct Gauges {
    pub(crate) pressure: PressureGauge,
    pub(crate) gate: ThrottleGate,
    pub(crate) usual: Usual,
}

impl Gauges {
    /// Takes in an outcome of a call that was sent at `sent`, and returns whether its failure, if it is one, holds the target
    /// back instead of counting against it.
    pub(crate) fn note(&mut self, outcome: &Outcome, sent: Timestamp, now: Timestamp) -> ThrottleVerdict {
        match outcome {
            Outcome::Failed(failure) if failure.kind.is_throttle() => self.gate.throttled(failure, sent, now),
            Outcome::Succeeded { .. } | Outcome::AnsweredWhole { .. } => {
                self.gate.answered(sent, now);
                ThrottleVerdict::Failed
            }
            Outcome::Failed(_) | Outcome::Abandoned => ThrottleVerdict::Failed,
        }
    }
}

/// What is asked without that lock.
#[derive(Default)]
pub(crate) struct Pacing {
    is_active: AtomicBool,
    queue: Mutex<Queue>,
}

/// Those who wait, by the number that each got when it came.
#[derive(Default)]
struct Queue {
    tickets: VecDeque<u64>,
    next: u64,
}

/// How a target is held back, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacingStatus {
    /// For so long still, because the provider asked for it.
    pub held_for: Duration,
    /// Calls a second that pass, while they are paced.
    pub rate: Option<f64>,
    /// Requests that wait for their turn.
    pub waiting: usize,
}

impl GuardedTarget {
    pub(crate) fn gauges(&self) -> MutexGuard<'_, Gauges> {
        lock(&self.gauges)
    }

    pub(crate) fn pressure_now(&self, phase: BreakerPhase, now: Timestamp) -> Pressure {
        self.gauges().pressure.read(phase, now)
    }

    /// Notes whether requests must ask for a turn from now on.
    pub(crate) fn note_pacing(&self, gauges: &Gauges) {
        let is_active = gauges.gate.is_active();
        // Read first: a line that nobody writes to stays in every core's cache.
        if self.pacing.is_active.load(Ordering::Relaxed) != is_active {
            self.pacing.is_active.store(is_active, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.pacing.is_active.load(Ordering::Relaxed)
    }

    /// How long the provider has asked us to stay away.
    pub(crate) fn held_for(&self, now: Timestamp) -> Duration {
        if self.is_paced() { self.gauges().gate.held_for(now) } else { Duration::ZERO }
    }

    /// Takes a turn, if there is one now that nobody waits for.
    pub(crate) fn take_turn(&self, now: Timestamp) -> bool {
        !self.is_paced()
            || (lock(&self.pacing.queue).tickets.is_empty()
                && self.gauges().gate.acquire(now) == SendDecision::Go)
    }

    pub(crate) fn pacing_status(&self, now: Timestamp) -> PacingStatus {
        let gauges = self.gauges();
        PacingStatus {
            held_for: gauges.gate.held_for(now),
            rate: gauges.gate.paced_rate(),
            waiting: lock(&self.pacing.queue).tickets.len(),
        }
    }

    /// Waits for a turn until this moment at most, and no longer than it is worth where another is ready. The error is how
    /// long the target is held back still.
    pub(crate) async fn wait_for_turn<R: Runtime>(
        &self,
        runtime: &R,
        until: Timestamp,
        other_is_ready: impl Fn(Timestamp) -> bool,
    ) -> Result<(), Duration> {
        let began = runtime.monotonic();
        let Some(waiter) = Waiter::enter(&self.pacing) else { return Err(self.held_for(began)) };
        loop {
            let now = runtime.monotonic();
            let wait = match self.turn_of(&waiter, now) {
                Ok(()) => return Ok(()),
                Err(wait) => wait,
            };
            if now + wait >= until || (now + wait - began > WORTH_WAITING_HERE && other_is_ready(now)) {
                return Err(wait);
            }
            // The pace may rise while somebody sleeps; the hold does not become shorter.
            let nap = wait.min(self.held_for(now).saturating_add(LONGEST_NAP));
            runtime.sleep_until((now + nap).min(until)).await;
        }
    }

    /// Takes the next turn for a waiter that is first in the queue. The error is when its turn comes at the present pace.
    fn turn_of(&self, waiter: &Waiter<'_>, now: Timestamp) -> Result<(), Duration> {
        let ahead = waiter.ahead();
        let mut gauges = self.gauges();
        if ahead == 0 {
            return match gauges.gate.acquire(now) {
                SendDecision::Go => Ok(()),
                SendDecision::Wait(wait) => Err(wait),
            };
        }
        let seconds = ahead as f64 / gauges.gate.paced_rate().unwrap_or(f64::INFINITY);
        let behind = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST_NAP);
        Err(gauges.gate.held_for(now).saturating_add(behind.max(SHORTEST_NAP)))
    }
}

/// One who waits, until it is dropped. Waiters are served in the order in which they came.
struct Waiter<'a> {
    pacing: &'a Pacing,
    ticket: u64,
}

impl<'a> Waiter<'a> {
    fn enter(pacing: &'a Pacing) -> Option<Self> {
        let mut queue = lock(&pacing.queue);
        if queue.tickets.len() >= MAX_WAITING {
            return None;
        }
        let ticket = queue.next;
        queue.next = ticket.wrapping_add(1);
        queue.tickets.push_back(ticket);
        Some(Self { pacing, ticket })
    }

    /// How many came before and still wait.
    fn ahead(&self) -> usize {
        let queue = lock(&self.pacing.queue);
        queue.tickets.binary_search(&self.ticket).unwrap_or_else(|place| place)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut queue = lock(&self.pacing.queue);
        if let Ok(place) = queue.tickets.binary_search(&self.ticket) {
            queue.tickets.remove(place);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
