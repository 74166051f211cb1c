use crate::chat::{AnswerPart, ChatAnswer, FinishReason, JsonText, ToolCall, Usage};
use crate::gemini::{read_answer, read_chat_answer, write_chat_answer};
use bytes::BytesMut;
use proptest::prelude::{any, prop_assert_eq, proptest};
use seawall_core::money::{PriceDimension, Surcharge};
use serde_json::{Value, json};

fn usage_of(usage: &Value) -> (Usage, bool) {
    let body = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage}).to_string();
    let (report, _) = read_answer(body.as_bytes()).unwrap();
    (report.usage, report.output_reported)
}

#[test]
fn nothing_is_billed_twice_and_nothing_is_missed() {
    let usage = |input, cache_read, output| Usage { input, cache_read, output, ..Usage::default() };
    for (counts, expected, is_reported) in [
        // A live answer with search: the four parts are disjoint.
        (
            json!({"promptTokenCount": 151, "candidatesTokenCount": 1089, "totalTokenCount": 20689,
                "toolUsePromptTokenCount": 18329, "thoughtsTokenCount": 1120}),
            usage(151 + 18329, 0, 1089 + 1120),
            true,
        ),
        // The prompt includes cached tokens.
        (
            json!({"promptTokenCount": 100, "cachedContentTokenCount": 80, "candidatesTokenCount": 5, "totalTokenCount": 105}),
            usage(20, 80, 5),
            true,
        ),
        // Thoughts that the answers already include, as the total shows.
        (
            json!({"promptTokenCount": 10, "candidatesTokenCount": 30, "thoughtsTokenCount": 20, "totalTokenCount": 40}),
            usage(10, 0, 30),
            true,
        ),
        // Thoughts that only the total includes.
        (
            json!({"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 45}),
            usage(10, 0, 35),
            true,
        ),
        (json!({"promptTokenCount": 10, "totalTokenCount": 10}), usage(10, 0, 0), true),
        (json!({"promptTokenCount": 10}), usage(10, 0, 0), false),
        (json!({}), Usage::default(), false),
        (
            json!({"promptTokenCount": -1, "candidatesTokenCount": 5, "totalTokenCount": 9}),
            usage(0, 0, 5),
            true,
        ),
        (json!({"promptTokenCount": 3, "candidatesTokenCount": "x"}), usage(3, 0, 0), false),
        (
            json!({"promptTokenCount": 3, "candidatesTokenCount": "x", "totalTokenCount": 9}),
            usage(3, 0, 6),
            true,
        ),
    ] {
        assert_eq!(usage_of(&counts), (expected, is_reported), "{counts}");
    }
    let (flex, _) = usage_of(&json!({"promptTokenCount": 1, "serviceTier": "flex"}));
    assert_eq!(
        flex.extras.service,
        Usage::NONE.extras.service.with(PriceDimension::Tier, Some(Surcharge::Flex))
    );
}

#[test]
fn searches_are_counted() {
    let body = json!({
        "candidates": [{"finishReason": "STOP", "groundingMetadata": {"webSearchQueries": ["a", "b"]}}],
        "usageMetadata": {"promptTokenCount": 1},
    });
    assert_eq!(read_answer(body.to_string().as_bytes()).unwrap().0.usage.extras.tool_uses, 2);
}

#[test]
fn finish_reasons_keep_their_meaning() {
    let call = json!([{"functionCall": {"name": "f"}}]);
    for (reason, parts, expected) in [
        ("STOP", json!([{"text": "a"}]), FinishReason::EndTurn),
        ("STOP", call.clone(), FinishReason::ToolUse),
        ("MAX_TOKENS", call, FinishReason::MaxTokens),
        ("SAFETY", json!([]), FinishReason::Refusal),
        ("RECITATION", Value::Null, FinishReason::Refusal),
        ("PROHIBITED_CONTENT", json!([]), FinishReason::Refusal),
        ("BRAND_NEW", json!([]), FinishReason::Other),
    ] {
        let body = json!({"candidates": [{"content": {"parts": parts}, "finishReason": reason}]}).to_string();
        assert_eq!(read_answer(body.as_bytes()).unwrap().1, expected, "{body}");
        assert_eq!(read_chat_answer(body.as_bytes(), "i", "m").unwrap().finish, expected, "{body}");
    }
}

#[test]
fn an_answer_is_read_with_what_has_a_neutral_form() {
    let body = json!({
        "candidates": [{"content": {"role": "model", "parts": [
            {"text": "hm", "thought": true},
            {"text": "東京は晴れ"},
            {"text": "", "thoughtSignature": "AA=="},
            {"inlineData": {"mimeType": "image/png", "data": "AA"}},
            {"functionCall": {"name": "f", "args": {"a": 1}}},
            {"functionCall": {"id": "x", "name": "g"}},
        ]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
        "modelVersion": "gemini-3.8-flash",
    });
    let call = |id: &str, name: &str, input: &str| {
        let input = JsonText::new(input.to_owned()).unwrap();
        AnswerPart::ToolCall(ToolCall { id: id.to_owned(), name: name.to_owned(), input })
    };
    let expected = ChatAnswer {
        id: "req/1".to_owned(),
        model: "gemini-3.8-flash".to_owned(),
        parts: vec![
            AnswerPart::Text("東京は晴れ".to_owned()),
            call("call_req1_0", "f", r#"{"a":1}"#),
            call("x", "g", "{}"),
        ],
        finish: FinishReason::ToolUse,
        usage: Usage { input: 3, output: 4, ..Usage::default() },
    };
    assert_eq!(read_chat_answer(body.to_string().as_bytes(), "req/1", "m").unwrap(), expected);
}

#[test]
fn a_blocked_prompt_is_an_empty_refusal() {
    let body = br#"{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":8,"totalTokenCount":8}}"#;
    let answer = read_chat_answer(body, "i", "m").unwrap();
    assert_eq!((answer.finish, answer.parts.len(), answer.usage.input), (FinishReason::Refusal, 0, 8));
    assert_eq!(read_answer(body).unwrap().1, FinishReason::Refusal);
}

#[test]
fn what_is_no_answer_is_an_error() {
    for body in [
        "",
        "[]",
        "{}",
        "7",
        r#"{"candidates":[]}"#,
        r#"{"error":{"code":500}}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":[]}}]}}]}"#,
        r#"{"candidates":[{"content":{"parts":[{"functionCall":{"args":{}}}]}}]}"#,
        r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#,
    ] {
        assert!(read_chat_answer(body.as_bytes(), "i", "m").is_err(), "{body}");
    }
}

proptest! {
    #[test]
    fn a_written_answer_is_read_back(texts in any::<Vec<String>>(), has_call: bool, counts in any::<[u32; 3]>()) {
        let mut parts: Vec<_> = texts.into_iter().filter(|text| !text.is_empty()).map(AnswerPart::Text).collect();
        if has_call {
            let input = JsonText::new("{\"city\" :\n\"東京\"}".to_owned()).unwrap();
            parts.push(AnswerPart::ToolCall(ToolCall { id: "c".into(), name: "f".into(), input }));
        }
        let [input, cache_read, output] = counts.map(u64::from);
        let finish = if has_call { FinishReason::ToolUse } else { FinishReason::EndTurn };
        let usage = Usage { input, cache_read, output, ..Usage::default() };
        let answer = ChatAnswer { id: "i".into(), model: "m".into(), parts, finish, usage };
        let mut out = BytesMut::new();
        write_chat_answer(&mut out, &answer);
        prop_assert_eq!(read_chat_answer(&out, "", "").unwrap(), answer);
        let (report, told) = read_answer(&out).unwrap();
        prop_assert_eq!((report.usage, told), (usage, finish));
    }

    #[test]
    fn any_body_is_answered(bytes: Vec<u8>, text in any::<String>()) {
        for body in [&bytes[..], text.as_bytes(), format!(r#"{{"candidates":[{{{text}}}]}}"#).as_bytes()] {
            let _ = (read_answer(body), read_chat_answer(body, "", ""));
        }
    }
}
