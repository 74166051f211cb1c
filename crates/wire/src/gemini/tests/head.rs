use crate::gemini::{GeminiHead, read_request, with_limit};
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::{Value, json};

fn read(body: &str) -> Result<GeminiHead, RequestError> {
    read_request(body.as_bytes(), &RequestLimits::default())
}

fn with(fields: &str) -> String {
    format!(r#"{{{fields}"contents":[{{"role":"user","parts":[{{"text":"hi"}}]}}]}}"#)
}

#[test]
fn the_head_is_what_decisions_need() {
    for (fields, max_output, choices, enables_thinking) in [
        ("", None, 1, true),
        (r#""generationConfig":null,"#, None, 1, true),
        (r#""generationConfig":{},"#, None, 1, true),
        (r#""generationConfig":{"maxOutputTokens":5,"candidateCount":2},"#, Some(5), 2, true),
        (r#""generation_config":{"max_output_tokens":5,"candidate_count":8},"#, Some(5), 8, true),
        (r#""generationConfig":{"thinkingConfig":{"thinkingBudget":0}},"#, None, 1, false),
        (r#""generationConfig":{"thinking_config":{"thinking_budget":0}},"#, None, 1, false),
        (r#""generationConfig":{"thinkingConfig":{"thinkingBudget":-1}},"#, None, 1, true),
        (r#""generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}},"#, None, 1, true),
        (r#""generationConfig":{"thinkingConfig":{}},"#, None, 1, true),
    ] {
        let head = read(&with(fields)).unwrap();
        let expected = (max_output, choices, 1, enables_thinking);
        assert_eq!((head.max_output, head.choices, head.turns, head.enables_thinking), expected, "{fields}");
    }
    // The role is optional, and the vendor decides which exist.
    assert_eq!(read(r#"{"contents":[{},{"role":"model"},{"role":"new"}]}"#).unwrap().turns, 3);
}

#[test]
fn an_invalid_request_is_refused_with_the_path_of_the_error() {
    let many = (0..65).map(|at| format!(r#""f{at}":1,"#)).collect::<String>();
    for (body, problem) in [
        ("{}".to_owned(), "contents: Field required"),
        (r#"{"contents":[]}"#.to_owned(), "contents: at least one content is required"),
        (r#"{"contents":{}}"#.to_owned(), "contents: Input should be a valid list"),
        (r#"{"contents":[7]}"#.to_owned(), "contents.0: Input should be an object"),
        (r#"{"contents":[{"role":7}]}"#.to_owned(), "contents.0.role: Input should be a valid string"),
        (with(r#""model":"m","#), "model: Extra inputs are not permitted: the path names the model"),
        (with(r#""generationConfig":{},"generationConfig":{},"#), "generationConfig: Duplicate field"),
        (with(r#""generationConfig":{},"generation_config":{},"#), "generationConfig: Duplicate field"),
        (with(r#""generationConfig":{},"generation_config":null,"#), "generationConfig: Duplicate field"),
        (
            with(r#""generation_config":{"maxOutputTokens":1,"max_output_tokens":2},"#),
            "generation_config.maxOutputTokens: Duplicate field",
        ),
        (
            with(r#""generationConfig":{"maxOutputTokens":1,"max\u005foutput_tokens":2},"#),
            "generationConfig.maxOutputTokens: Duplicate field",
        ),
        (with(r#""generationConfig":[],"#), "generationConfig: Input should be an object"),
        (
            with(r#""generationConfig":{"maxOutputTokens":"9"},"#),
            "generationConfig.maxOutputTokens: Input should be an integer between 1 and 2147483648",
        ),
        (
            with(r#""generationConfig":{"max_output_tokens":0},"#),
            "generationConfig.max_output_tokens: Input should be an integer between 1 and 2147483648",
        ),
        (
            with(r#""generationConfig":{"candidateCount":9},"#),
            "generationConfig.candidateCount: Input should be an integer between 1 and 8",
        ),
        (
            with(r#""generationConfig":{"thinkingConfig":{"thinkingBudget":0,"thinking_budget":9}},"#),
            "generationConfig.thinkingConfig.thinkingBudget: Duplicate field",
        ),
        (with(&many), "The request body has too many fields: the limit is 64"),
        ("[]".to_owned(), "The request body must be a JSON object"),
    ] {
        assert_eq!(read(&body).unwrap_err().to_string(), problem, "{body}");
    }
}

#[test]
fn a_limit_is_spliced_in_and_every_other_byte_stays() {
    for (body, expected) in [
        (
            r#" {"contents":[{"parts":[]}]} "#,
            r#" {"generationConfig":{"maxOutputTokens":9},"contents":[{"parts":[]}]} "#,
        ),
        (
            r#"{"contents":[{"parts":[]}],"generationConfig":{}}"#,
            r#"{"contents":[{"parts":[]}],"generationConfig":{"maxOutputTokens":9}}"#,
        ),
        (
            r#"{"generationConfig" : { "topK" : 1e0 },"contents":[{"parts":[{"text":"\u6f2b画 é"}]}]}"#,
            r#"{"generationConfig" : {"maxOutputTokens":9, "topK" : 1e0 },"contents":[{"parts":[{"text":"\u6f2b画 é"}]}]}"#,
        ),
        (
            r#"{"generation_config":{"top_k":1},"contents":[{"parts":[]}]}"#,
            r#"{"generation_config":{"maxOutputTokens":9,"top_k":1},"contents":[{"parts":[]}]}"#,
        ),
        (
            r#"{"generationConfig":{"max_output_tokens": null },"contents":[{"parts":[]}]}"#,
            r#"{"generationConfig":{"max_output_tokens": 9 },"contents":[{"parts":[]}]}"#,
        ),
        (
            r#"{"contents":[{"parts":[]}],"generation_config": null}"#,
            r#"{"contents":[{"parts":[]}],"generation_config": {"maxOutputTokens":9}}"#,
        ),
    ] {
        let head = read(body).unwrap();
        let limited = with_limit(&Bytes::from_static(body.as_bytes()), &head, Some(9));
        assert_eq!(limited, expected);
        assert_eq!(read(expected).unwrap().max_output, Some(9));
    }
}

#[test]
fn a_limit_of_the_caller_stays_and_nothing_is_copied() {
    let body = Bytes::from(with(r#""generationConfig":{"maxOutputTokens":5},"#));
    let head = read_request(&body, &RequestLimits::default()).unwrap();
    assert_eq!(with_limit(&body, &head, Some(9)).as_ptr(), body.as_ptr());
    let body = Bytes::from(with(""));
    let head = read_request(&body, &RequestLimits::default()).unwrap();
    assert_eq!(with_limit(&body, &head, None).as_ptr(), body.as_ptr());
}

proptest! {
    #[test]
    fn a_limited_body_differs_only_in_its_limit(text in any::<String>(), limit in 1_u32..=1 << 31, has_config: bool) {
        let mut body = json!({"contents": [{"parts": [{"text": text}]}], "safetySettings": [text]});
        if has_config {
            body["generationConfig"] = json!({"stopSequences": [text]});
        }
        let bytes = Bytes::from(body.to_string());
        let head = read_request(&bytes, &RequestLimits::default()).unwrap();
        let limited: Value = serde_json::from_slice(&with_limit(&bytes, &head, Some(limit))).unwrap();
        body["generationConfig"]["maxOutputTokens"] = json!(limit);
        prop_assert_eq!(limited, body);
    }

    #[test]
    fn any_body_is_answered(bytes: Vec<u8>, text in any::<String>()) {
        let limits = RequestLimits::default();
        let _ = read_request(&bytes, &limits);
        let _ = read_request(format!(r#"{{"contents":[{{}}],"generationConfig":{{{text}}}}}"#).as_bytes(), &limits);
    }
}
