//! Plays a model outage through the machines on a virtual clock: three minutes in a few milliseconds.
//!
//! The strong model begins to throttle at 30 s, is down from 45 s to 90 s, and comes back. A caller abuses the
//! service all the while. Run it with `cargo run --example outage`; the same seed plays the same outage.

use seawall_core::breaker::{Breaker, BreakerPhase, BreakerProfile, SharedBreaker};
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::{Deadline, RungReserves};
use seawall_core::failure::{AttemptOutcome, BEDROCK, Failure};
use seawall_core::pressure::{PressureGauge, PressureOptions};
use seawall_core::quota::{
    GroupId, Quota, QuotaDecision, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits, RateLimiter,
};
use seawall_core::random::Draw;
use seawall_core::retry::{Retries, RetryCounters, RetryDecision, RetryOptions, RetrySituation};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::time::Duration;

const REQUESTS_PER_SECOND: u64 = 20;
const ABUSER: u64 = 0;

/// A model that answers, throttles or is down by the clock.
struct Target {
    name: &'static str,
    breaker: SharedBreaker,
    pressure: PressureGauge,
    answered: u32,
}

impl Target {
    fn new(name: &'static str, profile: BreakerProfile) -> Result<Self, SettingError> {
        let breaker = SharedBreaker::new(Breaker::new(profile.options().check()?));
        let pressure = PressureGauge::new(PressureOptions::default().check()?);
        Ok(Self { name, breaker, pressure, answered: 0 })
    }

    /// One attempt: 100 ms to fail, 300 ms to begin to answer.
    fn attempt(&self, second: u64, draw: Draw) -> Result<Duration, Failure> {
        let throttles = self.name == "strong" && (30..45).contains(&second) && draw.below(10) < 2;
        let is_down = self.name == "strong" && (45..90).contains(&second);
        match (throttles, is_down) {
            (true, _) => Err(BEDROCK.classify(429, Some("ThrottlingException"))),
            (_, true) => Err(BEDROCK.classify(503, None)),
            _ => Ok(Duration::from_millis(300)),
        }
    }

    fn phase(&self, now: Timestamp) -> BreakerPhase {
        self.breaker.with(|breaker| breaker.peek(now).phase)
    }

    /// Tells breaker and pressure how an attempt ended, and each what the other found.
    fn note(&mut self, outcome: &AttemptOutcome, now: Timestamp) {
        let signal = self.pressure.record(outcome, now);
        if signal.is_some() {
            let reason = seawall_core::breaker::TripReason::SustainedPressure;
            self.breaker.with(|breaker| breaker.trip(reason, now));
        }
        for transition in self.breaker.with(Breaker::take_transitions) {
            println!("{:>26} {} breaker: {:?} -> {:?}", "", self.name, transition.from, transition.to);
            self.pressure.breaker_changed(transition.to);
        }
    }
}

struct Service {
    targets: [Target; 2],
    limiter: RateLimiter,
    callers: GroupId,
    budget: RetryBudget,
    counters: RetryCounters,
    draws: u64,
    refused: u32,
    unanswered: u32,
}

impl Service {
    fn new() -> Result<Self, SettingError> {
        let minute = Duration::from_secs(60);
        let standard = QuotaGroup::new(
            "standard",
            vec![
                Quota::sliding("minute", QuotaUnit::Request, 30, minute, 5)?,
                Quota::sliding("hour", QuotaUnit::Request, 200, minute * 60, 0)?,
            ],
        )?;
        let limiter = RateLimiter::new(vec![standard], 7)?;
        let callers =
            limiter.group("standard").ok_or_else(|| SettingError::new("groups", "standard is missing"))?;
        Ok(Self {
            targets: [
                Target::new("strong", BreakerProfile::Sonnet)?,
                Target::new("fast", BreakerProfile::Haiku)?,
            ],
            limiter,
            callers,
            budget: RetryBudget::new(RetryBudgetOptions::default())?,
            counters: RetryCounters::new(),
            draws: 1,
            refused: 0,
            unanswered: 0,
        })
    }

    fn draw(&mut self) -> Draw {
        self.draws = self.draws.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        Draw::from_bits(self.draws ^ (self.draws >> 29))
    }

    /// One request: admitted or refused, then tried on the strong model and the fast one inside its deadline.
    fn serve(&mut self, caller: u64, start: Timestamp) -> Result<(), SettingError> {
        let now = Now::new(start, UtcTime::from_civil(2026, 11, 15));
        let scopes = [QuotaScope { group: self.callers, key: QuotaKey(caller) }];
        if !matches!(
            self.limiter.reserve(&scopes, QuotaUnits::REQUEST, now),
            Ok(QuotaDecision::Granted { .. })
        ) {
            self.refused += 1;
            return Ok(());
        }
        self.budget.deposit(start);
        let reserves = RungReserves::chat();
        let whole = Deadline::after(start, reserves.total());
        let mut retries = Retries::new(RetryOptions::interactive().check()?);
        let (mut target, mut now, mut first_failure) = (0, start, None);
        loop {
            let deadline = if target == 0 { reserves.first(whole) } else { reserves.at(0, whole) };
            let Ok(permit) = self.targets[target].breaker.acquire(now, deadline) else {
                if target == 0 {
                    target = 1;
                    continue;
                }
                break;
            };
            let draw = self.draw();
            let second = (now - Timestamp::ZERO).as_secs();
            let failure = match self.targets[target].attempt(second, draw) {
                Ok(first_content_after) => {
                    now = now + first_content_after;
                    let outcome = AttemptOutcome::Succeeded { time_to_first_content: first_content_after };
                    permit.report(&outcome, now);
                    self.targets[target].note(&outcome, now);
                    self.targets[target].answered += 1;
                    self.counters.request_succeeded(first_failure.map(|failed| now - failed));
                    return Ok(());
                }
                Err(failure) => failure,
            };
            now = now + Duration::from_millis(100);
            first_failure.get_or_insert(now);
            permit.report(&AttemptOutcome::Failed(failure), now);
            self.targets[target].note(&AttemptOutcome::Failed(failure), now);
            let phase = self.targets[target].phase(now);
            let situation = RetrySituation {
                pressure: Some(self.targets[target].pressure.read(phase, now)),
                breaker_passes: phase == BreakerPhase::Closed,
                has_other_target: target == 0,
                ..RetrySituation::new(now, deadline)
            };
            let draw = self.draw();
            let (decision, event) = retries.decide(&failure, &situation, Some(&self.budget), draw);
            self.counters.attempt_failed(&event);
            match decision {
                RetryDecision::RetrySame { after, .. } => now = now + after,
                RetryDecision::FailOver(_) => target = 1,
                RetryDecision::GiveUp(_) => break,
            }
        }
        self.unanswered += 1;
        Ok(())
    }
}

fn main() -> Result<(), SettingError> {
    let mut service = Service::new()?;
    println!("  time   strong    fast refused  lost  breaker, pressure of the strong model");
    for second in 0..180 {
        for request in 0..REQUESTS_PER_SECOND {
            let start = Timestamp::ZERO
                + Duration::from_millis(second * 1_000 + request * 1_000 / REQUESTS_PER_SECOND);
            // One in four comes from one caller; the others are many.
            let caller = if request % 4 == 0 { ABUSER } else { 1 + second * REQUESTS_PER_SECOND + request };
            service.serve(caller, start)?;
        }
        if second % 10 == 9 {
            let now = Timestamp::ZERO + Duration::from_secs(second + 1);
            let [strong, fast] = &service.targets;
            let phase = strong.phase(now);
            let pressure = strong.pressure.read(phase, now).label();
            println!(
                "{:>5}s {:>8} {:>7} {:>7} {:>5}  {phase:?}, {pressure}",
                second + 1,
                strong.answered,
                fast.answered,
                service.refused,
                service.unanswered,
            );
        }
    }
    let totals = service.counters.snapshot();
    println!(
        "{} attempts for {} requests: {} retries, {} failovers; {} refused to one caller, {} lost",
        totals.attempts,
        totals.successes,
        totals.retries,
        totals.failovers,
        service.refused,
        service.unanswered,
    );
    Ok(())
}
