//! Estimates the number of input tokens of a request without calling the vendor.
//!
//! It counts what a vendor counts: the system prompt, the conversation, tool calls and their results, thinking that is
//! sent back, tool definitions, images by their size and documents by their pages. It matches field names, so that
//! the bodies of Anthropic, Converse and Gemini need no separate readers; in another vendor's body every string counts.
//!
//! The result is an estimate. Where a vendor publishes a rule (images, the overhead of tools), that rule is used; text
//! is counted by [`estimate`]; content that is only referenced is counted with its minimum size.

use crate::features::read_features;
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use seawall_core::media::ImageTokens;
use seawall_core::tokens::{Calibration, OverheadOptions, RequestCounts, TextCounts, estimate};
use seawall_core::untracked::UntrackedInput;
use serde_json::Value;

/// Tokens that Anthropic adds to the system prompt when tools are defined: if the model may call one, and if it must.
const TOOL_PROMPT_AUTO: u64 = 346;
const TOOL_PROMPT_REQUIRED: u64 = 313;
/// Tokens of the definition of a tool that the vendor defines itself.
const VENDOR_TOOL: u64 = 700;
/// Tokens of one PDF page with its image: the vendor publishes 7,000 tokens for three pages.
const PDF_PAGE: u64 = 2_334;

/// Best estimate of the input tokens of this body for this model. The body is one of Anthropic Messages, InvokeModel,
/// Converse or Gemini.
///
/// ```
/// use seawall_wire::{RequestLimits, estimate_input};
///
/// let body = br#"{"messages":[{"role":"user","content":"hello"}]}"#;
/// assert!(estimate_input("claude-opus-5", body, &RequestLimits::default())? < 20);
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn estimate_input(model: &str, body: &[u8], limits: &RequestLimits) -> Result<u64, RequestError> {
    let media = read_features(body, limits)?.untracked;
    let body: Value =
        serde_json::from_slice(body).map_err(|error| RequestError::not_json(error.to_string()))?;
    let counted = InputCount::of(&body);
    let options = OverheadOptions::default();
    let text = estimate(model, &counted.counts, options, &Calibration::default()).best;
    Ok(text.saturating_add(counted.tool_prompt()).saturating_add(media_tokens(model, &media)))
}

fn media_tokens(model: &str, media: &UntrackedInput) -> u64 {
    let images = ImageTokens::of_model(model);
    let known = media.images.iter().map(|size| images.counted(model, *size));
    let named = images.counted(model, None).saturating_mul(media.referenced_images);
    let pages = media.pages.saturating_add(media.referenced_documents).saturating_mul(PDF_PAGE);
    let tools = media.vendor_tools.saturating_mul(VENDOR_TOOL);
    known.chain([named, pages, tools]).fold(0, u64::saturating_add)
}

#[derive(Default)]
struct InputCount {
    counts: RequestCounts,
    has_tools: bool,
    must_call: bool,
}

impl InputCount {
    fn of(body: &Value) -> Self {
        let mut counted = Self::default();
        if let Some(contents) = body.get("contents").and_then(Value::as_array) {
            counted.counts = gemini_counts(body, contents);
            return counted;
        }
        let Some(messages) = body.get("messages").and_then(Value::as_array) else {
            // Another vendor's body: it is unknown which strings its model reads.
            count_strings(body, "", &mut counted.counts.history);
            counted.counts.messages = 1;
            return counted;
        };
        counted.counts.messages = messages.len() as u64;
        for message in messages {
            count_strings(
                message.get("content").unwrap_or(&Value::Null),
                "content",
                &mut counted.counts.history,
            );
        }
        let system = &mut counted.counts.system;
        count_strings(body.get("system").unwrap_or(&Value::Null), "system", system);
        let config = body.get("toolConfig").unwrap_or(body);
        let tools = config.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for tool in tools {
            *system += TextCounts::of(&tool_definition(tool));
        }
        counted.has_tools = !tools.is_empty();
        let choice = config.get("tool_choice").or_else(|| config.get("toolChoice"));
        counted.must_call = choice.is_some_and(|choice| {
            let kind = choice.get("type").and_then(Value::as_str).unwrap_or_default();
            matches!(kind, "any" | "tool") || choice.get("any").is_some() || choice.get("tool").is_some()
        });
        counted
    }

    const fn tool_prompt(&self) -> u64 {
        match (self.has_tools, self.must_call) {
            (false, _) => 0,
            (true, false) => TOOL_PROMPT_AUTO,
            (true, true) => TOOL_PROMPT_REQUIRED,
        }
    }
}

/// The texts of a Gemini body. The vendor adds no prompt for tools that is known.
fn gemini_counts(body: &Value, contents: &[Value]) -> RequestCounts {
    let mut counts = RequestCounts { messages: contents.len() as u64, ..RequestCounts::default() };
    contents.iter().for_each(|content| count_strings(content, "content", &mut counts.history));
    for name in ["systemInstruction", "system_instruction"] {
        count_strings(body.get(name).unwrap_or(&Value::Null), name, &mut counts.system);
    }
    let tools = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for tool in tools {
        let functions = ["functionDeclarations", "function_declarations"].map(|name| tool.get(name));
        for function in functions.into_iter().flatten().filter_map(Value::as_array).flatten() {
            counts.system += TextCounts::of(&function.to_string());
        }
    }
    counts
}

/// A tool definition as the model sees it: name, description and schema.
fn tool_definition(tool: &Value) -> String {
    let tool = tool.get("toolSpec").unwrap_or(tool);
    let Some(fields) = tool.as_object() else { return tool.to_string() };
    let is_shown = |name: &str| !matches!(name, "cache_control" | "cachePoint" | "type");
    let shown: serde_json::Map<_, _> = fields
        .iter()
        .filter(|(name, _)| is_shown(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    Value::Object(shown).to_string()
}

/// Counts every string in a value; `name` is the field that holds the value.
fn count_strings(value: &Value, name: &str, counts: &mut TextCounts) {
    match value {
        Value::String(_) if is_protocol(name) => {}
        Value::String(text) => *counts += TextCounts::of(text),
        Value::Array(values) => values.iter().for_each(|value| count_strings(value, name, counts)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match name.as_str() {
                    // Tool inputs and JSON results are counted as JSON text.
                    "input" | "json" | "args" | "response" if !value.is_string() => {
                        *counts += TextCounts::of(&value.to_string());
                    }
                    "source" => count_source(value, counts),
                    // Media is counted by size, and cache markers are not sent to the model.
                    "image" | "video" | "audio" | "cache_control" | "cachePoint" => {}
                    "inlineData" | "inline_data" | "fileData" | "file_data" => {}
                    name => count_strings(value, name, counts),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Counts the text in the source of a document or image. Inline media is counted by size elsewhere.
fn count_source(source: &Value, counts: &mut TextCounts) {
    let Some(fields) = source.as_object() else { return count_strings(source, "source", counts) };
    let is_text = fields.get("type").is_some_and(|kind| kind == "text");
    for (name, value) in fields {
        match name.as_str() {
            "data" if is_text => count_strings(value, "text", counts),
            "content" | "text" => count_strings(value, "content", counts),
            _ => {}
        }
    }
}

/// Fields whose values are protocol constants or ids, not text that the model reads.
fn is_protocol(name: &str) -> bool {
    matches!(
        name,
        "type"
            | "role"
            | "id"
            | "tool_use_id"
            | "toolUseId"
            | "media_type"
            | "format"
            | "status"
            | "signature"
            | "thoughtSignature"
            | "thought_signature"
    )
}

#[cfg(test)]
mod tests {
    use super::{PDF_PAGE, TOOL_PROMPT_AUTO, TOOL_PROMPT_REQUIRED, estimate_input};
    use crate::RequestLimits;
    use base64_simd::STANDARD as BASE64;
    use serde_json::{Value, json};

    fn tokens(body: &Value) -> u64 {
        let body = body.to_string();
        estimate_input("claude-sonnet-4-20250514", body.as_bytes(), &RequestLimits::default()).unwrap()
    }

    #[expect(clippy::needless_pass_by_value, reason = "so that calls can be read")]
    fn request(content: Value) -> Value {
        json!({ "messages": [{ "role": "user", "content": content }] })
    }

    fn png(width: u32, height: u32) -> String {
        let head =
            [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &width.to_be_bytes(), &height.to_be_bytes()].concat();
        BASE64.encode_to_string(head)
    }

    #[test]
    fn tools_count_by_the_definition_that_the_model_sees() {
        let plain = tokens(&request(json!("What should I read next?")));
        let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
        let tool =
            json!({ "name": "find", "description": "Finds a manga by its title.", "input_schema": schema });
        let mut with = request(json!("What should I read next?"));
        with["tools"] = json!([tool]);
        let one = tokens(&with);
        assert!(
            (plain + TOOL_PROMPT_AUTO + 20..plain + TOOL_PROMPT_AUTO + 80).contains(&one),
            "{plain} {one}"
        );
        with["tools"] = json!([tool, tool]);
        assert_eq!(tokens(&with) - one, one - plain - TOOL_PROMPT_AUTO);
        with["tool_choice"] = json!({ "type": "any" });
        assert_eq!(tokens(&with), 2 * (one - plain - TOOL_PROMPT_AUTO) + plain + TOOL_PROMPT_REQUIRED);
        // Cache markers are not part of what the model sees.
        with["tools"][0]["cache_control"] = json!({ "type": "ephemeral" });
        assert_eq!(tokens(&with), 2 * (one - plain - TOOL_PROMPT_AUTO) + plain + TOOL_PROMPT_REQUIRED);
        // The same tools in Converse syntax cost about the same.
        let spec = json!({ "name": "find", "description": "Finds a manga by its title.", "inputSchema": { "json": schema } });
        let mut converse = request(json!([{ "text": "What should I read next?" }]));
        assert_eq!(tokens(&converse), plain);
        converse["toolConfig"] =
            json!({ "tools": [{ "toolSpec": spec }, { "toolSpec": spec }], "toolChoice": { "any": {} } });
        assert!(tokens(&converse).abs_diff(tokens(&with)) < 20, "{} {}", tokens(&converse), tokens(&with));
    }

    #[test]
    fn calls_results_and_thinking_count_as_they_are_sent_back() {
        let words = "a recommendation of some ten words for a long evening";
        let alone =
            tokens(&request(json!([{ "type": "text", "text": words }]))) - tokens(&request(json!([])));
        for block in [
            json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": words }),
            json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": [{ "type": "text", "text": words }] }),
            json!({ "type": "thinking", "thinking": words, "signature": "c2lnbmF0dXJl" }),
            json!({ "type": "document", "source": { "type": "text", "media_type": "text/plain", "data": words } }),
            json!({ "toolResult": { "toolUseId": "1", "content": [{ "text": words }] } }),
            json!({ "reasoningContent": { "reasoningText": { "text": words, "signature": "x" } } }),
        ] {
            assert_eq!(tokens(&request(json!([block]))) - tokens(&request(json!([]))), alone, "{block}");
        }
        let call =
            json!({ "type": "tool_use", "id": "toolu_1", "name": "find", "input": { "title": words } });
        let counted = tokens(&request(json!([call]))) - tokens(&request(json!([])));
        assert!((alone + 3..alone + 15).contains(&counted), "{alone} {counted}");
        let converse =
            json!({ "toolUse": { "toolUseId": "1", "name": "find", "input": { "title": words } } });
        assert_eq!(tokens(&request(json!([converse]))), tokens(&request(json!([call]))));
    }

    #[test]
    fn pictures_count_by_their_size_and_documents_by_their_pages() {
        let base = tokens(&request(json!([])));
        let image = |width, height| {
            let source = json!({ "type": "base64", "media_type": "image/png", "data": png(width, height) });
            tokens(&request(json!([{ "type": "image", "source": source }]))) - base
        };
        assert_eq!((image(1_000, 1_000), image(1_920, 1_080), image(28, 29)), (1_296, 1_560, 2));
        let converse = json!({ "image": { "format": "png", "source": { "bytes": png(1_000, 1_000) } } });
        assert_eq!(tokens(&request(json!([converse]))) - base, 1_296);
        let pdf = BASE64.encode_to_string("%PDF-1.4 /Type /Page /Type /Page ".as_bytes());
        let source = json!({ "type": "base64", "media_type": "application/pdf", "data": pdf });
        assert_eq!(tokens(&request(json!([{ "type": "document", "source": source }]))) - base, 2 * PDF_PAGE);
    }

    #[test]
    fn a_gemini_body_counts_like_the_same_messages() {
        let words = "a recommendation of some ten words for a long evening";
        let gemini = |part: Value| json!({ "contents": [{ "role": "user", "parts": [part] }] });
        let plain = tokens(&gemini(json!({ "text": words })));
        assert_eq!(plain, tokens(&request(json!(words))));
        let image =
            json!({ "inlineData": { "mimeType": "image/png", "data": png(1_000, 1_000).repeat(50) } });
        assert!(tokens(&gemini(image)) < 2_000);
        let call = json!({ "functionCall": { "name": "find", "args": { "title": words } }, "thoughtSignature": "c2ln" });
        assert!((plain + 3..plain + 15).contains(&tokens(&gemini(call))));
        let mut with = gemini(json!({ "text": words }));
        with["systemInstruction"] = json!({ "parts": [{ "text": words }] });
        with["tools"] = json!([{ "functionDeclarations": [{ "name": "find", "description": words }] }]);
        assert!((2 * plain..4 * plain).contains(&tokens(&with)));
    }

    #[test]
    fn every_text_of_another_vendors_body_counts() {
        let short = tokens(&json!({ "inputText": "hello" }));
        let long = tokens(&json!({ "inputText": "hello, what should I read on a long evening?" }));
        assert!(short > 0 && long > short + 5);
        assert!(estimate_input("m", b"[]", &RequestLimits::default()).is_err());
    }
}
