use super::chat_stream::finish_read;
use super::strategies::{answer, json};
use crate::AnswerError;
use crate::chat::{AnswerPart, ChatAnswer, FinishReason, ToolCall, Usage, UsageReport};
use crate::responses::{read_answer, read_chat_answer, write_chat_answer};
use bytes::BytesMut;
use proptest::prelude::{prop_assert_eq, proptest};
use seawall_core::money::PriceDimension;

const WHOLE: &str = r#"{"id":"resp_1","object":"response","created_at":1741476777,"status":"completed","error":null,
    "incomplete_details":null,"instructions":null,"model":"gpt-5","service_tier":"default","output":[
    {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"},
    {"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search","query":"q"}},
    {"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[
        {"type":"output_text","text":"こんにちは","annotations":[{"type":"url_citation","url":"https://x"}]},
        {"type":"output_text","text":"","annotations":[]}]},
    {"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":"{\"a\": 1}","status":"completed"}],
    "usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":6,"cache_write_tokens":10,
        "cache_write_tokens_details":{"ttl_30m_tokens":3,"ttl_12h_tokens":7}},
        "output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":123},
    "tool_usage":{"web_search":{"num_requests":1}}}"#;

#[test]
fn a_whole_answer_is_read() {
    let mut usage = Usage { input: 20, cache_read: 6, cache_write: 10, output: 87, ..Usage::default() };
    (usage.extras.cache_write_1h, usage.extras.tool_uses) = (Some(7), 1);
    usage.extras.service = usage.extras.service.with(PriceDimension::Tier, None);
    let report = UsageReport { usage, output_reported: true };
    let (read, finish) = read_answer(WHOLE.as_bytes()).unwrap();
    assert_eq!((read, finish), (report, FinishReason::ToolUse));
    let call = ToolCall { id: "call_1".into(), name: "f".into(), input: json(r#"{"a": 1}"#) };
    let expected = ChatAnswer {
        id: "resp_1".into(),
        model: "gpt-5".into(),
        parts: vec![AnswerPart::Text("こんにちは".into()), AnswerPart::ToolCall(call)],
        finish,
        usage,
    };
    assert_eq!(read_chat_answer(WHOLE.as_bytes()), Ok(expected));
}

#[test]
fn the_usage_section_may_be_odd() {
    let usage = |input, cache_read, output| Usage { input, cache_read, output, ..Usage::default() };
    for (section, expected, output_reported) in [
        ("null", usage(0, 0, 0), false),
        ("7", usage(0, 0, 0), false),
        (r#"{"input_tokens":5,"output_tokens":2}"#, usage(5, 0, 2), true),
        (r#"{"input_tokens":5,"output_tokens":2,"total_tokens":17}"#, usage(5, 0, 12), true),
        (r#"{"input_tokens":5,"total_tokens":17}"#, usage(5, 0, 12), true),
        (r#"{"input_tokens":5,"output_tokens":-1}"#, usage(5, 0, 0), false),
        (r#"{"input_tokens":"5","output_tokens":2,"total_tokens":17}"#, usage(0, 0, 2), true),
        (
            r#"{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":3}}"#,
            usage(2, 3, 2),
            true,
        ),
        (
            r#"{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":-3}}"#,
            usage(0, 0, 2),
            true,
        ),
        (r#"{"input_tokens":5,"output_tokens":2,"input_tokens_details":[]}"#, usage(5, 0, 2), true),
        (r#"{"input_tokens":5,"input_tokens":6,"output_tokens":2}"#, usage(0, 0, 0), false),
    ] {
        let body = format!(r#"{{"object":"response","status":"completed","output":[],"usage":{section}}}"#);
        let report = UsageReport { usage: expected, output_reported };
        assert_eq!(read_answer(body.as_bytes()), Ok((report, FinishReason::EndTurn)), "{section}");
    }
}

#[test]
fn what_is_not_a_successful_response_is_an_error() {
    let unreadable = |problem: &str| AnswerError::Unreadable { problem: problem.to_owned() };
    let failed = r#"{"object":"response","status":"failed","error":{"code":"server_error","message":"oops"},"output":[]}"#;
    for (body, expected) in [
        (failed, unreadable("the response has failed: oops")),
        (
            r#"{"object":"chat.completion","choices":[]}"#,
            AnswerError::NotAMessage { kind: "chat.completion".into() },
        ),
        (r#"{"error":{"message":"x"}}"#, unreadable("there is no output")),
    ] {
        assert_eq!(read_answer(body.as_bytes()), Err(expected.clone()), "{body}");
        assert_eq!(read_chat_answer(body.as_bytes()), Err(expected), "{body}");
    }
    for item in [
        r#"{"type":"custom_tool_call","call_id":"c","name":"n","input":"x"}"#,
        r#"{"type":"function_call","name":"n","arguments":"{}"}"#,
        r#"{"type":"function_call","call_id":"c","name":"n","arguments":"[]"}"#,
        r#"{"type":"message","content":7}"#,
        "7",
    ] {
        let body = format!(r#"{{"object":"response","status":"completed","output":[{item}]}}"#);
        assert!(matches!(read_chat_answer(body.as_bytes()), Err(AnswerError::Unreadable { .. })), "{item}");
    }
    // A background request is answered before its response exists.
    let (report, finish) = read_answer(br#"{"object":"response","status":"queued","output":[]}"#).unwrap();
    assert_eq!((report.output_reported, finish), (false, FinishReason::Other));
}

#[test]
fn an_answer_has_the_fields_that_clients_require() {
    let usage = Usage { input: 25, cache_read: 4, cache_write: 3, output: 15, ..Usage::NONE };
    let parts = vec![AnswerPart::Text("京都".into())];
    let answer =
        ChatAnswer { id: "msg_01-A".into(), model: "m".into(), parts, finish: FinishReason::Refusal, usage };
    let mut out = BytesMut::new();
    write_chat_answer(&mut out, &answer, 9);
    let expected = concat!(
        r#"{"id":"msg_01-A","object":"response","created_at":9,"status":"incomplete","error":null,"#,
        r#""incomplete_details":{"reason":"content_filter"},"instructions":null,"metadata":{},"model":"m","output":["#,
        r#"{"type":"message","id":"msg_msg01A_0","status":"incomplete","role":"assistant","content":["#,
        r#"{"type":"output_text","text":"京都","annotations":[],"logprobs":[]}]}],"parallel_tool_calls":true,"#,
        r#""previous_response_id":null,"store":false,"temperature":null,"text":{"format":{"type":"text"}},"#,
        r#""tool_choice":"auto","tools":[],"top_p":null,"truncation":"disabled","usage":{"input_tokens":32,"#,
        r#""input_tokens_details":{"cached_tokens":4,"cache_write_tokens":3},"output_tokens":15,"#,
        r#""output_tokens_details":{"reasoning_tokens":0},"total_tokens":47}}"#
    );
    assert_eq!(out, expected);
}

proptest! {
    #[test]
    fn an_answer_survives_the_round_trip(answer in answer()) {
        let mut out = BytesMut::new();
        write_chat_answer(&mut out, &answer, 1_700_000_000);
        let read = read_chat_answer(&out).unwrap();
        let report = UsageReport { usage: read.usage, output_reported: true };
        prop_assert_eq!(read_answer(&out), Ok((report, read.finish)));
        let has_call = answer.parts.iter().any(|part| matches!(part, AnswerPart::ToolCall(_)));
        prop_assert_eq!(&read, &ChatAnswer { finish: finish_read(answer.finish, has_call), ..answer });
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes: Vec<u8>, at: usize, byte: u8) {
        let mut damaged = WHOLE.as_bytes().to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        for body in [&bytes, &damaged] {
            let _ = read_answer(body);
            let _ = read_chat_answer(body);
        }
    }
}
