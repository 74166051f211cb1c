//! How fast to send to a provider that says "too fast".
//!
//! A provider that throttles does not say which rate it would accept. [`SenderRate`] finds out the way TCP
//! CUBIC finds a link's speed: at a throttle it cuts the rate to 70 %, then climbs back quickly, slows down
//! near the rate at which it was last throttled, and, if nothing happens there, carefully tries more. The
//! rate is enforced by a small bucket that holds one second's worth of sends.
//!
//! **When it acts.** Not before the first throttle: until then everything passes, and reports only measure
//! how fast answers come. From then on until it is told to [stop](SenderRate::stop_limiting); a provider that
//! stops throttling is soon outpaced by a rate that keeps climbing. [`ThrottleGate`] tells it, and holds calls back for as
//! long as a provider asks. Report every answer, throttled or not: the rate moves only when something is reported.
//!
//! **What it promises.** The rate is at least one send in two seconds, so that the way back is always found,
//! and otherwise at most twice the measured rate: a sender that is idle cannot climb to a rate it never tried. Who
//! must wait takes nothing, so everyone who asks at one moment is told the same wait, and the balance never
//! goes below zero. A moment from the past counts as the latest one seen.
//!
//! **What it will not do.** It keeps no line: of those who were told the same wait, the first to ask again
//! goes. It does not add randomness to the wait, and it does not tell a throttle from another failure.
//!
//! ```
//! use seawall_core::sender::{SendDecision, SenderRate};
//! use seawall_core::time::Timestamp;
//! use std::time::Duration;
//!
//! let start = Timestamp::ZERO;
//! let mut sender = SenderRate::new(start);
//! assert_eq!(sender.acquire(start), SendDecision::Go);
//!
//! sender.report(start, true);
//! let soon = start + Duration::from_millis(100);
//! let wait = Duration::from_millis(1_900);
//! assert_eq!(sender.acquire(soon), SendDecision::Wait(wait));
//! assert_eq!(sender.acquire(soon + wait), SendDecision::Go);
//! ```

mod gate;

#[cfg(test)]
mod gate_tests;
#[cfg(test)]
mod tests;

pub use gate::{ThrottleGate, ThrottleVerdict};

use crate::time::{Timestamp, nanos};
use std::time::Duration;

/// What is left of the rate after a throttle.
const CUT: f64 = 0.7;
/// How steeply the rate climbs: sends a second, for each cubed second.
const STEEPNESS: f64 = 0.4;
/// The weight of the newest measurement against all before it.
const SMOOTHING: f64 = 0.8;
/// Answers are counted in slices of this many nanoseconds.
const SLICE: u64 = 500_000_000;
const SLICES_PER_SECOND: f64 = 2.0;
const LEAST_RATE: f64 = 0.5;
const LEAST_CAPACITY: f64 = 1.0;
/// The rate may be this many times the measured rate.
const HEADROOM: f64 = 2.0;
const NANOS_PER_SECOND: f64 = 1e9;

/// The answer to "may I send now?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a send that must wait was not paid for"]
pub enum SendDecision {
    /// Send.
    Go,
    /// Nothing was taken; ask again after this long.
    Wait(Duration),
}

/// The rate at which one sender sends to one provider. See the [module](self) for how it is found.
#[derive(Clone, Debug)]
pub struct SenderRate {
    /// The latest moment seen; the balance is as of then.
    as_of: Timestamp,
    is_limiting: bool,
    /// Sends a second.
    rate: f64,
    capacity: f64,
    balance: f64,
    measured: Measured,
    /// The rate at the last throttle, to climb back to.
    rate_at_throttle: f64,
    last_throttle: Timestamp,
}

impl SenderRate {
    /// Lets everything pass, and starts to measure.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self {
            as_of: now,
            is_limiting: false,
            rate: LEAST_RATE,
            capacity: LEAST_CAPACITY,
            balance: 0.0,
            measured: Measured::new(now),
            rate_at_throttle: 0.0,
            last_throttle: now,
        }
    }

    /// Asks to send one call.
    pub fn acquire(&mut self, now: Timestamp) -> SendDecision {
        if !self.is_limiting {
            return SendDecision::Go;
        }
        self.refill(now);
        let wait = self.time_to_one();
        if !wait.is_zero() {
            return SendDecision::Wait(wait);
        }
        self.balance = (self.balance - 1.0).max(0.0);
        SendDecision::Go
    }

    /// Reports one answer, and whether it said that we send too fast.
    pub fn report(&mut self, now: Timestamp, throttled: bool) {
        // At the old rate, which held until now.
        self.refill(now);
        self.measured.count(self.as_of);
        let aim = if throttled { self.cut() } else { self.climb() };
        let rate = aim.min(HEADROOM * self.measured.rate);
        self.rate = rate.max(LEAST_RATE);
        self.capacity = rate.max(LEAST_CAPACITY);
        self.balance = self.balance.min(self.capacity);
    }

    /// Sends a second that are let through once [`is_limiting`](Self::is_limiting).
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Whether there was a throttle: before the first one everything passes.
    #[must_use]
    pub const fn is_limiting(&self) -> bool {
        self.is_limiting
    }

    /// Lets everything pass again, until the next throttle. What was measured stays.
    pub const fn stop_limiting(&mut self) {
        self.is_limiting = false;
    }

    /// Nobody may send for this long, so that it says nothing of how fast answers come: a pause is not a slow rate.
    pub(super) fn pause(&mut self, pause: Duration) {
        self.measured.pause(pause);
    }

    fn cut(&mut self) -> f64 {
        // Answers lag behind sends: what was measured may be faster than what is let through by now.
        let rate = if self.is_limiting { self.measured.rate.min(self.rate) } else { self.measured.rate };
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

    /// The wait until one send is paid for, in whole nanoseconds, rounded down: no timer can wait for the rest
    /// of one, so who is short by less may go instead of asking for ever.
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

/// How fast answers come, smoothed over slices of half a second.
#[derive(Clone, Debug)]
struct Measured {
    /// Answers a second.
    rate: f64,
    slice: u64,
    answers: u64,
}

impl Measured {
    fn new(now: Timestamp) -> Self {
        Self { rate: 0.0, slice: now.as_nanos() / SLICE, answers: 0 }
    }

    fn pause(&mut self, pause: Duration) {
        self.slice = self.slice.saturating_add(nanos(pause) / SLICE);
    }

    /// Counts one answer. One that opens a new slice closes the last one, and is counted there.
    fn count(&mut self, now: Timestamp) {
        self.answers = self.answers.saturating_add(1);
        let slice = now.as_nanos() / SLICE;
        let passed = slice.saturating_sub(self.slice);
        if passed > 0 {
            let newest = self.answers as f64 / passed as f64 * SLICES_PER_SECOND;
            self.rate = newest * SMOOTHING + self.rate * (1.0 - SMOOTHING);
            self.slice = slice;
            self.answers = 0;
        }
    }
}

fn cut_rate(rate: f64) -> f64 {
    rate * CUT
}

/// The rate so many seconds after a throttle: 70 % of `rate_at_throttle` at first, all of it after the time
/// the curve takes to climb the missing 30 %, and from there ever steeper.
fn climbed_rate(rate_at_throttle: f64, seconds: f64) -> f64 {
    let time_to_climb_back = (rate_at_throttle * (1.0 - CUT) / STEEPNESS).cbrt();
    STEEPNESS * (seconds - time_to_climb_back).powi(3) + rate_at_throttle
}
