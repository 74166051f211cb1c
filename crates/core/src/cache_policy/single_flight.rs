//! Single flight: when many requests need the same answer, one calls the model and the others wait.
//!
//! The first request for a key becomes the leader and calls the model. Further requests for the same key wait for the
//! leader's answer, for a share of their remaining time. What happens next is a table:
//!
//! | event | the leader | the waiters |
//! | --- | --- | --- |
//! | the leader answered | is done | all get the answer |
//! | the leader failed, or its answer must not be shared | is done | the first that may still wait is promoted to leader; after `max_promotions` promotions all go to their next rung |
//! | the leader left (its caller disconnected) | is done | the first that may still wait is promoted; this does not count |
//! | a promoted leader is not aware of it yet: it [leaves](SingleFlightTable::leave), or its [wait times out](SingleFlightTable::handle_wait_timeout) | left, or is instructed to lead | as above, or keep waiting |
//! | the leader has not reported for `leader_timeout` | loses the lead to the next request for the key | keep waiting |
//! | a wait timed out | continues | the first `max_unshared` with time left call the model themselves; the others go to their next rung |
//!
//! Keys of different callers differ, so that a request never waits for another caller's private answer; and each grade
//! has its own flight, so that a request never waits for a lower grade than it may have. Memory is bounded: beyond
//! `max_flights` keys or `max_waiters` waiters, a request proceeds without coordination.

use super::CacheKey;
use super::waiters::{FlightWaiter, FlightWaiters};
use crate::deadline::Deadline;
use crate::setting::{Ratio, SettingError, at_least_one, positive};
use crate::time::{Timestamp, nanos};
use crate::vocabulary::Grade;
use std::collections::BTreeMap;
use std::time::Duration;

/// The answer that is requested, and the grade of the model that generates it. A request that may use the strong model
/// does not wait for the fast one's answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SingleFlightKey {
    /// The cache key of the answer.
    pub key: CacheKey,
    /// The grade of the model that is called.
    pub grade: Grade,
}

/// Identifies one request; unique per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParticipantId(pub u64);

/// What a request should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SingleFlightDecision {
    /// Call the model, and report how that ended.
    Lead,
    /// Wait for the leader.
    Wait {
        /// When to stop waiting and call [`SingleFlightTable::handle_wait_timeout`].
        until: Timestamp,
    },
    /// Call the model without coordination, and report nothing.
    Unshared(UnsharedReason),
}

/// Why a request proceeds without coordination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnsharedReason {
    /// The maximum number of flights is reached.
    TooManyKeys,
    /// The maximum number of waiters is reached.
    TooManyWaiters,
}

/// How a leader's call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderOutcome {
    /// With an answer that all waiters may have.
    Answered,
    /// Without an answer, or with one that is cut off, refused or personal.
    Failed,
    /// The leader's own caller disconnected. This carries no information about the model.
    Disconnected,
}

/// What to do with the waiters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitersDecision {
    /// There are no waiters.
    NoWaiters,
    /// Pass the answer to these requests.
    Share(Vec<ParticipantId>),
    /// This request leads now; the others keep waiting.
    Promote(ParticipantId),
    /// These requests go to their next rung: the models have just failed on this question.
    Release(Vec<ParticipantId>),
    /// The reporting request is not (or no longer) the leader; nothing changes for the others.
    NotLeader,
}

/// What to do when a wait has timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitTimeoutDecision {
    /// The wait has not ended yet.
    KeepWaiting {
        /// When it ends.
        until: Timestamp,
    },
    /// The former leader is gone and this request was promoted: call the model, and report how that ended.
    Lead,
    /// Call the model without coordination.
    Unshared,
    /// Leave the model to the leader, and answer from the next rung.
    NextRung,
}

/// Settings before validation; see [`SingleFlightOptions::check`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleFlightOptions {
    /// Share of the remaining time that may be spent waiting, in percent.
    pub wait_percent: f64,
    /// Maximum wait.
    pub max_wait: Duration,
    /// A leader that has not reported for this long is presumed lost.
    pub leader_timeout: Duration,
    /// Promotions after leaders that failed.
    pub max_promotions: u32,
    /// Waiters per flight that may call the model themselves after a timeout.
    pub max_unshared: u32,
    /// Maximum number of concurrent flights.
    pub max_flights: usize,
    /// Maximum number of waiters over all flights.
    pub max_waiters: usize,
}

impl Default for SingleFlightOptions {
    /// 60 % of the time left: of three seconds that leaves 1.2 for a fast model and the rungs below it.
    fn default() -> Self {
        Self {
            wait_percent: 60.0,
            max_wait: Duration::from_secs(20),
            leader_timeout: Duration::from_secs(120),
            max_promotions: 1,
            max_unshared: 4,
            max_flights: 10_000,
            max_waiters: 10_000,
        }
    }
}

impl SingleFlightOptions {
    /// Fails on durations and bounds of zero.
    pub fn check(self) -> Result<SingleFlightTable, SettingError> {
        let wait_share = Ratio::percent("wait_percent", self.wait_percent)?;
        positive("max_wait", self.max_wait)?;
        positive("leader_timeout", self.leader_timeout)?;
        at_least_one("max_flights", self.max_flights as u64)?;
        at_least_one("max_waiters", self.max_waiters as u64)?;
        let next_sweep = Timestamp::ZERO;
        Ok(SingleFlightTable { options: self, wait_share, flights: BTreeMap::new(), waiting: 0, next_sweep })
    }
}

#[derive(Clone, Debug)]
struct Flight {
    leader: ParticipantId,
    lead_until: Timestamp,
    promotions: u32,
    unshared: u32,
    waiters: FlightWaiters,
}

impl Flight {
    fn led_by(leader: ParticipantId, lead_until: Timestamp) -> Self {
        Self { leader, lead_until, promotions: 0, unshared: 0, waiters: FlightWaiters::default() }
    }
}

/// All flights and their waiters.
///
/// ```
/// use seawall_core::cache_policy::*;
/// use seawall_core::deadline::Deadline;
/// use seawall_core::time::Timestamp;
/// use seawall_core::vocabulary::Grade;
/// use std::time::Duration;
///
/// let parts = KeyParts { route: "chat", locale: "ja", prompt_version: "1", catalogue_version: "1" };
/// let question =
///     Question { intent: "faq", is_context_free: true, text: "送料は?", history: "", uses_account: false };
/// let key = SingleFlightKey { key: CacheKey::of(&question, "", &parts).unwrap(), grade: Grade::Strong };
///
/// let mut flights = SingleFlightOptions::default().check().unwrap();
/// let now = Timestamp::ZERO;
/// let deadline = Deadline::after(now, Duration::from_secs(3));
/// assert_eq!(flights.join(&key, ParticipantId(1), deadline, now), SingleFlightDecision::Lead);
/// let until = now + Duration::from_millis(1_800);
/// assert_eq!(flights.join(&key, ParticipantId(2), deadline, now), SingleFlightDecision::Wait { until });
/// assert_eq!(
///     flights.finish(&key, ParticipantId(1), LeaderOutcome::Answered, now),
///     WaitersDecision::Share(vec![ParticipantId(2)])
/// );
/// ```
#[derive(Clone, Debug)]
pub struct SingleFlightTable {
    options: SingleFlightOptions,
    wait_share: Ratio,
    flights: BTreeMap<SingleFlightKey, Flight>,
    /// Waiters over all flights.
    waiting: usize,
    /// Lost leaders are swept at most once a second; otherwise every request would scan a full table.
    next_sweep: Timestamp,
}

impl SingleFlightTable {
    /// Registers a request for an answer that is not in the cache. Idempotent.
    pub fn join(
        &mut self,
        key: &SingleFlightKey,
        participant: ParticipantId,
        deadline: Deadline,
        now: Timestamp,
    ) -> SingleFlightDecision {
        let lead_until = now + self.options.leader_timeout;
        let until = now + self.max_wait(deadline.remaining(now));
        if let Some(flight) = self.flights.get_mut(key) {
            if flight.leader == participant {
                return SingleFlightDecision::Lead;
            }
            if let Some(waiter) = flight.waiters.get(participant) {
                return SingleFlightDecision::Wait { until: waiter.until };
            }
            if now >= flight.lead_until {
                (flight.leader, flight.lead_until) = (participant, lead_until);
                return SingleFlightDecision::Lead;
            }
            if self.waiting >= self.options.max_waiters {
                return SingleFlightDecision::Unshared(UnsharedReason::TooManyWaiters);
            }
            flight.waiters.push(FlightWaiter { participant, until, deadline });
            self.waiting += 1;
            return SingleFlightDecision::Wait { until };
        }
        if self.flights.len() >= self.options.max_flights {
            self.sweep(now);
            if self.flights.len() >= self.options.max_flights {
                return SingleFlightDecision::Unshared(UnsharedReason::TooManyKeys);
            }
        }
        self.flights.insert(key.clone(), Flight::led_by(participant, lead_until));
        SingleFlightDecision::Lead
    }

    /// Reports that the leader's call has ended.
    pub fn finish(
        &mut self,
        key: &SingleFlightKey,
        leader: ParticipantId,
        how: LeaderOutcome,
        now: Timestamp,
    ) -> WaitersDecision {
        let Some(flight) = self.flights.get_mut(key).filter(|flight| flight.leader == leader) else {
            return WaitersDecision::NotLeader;
        };
        let may_promote = match how {
            LeaderOutcome::Answered => false,
            LeaderOutcome::Failed => flight.promotions < self.options.max_promotions,
            LeaderOutcome::Disconnected => true,
        };
        let next = flight
            .waiters
            .iter()
            .find(|waiter| may_promote && now < waiter.until)
            .map(|next| next.participant);
        if let Some(next) = next {
            flight.waiters.remove(next);
            self.waiting -= 1;
            flight.promotions += u32::from(how == LeaderOutcome::Failed);
            (flight.leader, flight.lead_until) = (next, now + self.options.leader_timeout);
            return WaitersDecision::Promote(next);
        }
        let waiters = self.remove(key);
        if waiters.is_empty() {
            WaitersDecision::NoWaiters
        } else if how == LeaderOutcome::Answered {
            WaitersDecision::Share(waiters)
        } else {
            WaitersDecision::Release(waiters)
        }
    }

    /// Handles the timeout of a waiter. A waiter that was promoted meanwhile is instructed to lead; otherwise no
    /// request would call the model until the lead expires. An unknown request goes to the next rung; so does one
    /// without time left for a model, without using up one of the `max_unshared` calls.
    pub fn handle_wait_timeout(
        &mut self,
        key: &SingleFlightKey,
        participant: ParticipantId,
        now: Timestamp,
    ) -> WaitTimeoutDecision {
        let Some(flight) = self.flights.get_mut(key) else { return WaitTimeoutDecision::NextRung };
        if flight.leader == participant {
            return WaitTimeoutDecision::Lead;
        }
        let Some(waiter) = flight.waiters.get(participant) else { return WaitTimeoutDecision::NextRung };
        if now < waiter.until {
            return WaitTimeoutDecision::KeepWaiting { until: waiter.until };
        }
        flight.waiters.remove(participant);
        self.waiting -= 1;
        if waiter.deadline.has_passed(now) || flight.unshared >= self.options.max_unshared {
            return WaitTimeoutDecision::NextRung;
        }
        flight.unshared += 1;
        WaitTimeoutDecision::Unshared
    }

    /// Removes a request that has disconnected, whether it waited or led. It may have been promoted without being
    /// aware of it: the lead then passes on as with [`LeaderOutcome::Disconnected`], and the result must be applied to the
    /// waiters.
    pub fn leave(
        &mut self,
        key: &SingleFlightKey,
        participant: ParticipantId,
        now: Timestamp,
    ) -> WaitersDecision {
        if let Some(flight) = self.flights.get_mut(key)
            && flight.waiters.remove(participant)
        {
            self.waiting -= 1;
        }
        self.finish(key, participant, LeaderOutcome::Disconnected, now)
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

    fn max_wait(&self, left: Duration) -> Duration {
        Duration::from_nanos(self.wait_share.of(nanos(left))).min(self.options.max_wait)
    }

    /// Ends a flight and returns its waiters in order.
    fn remove(&mut self, key: &SingleFlightKey) -> Vec<ParticipantId> {
        let waiters = self.flights.remove(key).map(|flight| flight.waiters).unwrap_or_default();
        self.waiting -= waiters.len();
        waiters.iter().map(|waiter| waiter.participant).collect()
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
