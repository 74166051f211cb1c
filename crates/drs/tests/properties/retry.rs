//! Properties 1 to 4: retries.

use crate::{FINAL, RETRYABLE, Script, TestGuard, VendorError};
use proptest::prelude::{Strategy, prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use seawall_core::deadline::Deadline;
use seawall_core::retry::{BackoffOptions, Jitter, StopReason};
use seawall_core::setting::Factor;
use seawall_core::time::Timestamp;
use seawall_drs::{ApiCall, GuardError, GuardEventKind, GuardSettings, retry_options};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
struct RetryCase {
    max_retries: u32,
    base: Duration,
    max: Duration,
    jitter: (f64, f64),
}

impl RetryCase {
    fn settings(self) -> GuardSettings {
        let factor = |value| Factor::new("jitter", value).unwrap();
        let backoff = BackoffOptions {
            base_delay: self.base,
            max_delay: self.max,
            jitter: Jitter::Multiplicative { low: factor(self.jitter.0), high: factor(self.jitter.1) },
        };
        let retry = retry_options(self.max_retries, backoff).check().unwrap();
        GuardSettings { retry, ..GuardSettings::default() }
    }
}

fn case() -> impl Strategy<Value = RetryCase> {
    (0_u32..=10, 1_u64..5_000, 0_u64..120_000, 1_u32..=1_000, 0_u32..=1_000).prop_map(
        |(max_retries, base, more, low, spread)| RetryCase {
            max_retries,
            base: Duration::from_millis(base),
            max: Duration::from_millis(base + more),
            jitter: (f64::from(low) / 1_000.0, f64::from(low + spread) / 1_000.0),
        },
    )
}

proptest! {
    // Feature: drs-rate-limit-handling, Property 1: every retryable error is retried, up to the maximum of retries.
    #[test]
    fn property_1_retryable_errors_are_retried(
        seed: u64,
        case in case(),
        codes in proptest::collection::vec(select(&RETRYABLE), 0..12),
        final_code in select(&FINAL),
    ) {
        let test = TestGuard::new(seed, case.settings());
        let failures = codes.len();
        let mut answers: Vec<_> = codes.iter().enumerate().map(|(at, code)| Err(VendorError::new(*code, at))).collect();
        answers.push(Ok(42));
        let script = Script::new(&test.clock, answers);
        let outcome = test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }));
        let max = usize::try_from(case.max_retries).unwrap();
        prop_assert_eq!(script.calls().len(), failures.min(max) + 1);
        prop_assert_eq!(outcome.is_ok(), failures <= max);

        let refused = Script::new(&test.clock, vec![Err(VendorError::new(final_code, 0))]);
        let outcome = test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { refused.next() }));
        prop_assert!(matches!(outcome, Err(GuardError::Refused { attempts: 1, .. })));
        prop_assert_eq!(refused.calls().len(), 1);
    }

    // Feature: drs-rate-limit-handling, Property 2: the delay is min(base * 2^n, max) times a jitter in its range.
    #[test]
    fn property_2_delays_are_exponential_with_jitter(seed: u64, case in case(), code in select(&RETRYABLE)) {
        let test = TestGuard::new(seed, case.settings());
        let script = Script::new(&test.clock, vec![Err(VendorError::new(code, 0))]);
        let _ = test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }));
        let calls = script.calls();
        for (retry, pair) in calls.windows(2).enumerate() {
            let doubled = case.base.saturating_mul(1 << retry).min(case.max);
            let delay = (pair[1] - pair[0]).as_secs_f64();
            let (low, high) = (doubled.as_secs_f64() * case.jitter.0, doubled.as_secs_f64() * case.jitter.1);
            // The bucket refills faster than it is used here, so that the delay is the backoff, to the nanosecond.
            prop_assert!(low - 2e-9 <= delay && delay <= high + 2e-9, "retry {}: {} not in {}..{}", retry, delay, low, high);
            prop_assert!(pair[1] - pair[0] <= case.max.mul_f64(case.jitter.1) + Duration::from_nanos(2));
        }
    }

    // Feature: drs-rate-limit-handling, Property 3: exactly max_retries + 1 calls without a deadline; with one perhaps
    // fewer, and the true count is reported.
    #[test]
    fn property_3_the_configuration_is_respected(
        seed: u64,
        case in case(),
        code in select(&RETRYABLE),
        limit in 0_u64..200_000,
    ) {
        let test = TestGuard::new(seed, case.settings());
        let script = Script::new(&test.clock, vec![Err(VendorError::new(code, 0))]);
        let outcome = test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }));
        prop_assert_eq!(script.calls().len(), usize::try_from(case.max_retries).unwrap() + 1);
        prop_assert_eq!(outcome.unwrap_err().attempts(), case.max_retries + 1);

        let test = TestGuard::new(seed, case.settings());
        let deadline = Deadline::after(Timestamp::ZERO, Duration::from_millis(limit));
        let script = Script::new(&test.clock, vec![Err(VendorError::new(code, 0))]);
        let call = ApiCall::read("describe_jobs").with_deadline(deadline);
        let error = test.clock.run(test.guard.call(call, || async { script.next() })).unwrap_err();
        let calls = script.calls();
        prop_assert_eq!(calls.len(), usize::try_from(error.attempts()).unwrap());
        prop_assert!(error.attempts() <= case.max_retries + 1);
        prop_assert!(calls.iter().all(|at| *at <= deadline.moment()));
        if error.attempts() <= case.max_retries {
            prop_assert!(matches!(error, GuardError::Exhausted(ref end) if end.stopped == StopReason::NoTime));
        }
    }

    // Feature: drs-rate-limit-handling, Property 4: exhaustion carries the original error and the number of attempts.
    #[test]
    fn property_4_exhaustion_carries_the_error_and_the_attempts(
        seed: u64,
        case in case(),
        codes in proptest::collection::vec(select(&RETRYABLE), 11..12),
    ) {
        let test = TestGuard::new(seed, case.settings());
        let answers = codes.iter().enumerate().map(|(at, code)| Err(VendorError::new(*code, at))).collect();
        let script = Script::new(&test.clock, answers);
        let outcome = test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }));
        let Err(GuardError::Exhausted(end)) = outcome else { panic!("{outcome:?}") };
        let last = usize::try_from(case.max_retries).unwrap();
        prop_assert_eq!(&end.last_error, &VendorError::new(codes[last], last));
        prop_assert_eq!(end.attempts, case.max_retries + 1);
        prop_assert_eq!(end.stopped, StopReason::AttemptsUsed);
        let first = script.calls()[0];
        prop_assert_eq!(end.waited, script.calls()[last] - first);
        let text = end.to_string();
        prop_assert!(text.contains(codes[last].1) && text.contains("attempt"), "{}", text);
        // The code of the vendor is reported, not the name of the wrapper.
        let reported = test.recorder.events().into_iter().find_map(|event| match event.kind {
            GuardEventKind::Exhausted { error, .. } => Some(error.code),
            _ => None,
        });
        prop_assert_eq!(reported.as_deref(), Some(codes[last].1));
    }
}

#[test]
fn a_call_that_must_not_run_twice_is_repeated_only_after_proof() {
    for (code, repeated) in [
        ((429, "ThrottlingException"), true),
        ((402, "ServiceQuotaExceededException"), true),
        ((500, "InternalServerException"), false),
        ((503, "ServiceUnavailable"), false),
    ] {
        let test = TestGuard::new(1, GuardSettings::default());
        let script = Script::new(&test.clock, vec![Err(VendorError::new(code, 0)), Ok(1)]);
        let outcome = test.clock.run(test.guard.call(ApiCall::once("start_recovery"), || async { script.next() }));
        assert_eq!(outcome.is_ok(), repeated, "{code:?}");
        assert_eq!(script.calls().len(), if repeated { 2 } else { 1 });
        if !repeated {
            assert!(matches!(outcome, Err(GuardError::MayHaveExecuted { attempts: 1, .. })));
        }
    }
}

#[test]
fn the_adaptive_preset_slows_down_after_a_throttle() {
    use seawall_drs::RetryPreset;
    let settings = GuardSettings::preset(RetryPreset::Adaptive).unwrap();
    let test = TestGuard::new(3, settings);
    let throttle = Err(VendorError::new(RETRYABLE[0], 0));
    let script = Script::new(&test.clock, vec![throttle.clone(), throttle, Ok(1)]);
    test.clock.run(async {
        test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }).await.unwrap();
        for _ in 0..5 {
            test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }).await.unwrap();
        }
    });
    let calls = script.calls();
    // The bucket has tokens for all of them at once; the pace after a throttle is lower.
    let paced = calls[calls.len() - 1] - calls[2];
    assert!(paced >= Duration::from_secs(1), "{paced:?}");
}
