use super::FailureKind as Kind;
use super::{
    ANTHROPIC, AttemptOutcome, BEDROCK, DRS, Failure, FailureKind, FaultOrigin, GEMINI, Health, OPENAI,
    Retryability,
};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_assert_eq, prop_oneof, proptest};
use std::collections::BTreeSet;
use std::time::Duration;

#[test]
fn names_decide_before_statuses() {
    for (table, status, name, kind) in [
        (&BEDROCK, 400, "ServiceQuotaExceededException", Kind::QuotaExhausted),
        (&BEDROCK, 429, "ModelNotReadyException", Kind::NotReady),
        (&BEDROCK, 408, "ModelTimeoutException", Kind::TimedOut),
        (&BEDROCK, 424, "ModelErrorException", Kind::ModelFault),
        (&BEDROCK, 200, "modelStreamErrorException", Kind::ModelFault),
        (&BEDROCK, 200, "throttlingException", Kind::Throttled),
        (&BEDROCK, 400, "com.amazon.coral.service#ValidationException:http://x", Kind::BadRequest),
        (&BEDROCK, 200, "GuardrailIntervention", Kind::Filtered),
        (&OPENAI, 429, "insufficient_quota", Kind::QuotaExhausted),
        (&OPENAI, 400, "context_length_exceeded", Kind::TooLong),
        (&OPENAI, 429, "rate_limit_exceeded", Kind::Throttled),
        (&ANTHROPIC, 429, "enforced_spend_limit_reached", Kind::QuotaExhausted),
        (&ANTHROPIC, 200, "overloaded_error", Kind::Overloaded),
        (&ANTHROPIC, 400, "billing_error", Kind::QuotaExhausted),
        (&GEMINI, 429, "RESOURCE_EXHAUSTED", Kind::Throttled),
        (&GEMINI, 400, "FAILED_PRECONDITION", Kind::Unauthorized),
        (&GEMINI, 400, "API_KEY_INVALID", Kind::Unauthorized),
        (&GEMINI, 499, "CANCELLED", Kind::ServerFault),
        (&DRS, 400, "RequestLimitExceeded", Kind::Throttled),
    ] {
        assert_eq!(table.classify(status, Some(name)).kind, kind, "{} {status} {name}", table.vendor());
    }
}

#[test]
fn statuses_decide_where_no_name_is_known() {
    for (status, kind) in [
        (400, Kind::BadRequest),
        (401, Kind::Unauthorized),
        (402, Kind::QuotaExhausted),
        (403, Kind::Unauthorized),
        (404, Kind::NotFound),
        (408, Kind::TimedOut),
        (409, Kind::BadRequest),
        (413, Kind::TooLong),
        (422, Kind::BadRequest),
        (424, Kind::ModelFault),
        (429, Kind::Throttled),
        (499, Kind::BadRequest),
        (500, Kind::ServerFault),
        (502, Kind::ServerFault),
        (503, Kind::Overloaded),
        (504, Kind::TimedOut),
        (529, Kind::Overloaded),
        (599, Kind::ServerFault),
        (200, Kind::Unrecognised),
        (302, Kind::Unrecognised),
        (0, Kind::Unrecognised),
        (600, Kind::Unrecognised),
    ] {
        for table in [&OPENAI, &ANTHROPIC, &BEDROCK, &GEMINI, &DRS] {
            assert_eq!(table.classify(status, None).kind, kind, "{status}");
            assert_eq!(table.classify(status, Some("no_such_name")).kind, kind, "{status}");
        }
    }
}

#[test]
fn an_error_inside_an_answer_proves_nothing_about_execution() {
    assert!(BEDROCK.classify(429, Some("ThrottlingException")).not_executed);
    assert!(!BEDROCK.classify(200, Some("throttlingException")).not_executed);
    assert!(!ANTHROPIC.classify(200, Some("overloaded_error")).not_executed);
    assert!(!DRS.classify(503, None).not_executed);
    assert!(DRS.classify(400, Some("ValidationException")).not_executed);
}

#[test]
fn a_spent_quota_is_worth_a_wait_only_where_jobs_give_it_back() {
    let name = Some("ServiceQuotaExceededException");
    assert_eq!(BEDROCK.classify(400, name).retryability, Retryability::OtherTarget);
    assert_eq!(DRS.classify(400, name).retryability, Retryability::SameTarget);
    assert_eq!(DRS.classify(400, Some("ConflictException")).retryability, Retryability::Never);
}

#[test]
fn every_listed_drs_error_is_retried_on_the_spot() {
    for name in [
        "ThrottlingException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "InternalServerException",
        "ServiceQuotaExceededException",
    ] {
        assert_eq!(DRS.classify(400, Some(name)).retryability, Retryability::SameTarget, "{name}");
    }
}

#[test]
fn a_table_names_each_error_once() {
    for table in [&OPENAI, &ANTHROPIC, &BEDROCK, &GEMINI, &DRS] {
        let distinct: BTreeSet<String> = table.names().iter().map(|(name, _)| name.to_lowercase()).collect();
        assert_eq!(distinct.len(), table.names().len(), "{}", table.vendor());
        // Groq's; every other status means the same at all vendors.
        let own: &[(u16, Kind)] = if table.vendor() == "openai" { &[(498, Kind::Overloaded)] } else { &[] };
        assert_eq!(table.statuses(), own, "{}", table.vendor());
    }
}

#[test]
fn origin_retryability_and_health_of_every_kind() {
    use FaultOrigin::{Caller, Gateway, Provider};
    use Retryability::{Never, OtherTarget, SameTarget};
    let expected = [
        (Kind::Throttled, Provider, SameTarget, Health::Bad, true),
        (Kind::Overloaded, Provider, SameTarget, Health::Bad, false),
        (Kind::QuotaExhausted, Provider, OtherTarget, Health::Bad, true),
        (Kind::NotReady, Provider, SameTarget, Health::Bad, false),
        (Kind::TimedOut, Provider, SameTarget, Health::Bad, false),
        (Kind::StartTimeout, Gateway, OtherTarget, Health::TimedOut, false),
        (Kind::Unreachable, Provider, SameTarget, Health::Bad, false),
        (Kind::StreamInterrupted, Provider, SameTarget, Health::Bad, false),
        (Kind::ServerFault, Provider, SameTarget, Health::Bad, false),
        (Kind::ModelFault, Provider, OtherTarget, Health::Bad, false),
        (Kind::Unrecognised, Provider, OtherTarget, Health::Bad, false),
        (Kind::BadRequest, Caller, Never, Health::Unknown, true),
        (Kind::TooLong, Caller, Never, Health::Unknown, true),
        (Kind::Unauthorized, Gateway, OtherTarget, Health::Unknown, true),
        (Kind::NotFound, Gateway, OtherTarget, Health::Unknown, true),
        (Kind::Filtered, Caller, Never, Health::Good, false),
    ];
    assert_eq!(expected.map(|row| row.0), FailureKind::ALL);
    for (kind, origin, retryability, health, not_executed) in expected {
        let failure = Failure::of(kind);
        assert_eq!((failure.origin, failure.retryability), (origin, retryability), "{}", kind.label());
        assert_eq!((kind.health(), kind.proves_not_executed()), (health, not_executed), "{}", kind.label());
        assert_eq!(failure.retry_after, None);
    }
}

#[test]
fn labels_are_distinct_and_fit_a_metric() {
    let labels: BTreeSet<&str> = FailureKind::ALL.iter().map(|kind| kind.label()).collect();
    assert_eq!(labels.len(), FailureKind::ALL.len());
    assert!(labels.iter().all(|label| label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')));
    assert!(labels.iter().all(|label| label.len() > 5));
}

#[test]
fn an_outcome_says_what_it_can_about_health() {
    let limit = Duration::from_secs(4);
    let succeeded =
        |millis| AttemptOutcome::Succeeded { time_to_first_content: Duration::from_millis(millis) };
    assert_eq!(succeeded(4_000).health(limit), Health::Good);
    assert_eq!(succeeded(4_001).health(limit), Health::Slow);
    assert_eq!(AttemptOutcome::Abandoned.health(limit), Health::Unknown);
    assert_eq!(AttemptOutcome::Failed(Failure::of(Kind::Throttled)).health(limit), Health::Bad);
    let hinted = Failure::of(Kind::Throttled).with_retry_after(limit);
    assert_eq!(hinted, Failure { retry_after: Some(limit), ..Failure::of(Kind::Throttled) });
}

proptest! {
    #[test]
    fn any_status_and_name_is_classified(
        status: u16,
        name in prop_oneof![any::<Option<String>>(), Just(Some("#:".to_owned())), "[a-z#:]{0,40}".prop_map(Some)],
    ) {
        for table in [&OPENAI, &ANTHROPIC, &BEDROCK, &GEMINI, &DRS] {
            let failure = table.classify(status, name.as_deref());
            prop_assert!(FailureKind::ALL.contains(&failure.kind));
            prop_assert_eq!(failure.origin, failure.kind.origin());
        }
    }
}
