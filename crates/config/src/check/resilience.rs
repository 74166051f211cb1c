//! Checks of retries, breakers, deadlines and the queue.

use super::Checker;
use crate::field::KeyOrigins;
use crate::kind::{RatePeriod, RetryCosts as Costs};
use crate::problem::{Problem, ProblemCode};
use crate::raw;
use crate::settings::{DeadlineSettings, RetrySettings};
use seawall_core::breaker::{BreakerOptions, BreakerSettings};
use seawall_core::credit::{BucketOptions, CreditCosts, RatioOptions, RetryBudget, RetryBudgetOptions};
use seawall_core::deadline::{
    Phases, RungReserve, RungReserves, TimeLimitError, TimeLimitOptions, TimeLimits,
};
use seawall_core::pressure::{PressureOptions, PressureSettings};
use seawall_core::queue::{QueueOptions, QueueSettings};
use seawall_core::retry::{
    BackoffOptions, HedgeOptions, HedgePolicy, RetryAfterOptions, RetryLimits, RetryOptions,
};
use seawall_core::setting::SettingError;
use seawall_core::strategy::StrategyOptions;
use std::collections::BTreeMap;
use std::time::Duration;

/// The keys that the interactive and the background section have in common.
macro_rules! retry_options {
    ($section:expr, $retry_after:expr) => {
        RetryOptions {
            backoff: BackoffOptions {
                base_delay: $section.base_delay.value,
                max_delay: $section.max_delay.value,
                jitter: $section.jitter.value,
            },
            max_retries: $section.max_retries.value,
            limits: RetryLimits {
                throttled: $section.throttled.value,
                timed_out: $section.timed_out.value,
                transient: $section.transient.value,
                quota_exhausted: $section.quota_exhausted.value,
            },
            retry_after: RetryAfterOptions {
                max_extra: $retry_after.max_extra.value,
                ignore_above: $retry_after.ignore_above.value,
                jitter_percent: $retry_after.jitter.as_ref().map(|jitter| jitter.value),
            },
            min_attempt_time: $section.min_attempt_time.value,
        }
    };
}

pub(super) fn retry(retry: &raw::RetrySection, checker: &mut Checker<'_>) -> Option<RetrySettings> {
    let interactive_options = retry_options!(retry, retry.retry_after);
    let background_options = retry_options!(retry.background, retry.retry_after);
    let interactive = retry_policy(retry, &retry.retry_after, interactive_options.check(), checker);
    let background = retry_policy(&retry.background, &retry.retry_after, background_options.check(), checker);
    let budget = retry_budget(&retry.budget, checker);
    let hedge = HedgeOptions {
        enabled: retry.hedge.enabled.value,
        percent: retry.hedge.percent.value,
        min_delay: retry.hedge.min_delay.value,
    };
    // The share is built from a ratio, whose error does not name the key of the percentage.
    let checked = HedgePolicy::new(hedge).map(drop);
    let checked = match checked {
        Ok(()) => Some(()),
        Err(error) => {
            let message = format!("{}.percent: {}", retry.hedge.path, error.problem());
            checker.add(Problem::error(ProblemCode::InvalidValue, message, retry.hedge.percent.origin));
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

fn retry_policy<T>(
    section: &dyn KeyOrigins,
    retry_after: &dyn KeyOrigins,
    policy: Result<T, SettingError>,
    checker: &mut Checker<'_>,
) -> Option<T> {
    match policy {
        // Both sections have a key named jitter.
        Err(error) if error.setting() == "retry_after_jitter_percent" => {
            checker.checked(&[retry_after], Err(SettingError::new("jitter", error.problem())))
        }
        other => checker.checked(&[section, retry_after], other),
    }
}

fn retry_budget(budget: &raw::RetryBudgetSection, checker: &mut Checker<'_>) -> Option<RetryBudgetOptions> {
    let rate_cap = budget.max_rate.as_ref().map(|max_rate| {
        let per = match max_rate.value.per {
            RatePeriod::Second => Duration::from_secs(1),
            RatePeriod::Minute => Duration::from_secs(60),
            RatePeriod::Hour | RatePeriod::Day | RatePeriod::Month => Duration::from_secs(3_600),
        };
        if matches!(max_rate.value.per, RatePeriod::Day | RatePeriod::Month) {
            let problem = format!("{}: the period must be a second, a minute or an hour", max_rate.value);
            checker.report_invalid(budget, "max_rate", max_rate, &problem);
        }
        (max_rate.value.limit, per)
    });
    let options = RetryBudgetOptions {
        ratio: Some(RatioOptions {
            percent: budget.percent.value,
            window: budget.window.value,
            min_concurrency: budget.min_concurrency.value,
            min_per_second: budget.min_per_second.value,
        }),
        rate_cap,
        bucket: budget.bucket_capacity.as_ref().map(|capacity| BucketOptions { capacity: capacity.value }),
        costs: match budget.bucket_costs.value {
            Costs::Classic => CreditCosts::CLASSIC,
            Costs::Current => CreditCosts::CURRENT,
        },
    };
    let Err(error) = RetryBudget::new(options.clone()) else { return Some(options) };
    let key = match error.setting() {
        "limit" | "per" | "burst" => "max_rate",
        "capacity" => "bucket_capacity",
        "window" => "window",
        _ => "percent",
    };
    let origin = budget.origin_of(key).unwrap_or(budget.origin);
    let message = format!("{}.{key}: {}", budget.path, error.problem());
    checker.add(Problem::error(ProblemCode::InvalidValue, message, origin));
    None
}

pub(super) fn breakers(
    breakers: &BTreeMap<String, raw::BreakerSection>,
    checker: &mut Checker<'_>,
) -> BTreeMap<String, BreakerSettings> {
    let mut settings = BTreeMap::new();
    for (name, breaker) in breakers {
        let options = BreakerOptions {
            failure_threshold: breaker.failure_threshold.value,
            failure_percent: breaker.failure_rate.value,
            slow_percent: breaker.slow_rate.value,
            slow_threshold: breaker.slow_threshold.value,
            min_calls: breaker.min_calls.as_ref().map(|calls| calls.value),
            window: breaker.window.value,
            open_for: breaker.open_for.value,
            open_multiplier: breaker.open_multiplier.value,
            max_open_for: breaker.max_open_for.value,
            half_open_stages: breaker.half_open_stages.value.iter().map(|stage| stage.value).collect(),
        };
        if let Some(checked) = checker.checked(&[breaker], options.check()) {
            settings.insert(name.clone(), checked);
        }
    }
    settings
}

pub(super) fn pressure(
    pressure: &raw::PressureSection,
    checker: &mut Checker<'_>,
) -> Option<PressureSettings> {
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

pub(super) fn deadlines(raw: &raw::DeadlinesSection, checker: &mut Checker<'_>) -> Option<DeadlineSettings> {
    let limits = time_limits(raw, checker);
    let rung_reserves = vec![
        RungReserve::new("fast_model", raw.fast_model.value),
        RungReserve::new("cache", raw.cache.value),
        RungReserve::new("canned_answer", raw.canned_answer.value),
        RungReserve::new("relay", raw.relay.value),
    ];
    let reserves = match RungReserves::new(raw.first_content.value, rung_reserves) {
        // The time limits refuse a zero, too, and report it under its own key.
        Err(error) if error.setting() == "total" => None,
        Err(error) if error.setting() == "reserves" => {
            let message = format!("deadlines.first_content: {}", error.problem());
            let problem = Problem::error(ProblemCode::SumExceedsTotal, message, raw.first_content.origin);
            checker.add(problem.help("increase it, or decrease fast_model, cache, canned_answer or relay"));
            None
        }
        other => checker.checked(&[raw], other),
    };
    let options = StrategyOptions { min_for_fast: raw.min_for_fast.value, cache_timeout: raw.cache.value };
    // An error here has already been reported for the reserve of the cache.
    let strategy = options.check().ok();
    let phases = Phases::new(
        raw.session.value,
        raw.prompt.value,
        raw.save.value,
        raw.after_model.value,
        raw.min_model_time.value,
    );
    let phases = checker.checked(&[raw], phases);
    Some(DeadlineSettings { limits: limits?, reserves: reserves?, strategy: strategy?, phases: phases? })
}

fn time_limits(raw: &raw::DeadlinesSection, checker: &mut Checker<'_>) -> Option<TimeLimits> {
    let options = TimeLimitOptions {
        api: raw.api.value,
        edge: raw.edge.value,
        request: raw.request.value,
        worker: raw.worker.value,
        attempt: raw.attempt.value,
        connect: raw.connect.value,
        stream: raw.stream.value,
        stream_idle: raw.stream_idle.value,
        first_content: raw.first_content.value,
    };
    let errors = match options.check() {
        Ok(limits) => return Some(limits),
        Err(errors) => errors,
    };
    for error in errors {
        let origin = |key: &str| raw.origin_of(key).unwrap_or(raw.origin);
        checker.add(match &error {
            TimeLimitError::Zero { limit } => {
                Problem::error(ProblemCode::InvalidValue, format!("deadlines.{error}"), origin(limit))
            }
            TimeLimitError::Nested { child, parent, .. } => {
                let problem =
                    Problem::error(ProblemCode::TimeoutOrder, format!("deadlines.{error}"), origin(child));
                let help = format!("decrease {child} or increase {parent}");
                problem.also_at(origin(parent), "the enclosing limit").help(help)
            }
        });
    }
    None
}

pub(super) fn queue(queue: &raw::QueueSection, checker: &mut Checker<'_>) -> Option<QueueSettings> {
    let capacity = usize::try_from(queue.capacity.value).unwrap_or(usize::MAX);
    if capacity > 1_000_000 {
        checker.report_invalid(
            queue,
            "capacity",
            &queue.capacity,
            "must be at most 1000000, because queued requests are held in memory",
        );
        return None;
    }
    let options = QueueOptions {
        capacity,
        ttl: queue.ttl.value,
        promote_after_percent: queue.promote_after.value,
        quantum: queue.quantum.value,
    };
    checker.checked(&[queue], options.check())
}
