use crate::openai::{ChatCompletionHead, for_upstream, for_upstream_with_limit, read_request, with_model};
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use proptest::prelude::{prop_assert_eq, proptest};
use seawall_core::vocabulary::OutputLimitField::{self, MaxCompletionTokens};
use serde_json::{Value, json};

fn read(body: &str) -> Result<ChatCompletionHead, RequestError> {
    read_request(body.as_bytes(), &RequestLimits::default())
}

fn with(fields: &str) -> String {
    format!(r#"{{"model":"m",{fields}"messages":[{{"role":"user","content":"hi"}}]}}"#)
}

#[test]
fn the_head_is_what_decisions_need() {
    let head = read(&with("")).unwrap();
    assert_eq!((head.model.as_str(), head.max_output, head.turns, head.model_span), ("m", None, 1, 9..12));
    assert!(!head.stream && !head.include_usage);
    for (fields, max_output, stream, include_usage) in [
        (r#""max_tokens":5,"#, Some(5), false, false),
        (r#""max_tokens":5,"max_completion_tokens":6,"#, Some(5), false, false),
        (r#""max_tokens":6,"max_completion_tokens":5,"#, Some(5), false, false),
        (r#""max_tokens":5,"max_completion_tokens":null,"#, Some(5), false, false),
        (r#""max_completion_tokens":2147483648,"stream":true,"#, Some(1 << 31), true, false),
        (r#""stream":null,"stream_options":{"include_usage":true},"#, None, false, false),
        (r#""stream":true,"stream_options":{"include_usage":true},"#, None, true, true),
        (r#""stream":true,"stream_options":{"include_usage":false},"#, None, true, false),
    ] {
        let head = read(&with(fields)).unwrap();
        let expected = (max_output, stream, include_usage);
        assert_eq!((head.max_output, head.stream, head.include_usage), expected, "{fields}");
    }
    let messages = r#"{"role":"system"},{"role":"developer"},{"role":"assistant","content":null},{"role":"tool"},{"role":"function"}"#;
    assert_eq!(read(&format!(r#"{{"model":"m","messages":[{messages}]}}"#)).unwrap().turns, 5);
}

#[test]
fn an_invalid_request_is_refused_with_the_path_of_the_error() {
    let long = format!(r#"{{"model":"{}","messages":[]}}"#, "m".repeat(257));
    for (body, problem) in [
        (with(r#""stream":"yes","#), "stream: Input should be a valid boolean"),
        (with(r#""stream_options":7,"#), "stream_options: Input should be an object"),
        (
            with(r#""stream_options":{"include_usage":"yes"},"#),
            "stream_options.include_usage: Input should be a valid boolean",
        ),
        (
            with(r#""max_completion_tokens":0,"#),
            "max_completion_tokens: Input should be an integer between 1 and 2147483648",
        ),
        (with(r#""n":0,"#), "n: Input should be an integer between 1 and 128"),
        (with(r#""n":129,"#), "n: Input should be an integer between 1 and 128"),
        (with(r#""n":1.5,"#), "n: Input should be an integer between 1 and 128"),
        (r#"{"model":"m","messages":[]}"#.into(), "messages: at least one message is required"),
        (
            r#"{"model":"m","messages":[{"role":""}]}"#.into(),
            "messages.0.role: Input should be a non-empty string",
        ),
        (
            r#"{"model":"","messages":[{"role":"user"}]}"#.into(),
            "model: String should have at least 1 character",
        ),
        (r#"{"model":7,"messages":[{"role":"user"}]}"#.into(), "model: Input should be a valid string"),
        (long.replace("[]", r#"[{"role":"user"}]"#), "model: String should have at most 256 bytes"),
    ] {
        assert_eq!(read(&body).unwrap_err().to_string(), problem, "{body}");
    }
}

#[test]
fn a_vendor_is_asked_for_usage_only_where_the_answer_streams() {
    for (fields, expected) in [
        ("", None),
        (r#""stream_options":{"include_usage":false},"#, None),
        (r#""stream":true,"#, Some(json!({"include_usage": true}))),
        (r#""stream":true,"stream_options":null,"#, Some(json!({"include_usage": true}))),
        (r#""stream":true,"stream_options":{},"#, Some(json!({"include_usage": true}))),
        (r#""stream":true,"stream_options": { "a" : 1 } ,"#, Some(json!({"include_usage": true, "a": 1}))),
        (r#""stream":true,"stream_options":{"include_usage":null},"#, Some(json!({"include_usage": true}))),
        (
            r#""stream":true,"stream_options":{"a":1,"include_usage":false},"#,
            Some(json!({"include_usage": true, "a": 1})),
        ),
    ] {
        for body in [
            with(fields),
            format!(" {}", with(fields).replace(r#"{"model":"m","#, "{").replace("]}", r#"],"model":"m"}"#)),
        ] {
            let bytes = Bytes::from(body.clone());
            let head = read(&body).unwrap();
            let sent: Value = serde_json::from_slice(&for_upstream(&bytes, &head, "n")).unwrap();
            let mut wanted: Value = serde_json::from_str(&body).unwrap();
            wanted["model"] = json!("n");
            if let Some(options) = &expected {
                wanted["stream_options"] = options.clone();
            }
            assert_eq!(sent, wanted, "{body}");
        }
    }
}

#[test]
fn what_need_not_change_is_not_copied() {
    for body in [with(""), with(r#""stream":true,"stream_options":{"include_usage":true},"#)] {
        let bytes = Bytes::from(body.clone());
        let head = read(&body).unwrap();
        assert_eq!(for_upstream(&bytes, &head, "m").as_ptr(), bytes.as_ptr());
        assert_eq!(with_model(&bytes, &head, "m").as_ptr(), bytes.as_ptr());
        // A head read from another body leaves the body unchanged if its ranges do not fit.
        let short = Bytes::from_static(b"{}");
        assert_eq!(with_model(&short, &head, "other"), short);
    }
}

#[test]
fn a_limit_is_put_in_where_the_caller_named_none() {
    for (fields, expected) in [
        ("", json!({"max_completion_tokens": 9})),
        (r#""max_completion_tokens":null,"#, json!({"max_completion_tokens": 9})),
        (r#""max_tokens":null,"#, json!({"max_tokens": null, "max_completion_tokens": 9})),
        (r#""max_tokens":5,"#, json!({"max_tokens": 5})),
        (r#""max_completion_tokens":6,"#, json!({"max_completion_tokens": 6})),
        (
            r#""stream":true,"max_tokens":5,"#,
            json!({"max_tokens": 5, "stream_options": {"include_usage": true}}),
        ),
        (
            r#""stream":true,"max_completion_tokens":null,"stream_options":{},"#,
            json!({"max_completion_tokens": 9, "stream_options": {"include_usage": true}}),
        ),
        (r#""stream":true,"#, json!({"max_completion_tokens": 9, "stream_options": {"include_usage": true}})),
    ] {
        let body = with(fields);
        let head = read(&body).unwrap();
        for model in ["m", "other"] {
            let sent = for_upstream_with_limit(
                &Bytes::from(body.clone()),
                &head,
                model,
                Some(9),
                MaxCompletionTokens,
            )
            .unwrap();
            let sent: Value = serde_json::from_slice(&sent).unwrap();
            let mut wanted: Value = serde_json::from_str(&body).unwrap();
            wanted["model"] = json!(model);
            for (name, value) in expected.as_object().unwrap() {
                wanted[name] = value.clone();
            }
            assert_eq!(sent, wanted, "{body}");
        }
    }
    let body = Bytes::from(with(r#""max_tokens":5,"#));
    let head = read_request(&body, &RequestLimits::default()).unwrap();
    for field in OutputLimitField::ALL {
        assert_eq!(
            for_upstream_with_limit(&body, &head, "m", Some(9), field).unwrap().as_ptr(),
            body.as_ptr()
        );
    }
}

#[test]
fn of_two_limits_the_smaller_goes_out_in_the_field_that_the_target_takes() {
    for (fields, smaller) in [
        (r#""max_completion_tokens":1,"max_tokens":100000,"#, 1),
        (r#""max_tokens":7,"stream":true,"max_completion_tokens":100000,"#, 7),
        (r#""max_tokens":5,"max_completion_tokens":5,"#, 5),
        (r#""max\u005ftokens":3,"max_completion_tokens":100000,"#, 3),
    ] {
        let body = Bytes::from(with(fields));
        let head = read_request(&body, &RequestLimits::default()).unwrap();
        assert_eq!(head.max_output, Some(smaller), "{fields}");
        for (field, other) in
            [("max_completion_tokens", "max_tokens"), ("max_tokens", "max_completion_tokens")]
        {
            let limit_field = OutputLimitField::parse(field).unwrap();
            let sent = for_upstream_with_limit(&body, &head, "n", Some(9), limit_field).unwrap();
            let sent: Value = serde_json::from_slice(&sent).unwrap();
            assert_eq!((&sent[field], sent.get(other)), (&json!(smaller), None), "{fields}");
            assert_eq!(sent["model"], json!("n"));
            assert_eq!(sent["messages"], json!([{"role": "user", "content": "hi"}]));
            assert_eq!(sent.get("stream_options").is_some(), head.stream);
        }
    }
}

#[test]
fn a_missing_limit_goes_into_the_field_that_the_target_takes() {
    for fields in ["", r#""max_tokens":null,"#, r#""max_completion_tokens":null,"#] {
        let body = Bytes::from(with(fields));
        let head = read_request(&body, &RequestLimits::default()).unwrap();
        let sent = for_upstream_with_limit(&body, &head, "m", Some(9), OutputLimitField::MaxTokens).unwrap();
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent["max_tokens"], json!(9), "{fields}");
        assert!(sent["max_completion_tokens"].is_null(), "{fields}");
    }
}

#[test]
fn the_number_of_choices_is_read_from_the_request() {
    for (fields, choices) in [("", 1), (r#""n":null,"#, 1), (r#""n":1,"#, 1), (r#""n":128,"#, 128)] {
        assert_eq!(read(&with(fields)).unwrap().choices, choices, "{fields}");
    }
}

proptest! {
    #[test]
    fn whatever_surrounds_the_model_it_is_found_and_replaced(
        before in "[a-z\"\\\\漫\n{}]{0,12}",
        model in "[a-z.:/\"\\\\漫-]{1,20}",
        other in "[a-z.:/\"\\\\漫-]{1,20}",
        pretty: bool,
    ) {
        let body = json!({"about": before, "model": model, "stream": true, "messages": [{"role": "user", "content": before}]});
        let text = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) };
        let bytes = Bytes::from(text.unwrap());
        let head = read_request(&bytes, &RequestLimits::default()).unwrap();
        prop_assert_eq!(&head.model, &model);
        let mut expected = body;
        expected["model"] = json!(other);
        let changed = with_model(&bytes, &head, &other);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&changed).unwrap(), &expected);
        expected["stream_options"] = json!({"include_usage": true});
        let sent = for_upstream(&bytes, &head, &other);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&sent).unwrap(), &expected);
    }
}
