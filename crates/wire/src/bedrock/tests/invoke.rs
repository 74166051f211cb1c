use super::{cut, event, exception, written};
use crate::anthropic::read_request;
use crate::bedrock::{
    BedrockStreamError, FrameLimits, InvocationMetrics, InvokeEvent, InvokeReader, InvokeStream, SseToInvoke,
    invoke_to_messages, messages_to_invoke, read_invoke_request, read_usage_headers, usage_headers,
    write_chunk,
};
use crate::chat::{FinishReason, StreamEvent, Usage};
use crate::sse::{SseLimits, write_event};
use crate::{RequestError, RequestLimits};
use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::{any, proptest};
use seawall_core::failure::FailureKind;
use std::time::Duration;

const SSE: &str = include_str!("../../../tests/golden/stream.txt");
const FAILED_SSE: &str = include_str!("../../../tests/golden/stream_failed.txt");
const LIMITS: RequestLimits =
    RequestLimits { max_body_size: 1_000, max_depth: 8, max_fields: 8, max_items: 8 };
const BODY: &str = r#"{ "anthropic_version": "bedrock-2023-05-31", "max_tokens" : 50,
  "messages":[{"role":"user","content":"h\u0069  \"there\""}], "temperature":1.50e0,"anthropic_beta":["a-1","b-2"]}"#;

fn chunk(json: &str) -> Vec<u8> {
    written(|out| write_chunk(out, json.as_bytes()))
}

fn transcoded(sse: &str) -> Vec<u8> {
    let mut out = BytesMut::new();
    let mut transcoder = SseToInvoke::new(SseLimits::default());
    let (start, rest) = sse.as_bytes().split_at(30);
    transcoder.feed(start, Duration::from_millis(70), &mut out).unwrap();
    transcoder.feed(rest, Duration::from_millis(900), &mut out).unwrap();
    out.to_vec()
}

fn watch<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<StreamEvent>, InvokeStream) {
    let mut stream = InvokeStream::new(FrameLimits::default());
    let mut events = Vec::new();
    for piece in pieces {
        stream.feed(piece, |event| events.push(event)).unwrap();
    }
    (events, stream)
}

#[test]
fn a_head_is_read() {
    let head = read_invoke_request(BODY.as_bytes(), &LIMITS).unwrap();
    assert_eq!((head.max_output, head.turns), (50, 1));
    assert_eq!(head.betas, ["a-1", "b-2"]);
}

#[test]
fn a_request_that_is_none_is_refused_by_field() {
    let turn = r#"{"role":"user","content":"x"}"#;
    let with_turn = |turn: &str| format!(r#"{{"max_tokens":1,"messages":[{turn}]}}"#);
    let with_max = |max: &str| format!(r#"{{"max_tokens":{max},"messages":[{turn}]}}"#);
    let range = "max_tokens: Input should be an integer between 0 and 2147483648";
    for (body, problem) in [
        ("[]".to_owned(), "The request body must be a JSON object"),
        ("{}".to_owned(), "max_tokens: Field required"),
        (r#"{"max_tokens":null}"#.to_owned(), "max_tokens: Field required"),
        (r#"{"max_tokens":1}"#.to_owned(), "messages: Field required"),
        (r#"{"max_tokens":1,"max_tokens":2}"#.to_owned(), "max_tokens: Duplicate field"),
        (r#"{"max_tokens":1,"m\u0061x_tokens":2}"#.to_owned(), "max_tokens: Duplicate field"),
        (with_max("-1"), range),
        (with_max("2147483649"), range),
        (with_max("1.5"), range),
        (with_max("\"5\""), range),
        (r#"{"max_tokens":1,"messages":{}}"#.to_owned(), "messages: Input should be a valid list"),
        (r#"{"max_tokens":1,"messages":[]}"#.to_owned(), "messages: at least one message is required"),
        (with_turn("7"), "messages.0: Input should be an object with role and content"),
        (with_turn(r#"["user","x"]"#), "messages.0: Input should be an object with role and content"),
        (with_turn(r#"{"content":"x"}"#), "messages.0.role: Field required"),
        (with_turn(r#"{"role":"","content":"x"}"#), "messages.0.role: Input should be a non-empty string"),
        (with_turn(r#"{"role":"user"}"#), "messages.0.content: Field required"),
        (
            with_turn(r#"{"role":"user","content":7}"#),
            "messages.0.content: Input should be a valid string or a list of content blocks",
        ),
        (
            format!(r#"{{"max_tokens":1,"messages":[{turn}],"anthropic_beta":"a"}}"#),
            "anthropic_beta: Input should be a list of strings",
        ),
        (
            r#"{"a":[[[[[[[[1]]]]]]]]}"#.to_owned(),
            "The request body is nested too deeply: the limit is 8 levels",
        ),
        (
            r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1}"#.to_owned(),
            "The request body has too many fields: the limit is 8",
        ),
        ("\u{FEFF}{}".to_owned(), "The request body is not valid JSON: it begins with a byte order mark"),
        (
            " ".repeat(1_001),
            "Request exceeds the maximum size: the body has 1001 bytes, the limit is 1000 bytes",
        ),
    ] {
        assert_eq!(read_invoke_request(body.as_bytes(), &LIMITS).unwrap_err().to_string(), problem, "{body}");
    }
    assert!(read_invoke_request(with_max("2147483648").as_bytes(), &LIMITS).is_ok());
    assert_eq!(read_invoke_request(b"\xFF", &LIMITS), Err(RequestError::NotUtf8 { at: 0 }));
    assert!(matches!(read_invoke_request(b"{} {}", &LIMITS), Err(RequestError::NotJson { .. })));
    // Exactly at the limit.
    let body = with_turn(turn);
    let body = format!("{body}{}", " ".repeat(1_000 - body.len()));
    assert!(read_invoke_request(body.as_bytes(), &LIMITS).is_ok());
    let body = r#"{"max_tokens":1,"messages":[{"role":"user","content":"x"}],"a":[[[[[[[1],[1]],[]]]]]]}"#;
    assert!(read_invoke_request(body.as_bytes(), &LIMITS).is_ok());
    // Brackets inside strings do not count as nesting.
    let body = r#"{"max_tokens":1,"messages":[{"role":"user","content":"\"[[[[[[[[[[\\"}]}"#;
    assert!(read_invoke_request(body.as_bytes(), &LIMITS).is_ok());
}

#[test]
fn bodies_move_to_anthropic_and_back_with_every_value_as_it_came() {
    let messages = invoke_to_messages(BODY.as_bytes(), &LIMITS, "claude \"3\"", true).unwrap();
    let turns =
        r#""max_tokens":50,"messages":[{"role":"user","content":"h\u0069  \"there\""}],"temperature":1.50e0"#;
    assert_eq!(messages, format!(r#"{{"model":"claude \"3\"","stream":true,{turns}}}"#));
    let head = read_request(messages.as_bytes(), &LIMITS).unwrap();
    assert_eq!((head.model.as_str(), head.stream, head.turns), ("claude \"3\"", true, 1));
    let whole = invoke_to_messages(BODY.as_bytes(), &LIMITS, "m", false).unwrap();
    assert_eq!(whole, format!(r#"{{"model":"m",{turns}}}"#));

    let back = messages_to_invoke(messages.as_bytes(), &LIMITS, &["a-1"]).unwrap();
    let version = r#""anthropic_version":"bedrock-2023-05-31""#;
    assert_eq!(back, format!(r#"{{{version},"anthropic_beta":["a-1"],{turns}}}"#));
    assert_eq!(messages_to_invoke(b"{}", &LIMITS, &[]).unwrap(), format!("{{{version}}}"));
    let named = messages_to_invoke(br#"{"anthropic_version":"2026-10-21"}"#, &LIMITS, &[]).unwrap();
    assert_eq!(named, format!("{{{version}}}"));
    assert_eq!(
        invoke_to_messages(br#"{"x":1"#, &LIMITS, "m", true).unwrap_err().api_error_kind(),
        crate::ApiErrorKind::Malformed
    );
}

#[test]
fn usage_headers_are_written_and_read_back() {
    let usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::default() };
    let headers = usage_headers(usage, Duration::from_millis(412));
    let expected = [
        ("x-amzn-bedrock-input-token-count", "25"),
        ("x-amzn-bedrock-output-token-count", "15"),
        ("x-amzn-bedrock-invocation-latency", "412"),
        ("x-amzn-bedrock-cache-read-input-token-count", "4"),
        ("x-amzn-bedrock-cache-write-input-token-count", "3"),
    ];
    assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));
    let find = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    assert_eq!(read_usage_headers(find), Some(usage));
    let uncached = Usage { cache_read: 0, cache_write: 0, ..usage };
    assert_eq!(usage_headers(uncached, Duration::ZERO).len(), 3);
    assert_eq!(read_usage_headers(|name| find(name).filter(|_| !name.contains("cache"))), Some(uncached));
    assert_eq!(read_usage_headers(|name| find(name).filter(|_| !name.contains("output"))), None);
    assert_eq!(read_usage_headers(|_| Some("-1")), None);
}

#[test]
fn a_stream_of_anthropic_in_frames_is_read_for_its_usage_and_its_end() {
    let (events, stream) = watch([&transcoded(SSE)[..]]);
    let start = Usage { input: 25, cache_read: 4, cache_write: 3, output: 1, ..Usage::default() };
    let end = Usage { output: 15, ..start };
    let finish = Some(FinishReason::EndTurn);
    assert_eq!(
        events,
        [
            StreamEvent::Started(start),
            StreamEvent::Other,
            StreamEvent::Content,
            StreamEvent::Content,
            StreamEvent::Other,
            StreamEvent::Progress { usage: end, finish },
            StreamEvent::Finished,
        ]
    );
    assert_eq!((stream.usage(), stream.finish_reason()), (end, finish));
    let metrics =
        InvocationMetrics { input: 25, output: 15, invocation_latency: 900, first_byte_latency: 70 };
    assert_eq!(stream.metrics(), Some(metrics));
    assert!(stream.is_complete() && stream.is_between_frames());
}

#[test]
fn every_split_yields_the_same_events_and_every_cut_is_an_interruption() {
    let bytes = transcoded(SSE);
    let (whole, _) = watch([&bytes[..]]);
    for place in 0..bytes.len() {
        let (start, rest) = bytes.split_at(place);
        assert_eq!(watch([start, rest]).0, whole, "{place}");
        assert!(!watch([start]).1.is_complete(), "{place}");
    }
    assert_eq!(watch(bytes.chunks(1)).0, whole);
    // A complete stream followed by a truncated frame.
    let more = [&bytes[..], &[0, 0]].concat();
    assert!(!watch([&more[..]]).1.is_complete());
}

#[test]
fn events_come_out_of_their_frames_as_they_went_in() {
    let bytes = transcoded(SSE);
    let mut sse = Vec::new();
    let mut reader = InvokeReader::new(FrameLimits::default());
    reader
        .feed(&bytes, |event| match event {
            InvokeEvent::Message { name: "message_stop", .. } => {
                write_event(&mut sse, "message_stop", br#"{"type":"message_stop"}"#);
            }
            InvokeEvent::Message { name, json } => write_event(&mut sse, name, json),
            InvokeEvent::Failed { .. } => panic!("{event:?}"),
        })
        .unwrap();
    let without_ping: String =
        SSE.split_inclusive("\n\n").filter(|event| !event.starts_with("event: ping")).collect();
    assert_eq!(String::from_utf8(sse).unwrap(), without_ping);
}

#[test]
fn failures_of_the_service_and_of_the_model_are_read() {
    let bytes = transcoded(FAILED_SSE);
    assert!(bytes.ends_with(&exception("serviceUnavailableException", r#"{"message":"Overloaded"}"#)));
    let (events, stream) = watch([&bytes[..]]);
    let Some(StreamEvent::Failed { failure, message }) = events.last() else { panic!("{events:?}") };
    assert_eq!((failure.kind, message.as_str()), (FailureKind::Overloaded, "Overloaded"));
    assert!(!failure.not_executed && !stream.is_complete());

    let inner = chunk(r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}"#);
    let outer = exception("modelTimeoutException", r#"{"message":"late"}"#);
    let original =
        exception("modelStreamErrorException", r#"{"originalStatusCode":500,"originalMessage":"bad"}"#);
    for (bytes, kind, words) in [
        (inner, FailureKind::Throttled, "slow"),
        (outer, FailureKind::TimedOut, "late"),
        (original, FailureKind::ModelFault, "bad"),
    ] {
        let (events, _) = watch([&bytes[..]]);
        let [StreamEvent::Failed { failure, message }] = &events[..] else { panic!("{events:?}") };
        assert_eq!((failure.kind, message.as_str()), (kind, words));
    }
}

#[test]
fn counts_of_the_service_are_used_if_the_model_reported_none() {
    let stop = |metrics: &str| {
        chunk(&format!(
            r#"{{{metrics}"amazon-bedrock-invocationMetrics":{{"inputTokenCount":7,"outputTokenCount":9}}}}"#
        ))
    };
    let typed = stop(r#""type":"message_stop","#);
    let (events, stream) = watch([&typed[..]]);
    let usage = Usage { input: 7, output: 9, ..Usage::default() };
    assert_eq!(events, [StreamEvent::Progress { usage, finish: None }, StreamEvent::Finished]);
    assert_eq!(stream.usage(), usage);
    // The metrics arrive in an event of their own.
    let (events, stream) = watch([&stop("")[..]]);
    assert_eq!(events, [StreamEvent::Progress { usage, finish: None }, StreamEvent::Other]);
    assert!(!stream.is_complete());
    // Cached tokens are input too, and then the service's count means something else.
    let start = chunk(
        r#"{"type":"message_start","message":{"usage":{"input_tokens":0,"cache_read_input_tokens":4}}}"#,
    );
    let (events, stream) = watch([&start[..], &typed]);
    let usage = Usage { cache_read: 4, output: 9, ..Usage::default() };
    assert_eq!((events.len(), stream.usage()), (3, usage));
    let (_, stream) = watch([&chunk(r#"{"type":"message_stop","amazon-bedrock-invocationMetrics":7}"#)[..]]);
    assert!(stream.is_complete() && stream.metrics().is_none());
}

#[test]
fn a_chunk_is_read_the_same_however_its_json_is_written() {
    // {"type":"ping"}
    let told = "eyJ0eXBlIjoicGluZyJ9";
    let (head, tail) = told.split_at(3);
    for payload in [
        format!(r#"{{"bytes":"{told}"}}"#),
        format!(r#"{{"bytes":"{told}","p":""}}"#),
        format!(r#"{{"bytes":"{told}","p":"abcAZ09"}}"#),
        format!(r#"{{"bytes":"{told}","p":"a\"b"}}"#),
        format!(r#"{{"bytes":"{told}","p":"a","bits":"x"}}"#),
        format!(r#"{{"bytes":"{told}","q":[1]}}"#),
        format!(r#"{{"p":"abc","bytes":"{told}"}}"#),
        format!(r#" {{ "bytes" : "{told}" }} "#),
        format!(r#"{{"bytes":"\u0065{}"}}"#, &told[1..]),
    ] {
        let mut names = Vec::new();
        let mut reader = InvokeReader::new(FrameLimits::default());
        let outcome = reader.feed(&event("chunk", &payload), |event| match event {
            InvokeEvent::Message { name, json } => names.push((name.to_owned(), json.to_vec())),
            InvokeEvent::Failed { .. } => panic!("{event:?}"),
        });
        assert_eq!(outcome, Ok(()), "{payload}");
        assert_eq!(names, [("ping".to_owned(), br#"{"type":"ping"}"#.to_vec())], "{payload}");
    }
    for payload in [
        format!(r#"{{"bytes":"{told}""#),
        format!(r#"{{"bytes":"{told}"}}}}"#),
        format!(r#"{{"bytes":"{told}","p":"}}"#),
        format!(r#"{{"bytes":"{told}","p":"a"b"}}"#),
        format!(r#"{{"bytes":"{told}","bytes":"{told}"}}"#),
        format!(r#"{{"bytes":"{head}\"{tail}"}}"#),
    ] {
        let mut reader = InvokeReader::new(FrameLimits::default());
        assert!(reader.feed(&event("chunk", &payload), |_| panic!("read on")).is_err(), "{payload}");
    }
}

#[test]
fn a_chunk_that_cannot_be_read_is_an_error_and_final() {
    for (bytes, problem) in [
        (event("chunk", "{"), "invalid chunk event: EOF while parsing an object at line 1 column 1"),
        (event("chunk", r#"{"bytes":"%"}"#), "invalid chunk event: invalid base64: "),
        (chunk("{"), "invalid chunk event: EOF while parsing an object at line 1 column 1"),
        (
            chunk(r#"{"type":"message_start"}"#),
            "invalid chunk event: invalid message_start event: missing field",
        ),
    ] {
        let mut stream = InvokeStream::new(FrameLimits::default());
        let error = stream.feed(&bytes, |_| panic!("read on")).unwrap_err();
        assert!(error.to_string().starts_with(problem), "{error}");
        assert!(matches!(error, BedrockStreamError::Unreadable { event: "chunk", .. }));
        assert_eq!(stream.feed(&chunk("{}"), |_| panic!("read on")), Err(error));
    }
    // Unknown frames are not an error.
    let (events, _) = watch([&event("initial-response", "")[..]]);
    assert!(events.is_empty());
}

proptest! {
    #[test]
    fn arbitrary_chunks_never_panic(json in ".{0,60}", bytes in vec(any::<u8>(), 0..60), places in vec(any::<usize>(), 0..5)) {
        let stream = [chunk(&json), bytes].concat();
        let mut reader = InvokeStream::new(FrameLimits::default());
        for piece in cut(&stream, &places) {
            let _ = reader.feed(piece, |_| ());
        }
        assert!(!reader.is_complete());
    }

    #[test]
    fn any_body_that_is_taken_can_be_moved_and_read(name in "[a-z\"\\\\]{1,8}", value in "[a-z\"\\\\\n]{0,8}") {
        let value = serde_json::Value::from(value);
        let body = serde_json::json!({ name.clone(): value, "stream": true }).to_string();
        let moved = messages_to_invoke(body.as_bytes(), &LIMITS, &[]).unwrap();
        let moved: serde_json::Value = serde_json::from_str(&moved).unwrap();
        assert_eq!(moved[&name], value);
        assert!(moved.get("stream").is_none());
    }
}
