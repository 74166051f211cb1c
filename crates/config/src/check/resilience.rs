//! Checks of retries, breakers, deadlines and the queue.

use super::Checker;
use crate::field::Keyed;
use crate::kind::{Per, RetryCosts as Costs};
use crate::problem::{Code, Problem};
use crate::raw;
use crate::settings::{DeadlineSettings, RetrySettings};
use seawall_core::breaker::{BreakerOptions, BreakerSettings};
use seawall_core::credit::{BucketOptions, CreditCosts, RatioOptions, RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::{Phases, Reserve, Reserves, TimeLimitError, TimeLimitOptions, TimeLimits};
use seawall_core::pressure::{PressureOptions, PressureSettings};
use seawall_core::queue::{QueueOptions, QueueSettings};
use seawall_core::retry::{
    BackoffOptions, HedgeOptions, HedgePolicy, HintOptions, RetryLimits, RetryOptions,
};
use seawall_core::strategy::StrategyOptions;
use std::collections::BTreeMap;
use std::time::Duration;

/// The keys that the interactive and the background section have in common.
macro_rules! retry_options {
    ($section:expr, $hint:expr) => {
        RetryOptions {
            backoff: BackoffOptions {
                base: $section.base.value,
                cap: $section.cap.value,
                jitter: $section.jitter.value,
            },
            most_retries: $section.most_retries.value,
            limits: RetryLimits {
                throttled: $section.throttled.value,
                timed_out: $section.timed_out.value,
                transient: $section.transient.value,
                quota_exhausted: $section.quota_exhausted.value,
            },
            hint: HintOptions {
                most_extra: $hint.most_extra.value,
                ignore_above: $hint.ignore_above.value,
                spread_percent: $hint.spread.as_ref().map(|spread| spread.value),
            },
            least_attempt: $section.least_attempt.value,
        }
    };
}

pub(super) fn retry(retry: &raw::Retry, checker: &mut Checker<'_>) -> Option<RetrySettings> {
    let interactive_options = retry_options!(retry, retry.hint);
    let background_options = retry_options!(retry.background, retry.hint);
    let interactive = checker.checked(&[retry, &retry.hint], interactive_options.check());
    let background = checker.checked(&[&retry.background, &retry.hint], background_options.check());
    let budget = retry_budget(&retry.budget, checker);
    let hedge = HedgeOptions {
        enabled: retry.hedge.enabled.value,
        extra_percent: retry.hedge.extra.value,
        least_wait: retry.hedge.least_wait.value,
    };
    // The share is built from a ratio, whose error does not name the key of the percentage.
    let checked = HedgePolicy::new(hedge).map(drop);
    let checked = match checked {
        Ok(()) => Some(()),
        Err(error) => {
            let message = format!("{}.extra: {}", retry.hedge.path, error.problem());
            checker.add(Problem::error(Code::Impossible, message, retry.hedge.extra.origin));
            None
        }
    };
    checked?;
    Some(RetrySettings {
        interactive: interactive?,
        interactive_options,
        background: background?,
        background_options,
        budget: budget?,
        hedge,
    })
}

fn retry_budget(budget: &raw::RetryBudget, checker: &mut Checker<'_>) -> Option<RetryBudgetOptions> {
    let rate_cap = budget.most.as_ref().map(|most| {
        let per = match most.value.per {
            Per::Second => Duration::from_secs(1),
            Per::Minute => Duration::from_secs(60),
            Per::Hour | Per::Day | Per::Month => Duration::from_secs(3_600),
        };
        if matches!(most.value.per, Per::Day | Per::Month) {
            let problem = format!("{} is over too long a time for retries", most.value);
            checker.impossible(budget, "most", most, &problem);
        }
        (most.value.limit, per)
    });
    let options = RetryBudgetOptions {
        ratio: Some(RatioOptions {
            percent: budget.share.value,
            window: budget.window.value,
            floor_in_flight: budget.always.value,
            reserve_per_second: budget.reserve_per_second.value,
        }),
        rate_cap,
        bucket: budget.bucket.as_ref().map(|capacity| BucketOptions { capacity: capacity.value }),
        costs: match budget.costs.value {
            Costs::Classic => CreditCosts::CLASSIC,
            Costs::Current => CreditCosts::CURRENT,
        },
    };
    let Err(error) = RetryBudget::new(options.clone()) else { return Some(options) };
    let key = match error.setting() {
        "limit" | "per" | "burst" => "most",
        "capacity" => "bucket",
        "window" => "window",
        _ => "share",
    };
    let origin = budget.origin_of(key).unwrap_or(budget.origin);
    let message = format!("{}.{key}: {}", budget.path, error.problem());
    checker.add(Problem::error(Code::Impossible, message, origin));
    None
}

pub(super) fn breakers(
    breakers: &BTreeMap<String, raw::Breaker>,
    checker: &mut Checker<'_>,
) -> BTreeMap<String, BreakerSettings> {
    let mut settings = BTreeMap::new();
    for (name, breaker) in breakers {
        let options = BreakerOptions {
            failure_threshold: breaker.failure_threshold.value,
            failure_percent: breaker.failure_rate.value,
            slow_percent: breaker.slow_rate.value,
            slow_after: breaker.slow_after.value,
            min_calls: breaker.min_calls.as_ref().map(|calls| calls.value),
            window: breaker.window.value,
            open_for: breaker.open_for.value,
            open_growth: breaker.open_growth.value,
            open_cap: breaker.open_cap.value,
            stages: breaker.stages.value.iter().map(|stage| stage.value).collect(),
        };
        if let Some(checked) = checker.checked(&[breaker], options.check()) {
            settings.insert(name.clone(), checked);
        }
    }
    settings
}

pub(super) fn pressure(pressure: &raw::Pressure, checker: &mut Checker<'_>) -> Option<PressureSettings> {
    let options = PressureOptions {
        window: pressure.window.value,
        slight_percent: pressure.slight.value,
        high_percent: pressure.high.value,
        high_exit_percent: pressure.high_exit.value,
        sustained_percent: pressure.sustained.value,
        sustained_for: pressure.sustained_for.value,
        min_calls: pressure.min_calls.value,
        high_dwell: pressure.high_dwell.value,
        slight_successes: pressure.slight_successes.value,
        recovery_successes: pressure.recovery_successes.value,
    };
    checker.checked(&[pressure], options.check())
}

pub(super) fn deadlines(raw: &raw::Deadlines, checker: &mut Checker<'_>) -> Option<DeadlineSettings> {
    let limits = time_limits(raw, checker);
    let kept = vec![
        Reserve::new("fast_model", raw.fast_model.value),
        Reserve::new("cache", raw.cache.value),
        Reserve::new("last_words", raw.last_words.value),
        Reserve::new("relay", raw.relay.value),
    ];
    let reserves = match Reserves::new(raw.first_text.value, kept) {
        // The time limits refuse a zero, too, and report it under its own key.
        Err(error) if error.setting() == "total" => None,
        Err(error) if error.setting() == "reserves" => {
            let message = format!("deadlines.first_text: {}", error.problem());
            let problem = Problem::error(Code::PartsExceedWhole, message, raw.first_text.origin);
            checker.add(
                problem.help("make it longer, or one of fast_model, cache, last_words and relay shorter"),
            );
            None
        }
        other => checker.checked(&[raw], other),
    };
    let options = StrategyOptions { least_for_fast: raw.least_for_fast.value, cache_within: raw.cache.value };
    // An error here has already been reported for the reserve of the cache.
    let strategy = options.check().ok();
    let phases = Phases::new(
        raw.session.value,
        raw.prompt.value,
        raw.save.value,
        raw.after_model.value,
        raw.model_minimum.value,
    );
    let phases = checker.checked(&[raw], phases);
    Some(DeadlineSettings { limits: limits?, reserves: reserves?, strategy: strategy?, phases: phases? })
}

fn time_limits(raw: &raw::Deadlines, checker: &mut Checker<'_>) -> Option<TimeLimits> {
    let options = TimeLimitOptions {
        api: raw.api.value,
        edge: raw.edge.value,
        request: raw.request.value,
        worker: raw.worker.value,
        attempt: raw.attempt.value,
        connect: raw.connect.value,
        stream: raw.stream.value,
        stream_gap: raw.stream_gap.value,
        first_text: raw.first_text.value,
    };
    let errors = match options.check() {
        Ok(limits) => return Some(limits),
        Err(errors) => errors,
    };
    for error in errors {
        let origin = |key: &str| raw.origin_of(key).unwrap_or(raw.origin);
        checker.add(match &error {
            TimeLimitError::Zero { limit } => {
                Problem::error(Code::Impossible, format!("deadlines.{error}"), origin(limit))
            }
            TimeLimitError::Nested { child, parent, .. } => {
                let problem = Problem::error(Code::TimeOrder, format!("deadlines.{error}"), origin(child));
                let help = format!("make {child} shorter or {parent} longer");
                problem.also(origin(parent), "the one around it").help(help)
            }
        });
    }
    None
}

pub(super) fn queue(queue: &raw::Queue, checker: &mut Checker<'_>) -> Option<QueueSettings> {
    let capacity = usize::try_from(queue.capacity.value).unwrap_or(usize::MAX);
    if capacity > 1_000_000 {
        checker.impossible(
            queue,
            "capacity",
            &queue.capacity,
            "must be at most 1000000: who waits is held in memory",
        );
        return None;
    }
    let options = QueueOptions {
        capacity,
        time_to_live: queue.time_to_live.value,
        promotion_percent: queue.promotion.value,
        quantum: queue.quantum.value,
    };
    checker.checked(&[queue], options.check())
}
