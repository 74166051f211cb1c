//! Single flight: when many requests need the same answer, one calls the model and the others wait.
//!
//! The first request for a key becomes the leader and calls the model. Further requests for the same key wait for the
//! leader's answer, for a share of their remaining time. What happens next is a table:
//!
//! | event | the leader | the waiters |
//! | --- | --- | --- |
//! | the leader answered | is done | all get the answer |
//! | the leader failed, or its answer must not be shared | is done | the first that may still wait is promoted to leader; after `most_promotions` promotions all go to their next rung |
//! | the leader left (its caller disconnected) | is done | the first that may still wait is promoted; this does not count |
//! | a promoted leader is not aware of it yet: it [leaves](Flights::leave), or its [wait times out](Flights::stop_waiting) | left, or is instructed to lead | as above, or keep waiting |
//! | the leader has not reported for `most_lead` | loses the lead to the next request for the key | keep waiting |
//! | a wait timed out | continues | the first `most_alone` with time left call the model themselves; the others go to their next rung |
//!
//! Keys of different callers differ, so that a request never waits for another caller's private answer; and each grade
//! has its own flight, so that a request never waits for a lower grade than it may have. Memory is bounded: beyond
//! `most_flights` keys or `most_waiters` waiters, a request proceeds without coordination.

use super::CacheKey;
use super::waiters::{Waiter, Waiters};
use crate::deadline::Deadline;
use crate::setting::{Ratio, SettingError, at_least_one, positive};
use crate::time::{Timestamp, nanos};
use crate::vocabulary::Grade;
use std::collections::BTreeMap;
use std::time::Duration;

/// The answer that is requested, and the grade of the model that generates it. A request that may use the strong model
/// does not wait for the fast one's answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightKey {
    /// The cache key of the answer.
    pub key: CacheKey,
    /// The grade of the model that is called.
    pub grade: Grade,
}

/// Identifies one request; unique per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker(pub u64);

/// What a request should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightDecision {
    /// Call the model, and report how that ended.
    Lead,
    /// Wait for the leader.
    Wait {
        /// When to stop waiting and call [`Flights::stop_waiting`].
        until: Timestamp,
    },
    /// Call the model without coordination, and report nothing.
    Alone(AloneReason),
}

/// Why a request proceeds without coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AloneReason {
    /// The maximum number of flights is reached.
    TooManyFlights,
    /// The maximum number of waiters is reached.
    TooManyWaiters,
}

/// How a leader's call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderEnd {
    /// With an answer that all waiters may have.
    Answered,
    /// Without an answer, or with one that is cut off, refused or personal.
    Failed,
    /// The leader's own caller disconnected. This carries no information about the model.
    Left,
}

/// What to do with the waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingDecision {
    /// There are no waiters.
    Nobody,
    /// Pass the answer to these requests.
    Share(Vec<Asker>),
    /// This request leads now; the others keep waiting.
    Promote(Asker),
    /// These requests go to their next rung: the models have just failed on this question.
    Release(Vec<Asker>),
    /// The reporting request is not (or no longer) the leader; nothing changes for the others.
    NotLeading,
}

/// What to do when a wait has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitDecision {
    /// The wait has not ended yet.
    GoOnWaiting {
        /// When it ends.
        until: Timestamp,
    },
    /// The former leader is gone and this request was promoted: call the model, and report how that ended.
    Lead,
    /// Call the model without coordination.
    Alone,
    /// Leave the model to the leader, and answer from the next rung.
    NextRung,
}

/// Settings before validation; see [`FlightOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlightOptions {
    /// Share of the remaining time that may be spent waiting, in percent.
    pub wait_percent: f64,
    /// Maximum wait.
    pub most_wait: Duration,
    /// A leader that has not reported for this long is presumed lost.
    pub most_lead: Duration,
    /// Promotions after leaders that failed.
    pub most_promotions: u32,
    /// Waiters per flight that may call the model themselves after a timeout.
    pub most_alone: u32,
    /// Maximum number of concurrent flights.
    pub most_flights: usize,
    /// Maximum number of waiters over all flights.
    pub most_waiters: usize,
}

impl Default for FlightOptions {
    /// 60 % of the time left: of three seconds that leaves 1.2 for a fast model and the rungs below it.
    fn default() -> Self {
        Self {
            wait_percent: 60.0,
            most_wait: Duration::from_secs(20),
            most_lead: Duration::from_secs(120),
            most_promotions: 1,
            most_alone: 4,
            most_flights: 10_000,
            most_waiters: 10_000,
        }
    }
}

impl FlightOptions {
    /// Fails on durations and bounds of zero.
    pub fn check(self) -> Result<Flights, SettingError> {
        let wait_share = Ratio::percent("wait_percent", self.wait_percent)?;
        positive("most_wait", self.most_wait)?;
        positive("most_lead", self.most_lead)?;
        at_least_one("most_flights", self.most_flights as u64)?;
        at_least_one("most_waiters", self.most_waiters as u64)?;
        let next_sweep = Timestamp::ZERO;
        Ok(Flights { options: self, wait_share, flights: BTreeMap::new(), waiting: 0, next_sweep })
    }
}

#[derive(Clone, Debug)]
struct Flight {
    leader: Asker,
    lead_until: Timestamp,
    promotions: u32,
    alone: u32,
    waiters: Waiters,
}

impl Flight {
    fn led_by(leader: Asker, lead_until: Timestamp) -> Self {
        Self { leader, lead_until, promotions: 0, alone: 0, waiters: Waiters::default() }
    }
}

/// All flights and their waiters.
///
/// ```
/// use seawall_core::cache_policy::*;
/// use seawall_core::deadline::Deadline;
/// use seawall_core::time::Timestamp;
/// use seawall_core::vocabulary::{Grade, Intent};
/// use std::time::Duration;
///
/// let parts = KeyParts { route: "chat", locale: "ja", prompt_version: "1", catalogue_version: "1" };
/// let question = Question { intent: Intent::Faq, text: "送料は?", history: "", uses_account: false };
/// let key = FlightKey { key: CacheKey::of(&question, "", &parts).unwrap(), grade: Grade::Strong };
///
/// let mut flights = FlightOptions::default().check().unwrap();
/// let now = Timestamp::ZERO;
/// let deadline = Deadline::after(now, Duration::from_secs(3));
/// assert_eq!(flights.ask(&key, Asker(1), deadline, now), FlightDecision::Lead);
/// let until = now + Duration::from_millis(1_800);
/// assert_eq!(flights.ask(&key, Asker(2), deadline, now), FlightDecision::Wait { until });
/// assert_eq!(
///     flights.end(&key, Asker(1), LeaderEnd::Answered, now),
///     LandingDecision::Share(vec![Asker(2)])
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Flights {
    options: FlightOptions,
    wait_share: Ratio,
    flights: BTreeMap<FlightKey, Flight>,
    /// Waiters over all flights.
    waiting: usize,
    /// Lost leaders are swept at most once a second; otherwise every request would scan a full table.
    next_sweep: Timestamp,
}

impl Flights {
    /// Registers a request for an answer that is not in the cache. Idempotent.
    pub fn ask(
        &mut self,
        key: &FlightKey,
        asker: Asker,
        deadline: Deadline,
        now: Timestamp,
    ) -> FlightDecision {
        let lead_until = now + self.options.most_lead;
        let until = now + self.longest_wait(deadline.remaining(now));
        if let Some(flight) = self.flights.get_mut(key) {
            if flight.leader == asker {
                return FlightDecision::Lead;
            }
            if let Some(waiter) = flight.waiters.get(asker) {
                return FlightDecision::Wait { until: waiter.until };
            }
            if now >= flight.lead_until {
                (flight.leader, flight.lead_until) = (asker, lead_until);
                return FlightDecision::Lead;
            }
            if self.waiting >= self.options.most_waiters {
                return FlightDecision::Alone(AloneReason::TooManyWaiters);
            }
            flight.waiters.push(Waiter { asker, until, deadline });
            self.waiting += 1;
            return FlightDecision::Wait { until };
        }
        if self.flights.len() >= self.options.most_flights {
            self.sweep(now);
            if self.flights.len() >= self.options.most_flights {
                return FlightDecision::Alone(AloneReason::TooManyFlights);
            }
        }
        self.flights.insert(key.clone(), Flight::led_by(asker, lead_until));
        FlightDecision::Lead
    }

    /// Reports that the leader's call has ended.
    pub fn end(&mut self, key: &FlightKey, leader: Asker, how: LeaderEnd, now: Timestamp) -> LandingDecision {
        let Some(flight) = self.flights.get_mut(key).filter(|flight| flight.leader == leader) else {
            return LandingDecision::NotLeading;
        };
        let may_promote = match how {
            LeaderEnd::Answered => false,
            LeaderEnd::Failed => flight.promotions < self.options.most_promotions,
            LeaderEnd::Left => true,
        };
        let next =
            flight.waiters.iter().find(|waiter| may_promote && now < waiter.until).map(|next| next.asker);
        if let Some(next) = next {
            flight.waiters.remove(next);
            self.waiting -= 1;
            flight.promotions += u32::from(how == LeaderEnd::Failed);
            (flight.leader, flight.lead_until) = (next, now + self.options.most_lead);
            return LandingDecision::Promote(next);
        }
        let waiters = self.remove(key);
        if waiters.is_empty() {
            LandingDecision::Nobody
        } else if how == LeaderEnd::Answered {
            LandingDecision::Share(waiters)
        } else {
            LandingDecision::Release(waiters)
        }
    }

    /// Handles the timeout of a waiter. A waiter that was promoted meanwhile is instructed to lead; otherwise no
    /// request would call the model until the lead expires. An unknown request goes to the next rung; so does one
    /// without time left for a model, without using up one of the `most_alone` calls.
    pub fn stop_waiting(&mut self, key: &FlightKey, asker: Asker, now: Timestamp) -> WaitDecision {
        let Some(flight) = self.flights.get_mut(key) else { return WaitDecision::NextRung };
        if flight.leader == asker {
            return WaitDecision::Lead;
        }
        let Some(waiter) = flight.waiters.get(asker) else { return WaitDecision::NextRung };
        if now < waiter.until {
            return WaitDecision::GoOnWaiting { until: waiter.until };
        }
        flight.waiters.remove(asker);
        self.waiting -= 1;
        if waiter.deadline.has_passed(now) || flight.alone >= self.options.most_alone {
            return WaitDecision::NextRung;
        }
        flight.alone += 1;
        WaitDecision::Alone
    }

    /// Removes a request that has disconnected, whether it waited or led. It may have been promoted without being
    /// aware of it: the lead then passes on as with [`LeaderEnd::Left`], and the result must be applied to the
    /// waiters.
    pub fn leave(&mut self, key: &FlightKey, asker: Asker, now: Timestamp) -> LandingDecision {
        if let Some(flight) = self.flights.get_mut(key)
            && flight.waiters.remove(asker)
        {
            self.waiting -= 1;
        }
        self.end(key, asker, LeaderEnd::Left, now)
    }

    /// Number of flights.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether there are no flights.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Number of waiters over all flights.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    fn longest_wait(&self, left: Duration) -> Duration {
        Duration::from_nanos(self.wait_share.of(nanos(left))).min(self.options.most_wait)
    }

    /// Ends a flight and returns its waiters in order.
    fn remove(&mut self, key: &FlightKey) -> Vec<Asker> {
        let waiters = self.flights.remove(key).map(|flight| flight.waiters).unwrap_or_default();
        self.waiting -= waiters.len();
        waiters.iter().map(|waiter| waiter.asker).collect()
    }

    /// Removes flights whose leader is lost and that have no waiter within its wait.
    fn sweep(&mut self, now: Timestamp) {
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + Duration::from_secs(1);
        let waiting = &mut self.waiting;
        self.flights.retain(|_, flight| {
            let in_use = now < flight.lead_until || flight.waiters.iter().any(|waiter| now < waiter.until);
            if !in_use {
                *waiting -= flight.waiters.len();
            }
            in_use
        });
    }
}
