//! Client-side rate limiting: how fast to send to a provider that throttles us.
//!
//! A provider that throttles does not say which rate it would accept. [`SenderRate`] finds it the way TCP CUBIC finds a
//! link's capacity: on a throttle it cuts the rate to 70 %, then climbs back quickly, slows down near the rate at which
//! it was last throttled, and then carefully probes beyond it. The rate is enforced by a small token bucket that holds
//! one second's worth of sends.
//!
//! **When it acts.** From the first throttle on; before that everything passes, and reports only measure the rate of
//! responses. It acts until [`stop_limiting`](SenderRate::stop_limiting) is called; if the provider stops throttling,
//! the climbing rate soon exceeds the demand. [`ThrottleGate`] calls it, and holds calls back for as long as a provider
//! asks. Report every response, throttled or not: the rate is updated with every send and every report.
//!
//! **What it guarantees.** The rate is at least one send in two seconds, so that it always recovers. Otherwise it is at
//! most twice the measured rate of responses or sends: an idle sender cannot climb to a rate it never tried, and one
//! whose responses take a minute is not slowed down by that. A send that must wait takes nothing, so all calls at the
//! same time get the same wait, and the balance never goes below zero. A timestamp from the past counts as the latest
//! one seen.
//!
//! **What it does not do.** It has no queue: of the callers with the same wait, the first to call again proceeds. It
//! adds no jitter to the wait, and it does not distinguish a throttle from other failures.
//!
//! ```
//! use seawall_core::sender::{SendDecision, SenderRate};
//! use seawall_core::time::Timestamp;
//! use std::time::Duration;
//!
//! let start = Timestamp::ZERO;
//! let mut sender = SenderRate::new(start);
//! assert_eq!(sender.acquire(start), SendDecision::Send);
//!
//! sender.report(start, true);
//! let soon = start + Duration::from_millis(100);
//! let wait = Duration::from_millis(1_900);
//! assert_eq!(sender.acquire(soon), SendDecision::Wait(wait));
//! assert_eq!(sender.acquire(soon + wait), SendDecision::Send);
//! ```

mod gate;

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod tests;

pub use gate::{ThrottleDecision, ThrottleGate};

use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// The factor on the rate after a throttle (CUBIC's beta).
const CUT: f64 = 0.7;
/// How steeply the rate climbs, in sends per second per cubed second (CUBIC's scale constant).
const STEEPNESS: f64 = 0.4;
/// The weight of the newest measurement in the moving average.
const SMOOTHING: f64 = 0.8;
/// The length of a measurement slice, in nanoseconds.
const SLICE: u64 = 500_000_000;
const SLICES_PER_SECOND: f64 = 2.0;
const MIN_RATE: f64 = 0.5;
const MIN_CAPACITY: f64 = 1.0;
/// The maximum of the rate as a multiple of the measured rate.
const HEADROOM: f64 = 2.0;
const NANOS_PER_SECOND: f64 = 1e9;

/// The decision on a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a send that must wait has not been charged"]
pub enum SendDecision {
    /// Send now.
    Send,
    /// Nothing was taken; call again after this time.
    Wait(Duration),
}

/// The rate at which one sender sends to one provider. The [module](self) documents the algorithm.
#[derive(Clone, Debug)]
pub struct SenderRate {
    /// The latest time seen; the balance is as of then.
    as_of: Timestamp,
    is_limiting: bool,
    /// Sends per second.
    rate: f64,
    capacity: f64,
    balance: f64,
    measured: MeasuredRate,
    /// The rate of sends, while they are limited. Slow responses arrive later than their sends, and fewer of them at
    /// first: a rate that followed responses alone would sink below what the provider accepts.
    sends: MeasuredRate,
    /// The rate at the last throttle, which the curve climbs back to.
    rate_at_throttle: f64,
    last_throttle: Timestamp,
}

impl SenderRate {
    /// Creates a sender that lets everything pass and starts to measure.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            as_of: now,
            is_limiting: false,
            rate: MIN_RATE,
            capacity: MIN_CAPACITY,
            balance: 0.0,
            measured: MeasuredRate::new(now),
            sends: MeasuredRate::new(now),
            rate_at_throttle: 0.0,
            last_throttle: now,
        }
    }

    /// Requests to send one call.
    pub fn acquire(&mut self, now: Timestamp) -> SendDecision {
        if !self.is_limiting {
            return SendDecision::Send;
        }
        self.refill(now);
        let wait = self.time_to_one();
        if !wait.is_zero() {
            return SendDecision::Wait(wait);
        }
        self.balance = (self.balance - 1.0).max(0.0);
        self.sends.count(self.as_of);
        // A throttle arrives at once but a response may take a minute, so the climb does not wait for responses.
        self.set_rate(self.climb());
        SendDecision::Send
    }

    /// Reports one response, and whether it was a throttle.
    pub fn report(&mut self, now: Timestamp, throttled: bool) {
        // At the old rate, which was in force until now.
        self.refill(now);
        self.measured.count(self.as_of);
        let aim = if throttled { self.cut() } else { self.climb() };
        self.set_rate(aim);
    }

    fn set_rate(&mut self, aim: f64) {
        let rate = aim.min(HEADROOM * self.measured_rate());
        self.rate = rate.max(MIN_RATE);
        self.capacity = rate.max(MIN_CAPACITY);
        self.balance = self.balance.min(self.capacity);
    }

    /// The allowed sends per second while [`is_limiting`](Self::is_limiting).
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether the rate is limited: true from the first throttle on, until [`stop_limiting`](Self::stop_limiting).
    #[must_use]
    pub const fn is_limiting(&self) -> bool {
        self.is_limiting
    }

    /// Lets everything pass again until the next throttle. The measurements are kept.
    pub const fn stop_limiting(&mut self) {
        self.is_limiting = false;
    }

    /// Excludes a pause from the measurements: no call may be sent meanwhile, and a pause is not a slow rate.
    pub(super) fn pause(&mut self, pause: Duration) {
        self.measured.pause(pause);
        self.sends.pause(pause);
    }

    fn measured_rate(&self) -> f64 {
        if self.is_limiting { self.measured.rate.max(self.sends.rate) } else { self.measured.rate }
    }

    fn cut(&mut self) -> f64 {
        let rate = if self.is_limiting {
            // Responses lag behind sends: the measured rate may be faster than the current limit.
            self.measured_rate().min(self.rate)
        } else {
            // Sends were not counted before.
            self.sends = MeasuredRate { counted: 0, ..self.measured.clone() };
            self.measured.rate
        };
        self.is_limiting = true;
        self.rate_at_throttle = rate;
        self.last_throttle = self.as_of;
        cut_rate(rate)
    }

    fn climb(&self) -> f64 {
        climbed_rate(self.rate_at_throttle, (self.as_of - self.last_throttle).as_secs_f64())
    }

    fn refill(&mut self, now: Timestamp) {
        let dripped = (now - self.as_of).as_secs_f64() * self.rate;
        self.balance = (self.balance + dripped).min(self.capacity);
        self.as_of = self.as_of.max(now);
    }

    /// The wait until one send is paid for, in whole nanoseconds, rounded down. No timer can wait for a fraction of
    /// one, so a send that is short by less may proceed instead of waiting again forever.
    fn time_to_one(&self) -> Duration {
        let nanos = (1.0 - self.balance) / self.rate * NANOS_PER_SECOND;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "rounds down, and to 0 from below"
        )]
        let nanos = nanos as u64;
        Duration::from_nanos(nanos)
    }
}

/// The rate of responses or of sends, as a moving average over slices of half a second.
#[derive(Clone, Debug)]
struct MeasuredRate {
    /// Events per second.
    rate: f64,
    slice: u64,
    counted: u64,
}

impl MeasuredRate {
    fn new(now: Timestamp) -> Self {
        Self { rate: 0.0, slice: now.as_nanos() / SLICE, counted: 0 }
    }

    fn pause(&mut self, pause: Duration) {
        self.slice = self.slice.saturating_add(nanos(pause) / SLICE);
    }

    /// Counts one event. An event in a new slice completes the last slice and is counted there.
    fn count(&mut self, now: Timestamp) {
        self.counted = self.counted.saturating_add(1);
        let slice = now.as_nanos() / SLICE;
        let passed = slice.saturating_sub(self.slice);
        if passed > 0 {
            let newest = self.counted as f64 / passed as f64 * SLICES_PER_SECOND;
            self.rate = newest * SMOOTHING + self.rate * (1.0 - SMOOTHING);
            self.slice = slice;
            self.counted = 0;
        }
    }
}

fn cut_rate(rate: f64) -> f64 {
    rate * CUT
}

/// The CUBIC curve: 70 % of `rate_at_throttle` right after a throttle, all of it after the time that the curve takes to
/// climb the missing 30 %, and ever steeper from there.
fn climbed_rate(rate_at_throttle: f64, seconds: f64) -> f64 {
    let time_to_climb_back = (rate_at_throttle * (1.0 - CUT) / STEEPNESS).cbrt();
    STEEPNESS * (seconds - time_to_climb_back).powi(3) + rate_at_throttle
}
