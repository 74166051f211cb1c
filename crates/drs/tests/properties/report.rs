//! Properties 9 and 12: metrics and log lines.

use crate::{FINAL, RETRYABLE, Script, TestGuard, VendorError};
use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
use proptest::sample::select;
use seawall_core::waiting::WaitingSettings;
use seawall_drs::{
    ApiCall, GuardError, GuardEventKind, GuardSettings, MetricDatum, MetricName, log_line, metrics_of,
};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

fn answers(codes: &[(u16, &'static str)], succeeds: bool) -> Vec<Result<u32, VendorError>> {
    let mut answers: Vec<_> =
        codes.iter().enumerate().map(|(at, code)| Err(VendorError::new(*code, at))).collect();
    if succeeds {
        answers.push(Ok(1));
    }
    answers
}

fn dimension<'a>(datum: &'a MetricDatum, name: &str) -> Option<&'a str> {
    datum.dimensions.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
}

fn names(datum: &MetricDatum) -> Vec<&'static str> {
    datum.dimensions.iter().map(|(name, _)| *name).collect()
}

proptest! {
    // Feature: drs-rate-limit-handling, Property 9: rate-limit errors, retries and exhaustion are published with the
    // right name, value and dimensions.
    #[test]
    fn property_9_metrics_are_correct(
        seed: u64,
        codes in proptest::collection::vec(select(&RETRYABLE), 0..9),
        operation in select(&["describe_jobs", "describe_source_servers", "get_launch_configuration"]),
    ) {
        let test = TestGuard::new(seed, GuardSettings::default());
        let script = Script::new(&test.clock, answers(&codes, true));
        let outcome = test.clock.run(test.guard.call(ApiCall::read(operation), || async { script.next() }));
        let data: Vec<MetricDatum> = test.recorder.events().iter().flat_map(metrics_of).collect();
        let of = |name: MetricName| data.iter().filter(move |datum| datum.name == name).collect::<Vec<_>>();
        let failed = codes.len().min(6);
        let made = &codes[..failed];

        prop_assert!(data.iter().all(|datum| (datum.value - 1.0).abs() < f64::EPSILON));
        prop_assert!(data.iter().all(|datum| dimension(datum, "Region") == Some("eu-west-1")));
        prop_assert!(data.iter().all(|datum| dimension(datum, "Operation") == Some(operation)));

        let limits = of(MetricName::RateLimitErrors);
        let limited: Vec<&str> = limits.iter().filter_map(|datum| dimension(datum, "ErrorType")).collect();
        let is_limit = |code: &&str| ["ThrottlingException", "RequestLimitExceeded", "ServiceQuotaExceededException"].contains(code);
        prop_assert_eq!(limited, made.iter().map(|(_, code)| *code).filter(is_limit).collect::<Vec<_>>());
        prop_assert!(of(MetricName::RateLimitErrors).iter().all(|datum| names(datum) == ["ErrorType", "Region", "Operation"]));

        let retries = of(MetricName::RetryAttempts);
        prop_assert_eq!(retries.len(), script.calls().len() - 1);
        for (retry, datum) in retries.iter().enumerate() {
            let succeeded = outcome.is_ok() && retry + 1 == retries.len();
            prop_assert_eq!(names(datum), ["Region", "Operation", "Attempt", "Success"]);
            let number = (retry + 1).to_string();
            prop_assert_eq!(dimension(datum, "Attempt"), Some(number.as_str()));
            prop_assert_eq!(dimension(datum, "Success"), Some(if succeeded { "True" } else { "False" }));
        }

        let exhausted = of(MetricName::RetryExhausted);
        prop_assert_eq!(exhausted.len(), usize::from(outcome.is_err()));
        prop_assert!(exhausted.iter().all(|datum| names(datum) == ["Region", "Operation"]));

        let calls = of(MetricName::ApiCallCount);
        prop_assert_eq!(calls.len(), script.calls().len());
        for (call, datum) in calls.iter().enumerate() {
            let code = made.get(call).map(|(_, code)| *code);
            prop_assert_eq!(dimension(datum, "ErrorCode"), code);
            prop_assert_eq!(dimension(datum, "Success"), Some(if code.is_none() { "True" } else { "False" }));
        }
    }

    // Feature: drs-rate-limit-handling, Property 12: errors and exhaustion are logged as JSON with operation, region,
    // account, error and correlation id.
    #[test]
    fn property_12_errors_are_logged_as_json(
        seed: u64,
        codes in proptest::collection::vec(select(&RETRYABLE), 0..8),
        last in select(&FINAL),
        id in "[a-z0-9-]{1,40}",
    ) {
        let test = TestGuard::new(seed, GuardSettings::default());
        let mut all = answers(&codes, false);
        all.push(Err(VendorError::new(last, codes.len())));
        let script = Script::new(&test.clock, all);
        let call = ApiCall { correlation_id: Some(Arc::from(id.as_str())), ..ApiCall::read("describe_jobs") };
        let error = test.clock.run(test.guard.call(call, || async { script.next() })).unwrap_err();
        let lines: Vec<Value> = test.recorder.events().iter().filter_map(log_line)
            .map(|line| { assert!(!line.contains('\n')); serde_json::from_str(&line).unwrap() }).collect();
        prop_assert_eq!(lines.len(), script.calls().len() + usize::from(matches!(error, GuardError::Exhausted(_))));
        for (at, line) in lines.iter().enumerate() {
            prop_assert_eq!(&line["operation"], "describe_jobs");
            prop_assert_eq!(&line["region"], "eu-west-1");
            prop_assert_eq!(&line["account"], "111122223333");
            prop_assert_eq!(&line["correlation_id"], id.as_str());
            prop_assert!(line["timestamp"].as_str().is_some_and(|at| at.starts_with("2026-11-18T") && at.ends_with('Z')));
            let attempt = at.min(script.calls().len() - 1);
            let (_, code) = *codes.get(attempt).unwrap_or(&last);
            prop_assert_eq!(&line["error"]["code"], code);
            prop_assert_eq!(&line["error"]["message"], &format!("error number {attempt}"));
            let severity = match (line["event"].as_str(), line["retry_in_seconds"].is_null()) {
                (Some("retries_exhausted"), _) => "CRITICAL",
                (_, true) => "ERROR",
                (_, false) => "WARNING",
            };
            prop_assert_eq!(&line["severity"], severity);
        }
    }
}

#[test]
fn a_call_without_an_id_gets_one_and_keeps_it() {
    let test = TestGuard::new(5, GuardSettings::default());
    let script = Script::new(&test.clock, answers(&RETRYABLE[..2], true));
    test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() })).unwrap();
    let ids: Vec<_> =
        test.recorder.events().iter().map(|event| event.labels.correlation_id.clone()).collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| id.len() == 32 && *id == ids[0]));
}

#[test]
fn a_name_that_cloudwatch_would_reject_is_cleaned() {
    let test = TestGuard::new(5, GuardSettings::default());
    let strange = VendorError { status: 418, code: "Caf\u{e9}\n", number: 0 };
    let script = Script::new(&test.clock, vec![Err(strange)]);
    let _ = test.clock.run(test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }));
    let data: Vec<MetricDatum> = test.recorder.events().iter().flat_map(metrics_of).collect();
    assert_eq!(dimension(&data[0], "ErrorCode"), Some("Caf"));
}

#[test]
fn a_wait_for_a_rate_token_of_more_than_a_second_is_reported_once_while_it_lasts() {
    for (period, expected) in [(500, 0), (5_000, 1)] {
        let rate = WaitingSettings::new(1, Duration::from_millis(period), 1).unwrap();
        let test = TestGuard::new(1, GuardSettings { rate, ..GuardSettings::default() });
        let script = Script::new(&test.clock, vec![Ok(1)]);
        test.clock.run(async {
            for _ in 0..2 {
                test.guard.call(ApiCall::read("describe_jobs"), || async { script.next() }).await.unwrap();
            }
        });
        assert_eq!(script.calls()[1] - script.calls()[0], Duration::from_millis(period));
        let events = test.recorder.events();
        let waits: Vec<_> =
            events.iter().filter(|event| matches!(event.kind, GuardEventKind::TokenAwaited { .. })).collect();
        assert_eq!(waits.len(), expected, "{period}");
        for wait in waits {
            let timeout = Duration::from_secs(30);
            assert_eq!(wait.kind, GuardEventKind::TokenAwaited { waited: Duration::from_secs(1), timeout });
            assert!(metrics_of(wait).is_empty());
            let line: Value = serde_json::from_str(&log_line(wait).unwrap()).unwrap();
            assert_eq!((&line["event"], &line["severity"]), (&"rate_token_awaited".into(), &"INFO".into()));
        }
    }
}
