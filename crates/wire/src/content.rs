//! Extracts generated text from content events without parsing them.
//!
//! When an answer passes through, its events are not parsed into values. Accounting only needs the amount of generated
//! output, which is in the string values of a few keys. One scan over the bytes finds them; it validates nothing,
//! copies nothing and does not allocate.

use crate::chat::StreamEvent;
use memchr::{memchr, memchr2};
use seawall_core::tokens::OutputMeter;

/// Keys whose values are generated output, in a whole answer of any dialect.
const ANSWER_KEYS: &[&[u8]] = &[
    b"text",
    b"content",
    b"thinking",
    b"refusal",
    b"reasoning",
    b"reasoning_content",
    b"arguments",
    b"name",
    b"input",
    b"data",
];
/// Adds the output of a delta of Anthropic's dialect or Bedrock's to the meter, and classifies the event.
pub(crate) fn add_delta(meter: &mut OutputMeter, json: &[u8]) -> StreamEvent {
    let mut is_thinking = false;
    each_string(json, |key, value| {
        match key {
            b"text" | b"partial_json" | b"input" => meter.add_json(value),
            b"thinking" => {
                is_thinking = true;
                meter.add_json(value);
            }
            // Other keys that occur only in thinking deltas.
            b"signature" | b"reasoningContent" => is_thinking = true,
            // What follows is quoted from the request and is not output.
            b"citation" => return false,
            _ => {}
        }
        true
    });
    if is_thinking { StreamEvent::Thinking } else { StreamEvent::Content }
}

/// Adds the output of tool calls of OpenAI's dialect to the meter.
pub(crate) fn add_calls(meter: &mut OutputMeter, json: &[u8]) {
    each_string(json, |key, value| {
        if let b"arguments" | b"name" = key {
            meter.add_json(value);
        }
        true
    });
}

/// Registers the start of a content block. Some block types contain output that is billed but not shown; the meter then
/// knows that its count may be too low.
pub(crate) fn record_block(meter: &mut OutputMeter, json: &[u8]) {
    meter.record_block();
    each_string(json, |key, value| {
        let is_hidden =
            matches!(value, b"thinking" | b"redacted_thinking" | b"server_tool_use" | b"mcp_tool_use");
        if key == b"type" && is_hidden {
            meter.record_hidden();
        }
        true
    });
}

/// Upper bound of the output tokens of a whole answer whose vendor reported no usage: the length of its text, or of the
/// whole body if it contains a tool call whose input is a JSON value instead of a string.
#[must_use]
pub fn output_token_bound(body: &[u8]) -> u64 {
    let (mut meter, mut has_calls) = (OutputMeter::default(), false);
    each_string(body, |key, value| {
        has_calls |= matches!(value, b"tool_use") || matches!(key, b"toolUseId" | b"functionCall");
        if ANSWER_KEYS.contains(&key) {
            meter.add_json(value);
        }
        true
    });
    if has_calls { body.len() as u64 } else { meter.upper() }
}

/// Calls `on_string` with each key and its string value, still escaped, until the callback returns false. If the value
/// is not a string, it is passed as empty.
fn each_string<'a>(json: &'a [u8], mut on_string: impl FnMut(&'a [u8], &'a [u8]) -> bool) {
    let mut rest = json;
    while let Some((text, behind)) = next_string(rest) {
        rest = behind;
        let Some(value) = rest.trim_ascii_start().strip_prefix(b":") else { continue };
        let is_string = value.trim_ascii_start().starts_with(b"\"");
        let value = if is_string { next_string(value) } else { None };
        let value = value.map_or(&[][..], |(value, behind)| {
            rest = behind;
            value
        });
        if !on_string(text, value) {
            return;
        }
    }
}

/// The next string without its quotes, and the bytes after it.
fn next_string(json: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = memchr(b'"', json)? + 1;
    let mut at = start;
    loop {
        let found = at + memchr2(b'"', b'\\', json.get(at..)?)?;
        if json.get(found) == Some(&b'"') {
            return Some((json.get(start..found)?, json.get(found + 1..)?));
        }
        at = found + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::{add_calls, add_delta, each_string, output_token_bound, record_block};
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use seawall_core::tokens::OutputMeter;

    fn delta(json: &str) -> u64 {
        let mut meter = OutputMeter::default();
        add_delta(&mut meter, json.as_bytes());
        meter.upper()
    }

    #[test]
    fn only_generated_output_is_counted() {
        for (json, bytes) in [
            (r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}"#, 5),
            (r#"{ "delta" : { "text" : "He\"\u6f22\n" , "type" : "text_delta" } }   "#, 7),
            (r#"{"delta":{"type":"thinking_delta","thinking":"hm"}}"#, 2),
            (r#"{"delta":{"type":"input_json_delta","partial_json":"{\"a\":"}}"#, 5),
            (r#"{"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}"#, 0),
            (r#"{"contentBlockIndex":0,"delta":{"text":"hi"},"p":"abcdefghijkl"}"#, 2),
            (r#"{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}},"p":"abc"}"#, 2),
            (r#"{"delta":{"type":"citations_delta","citation":{"cited_text":"long","text":"long"}}}"#, 0),
            (r#"{"delta":{"text":"cut"#, 0),
            ("not JSON", 0),
        ] {
            assert_eq!(delta(json), bytes, "{json}");
        }
        let mut meter = OutputMeter::default();
        let call = br#"[{"index":0,"id":"call_1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]"#;
        add_calls(&mut meter, call);
        assert_eq!(meter.upper(), 1 + 7);
    }

    #[test]
    fn blocks_that_hide_something_are_known_by_their_kind() {
        for (kind, hides) in
            [("text", false), ("tool_use", false), ("thinking", true), ("server_tool_use", true)]
        {
            let mut meter = OutputMeter::default();
            record_block(
                &mut meter,
                format!(r#"{{"index":0,"content_block":{{"type":"{kind}"}}}}"#).as_bytes(),
            );
            assert_eq!((meter.has_hidden_output(), meter.upper()), (hides, 16), "{kind}");
        }
    }

    #[test]
    fn a_whole_answer_has_at_most_its_text() {
        let body = r#"{"id":"chatcmpl-1","model":"m","choices":[{"message":{"role":"assistant","content":"four"}}]}"#;
        assert_eq!(output_token_bound(body.as_bytes()), 4);
        let call = r#"{"content":[{"type":"tool_use","name":"f","input":{"a":[1,2,3]}}]}"#;
        assert_eq!(output_token_bound(call.as_bytes()), call.len() as u64);
        let call =
            r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":[1]}}}]}}]}"#;
        assert_eq!(output_token_bound(call.as_bytes()), call.len() as u64);
    }

    proptest! {
        #[test]
        fn any_text_is_found_whole_behind_its_key(text in any::<String>(), other in any::<String>()) {
            let json = serde_json::json!({ "a": other, "delta": { "text": text, "more": [other, 1, { "text": other }] } });
            let json = json.to_string();
            let mut found = Vec::new();
            each_string(json.as_bytes(), |key, value| {
                if key == b"text" {
                    let quoted = format!("\"{}\"", std::str::from_utf8(value).unwrap());
                    found.push(serde_json::from_str::<String>(&quoted).unwrap());
                }
                true
            });
            found.sort();
            let mut wanted = [text, other];
            wanted.sort();
            prop_assert_eq!(&found[..], &wanted[..]);
        }

        #[test]
        fn no_bytes_break_it(bytes in any::<Vec<u8>>()) {
            add_delta(&mut OutputMeter::default(), &bytes);
            let _ = output_token_bound(&bytes);
        }
    }
}
