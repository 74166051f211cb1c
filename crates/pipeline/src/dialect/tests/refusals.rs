//! Error responses and response headers of the faces.

use crate::dialect::{Face, content_type, render_error, request_id_header, stream_headers};
use seawall_wire::{ApiErrorKind, RetryAdvice, anthropic, bedrock, gemini, openai};
use serde_json::Value;
use std::time::Duration;

const WAIT: RetryAdvice = RetryAdvice { wait: Some(Duration::from_millis(1_500)), should_retry: Some(false) };

#[test]
fn a_refusal_has_the_status_message_and_headers_that_client_libraries_read() {
    for face in Face::ALL {
        for why in ApiErrorKind::ALL {
            let reply = render_error(face, why, "no \"room\"", "req_9", WAIT);
            let body: Value = serde_json::from_slice(&reply.body).unwrap();
            let header =
                |name: &str| reply.headers.iter().find(|(known, _)| *known == name).map(|(_, v)| v.as_str());
            let (status, words) = match face.name() {
                "anthropic" => {
                    assert_eq!((&body["request_id"], &body["type"]), (&"req_9".into(), &"error".into()));
                    assert_eq!(body["error"]["type"], anthropic::error_type_of(why));
                    (anthropic::status_of(why), &body["error"]["message"])
                }
                "openai" | "openai_responses" => {
                    let is_limit = matches!(why, ApiErrorKind::Throttled | ApiErrorKind::BudgetHeld);
                    // Clients of Responses know by this type that a short wait does not help.
                    let expected = match face.name() {
                        "openai_responses" if is_limit => "usage_limit_reached",
                        _ => openai::error_type_of(why),
                    };
                    assert_eq!(body["error"]["type"], expected);
                    (openai::status_of(why), &body["error"]["message"])
                }
                "bedrock_invoke" | "bedrock_converse" => {
                    let (status, name) = bedrock::final_error(why);
                    assert_eq!(header("x-amzn-errortype"), Some(name));
                    assert_eq!(header("x-amz-retry-after"), Some("1500"));
                    (status, &body["message"])
                }
                "gemini" => {
                    assert_eq!(body["error"]["status"], gemini::status_name_of(why));
                    assert_eq!(body["error"]["code"], gemini::status_of(why));
                    (gemini::status_of(why), &body["error"]["message"])
                }
                "chat" => {
                    assert_eq!((&body["request_id"], &body["retry_after"]), (&"req_9".into(), &2.into()));
                    assert_eq!(body["code"], seawall_wire::chat_face::error_code(why));
                    (openai::status_of(why), &body["message"])
                }
                other => panic!("{other:?}"),
            };
            let message = match face.dialect() {
                Some(dialect) => dialect.client_message(why, "no \"room\"").into_owned(),
                None => "no \"room\"".into(),
            };
            assert_eq!((reply.status, words), (status, &message.into()), "{face:?} {why:?}");
            assert_eq!(header("content-type"), Some("application/json"));
            assert_eq!(header(request_id_header(face)), Some("req_9"));
            assert_eq!((header("retry-after"), header("x-should-retry")), (Some("2"), Some("false")));
        }
        let reply = render_error(face, ApiErrorKind::Malformed, "no", "r", RetryAdvice::default());
        assert!(!reply.headers.iter().any(|(name, _)| name.contains("retry")));
    }
}

#[test]
fn amazons_clients_get_the_services_names_and_no_retry_for_a_model_that_fails() {
    for face in [Face::BEDROCK_INVOKE, Face::BEDROCK_CONVERSE] {
        for (why, should_retry, status, name) in [
            (ApiErrorKind::Overloaded, None, 503, "ServiceUnavailableException"),
            (ApiErrorKind::Overloaded, Some(true), 503, "ServiceUnavailableException"),
            (ApiErrorKind::Overloaded, Some(false), 503, "ServiceUnavailableException"),
            (ApiErrorKind::Throttled, None, 429, "ThrottlingException"),
            (ApiErrorKind::Throttled, Some(false), 429, "ThrottlingException"),
            (ApiErrorKind::Internal, None, 500, "InternalServerException"),
            (ApiErrorKind::Internal, Some(false), 424, "ModelErrorException"),
        ] {
            let reply = render_error(face, why, "no", "r", RetryAdvice { wait: None, should_retry });
            let named =
                reply.headers.iter().any(|(known, value)| *known == "x-amzn-errortype" && value == name);
            assert_eq!((reply.status, named), (status, true), "{face:?} {why:?} {should_retry:?}");
        }
    }
}

#[test]
fn each_face_has_its_content_type() {
    let events = "text/event-stream";
    let frames = "application/vnd.amazon.eventstream";
    let types = Face::ALL.map(|face| (content_type(face, false), content_type(face, true)));
    assert_eq!(
        types,
        [events, events, frames, frames, events, events, events].map(|stream| ("application/json", stream))
    );
    let ids = Face::ALL.map(request_id_header);
    assert_eq!(
        ids,
        [
            "request-id",
            "x-request-id",
            "x-amzn-RequestId",
            "x-amzn-RequestId",
            "x-request-id",
            "x-request-id",
            "x-request-id"
        ]
    );
    let more = Face::ALL.map(stream_headers);
    let invoke: &[_] = &[("x-amzn-bedrock-content-type", "application/json")];
    assert_eq!(more, [&[], &[], invoke, &[], &[], &[], &[]]);
    let vendors = Face::ALL.into_iter().filter(|face| face.dialect().is_some());
    assert!(vendors.eq(Face::VENDORS));
}
