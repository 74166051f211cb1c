//! The cost of one decision, alone and with a million callers.

use crate::measure::{Case, Measurement, median_of, now, resident_bytes, run_alternating, since};
use crate::report::{BenchGate, BenchReport};
use crate::whole_path::one_request;
use governor::DefaultKeyedRateLimiter;
use seawall_core::breaker::{Breaker, BreakerProfile, SharedBreaker};
use seawall_core::credit::{RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::Deadline;
use seawall_core::failure::{AttemptOutcome, Failure, FailureKind};
use seawall_core::quota::{
    CalendarPeriod, GroupId, Quota, QuotaDecision, QuotaGroup, QuotaKey, QuotaScope, QuotaUnit, QuotaUnits,
    RateLimiter,
};
use seawall_core::random::Draw;
use seawall_core::retry::{Retries, RetryDecision, RetryOptions, RetrySituation};
use seawall_core::setting::SettingError;
use seawall_core::time::{Now, Timestamp, UtcTime};
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

const DECISIONS: u32 = 400_000;
/// Goal: five limits cost at most three times what one limit costs in governor.
const MAX_RATIO: f64 = 3.0;
/// Goal: maximum memory per idle caller, in bytes.
const MAX_BYTES: f64 = 128.0;

/// Goal: maximum cost of all protections per request, in nanoseconds.
const MAX_PATH: f64 = 4_000.0;
const WHOLE_PATH: &str = "whole path, everything on, no socket";

const GOVERNOR_MANY: &str = "governor, one limit, many callers";
const QUOTA_MANY: &str = "quota, five limits, many callers";

/// Reads the clock for each decision, as governor does.
struct RunningClock(Instant);

impl RunningClock {
    fn now(&self) -> Now {
        let since = since(self.0);
        Now::new(Timestamp::ZERO + since, UtcTime::from_civil(2026, 11, 15) + since)
    }
}

/// A cheap, deterministic sequence of keys and draws.
pub(crate) struct Sequence(pub(crate) u64);

impl Sequence {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, bound: u32) -> u64 {
        Draw::from_bits(self.next()).below(bound.into())
    }
}

pub(crate) fn run(rounds: u32, callers: u32) -> BenchReport {
    let before_limiter = resident_bytes();
    let clock = RunningClock(now());
    let limits = five_limits().unwrap_or_else(|error| unreachable_setting(&error));
    for key in 0..u64::from(callers) {
        limits.grants(key, clock.now());
    }
    let after_limiter = resident_bytes();
    let own_count = limits.limiter.memory();
    let governor = one_limit();
    for key in 0..u64::from(callers) {
        let _ = governor.check_key(&key);
    }
    let after_governor = resident_bytes();

    let measured = run_alternating(cases(&clock, &limits, &governor, callers), rounds);
    let per_caller = |from: Option<usize>, to: Option<usize>| {
        let bytes = to.zip(from).map_or(0, |(to, from)| to.saturating_sub(from));
        bytes as f64 / f64::from(callers)
    };
    let resident = per_caller(before_limiter, after_limiter);
    let counted = own_count.bytes as f64 / own_count.callers as f64;
    let two_threads = [
        two_threads(|key| limits.grants(key, clock.now()), callers),
        two_threads(|key| governor.check_key(&key).is_ok(), callers),
    ];
    BenchReport {
        gates: vec![
            BenchGate {
                name: "five limits ÷ governor's one, many callers",
                figure: ratio(&measured),
                bound: MAX_RATIO,
            },
            BenchGate {
                name: "whole path without a socket, in ns",
                figure: median_of(&measured, WHOLE_PATH),
                bound: MAX_PATH,
            },
            BenchGate { name: "bytes per caller, resident", figure: resident, bound: MAX_BYTES },
        ],
        figures: vec![
            ("bytes per caller, five limits, resident", resident, "B"),
            ("bytes per caller, five limits, counted", counted, "B"),
            ("bytes per caller, governor's one, resident", per_caller(after_limiter, after_governor), "B"),
            ("quota, five limits, two threads", two_threads[0], "million a second"),
            ("governor, one limit, two threads", two_threads[1], "million a second"),
        ],
        measured,
    }
}

fn ratio(measured: &[Measurement]) -> f64 {
    let find = |name| measured.iter().find(|case| case.name == name);
    find(QUOTA_MANY).zip(find(GOVERNOR_MANY)).map_or(f64::INFINITY, |(own, peer)| own.ratio_to(peer))
}

fn cases<'a>(
    clock: &'a RunningClock,
    limits: &'a SingleGroupLimiter,
    governor: &'a DefaultKeyedRateLimiter<u64>,
    callers: u32,
) -> Vec<Case<'a>> {
    let keyed = |name, callers, mut decide: Box<dyn FnMut(u64) -> bool + 'a>| {
        let mut keys = Sequence(0x9E37_79B9_7F4A_7C15);
        let run = move |decisions: u32| {
            (0..decisions).map(|_| u64::from(decide(keys.below(callers)))).fold(0, u64::wrapping_add)
        };
        Case { name, decisions: DECISIONS, run: Box::new(run) }
    };
    vec![
        keyed("clock read alone", 1, Box::new(|_| clock.now().monotonic > Timestamp::ZERO)),
        keyed("governor, one limit, one caller", 1, Box::new(|key| governor.check_key(&key).is_ok())),
        keyed(GOVERNOR_MANY, callers, Box::new(|key| governor.check_key(&key).is_ok())),
        keyed("quota, five limits, one caller", 1, Box::new(|key| limits.grants(key, clock.now()))),
        keyed(QUOTA_MANY, callers, Box::new(|key| limits.grants(key, clock.now()))),
        keyed("quota, five limits, refused", 1, Box::new(refused(clock))),
        keyed("breaker, acquire and report, one target", 1, Box::new(breakers(clock, 1))),
        keyed("breaker, acquire and report, 1,000 targets", 1_000, Box::new(breakers(clock, 1_000))),
        keyed("retry decision, one request", 1, Box::new(retries(1))),
        keyed("retry decision, many requests", callers, Box::new(retries(callers))),
        keyed("retry budget, deposit", 1, Box::new(deposits(clock))),
        keyed(WHOLE_PATH, 1, Box::new(one_request().unwrap_or_else(|error| unreachable_setting(&error)))),
    ]
}

/// Five limits so wide that nothing is refused: the benchmark measures decisions, not refusals.
fn five_limits() -> Result<SingleGroupLimiter, SettingError> {
    let (minute, wide) = (Duration::from_secs(60), u32::MAX / 2);
    let quotas = vec![
        Quota::sliding("minute", QuotaUnit::Request, wide, minute, 0)?,
        Quota::sliding("hour", QuotaUnit::Request, wide, minute * 60, 0)?,
        Quota::calendar("day", QuotaUnit::Request, wide, CalendarPeriod::Day)?,
        Quota::rate("smooth", QuotaUnit::Request, 100_000_000, Duration::from_secs(1), wide)?,
        Quota::sliding("tokens", QuotaUnit::Token, wide, minute, 0)?,
    ];
    SingleGroupLimiter::new(quotas)
}

fn one_limit() -> DefaultKeyedRateLimiter<u64> {
    governor::RateLimiter::keyed(governor::Quota::per_second(NonZeroU32::MAX))
}

/// A quota limiter and its one group, resolved once as a gateway would.
struct SingleGroupLimiter {
    limiter: RateLimiter,
    group: GroupId,
}

impl SingleGroupLimiter {
    fn new(quotas: Vec<Quota>) -> Result<Self, SettingError> {
        let limiter = RateLimiter::new(vec![QuotaGroup::new("caller", quotas)?], 7)?;
        let group =
            limiter.group("caller").ok_or_else(|| SettingError::new("groups", "caller is missing"))?;
        Ok(Self { limiter, group })
    }

    fn grants(&self, key: u64, now: Now) -> bool {
        let scopes = [QuotaScope { group: self.group, key: QuotaKey(key) }];
        matches!(
            self.limiter.reserve(&scopes, QuotaUnits::tokens(10), now),
            Ok(QuotaDecision::Granted { .. })
        )
    }
}

fn refused(clock: &RunningClock) -> impl FnMut(u64) -> bool {
    let minute = Duration::from_secs(60);
    let tight = || -> Result<SingleGroupLimiter, SettingError> {
        let quotas = vec![
            Quota::sliding("minute", QuotaUnit::Request, 60, minute, 10)?,
            Quota::sliding("hour", QuotaUnit::Request, 500, minute * 60, 0)?,
            Quota::calendar("day", QuotaUnit::Request, 5_000, CalendarPeriod::Day)?,
            Quota::rate("smooth", QuotaUnit::Request, 5, Duration::from_secs(1), 10)?,
            Quota::sliding("tokens", QuotaUnit::Token, 100_000, minute, 0)?,
        ];
        SingleGroupLimiter::new(quotas)
    };
    let limits = tight().unwrap_or_else(|error| unreachable_setting(&error));
    move |key| !limits.grants(key, clock.now())
}

fn breakers(clock: &RunningClock, targets: u64) -> impl FnMut(u64) -> bool {
    let settings = BreakerProfile::Sonnet.options().check();
    let settings = settings.unwrap_or_else(|error| unreachable_setting(&error));
    let breakers: Vec<SharedBreaker> =
        (0..targets).map(|_| SharedBreaker::new(Breaker::new(settings.clone()))).collect();
    let answered = AttemptOutcome::Succeeded { time_to_first_content: Duration::from_millis(300) };
    move |target| {
        let now = clock.now().monotonic;
        let deadline = Deadline::after(now, Duration::from_secs(25));
        let index = usize::try_from(target).unwrap_or(0);
        match breakers[index].acquire(now, deadline) {
            Ok(permit) => {
                permit.report(&answered, now);
                true
            }
            Err(_) => false,
        }
    }
}

/// A throttled request in the middle of its attempts, decided repeatedly from the same state.
fn retries(requests: u32) -> impl FnMut(u64) -> bool {
    let policy = RetryOptions::interactive().check();
    let policy = policy.unwrap_or_else(|error| unreachable_setting(&error));
    let states: Vec<Retries> = (0..requests).map(|_| Retries::new(policy)).collect();
    let throttled = Failure::of(FailureKind::Throttled).with_retry_after(Duration::from_secs(1));
    let deadline = Deadline::after(Timestamp::ZERO, Duration::from_secs(10));
    let situation =
        RetrySituation { has_other_target: true, ..RetrySituation::new(Timestamp::ZERO, deadline) };
    let mut draws = Sequence(42);
    move |request| {
        let mut state = states[usize::try_from(request).unwrap_or(0)].clone();
        let (decision, _) = state.decide(&throttled, &situation, None, Draw::from_bits(draws.next()));
        matches!(decision, RetryDecision::RetrySame { .. })
    }
}

fn deposits(clock: &RunningClock) -> impl FnMut(u64) -> bool {
    let budget = RetryBudget::new(RetryBudgetOptions::default());
    let budget = budget.unwrap_or_else(|error| unreachable_setting(&error));
    move |_| {
        budget.deposit(clock.now().monotonic);
        true
    }
}

/// Millions of decisions per second with two threads.
fn two_threads(decide: impl Fn(u64) -> bool + Sync, callers: u32) -> f64 {
    let start = now();
    std::thread::scope(|scope| {
        for seed in [3, 5] {
            let decide = &decide;
            scope.spawn(move || {
                let mut keys = Sequence(seed);
                (0..DECISIONS).filter(|_| decide(keys.below(callers))).count()
            });
        }
    });
    2.0 * f64::from(DECISIONS) / since(start).as_secs_f64() / 1e6
}

/// The settings are hard-coded here, so an error is a bug in this file.
#[expect(clippy::panic, reason = "a benchmark with wrong settings has nothing to measure")]
fn unreachable_setting<T>(error: &SettingError) -> T {
    panic!("{error}")
}
