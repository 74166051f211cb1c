use crate::ApiErrorKind;
use crate::openai::{OpenAiErrorBody, error_code_of, error_type_of, read_error, status_of, write_error};
use bytes::BytesMut;
use seawall_core::failure::{FailureKind, Retryability};
use std::time::Duration;

fn no_header(_: &str) -> Option<&'static str> {
    None
}

#[test]
fn the_code_decides_then_the_type_then_the_status() {
    for (status, error, expected) in [
        (429, r#"{"type":"requests","code":"rate_limit_exceeded"}"#, FailureKind::Throttled),
        (429, r#"{"type":"requests","code":"insufficient_quota"}"#, FailureKind::QuotaExhausted),
        (429, r#"{"type":"insufficient_quota","code":"brand_new"}"#, FailureKind::QuotaExhausted),
        (429, r#"{"type":"tokens","code":null}"#, FailureKind::Throttled),
        (400, r#"{"type":"invalid_request_error","code":"context_length_exceeded"}"#, FailureKind::TooLong),
        (400, r#"{"type":"invalid_request_error","code":"content_filter"}"#, FailureKind::Filtered),
        (404, r#"{"type":"invalid_request_error","code":null}"#, FailureKind::NotFound),
        (401, r#"{"type":"invalid_request_error"}"#, FailureKind::Unauthorized),
        (500, r#"{"code":429}"#, FailureKind::ServerFault),
        (503, r#"{"type":7}"#, FailureKind::Overloaded),
        (302, "null", FailureKind::Unrecognised),
        // A numeric code in the error range replaces a success status; any other number is ignored.
        (200, r#"{"code":399}"#, FailureKind::Unrecognised),
        (200, r#"{"code":400}"#, FailureKind::BadRequest),
        (200, r#"{"code":599}"#, FailureKind::ServerFault),
        (200, r#"{"code":600}"#, FailureKind::Unrecognised),
        (200, r#"{"code":65965}"#, FailureKind::Unrecognised),
    ] {
        let body = format!(r#"{{"error":{error}}}"#);
        let failure = read_error(status, no_header, body.as_bytes());
        assert_eq!(failure.kind, expected, "{status} {body}");
        assert!(status >= 400 || !failure.not_executed, "{status} {body}");
    }
    for body in ["", "<html>busy</html>", "[]", "\"\"", "{\"error\":"] {
        assert_eq!(read_error(503, no_header, body.as_bytes()).kind, FailureKind::Overloaded, "{body}");
    }
    assert!(read_error(429, no_header, b"").not_executed);
    let hinted = read_error(429, |name| (name == "retry-after-ms").then_some("70"), b"");
    assert_eq!(hinted.retry_after, Some(Duration::from_millis(70)));
}

#[test]
fn the_errors_of_compatible_servers_mean_what_their_servers_mean() {
    // Bodies as their users reported them in public, shortened where they name accounts.
    for (status, body, expected) in [
        (
            400,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}"#,
            FailureKind::TooLong,
        ),
        // The same of a version that sends it with the status of a success.
        (
            200,
            r#"{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}"#,
            FailureKind::TooLong,
        ),
        (
            503,
            r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
            FailureKind::Overloaded,
        ),
        // vLLM, before and after its error object had a key of its own, and its newer words.
        (
            400,
            r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
            FailureKind::TooLong,
        ),
        (
            400,
            r#"{"error":{"message":"You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024 tokens, resulting in a maximum input length of 1014 tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=1015)","type":"BadRequestError","param":"input_tokens","code":400}}"#,
            FailureKind::TooLong,
        ),
        (
            400,
            r#"{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400}"#,
            FailureKind::BadRequest,
        ),
        // Ollama.
        (400, r#"{"error":"the input length exceeds the context length"}"#, FailureKind::TooLong),
        (
            503,
            r#"{"error":"server busy, please try again.  maximum pending requests exceeded"}"#,
            FailureKind::Overloaded,
        ),
        // Groq.
        (
            400,
            r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            FailureKind::TooLong,
        ),
        (
            429,
            r#"{"error":{"message":"Rate limit reached for model `llama-3.1-70b-versatile` on tokens per minute (TPM): Limit 6000, Used 3513, Requested 3166. Please try again in 6.780999999s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            FailureKind::Throttled,
        ),
        (
            413,
            r#"{"error":{"message":"Request too large for model `llama-3.1-70b-versatile` on tokens per minute (TPM): Limit 6000, Requested 14368, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}"#,
            FailureKind::TooLong,
        ),
        (498, r#"{"error":{"message":"no capacity","code":"capacity_exceeded"}}"#, FailureKind::Overloaded),
        // OpenRouter has numbers as codes; in a stream, the number is all there is.
        (402, r#"{"error":{"code":402,"message":"Insufficient credits"}}"#, FailureKind::QuotaExhausted),
        (
            200,
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"provider_name":"x"}}}"#,
            FailureKind::ServerFault,
        ),
        (200, r#"{"error":{"code":429,"message":"Provider returned error"}}"#, FailureKind::Throttled),
        (
            404,
            r#"{"error":{"message":"No endpoints found that support tool use.","code":404}}"#,
            FailureKind::NotFound,
        ),
        (403, r#"{"error":{"code":403,"message":"no"}}"#, FailureKind::Unauthorized),
        (
            403,
            r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["violence"],"flagged_input":"a","provider_name":"x"}}}"#,
            FailureKind::Filtered,
        ),
        (
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens.","code":400}}"#,
            FailureKind::TooLong,
        ),
    ] {
        let failure = read_error(status, no_header, body.as_bytes());
        assert_eq!(failure.kind, expected, "{status} {body}");
        assert!(status >= 400 || !failure.not_executed, "{status} {body}");
    }
}

#[test]
fn a_request_above_the_rate_of_an_account_goes_to_another_target_and_never_waits() {
    let body = br#"{"error":{"type":"tokens","code":"rate_limit_exceeded"}}"#;
    let failure = read_error(413, no_header, body);
    assert_eq!((failure.kind, failure.retryability), (FailureKind::TooLong, Retryability::OtherTarget));
    assert_eq!(failure.honoured_retry_after(), None);
}

#[test]
fn each_refusal_means_to_the_next_seawall_what_it_meant_to_us() {
    for error_kind in ApiErrorKind::ALL {
        let mut body = BytesMut::new();
        write_error(&mut body, &OpenAiErrorBody::new(error_kind, "no"));
        let failure = read_error(status_of(error_kind), no_header, &body);
        let by_status = read_error(status_of(error_kind), no_header, b"");
        match error_kind {
            ApiErrorKind::BudgetExhausted => assert_eq!(failure.retryability, Retryability::OtherTarget),
            ApiErrorKind::ContextLength => assert_eq!(failure.kind, FailureKind::TooLong),
            ApiErrorKind::SwitchedOff => assert_eq!(failure.kind, FailureKind::ServerFault),
            _ => assert_eq!(failure.kind, by_status.kind, "{error_kind:?}"),
        }
        assert!(!error_type_of(error_kind).is_empty() && error_code_of(error_kind) != Some(""));
    }
}
