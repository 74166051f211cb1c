//! Rejections of `seawall model` as users of the vendors' clients see them: as the client's own exception, retried only
//! if the user wants that.

use crate::client::{Client, Session, Way};
use crate::running::Running;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Statuses and their exceptions: in Anthropic's older Python, in its other clients, in OpenAI's Python and JavaScript,
/// and in Amazon's. A vendor does not send a status without an exception.
#[rustfmt::skip] // A table is read by its columns.
const EXCEPTIONS: [(u16, [&str; 5]); 12] = [
    (400, ["BadRequestError", "BadRequestError", "BadRequestError", "BadRequestError", "ValidationException"]),
    (401, ["AuthenticationError", "AuthenticationError", "AuthenticationError", "AuthenticationError", ""]),
    (403, ["PermissionDeniedError", "PermissionDeniedError", "PermissionDeniedError", "PermissionDeniedError", "AccessDeniedException"]),
    (404, ["NotFoundError", "NotFoundError", "NotFoundError", "NotFoundError", "ResourceNotFoundException"]),
    (408, ["APIStatusError", "RequestTimeoutError", "APIStatusError", "APIError", "ModelTimeoutException"]),
    (413, ["RequestTooLargeError", "ContentTooLargeError", "APIStatusError", "APIError", ""]),
    (424, ["", "", "", "", "ModelErrorException"]),
    (429, ["RateLimitError", "RateLimitError", "RateLimitError", "RateLimitError", "ThrottlingException"]),
    (500, ["InternalServerError", "InternalServerError", "InternalServerError", "InternalServerError", "InternalServerException"]),
    (503, ["InternalServerError", "ServiceUnavailableError", "InternalServerError", "InternalServerError", "ServiceUnavailableException"]),
    (504, ["InternalServerError", "GatewayTimeoutError", "InternalServerError", "InternalServerError", ""]),
    (529, ["OverloadedError", "OverloadedError", "", "", ""]),
];

/// Amazon's exceptions that share their status with another one.
const BY_NAME: [(u16, &str); 4] = [
    (400, "ServiceQuotaExceededException"),
    (424, "ModelStreamErrorException"),
    (429, "ModelNotReadyException"),
    (403, "AccessDeniedException"),
];

fn column(client: Client) -> usize {
    match client {
        Client::AnthropicPythonOne => 0,
        Client::AnthropicPythonTwo | Client::AnthropicNode => 1,
        Client::OpenaiPython
        | Client::ResponsesPython
        | Client::LangchainResponses
        | Client::PydanticResponses => 2,
        Client::OpenaiNode | Client::ResponsesNode | Client::Vercel => 3,
        Client::AwsPython(_) | Client::AwsNode(..) => 4,
        Client::GeminiPython | Client::GeminiNode => unreachable!("they have tests of their own"),
    }
}

fn is_amazons(client: Client) -> bool {
    column(client) == 4
}

#[track_caller]
fn assert_raised(seen: &Value, status: u16, exception: &str, which: &str) {
    let error = (&seen["error"]["status"], &seen["error"]["kinds"][0], &seen["text"]);
    assert_eq!(error, (&json!(status), &json!(exception), &json!("")), "{which}: {seen}");
}

#[test]
fn every_refusal_is_the_clients_own_exception_and_is_tried_again_only_where_asked() -> anyhow::Result<()> {
    let model = Running::model("client-errors", "[]")?;
    for client in Client::ALL {
        // One process for all calls: starting a client takes longer than anything it does.
        let mut session = client.open(&model.url)?;
        raises_its_own_exceptions_and_does_not_try_again_unasked(client, &mut session, &model)?;
        raises_its_own_exceptions_for_its_users_mistakes(client, &mut session, &model)?;
        comes_back_once_and_not_before_it_was_told_to(client, &mut session, &model)?;
    }
    Ok(())
}

/// The number of requests and answers on the bill.
fn billed(model: &Running) -> anyhow::Result<(u64, u64)> {
    let bill = model.bill("instant")?;
    Ok((bill["requests"].as_u64().unwrap_or(0), bill["answers"].as_u64().unwrap_or(0)))
}

fn raises_its_own_exceptions_and_does_not_try_again_unasked(
    client: Client,
    session: &mut Session,
    model: &Running,
) -> anyhow::Result<()> {
    let (requests, answers) = billed(model)?;
    let mut sent = 0;
    for (status, exceptions) in EXCEPTIONS {
        let exception = exceptions[column(client)];
        if exception.is_empty() {
            continue;
        }
        model.set_faults(&json!([{ "fault": { "kind": "status", "status": status } }]))?;
        for stream in [false, true] {
            let seen = session.sees(&json!({ "stream": stream }))?;
            assert_raised(&seen, status, exception, &format!("{client:?}, stream: {stream}"));
            sent += 1;
        }
    }
    if is_amazons(client) {
        for (status, error) in BY_NAME {
            let fault = json!({ "kind": "status", "status": status, "error": error });
            model.set_faults(&json!([{ "fault": fault }]))?;
            assert_raised(&session.sees(&json!({}))?, status, error, &format!("{client:?}"));
            sent += 1;
        }
    }
    assert_eq!(billed(model)?, (requests + sent, answers), "{client:?}");
    model.set_faults(&json!([]))
}

fn raises_its_own_exceptions_for_its_users_mistakes(
    client: Client,
    session: &mut Session,
    model: &Running,
) -> anyhow::Result<()> {
    let before = billed(model)?;
    let [(bad, bad_name), (key, key_name), (unknown, unknown_name)] = match client {
        // This client has no class of its own for an unknown key.
        Client::AwsPython(_) => {
            [(400, "ValidationException"), (403, "ClientError"), (404, "ResourceNotFoundException")]
        }
        Client::AwsNode(..) => [
            (400, "ValidationException"),
            (403, "UnrecognizedClientException"),
            (404, "ResourceNotFoundException"),
        ],
        _ => [(400, "BadRequestError"), (401, "AuthenticationError"), (404, "NotFoundError")],
    };
    for stream in [false, true] {
        let which = format!("{client:?}, stream: {stream}");
        let seen = session.sees(&json!({ "max_tokens": -1, "stream": stream }))?;
        if client == Client::AwsPython(Way::Converse) {
            // It validates the limits itself and does not send the request.
            assert_eq!(seen["error"]["kinds"][0], "ParamValidationError", "{which}: {seen}");
        } else {
            assert_raised(&seen, bad, bad_name, &which);
        }
        let seen = session.sees(&json!({ "key": null, "stream": stream }))?;
        assert_raised(&seen, key, key_name, &which);
        let seen = session.sees(&json!({ "model": "nobody", "stream": stream }))?;
        assert_raised(&seen, unknown, unknown_name, &which);
    }
    assert_eq!(billed(model)?, before, "{client:?}");
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "how long a client waits is what is measured")]
fn comes_back_once_and_not_before_it_was_told_to(
    client: Client,
    session: &mut Session,
    model: &Running,
) -> anyhow::Result<()> {
    let (requests, answers) = billed(model)?;
    // Longer than the own first backoff of any of them after this status.
    let fault = json!({ "kind": "status", "status": 503, "retry_after": "700ms" });
    // Every second request overall; which of two that is, is unknown here.
    model.set_faults(&json!([{ "every": 2, "fault": fault }]))?;
    let is_first = session.sees(&json!({}))?["error"] == Value::Null;
    if !is_first {
        // The next one is not refused.
        assert_eq!(session.sees(&json!({}))?["error"], Value::Null, "{client:?}");
    }
    let began = Instant::now();
    let seen = session.sees(&json!({ "retries": 1 }))?;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(700), "{client:?}: after {waited:?}");
    assert_eq!(seen["output"], 40, "{client:?}: {seen}");
    let (others, other_answers) = if is_first { (1, 1) } else { (2, 1) };
    assert_eq!(billed(model)?, (requests + others + 2, answers + other_answers + 1), "{client:?}");

    // An error that a retry cannot fix is not retried, even if retries are allowed.
    model.set_faults(&json!([{ "fault": { "kind": "status", "status": 400, "retry_after": "1ms" } }]))?;
    let (requests, answers) = billed(model)?;
    let seen = session.sees(&json!({ "retries": 2 }))?;
    assert_eq!(seen["error"]["status"], 400, "{client:?}: {seen}");
    assert_eq!(billed(model)?, (requests + 1, answers), "{client:?}");
    model.set_faults(&json!([]))
}
