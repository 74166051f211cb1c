//! Who asks the model when many want to know the same.
//!
//! The first who asks for a key leads: it calls the model. Who asks for the same key meanwhile waits for the leader's
//! answer, for a share of the time it has. What happens next is a table:
//!
//! | event | the leader | those who wait |
//! | --- | --- | --- |
//! | the leader answered | is done | all get the answer |
//! | the leader failed, or its answer must not be shared | is done | the first who may still wait leads; once that has happened `most_promotions` times, all go to their next rung |
//! | the leader left (its caller went away) | is done | the first who may still wait leads; it does not count |
//! | who was made leader has not heard of it: it [leaves](Flights::leave), or its [timer rings](Flights::stop_waiting) | left, or is told to lead | as above, or go on waiting |
//! | the leader says nothing for `most_lead` | loses the lead to the next who asks | go on waiting |
//! | a wait has ended | goes on | the first `most_alone` that still have time ask the model themselves; the others go to their next rung |
//!
//! Keys of different callers differ, so that nobody ever waits for another's private answer; and each grade of model
//! has its own flight, so that nobody waits for less than they may have. Memory is bounded: beyond
//! `most_flights` keys or `most_waiters` waiting, who asks goes alone.

use super::CacheKey;
use super::waiters::{Waiter, Waiters};
use crate::deadline::Deadline;
use crate::setting::{Ratio, SettingError, at_least_one, positive};
use crate::time::{Timestamp, nanos};
use crate::vocabulary::Grade;
use std::collections::BTreeMap;
use std::time::Duration;

/// What is asked for: an answer, and how strong a model is to give it. Who may have the strong model does not wait for
/// the fast one's answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlightKey {
    /// Where the answer will be kept.
    pub key: CacheKey,
    /// Who is asked for it.
    pub grade: Grade,
}

/// One request that asks. Each has its own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker(pub u64);

/// What who asks should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlightDecision {
    /// Call the model, and report how that ended.
    Lead,
    /// Wait for the leader, until then.
    Wait {
        /// When to stop waiting and say so.
        until: Timestamp,
    },
    /// Call the model without regard to others, and report nothing.
    Alone(AloneReason),
}

/// Why somebody asks without regard to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AloneReason {
    /// As many keys are asked for as are kept.
    TooManyFlights,
    /// As many wait as may.
    TooManyWaiters,
}

/// How a leader's call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaderEnd {
    /// There is an answer that all who wait may have.
    Answered,
    /// There is none, or it is cut, refused or personal.
    Failed,
    /// The leader's own caller went away. Says nothing about the model.
    Left,
}

/// What to tell those who wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LandingDecision {
    /// Nobody waits.
    Nobody,
    /// These get the answer.
    Share(Vec<Asker>),
    /// This one leads now; the others go on waiting.
    Promote(Asker),
    /// These go to their next rung: the models have just failed at this very question.
    Release(Vec<Asker>),
    /// Who reports does not lead (any more); nothing changes for the others.
    NotLeading,
}

/// What to do when a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitDecision {
    /// It has not ended yet.
    GoOnWaiting {
        /// When it will.
        until: Timestamp,
    },
    /// The leader is gone and who asks has its place: call the model, and report how that ended.
    Lead,
    /// Call the model oneself.
    Alone,
    /// Leave the model to the leader, and answer from the next rung.
    NextRung,
}

/// Settings as somebody wrote them; [`FlightOptions::check`] makes them usable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlightOptions {
    /// The share of the time left that may be spent waiting.
    pub wait_percent: f64,
    /// No wait is longer than this.
    pub most_wait: Duration,
    /// A leader that says nothing for so long is taken for lost.
    pub most_lead: Duration,
    /// How many may lead after a leader that failed.
    pub most_promotions: u32,
    /// How many may ask themselves after waiting in vain.
    pub most_alone: u32,
    /// Keys that are asked for at the same time.
    pub most_flights: usize,
    /// Askers that wait at the same time, over all keys.
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
    /// Refuses waits and bounds of nothing.
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

/// The keys that are being asked for, and who waits for them.
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
    /// Over all flights.
    waiting: usize,
    /// Lost leaders are looked for at most once a second, or a full table would be searched by every request.
    next_sweep: Timestamp,
}

impl Flights {
    /// Somebody wants an answer that is not in the cache. Asking twice changes nothing.
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

    /// The leader's call has ended.
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

    /// The timer of somebody who waits has rung. Who leads by now is told so, or nobody would ask the model until the
    /// lead is lost. Who is not known any more goes to the next rung; so does who has no time left for a model, without
    /// taking the place of another who has.
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

    /// Somebody has gone away, whether it waited or led. Who was made leader may not know of it yet: the lead passes
    /// on as if it had said [`LeaderEnd::Left`], and the others are to be told what this answers.
    pub fn leave(&mut self, key: &FlightKey, asker: Asker, now: Timestamp) -> LandingDecision {
        if let Some(flight) = self.flights.get_mut(key)
            && flight.waiters.remove(asker)
        {
            self.waiting -= 1;
        }
        self.end(key, asker, LeaderEnd::Left, now)
    }

    /// Keys that are being asked for.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flights.len()
    }

    /// Whether nothing is being asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Askers that wait, over all keys.
    #[must_use]
    pub const fn waiting(&self) -> usize {
        self.waiting
    }

    fn longest_wait(&self, left: Duration) -> Duration {
        Duration::from_nanos(self.wait_share.of(nanos(left))).min(self.options.most_wait)
    }

    /// Ends a flight; who waited for it, in order.
    fn remove(&mut self, key: &FlightKey) -> Vec<Asker> {
        let waiters = self.flights.remove(key).map(|flight| flight.waiters).unwrap_or_default();
        self.waiting -= waiters.len();
        waiters.iter().map(|waiter| waiter.asker).collect()
    }

    /// Forgets flights whose leader is lost and for which nobody may still wait.
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
