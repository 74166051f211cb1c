//! How users of the vendors' clients see it when `seawall model` refuses: as the client's own exception, tried again only
//! where they want that.

use crate::client::{Client, Way};
use crate::running::Running;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Statuses and the exceptions they become: in Anthropic's older Python, in its other clients, in OpenAI's Python and
/// JavaScript, and in Amazon's. A status without an exception is none that this vendor sends.
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
        Client::OpenaiPython => 2,
        Client::OpenaiNode => 3,
        Client::AwsPython(_) | Client::AwsNode(..) => 4,
    }
}

fn is_amazons(client: Client) -> bool {
    column(client) == 4
}

#[track_caller]
fn assert_raised(seen: &Value, status: u16, exception: &str, which: &str) {
    let told = (&seen["error"]["status"], &seen["error"]["kinds"][0], &seen["text"]);
    assert_eq!(told, (&json!(status), &json!(exception), &json!("")), "{which}: {seen}");
}

#[test]
fn every_refusal_is_the_clients_own_exception_and_is_not_tried_again_unasked() -> anyhow::Result<()> {
    let model = Running::model("client-errors", "[]")?;
    let mut asked = 0;
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
        for (status, exceptions) in EXCEPTIONS {
            let exception = exceptions[column(client)];
            if exception.is_empty() {
                continue;
            }
            model.set_faults(&json!([{ "fault": { "kind": "status", "status": status } }]))?;
            for stream in [false, true] {
                let seen = session.sees(&json!({ "stream": stream }))?;
                assert_raised(&seen, status, exception, &format!("{client:?}, stream: {stream}"));
                asked += 1;
            }
        }
        if is_amazons(client) {
            for (status, error) in BY_NAME {
                let fault = json!({ "kind": "status", "status": status, "error": error });
                model.set_faults(&json!([{ "fault": fault }]))?;
                assert_raised(&session.sees(&json!({}))?, status, error, &format!("{client:?}"));
                asked += 1;
            }
        }
        let bill = model.bill("instant")?;
        assert_eq!((&bill["requests"], &bill["answers"]), (&json!(asked), &json!(0)), "{client:?}: {bill}");
    }
    Ok(())
}

#[test]
fn every_client_raises_its_own_exception_for_its_users_mistakes() -> anyhow::Result<()> {
    let model = Running::model("client-mistakes", "[]")?;
    for client in Client::ALL {
        let mut session = client.open(&model.url)?;
        let [(bad, bad_name), (key, key_name), (unknown, unknown_name)] = if is_amazons(client) {
            // The last one has no class of its own in the clients.
            let key = if matches!(client, Client::AwsPython(_)) {
                "ClientError"
            } else {
                "UnrecognizedClientException"
            };
            [(400, "ValidationException"), (403, key), (404, "ResourceNotFoundException")]
        } else {
            [(400, "BadRequestError"), (401, "AuthenticationError"), (404, "NotFoundError")]
        };
        for stream in [false, true] {
            let which = format!("{client:?}, stream: {stream}");
            let seen = session.sees(&json!({ "max_tokens": 0, "stream": stream }))?;
            if client == Client::AwsPython(Way::Converse) {
                // It knows the limits itself and does not even ask.
                assert_eq!(seen["error"]["kinds"][0], "ParamValidationError", "{which}: {seen}");
            } else {
                assert_raised(&seen, bad, bad_name, &which);
            }
            let seen = session.sees(&json!({ "key": null, "stream": stream }))?;
            assert_raised(&seen, key, key_name, &which);
            let seen = session.sees(&json!({ "model": "nobody", "stream": stream }))?;
            assert_raised(&seen, unknown, unknown_name, &which);
        }
    }
    assert_eq!(model.bill("instant")?, Value::Null);
    Ok(())
}

#[test]
fn a_client_that_may_comes_back_once_and_not_before_it_was_told_to() -> anyhow::Result<()> {
    let model = Running::model("client-retries", "[]")?;
    // Longer than any of them waits by itself before the first time it comes back after this status.
    let wait = Duration::from_millis(700);
    for (client, before) in Client::ALL.into_iter().zip(0_u64..) {
        let mut session = client.open(&model.url)?;
        let told = json!({ "kind": "status", "status": 503, "retry_after": "700ms" });
        model.set_faults(&json!([{ "every": 2, "fault": told }]))?;
        let began = Instant::now();
        let seen = session.sees(&json!({ "retries": 1 }))?;
        assert!(began.elapsed() >= wait, "{client:?} came back after {:?}", began.elapsed());
        assert_eq!(seen["output"], 40, "{client:?}: {seen}");

        model.set_faults(&json!([{ "fault": { "kind": "status", "status": 400, "retry_after": "1ms" } }]))?;
        // Twice, so that every client begins with a number that is even.
        for stream in [false, true] {
            let seen = session.sees(&json!({ "stream": stream, "retries": 2 }))?;
            assert_eq!(seen["error"]["status"], 400, "{client:?}: {seen}");
        }
        let bill = model.bill("instant")?;
        let expected = (json!(4 * before + 4), json!(before + 1));
        assert_eq!((&bill["requests"], &bill["answers"]), (&expected.0, &expected.1), "{client:?}: {bill}");
    }
    Ok(())
}
