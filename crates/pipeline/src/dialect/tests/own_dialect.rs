//! A target that accepts several dialects is called in the caller's, with its headers; bodies of unknown format pass
//! through without being parsed.

use super::{DEFAULTS, MESSAGE, PLAIN, body, request_for};
use crate::dialect::{DialectHeaders, DialectRequest, DialectStreamEnd, Face, UnstreamedAnswer};
use bytes::Bytes;
use seawall_core::failure::FailureKind;
use seawall_core::money::{PriceDimension, Surcharge};
use seawall_core::vocabulary::OutputLimitField;
use seawall_provider::{Call, CallFuture, LocalTarget, Target};
use seawall_wire::bedrock::{InvokeHeader, write_chunk};
use seawall_wire::chat::Usage;
use seawall_wire::dialect::UrlParameters;
use seawall_wire::dialect::{DialectId, ResponseReport};
use seawall_wire::{RequestError, RequestLimits};
use serde_json::{Value, json};

/// A model at Bedrock, which accepts both of its dialects.
struct AtBedrock(DialectId);

impl Target for AtBedrock {
    fn dialect(&self) -> DialectId {
        self.0
    }

    fn accepts(&self, dialect: DialectId) -> bool {
        [DialectId::BEDROCK_INVOKE, DialectId::BEDROCK_CONVERSE].contains(&dialect)
    }

    fn call(&self, _: Call) -> CallFuture<'_> {
        Box::pin(async { panic!("nobody is asked") })
    }
}

const CLAUDE: AtBedrock = AtBedrock(DialectId::BEDROCK_INVOKE);
const NOVA: AtBedrock = AtBedrock(DialectId::BEDROCK_CONVERSE);

fn call(request: &DialectRequest, target: &dyn Target) -> Result<Call, RequestError> {
    request.call_for(None, OutputLimitField::MaxTokens, request.dialect_at(target), "m")
}

fn invoke(body: &Value, stream: bool) -> DialectRequest {
    let url = UrlParameters::new("titan".to_owned(), stream);
    let body = Bytes::from(body.to_string());
    DialectRequest::read(DialectId::BEDROCK_INVOKE, &url, body, &RequestLimits::default()).unwrap()
}

fn header(name: &str, value: &str) -> DialectHeaders {
    let invoke = vec![InvokeHeader::read(name, value).unwrap().unwrap()];
    DialectHeaders { invoke, ..DialectHeaders::default() }
}

#[test]
fn converse_to_an_anthropic_model_at_bedrock_is_forwarded_unchanged() {
    let mut value = body(Face::BEDROCK_CONVERSE, &PLAIN);
    value["additionalModelRequestFields"] = json!({ "top_k": 5 });
    value["guardrailConfig"] = json!({ "guardrailIdentifier": "g", "guardrailVersion": "1" });
    value["system"] = json!([{ "text": "Be kind." }, { "cachePoint": { "type": "default" } }]);
    value["messages"][0]["content"] = json!([
        { "text": "What is this?" },
        { "document": { "format": "pdf", "name": "a", "source": { "bytes": "JVBERi0=" } } },
    ]);
    let text = Bytes::from(value.to_string());
    let request = super::read(Face::BEDROCK_CONVERSE, false, text.clone()).unwrap();
    for target in [&CLAUDE, &NOVA] {
        let call = call(&request, target).unwrap();
        assert_eq!((call.dialect, &call.body), (Some(DialectId::BEDROCK_CONVERSE), &text));
    }
    // At other targets it is translated or rejected.
    let anthropic = LocalTarget::new(DialectId::ANTHROPIC_MESSAGES, "m", |_, _| panic!("nobody is asked"));
    assert!(call(&request, &anthropic).is_err());
}

#[test]
fn every_other_face_calls_a_model_at_bedrock_in_its_default_dialect() {
    for face in [Face::ANTHROPIC_MESSAGES, Face::OPENAI_CHAT, Face::BEDROCK_INVOKE] {
        let request = request_for(face, &PLAIN);
        assert_eq!(request.dialect_at(&CLAUDE), DialectId::BEDROCK_INVOKE, "{face:?}");
        assert_eq!(request.dialect_at(&NOVA), DialectId::BEDROCK_CONVERSE, "{face:?}");
    }
}

#[test]
fn a_header_that_binds_goes_to_invoke_model_and_is_refused_elsewhere_by_its_name() {
    let guardrail = || header("x-amzn-bedrock-guardrailidentifier", "gr-1");
    for face in [Face::BEDROCK_INVOKE, Face::ANTHROPIC_MESSAGES, Face::OPENAI_CHAT] {
        let request = request_for(face, &PLAIN).with_headers(guardrail()).unwrap();
        let sent = call(&request, &CLAUDE).unwrap();
        assert_eq!(sent.headers, [("x-amzn-bedrock-guardrailidentifier", "gr-1".into())], "{face:?}");
        for dialect in [DialectId::ANTHROPIC_MESSAGES, DialectId::OPENAI_CHAT, DialectId::BEDROCK_CONVERSE] {
            let error =
                request.call_for(None, OutputLimitField::MaxTokens, dialect, "m").unwrap_err().to_string();
            assert!(
                error.starts_with(
                    "x-amzn-bedrock-guardrailidentifier: This InvokeModel header is not supported"
                ),
                "{error}"
            );
        }
    }
    let converse = request_for(Face::BEDROCK_CONVERSE, &PLAIN).with_headers(guardrail()).unwrap();
    let error = call(&converse, &CLAUDE).unwrap_err().to_string();
    assert!(error.contains("guardrailConfig"), "{error}");
    // Headers that only label a request are dropped where the target does not accept them.
    let labelled = header("x-amzn-bedrock-request-metadata", "{}");
    let request = request_for(Face::BEDROCK_INVOKE, &PLAIN).with_headers(labelled).unwrap();
    assert!(
        request
            .call_for(None, OutputLimitField::MaxTokens, DialectId::OPENAI_CHAT, "m")
            .unwrap()
            .headers
            .is_empty()
    );
    assert_eq!(call(&request, &CLAUDE).unwrap().headers.len(), 1);
}

#[test]
fn a_tier_in_a_header_is_priced_as_one_in_the_body() {
    let tier = || header("x-amzn-bedrock-service-tier", "priority");
    let request = request_for(Face::BEDROCK_INVOKE, &PLAIN).with_headers(tier()).unwrap();
    let service = request.features().unwrap().pricing.service;
    assert_eq!(service.of(PriceDimension::Tier), Some(Some(Surcharge::Priority)));
    let mut both = body(Face::BEDROCK_INVOKE, &PLAIN);
    both["service_tier"] = json!("flex");
    assert!(invoke(&both, false).with_headers(tier()).is_err());
}

#[test]
fn the_callers_api_version_is_forwarded() {
    let headers =
        DialectHeaders { anthropic_version: Some("2099-01-01".into()), ..DialectHeaders::default() };
    let request = request_for(Face::ANTHROPIC_MESSAGES, &PLAIN).with_headers(headers).unwrap();
    let sent =
        request.call_for(None, OutputLimitField::MaxTokens, DialectId::ANTHROPIC_MESSAGES, "m").unwrap();
    assert_eq!(sent.anthropic_version.as_deref(), Some("2099-01-01"));
}

#[test]
fn an_opaque_body_passes_through_to_bedrock_only() {
    let titan = json!({ "inputText": "hi", "textGenerationConfig": { "maxTokenCount": 5 } });
    let request = invoke(&titan, false);
    assert_eq!(
        (request.face(), request.model(), request.opaque_answers()),
        (Face::BEDROCK_INVOKE, "titan", Some(1))
    );
    for target in [&CLAUDE, &NOVA] {
        let call = call(&request, target).unwrap();
        assert_eq!(
            (call.dialect, call.body.as_ptr()),
            (Some(DialectId::BEDROCK_INVOKE), request.body().as_ptr())
        );
    }
    for dialect in [DialectId::ANTHROPIC_MESSAGES, DialectId::OPENAI_CHAT, DialectId::BEDROCK_CONVERSE] {
        let error =
            request.call_for(None, OutputLimitField::MaxTokens, dialect, "m").unwrap_err().to_string();
        assert!(error.starts_with("anthropic_version: Field required"), "{error}");
    }
    assert_eq!(invoke(&json!({ "prompt": "hi", "num_generations": 3 }), false).opaque_answers(), Some(3));
    // A literal prompt is not a reference to a stored one.
    assert!(request.features().is_none() && invoke(&json!({ "prompt": "hi" }), false).features().is_none());
}

#[test]
fn an_opaque_answer_is_returned_unchanged_with_the_services_token_counts() {
    let request = invoke(&json!({ "inputText": "hi" }), false);
    let body =
        Bytes::from_static(br#"{"inputTextTokenCount":3,"results":[{"tokenCount":4,"outputText":"x"}]}"#);
    let read = |failure_message| {
        UnstreamedAnswer::read(&request, DialectId::BEDROCK_INVOKE, body.clone(), failure_message, &DEFAULTS)
    };
    let counted = Usage { input: 30, output: 40, ..Usage::default() };
    let tier = vec![("x-amzn-bedrock-service-tier", "flex".to_owned())];
    let failure_message =
        ResponseReport { usage: Some(counted), headers: tier.clone(), ..ResponseReport::default() };
    let answer = read(Some(failure_message)).unwrap();
    assert_eq!(
        (answer.usage, answer.output_reported, &super::written(&answer, Face::BEDROCK_INVOKE)),
        (counted, true, &body)
    );
    assert!(answer.headers.contains(&tier[0]), "{:?}", answer.headers);
    assert!(answer.headers.contains(&("x-amzn-bedrock-input-token-count", "30".to_owned())));
    let answer = read(None).unwrap();
    assert_eq!((answer.usage.input, answer.usage.output, answer.output_reported), (3, 4, true));
    let unknown = Bytes::from_static(br#"{"images":["aGk="]}"#);
    let answer =
        UnstreamedAnswer::read(&request, DialectId::BEDROCK_INVOKE, unknown, None, &DEFAULTS).unwrap();
    assert_eq!((answer.usage, answer.output_reported, answer.headers.len()), (Usage::default(), false, 0));
}

#[test]
fn an_opaque_stream_is_forwarded_and_only_its_last_chunk_completes_it() {
    let mut frames = bytes::BytesMut::new();
    write_chunk(&mut frames, br#"{"outputText":"a"}"#);
    let first = frames.split().freeze();
    let metrics =
        r#"{"outputText":"","amazon-bedrock-invocationMetrics":{"inputTokenCount":7,"outputTokenCount":9}}"#;
    write_chunk(&mut frames, metrics.as_bytes());
    let last = frames.freeze();
    let request = invoke(&json!({ "inputText": "hi" }), true);
    let fed = |pieces: &[&Bytes]| {
        let mut stream = super::EncodedStream::new(&request, DialectId::BEDROCK_INVOKE, &DEFAULTS);
        let mut got = Vec::new();
        for piece in pieces {
            stream.feed(piece, &mut |bytes| got.extend_from_slice(&bytes), &mut |_| ()).unwrap();
        }
        (stream, got)
    };
    let (mut stream, got) = fed(&[&first, &last]);
    assert_eq!(got, [&first[..], &last[..]].concat());
    assert!(!stream.is_finished(), "more may come");
    assert_eq!(stream.end(&mut |_| (), &mut |_| ()), DialectStreamEnd::Complete);
    assert_eq!(stream.final_usage(), Some(Usage { input: 7, output: 9, ..Usage::default() }));
    for pieces in [vec![&first], vec![&first, &last, &first.slice(..20)], vec![]] {
        let (mut stream, _) = fed(&pieces);
        assert_eq!(stream.end(&mut |_| (), &mut |_| ()), DialectStreamEnd::Interrupted);
        assert!(!stream.interrupt(FailureKind::StreamInterrupted, MESSAGE).is_empty());
    }
}
