//! The same outcomes in the other dialects.

use crate::validator::{ClientDialect, ClientOutcome, ResponseValidator, TransportEnd};

fn judged(
    dialect: ClientDialect,
    is_streamed: bool,
    status: u16,
    pieces: &[&[u8]],
    ending: TransportEnd,
) -> ClientOutcome {
    let mut judge = ResponseValidator::new(dialect, is_streamed);
    judge.head(status, true);
    // Byte by byte, so that every split is covered.
    for byte in pieces.concat() {
        judge.body(&[byte]);
    }
    judge.outcome(ending)
}

fn streamed(dialect: ClientDialect, pieces: &[Vec<u8>]) -> ClientOutcome {
    let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
    judged(dialect, true, 200, &pieces, TransportEnd::Clean)
}

fn chunk(rest: &str) -> Vec<u8> {
    format!("data: {{\"object\":\"chat.completion.chunk\",{rest}}}\n\n").into_bytes()
}

/// A stream of each dialect: beginning, text, stop reason, end; and the event for an error.
fn completions() -> ([Vec<u8>; 5], Vec<u8>) {
    let parts = [
        chunk(r#""choices":[{"index":0,"delta":{"role":"assistant"}}]"#),
        chunk(r#""choices":[{"index":0,"delta":{"content":"漫画"}}]"#),
        chunk(r#""choices":[{"index":0,"delta":{},"finish_reason":"stop"}]"#),
        chunk(r#""choices":[],"usage":{"completion_tokens":2}"#),
        b"data: [DONE]\n\n".to_vec(),
    ];
    (
        parts,
        br#"data: {"error":{"type":"server_error","message":"m"}}"#.iter().chain(b"\n\n").copied().collect(),
    )
}

fn chat() -> ([Vec<u8>; 3], Vec<u8>) {
    let event = |name: &str, data: &str| format!("event: {name}\ndata: {data}\n\n").into_bytes();
    let parts = [
        event("text", r#"{"text":"漫"}"#),
        event("text", r#"{"text":"画"}"#),
        event("done", r#"{"rung":"strong_model","finish":"finished","usage":{"input":1,"output":2}}"#),
    ];
    (parts, event("interrupted", r#"{"reason":"stream_interrupted","message":"m","delivered":2}"#))
}

fn frame(kind: &str, name: &str, payload: &str) -> Vec<u8> {
    let mut headers = Vec::new();
    for (key, value) in [(kind, name), (":content-type", "application/json")] {
        headers.push(u8::try_from(key.len()).unwrap());
        headers.extend_from_slice(key.as_bytes());
        headers.push(7);
        headers.extend_from_slice(&u16::try_from(value.len()).unwrap().to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let length = |bytes: usize| u32::try_from(bytes).unwrap().to_be_bytes();
    let mut frame = [length(headers.len() + payload.len() + 16), length(headers.len())].concat();
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&headers);
    frame.extend_from_slice(payload.as_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame
}

fn converse() -> ([Vec<u8>; 5], Vec<u8>) {
    let event = |name: &str, payload: &str| frame(":event-type", name, payload);
    let parts = [
        event("messageStart", r#"{"role":"assistant"}"#),
        event("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"漫画"}}"#),
        event("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        event("messageStop", r#"{"stopReason":"end_turn"}"#),
        event("metadata", r#"{"usage":{"outputTokens":2}}"#),
    ];
    (parts, frame(":exception-type", "internalServerException", r#"{"message":"m"}"#))
}

#[test]
fn a_whole_stream_is_an_answer_and_one_without_any_of_its_parts_is_not() {
    let (completions, _) = completions();
    let (converse, _) = converse();
    let (chat, _) = chat();
    for (dialect, parts, may_miss) in [
        (ClientDialect::Completions, completions.to_vec(), &[0][..]),
        (ClientDialect::Converse, converse.to_vec(), &[2]),
        (ClientDialect::Chat, chat.to_vec(), &[]),
    ] {
        assert_eq!(streamed(dialect, &parts), ClientOutcome::Answered, "{dialect:?}");
        for missing in (0..parts.len()).filter(|place| !may_miss.contains(place)) {
            let mut parts = parts.clone();
            parts.remove(missing);
            assert_eq!(
                streamed(dialect, &parts),
                ClientOutcome::FalselyComplete,
                "{dialect:?} without {missing}"
            );
        }
        let mut doubled = parts.clone();
        doubled.insert(1, parts[1].clone());
        assert_eq!(streamed(dialect, &doubled), ClientOutcome::FalselyComplete, "{dialect:?}: text twice");
    }
}

#[test]
fn a_stream_with_an_error_is_interrupted_and_one_without_is_cut() {
    let (completions, broken) = completions();
    let mut streams = vec![(ClientDialect::Completions, completions[..2].to_vec(), broken)];
    let (converse, broken) = converse();
    streams.push((ClientDialect::Converse, converse[..2].to_vec(), broken));
    let (chat, broken) = chat();
    streams.push((ClientDialect::Chat, chat[..2].to_vec(), broken));
    for (dialect, mut parts, broken) in streams {
        let pieces: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        assert_eq!(
            judged(dialect, true, 200, &pieces, TransportEnd::Broken),
            ClientOutcome::Cut,
            "{dialect:?}"
        );
        assert_eq!(
            judged(dialect, true, 200, &pieces, TransportEnd::TimedOut),
            ClientOutcome::Hung,
            "{dialect:?}"
        );
        parts.push(broken[..broken.len() - 1].to_vec());
        assert_eq!(streamed(dialect, &parts), ClientOutcome::FalselyComplete, "{dialect:?}: half a word");
        *parts.last_mut().unwrap() = broken;
        assert_eq!(streamed(dialect, &parts), ClientOutcome::Interrupted, "{dialect:?}");
    }
}

#[test]
fn a_frame_that_differs_in_any_byte_is_none() {
    let (parts, _) = converse();
    let whole = parts.concat();
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        assert_eq!(
            streamed(ClientDialect::Converse, &[bytes]),
            ClientOutcome::FalselyComplete,
            "byte {place}"
        );
    }
}

#[test]
fn answers_in_one_piece_are_as_long_as_they_say() {
    for (dialect, whole) in [
        (
            ClientDialect::Completions,
            r#"{"object":"chat.completion","choices":[{"message":{"content":"漫画"},"finish_reason":"stop"}],"usage":{"completion_tokens":2}}"#,
        ),
        (
            ClientDialect::Converse,
            r#"{"output":{"message":{"content":[{"text":"漫"},{"text":"画"}]}},"stopReason":"end_turn","usage":{"outputTokens":2}}"#,
        ),
        (
            ClientDialect::Chat,
            r#"{"answer":"漫画","rung":"fast_model","finish":"finished","usage":{"input":1,"output":2}}"#,
        ),
    ] {
        let outcome = |text: &str| judged(dialect, false, 200, &[text.as_bytes()], TransportEnd::Clean);
        assert_eq!(outcome(whole), ClientOutcome::Answered, "{dialect:?}");
        for (from, to) in
            [("2}", "3}"), ("画", ""), ("\"stop\"", "null"), ("end_turn\"", "\"x"), ("finished\"", "\"x")]
        {
            if whole.contains(from) {
                assert_eq!(
                    outcome(&whole.replace(from, to)),
                    ClientOutcome::FalselyComplete,
                    "{dialect:?} {from}"
                );
            }
        }
        assert_eq!(outcome("{}"), ClientOutcome::FalselyComplete, "{dialect:?}");
        assert_eq!(judged(dialect, false, 200, &[], TransportEnd::Broken), ClientOutcome::Lost);
    }
}

#[test]
fn canned_answers_need_text_and_no_token_count() {
    let reply = |rung: &str, finish: &str, text: &str| {
        let body =
            format!(r#"{{"answer":"{text}","rung":"{rung}","finish":"{finish}","usage":{{"output":0}}}}"#);
        judged(ClientDialect::Chat, false, 200, &[body.as_bytes()], TransportEnd::Clean)
    };
    assert_eq!(reply("apology", "finished", "sorry"), ClientOutcome::Answered);
    assert_eq!(reply("strong_model", "blocked", "no"), ClientOutcome::Answered);
    assert_eq!(reply("apology", "finished", ""), ClientOutcome::FalselyComplete);
    assert_eq!(reply("strong_model", "finished", "sorry"), ClientOutcome::FalselyComplete);
}

#[test]
fn rejections_are_in_the_format_of_the_dialect() {
    let words = [
        (ClientDialect::Messages, r#"{"type":"error","error":{"type":"t","message":"m"}}"#),
        (ClientDialect::Completions, r#"{"error":{"type":"t","message":"m"}}"#),
        (ClientDialect::Converse, r#"{"message":"m"}"#),
        (ClientDialect::Chat, r#"{"code":"C","message":"m","request_id":"r"}"#),
    ];
    for (dialect, own) in words {
        let outcome = |text: &str| judged(dialect, true, 503, &[text.as_bytes()], TransportEnd::Clean);
        assert_eq!(
            outcome(own),
            ClientOutcome::Rejected { status: 503, has_retry_advice: true },
            "{dialect:?}"
        );
        assert_eq!(outcome("{}"), ClientOutcome::Lost, "{dialect:?}");
        assert_eq!(outcome(&own.replace("\"m\"", "1")), ClientOutcome::Lost, "{dialect:?}");
    }
}
