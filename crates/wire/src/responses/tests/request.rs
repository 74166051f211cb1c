use crate::responses::{ResponsesHead, for_upstream_with_limit, read_request, with_model};
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::{Value, json};

fn read(body: &str) -> Result<ResponsesHead, RequestError> {
    read_request(body.as_bytes(), &RequestLimits::default())
}

fn with(fields: &str) -> String {
    format!(r#"{{"model":"m",{fields}"input":"hi"}}"#)
}

/// What Codex sends, shortened.
const CODEX: &str = r#"{ "model":"gpt-5", "stream" : true,
 "input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"日本語で答えて"}]},
  {"type":"reasoning","summary":[],"encrypted_content":"gAAAA\u002b/=="},
  {"type":"function_call","call_id":"c","name":"shell","arguments":"{\"a\": 1}"},
  {"type":"function_call_output","call_id":"c","output":"ok\u0000"}],
 "tools":[{"type":"web_search"}],"tool_choice":"auto","parallel_tool_calls":true,"reasoning":{"summary":"auto"},
 "store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","unknown":{"model":"x"}}"#;

#[test]
fn the_head_is_what_decisions_need() {
    let head = read(&with("")).unwrap();
    assert_eq!((head.model.as_str(), head.max_output, head.turns, head.model_span), ("m", None, 1, 9..12));
    assert_eq!(
        (head.store, head.stream, head.background, head.uses_stored_content),
        (None, false, false, false)
    );
    assert!(!head.enables_thinking);
    let head = read(CODEX).unwrap();
    assert_eq!((head.turns, head.stream, head.store), (4, true, Some(false)));
    assert!(head.enables_thinking && !head.uses_stored_content);
    let head =
        read(&with(r#""max_output_tokens":7,"store":true,"background":true,"reasoning":{"effort":"none"},"#));
    let head = head.unwrap();
    assert_eq!((head.max_output, head.store, head.background), (Some(7), Some(true), true));
    assert!(!head.enables_thinking);
}

#[test]
fn content_stored_at_the_vendor_is_noticed() {
    for fields in [
        r#""previous_response_id":"resp_1","#,
        r#""conversation":"conv_1","#,
        r#""conversation":{"id":"conv_1"},"#,
        r#""prompt":{"id":"pmpt_1"},"#,
    ] {
        assert!(read(&with(fields)).unwrap().uses_stored_content, "{fields}");
        let head = read(&format!(r#"{{{fields}"model":"m"}}"#)).unwrap();
        assert_eq!((head.turns, head.uses_stored_content), (0, true), "{fields}");
    }
    for (item, is_stored) in [
        (r#"{"type":"item_reference","id":"msg_1"}"#, true),
        (r#"{"id":"msg_1"}"#, true),
        (r#"{"type":null,"id":"msg_1"}"#, true),
        (r#"{"role":"user","id":"msg_1","content":"hi"}"#, false),
        (r#"{"type":"brand_new","id":"x"}"#, false),
    ] {
        let head =
            read(&format!(r#"{{"model":"m","input":[{{"role":"user","content":"a"}},{item}]}}"#)).unwrap();
        assert_eq!((head.turns, head.uses_stored_content), (2, is_stored), "{item}");
    }
    assert!(!read(&with(r#""previous_response_id":null,"conversation":null,"#)).unwrap().uses_stored_content);
}

#[test]
fn an_invalid_request_is_refused_with_the_path_of_the_error() {
    let many =
        format!("{{{}\"model\":\"m\"}}", (0..64).map(|at| format!("\"f{at}\":1,")).collect::<String>());
    for (body, problem) in [
        (with(r#""stream":"yes","#), "stream: Input should be a valid boolean"),
        (with(r#""store":1,"#), "store: Input should be a valid boolean"),
        (with(r#""background":"no","#), "background: Input should be a valid boolean"),
        (with(r#""stream":true,"stream":false,"#), "stream: Duplicate field"),
        (with(r#""max_output_tokens":9,"max\u005foutput_tokens":8,"#), "max_output_tokens: Duplicate field"),
        (
            with(r#""max_output_tokens":0,"#),
            "max_output_tokens: Input should be an integer between 1 and 2147483648",
        ),
        (
            with(r#""max_output_tokens":1.5,"#),
            "max_output_tokens: Input should be an integer between 1 and 2147483648",
        ),
        (r#"{"input":"hi"}"#.into(), "model: Field required"),
        (r#"{"model":7,"input":"hi"}"#.into(), "model: Input should be a valid string"),
        (r#"{"model":"m"}"#.into(), "input: Field required"),
        (r#"{"model":"m","input":null}"#.into(), "input: Field required"),
        (r#"{"model":"m","input":[]}"#.into(), "input: at least one item is required"),
        (r#"{"model":"m","input":7}"#.into(), "input: Input should be a valid string or a list of items"),
        (r#"{"model":"m","input":["hi"]}"#.into(), "input.0: Input should be an object"),
        (r#"{"model":"m","input":[{"role":"user","role":"user"}]}"#.into(), "input.0.role: Duplicate field"),
        (r#"{"model":"m","input":[{"type":7}]}"#.into(), "input.0.type: Input should be a valid string"),
        (many, "The request body has too many fields: the limit is 64"),
        ("[]".into(), "The request body must be a JSON object"),
    ] {
        assert_eq!(read(&body).unwrap_err().to_string(), problem, "{body}");
    }
}

#[test]
fn only_the_model_and_the_limit_change_and_nothing_else_does() {
    let body = Bytes::from_static(CODEX.as_bytes());
    let head = read(CODEX).unwrap();
    let renamed = CODEX.replacen(r#""gpt-5""#, r#""other\"""#, 1);
    assert_eq!(for_upstream_with_limit(&body, &head, "other\"", None), renamed);
    assert_eq!(with_model(&body, &head, "other\""), renamed);
    let limited = CODEX.replacen('{', r#"{"max_output_tokens":9,"#, 1);
    assert_eq!(for_upstream_with_limit(&body, &head, "gpt-5", Some(9)), limited);
    assert_eq!(for_upstream_with_limit(&body, &head, "gpt-5", None).as_ptr(), body.as_ptr());
    for (fields, expected) in [
        (r#""max_output_tokens":null,"#, r#""max_output_tokens":9,"#),
        (r#""max_output_tokens" : 100,"#, r#""max_output_tokens" : 100,"#),
        (r#""max_output_tokens" : 1,"#, r#""max_output_tokens" : 1,"#),
    ] {
        let body = with(fields);
        let head = read(&body).unwrap();
        let sent = for_upstream_with_limit(&Bytes::from(body), &head, "m", Some(9));
        assert_eq!(sent, with(expected), "{fields}");
    }
    // A head read from another body leaves the body unchanged if its ranges do not fit.
    let short = Bytes::from_static(b"{}");
    assert_eq!(with_model(&short, &head, "other"), short);
}

proptest! {
    #[test]
    fn whatever_surrounds_them_the_model_and_the_limit_are_spliced_in(
        before in "[a-z\"\\\\漫\n{}]{0,12}",
        model in "[a-z.:/\"\\\\漫-]{1,20}",
        other in "[a-z.:/\"\\\\漫-]{1,20}",
        limit in any::<Option<u16>>(),
        pretty: bool,
    ) {
        let mut value = json!({"a": before, "model": model, "input": [{"role": "user", "content": before}], "z": {"model": before}});
        let body = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let head = read(&body).unwrap();
        let limit = limit.map(|limit| u32::from(limit) + 1);
        let sent = for_upstream_with_limit(&Bytes::from(body), &head, &other, limit);
        let again = read_request(&sent, &RequestLimits::default()).unwrap();
        prop_assert_eq!((&again.model, again.max_output), (&other, limit));
        value["model"] = json!(other);
        if let Some(limit) = limit {
            value["max_output_tokens"] = json!(limit);
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), value);
    }

    #[test]
    fn any_bytes_are_a_request_or_an_error(bytes: Vec<u8>, at: usize, byte: u8) {
        let _ = read_request(&bytes, &RequestLimits::default());
        let mut damaged = CODEX.as_bytes().to_vec();
        let at = at % damaged.len();
        damaged[at] = byte;
        if let Ok(head) = read_request(&damaged, &RequestLimits::default()) {
            let sent = for_upstream_with_limit(&Bytes::from(damaged.clone()), &head, "other", Some(3));
            let again = read_request(&sent, &RequestLimits::default()).unwrap();
            prop_assert_eq!((again.model.as_str(), again.turns, again.store), ("other", head.turns, head.store));
        }
        let _ = crate::responses::read_chat_request(&bytes, &RequestLimits::default());
        let _ = crate::responses::read_chat_request(&damaged, &RequestLimits::default());
    }
}
