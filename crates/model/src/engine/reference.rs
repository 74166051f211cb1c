//! Input that a request only references, its service options, and how both are billed.

use seawall_core::media::ImageTokens;
use seawall_core::money::ServiceTier;
use seawall_wire::{RequestLimits, may_have_features, read_features};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Tokens billed for a referenced document: some hundred pages.
const DOCUMENT_TOKENS: u64 = 150_000;
/// Tokens billed per page of an inline document.
const PAGE_TOKENS: u64 = 2_500;
/// Maximum number of server-tool uses that a model makes, if more are allowed.
const MAX_TOOL_USES: u64 = 2;

/// What a request is billed for besides its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReferencedInput {
    /// Tokens of one pass over the input.
    pub(super) tokens: u64,
    /// Uses of server tools. Each one bills the input once more.
    pub(super) tool_uses: u64,
    /// The requested service options, which are always granted.
    pub(super) service: ServiceTier,
}

/// Removes the parts that only reference their content, and returns how those are billed.
pub(super) fn strip_references(body: &[u8]) -> (Cow<'_, [u8]>, ReferencedInput) {
    if !may_have_features(body) {
        return (Cow::Borrowed(body), ReferencedInput::default());
    }
    let Ok(features) = read_features(body, &RequestLimits::default()) else {
        return (Cow::Borrowed(body), ReferencedInput::default());
    };
    let (input, service) = (features.untracked, features.pricing.service);
    let images: u64 = input.images.iter().map(|size| ImageTokens::ANTHROPIC.of(*size).min(1_568)).sum();
    let tokens = images
        .saturating_add(input.referenced_images.saturating_mul(1_568))
        .saturating_add(input.referenced_documents.saturating_mul(DOCUMENT_TOKENS))
        .saturating_add(input.pages.saturating_mul(PAGE_TOKENS));
    let tool_uses = input.tool_uses.unwrap_or(0).min(MAX_TOOL_USES);
    (Cow::Owned(without_references(body)), ReferencedInput { tokens, tool_uses, service })
}

fn without_references(body: &[u8]) -> Vec<u8> {
    let Ok(mut request) = serde_json::from_slice::<Value>(body) else { return body.to_vec() };
    let messages = request.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        let Some(parts) = message.get_mut("content").and_then(Value::as_array_mut) else { continue };
        let is_typed = parts.iter().any(|part| part.get("type").is_some());
        parts.retain(is_inline);
        if parts.is_empty() {
            parts.push(if is_typed {
                json!({"type": "text", "text": "(document)"})
            } else {
                json!({"text": "(document)"})
            });
        }
    }
    if let Some(tools) = request.get_mut("tools").and_then(Value::as_array_mut) {
        tools.retain(|tool| matches!(tool["type"].as_str(), None | Some("function" | "custom")));
        if tools.is_empty()
            && let Some(request) = request.as_object_mut()
        {
            request.remove("tools");
        }
    }
    request.to_string().into_bytes()
}

/// Whether the content of a part is in the request, so that the model reads it like any other part.
fn is_inline(part: &Value) -> bool {
    match part["type"].as_str() {
        Some("image") => part["source"].get("data").is_some(),
        Some("image_url") => part["image_url"]["url"].as_str().is_some_and(|url| url.starts_with("data:")),
        Some("document" | "file" | "container_upload" | "video_url" | "audio_url") => false,
        Some(_) => true,
        None => {
            part.get("document").is_none()
                && part.get("video").is_none()
                && part.pointer("/image/source/s3Location").is_none()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENT_TOKENS, ReferencedInput, strip_references};
    use serde_json::{Value, json};

    #[test]
    fn what_is_named_is_billed_and_the_rest_is_read_as_ever() {
        let plain = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).to_string();
        assert_eq!(strip_references(plain.as_bytes()), (plain.as_bytes().into(), ReferencedInput::default()));
        let part = json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}});
        let tools = json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 1}]);
        let body = json!({"model": "m", "tools": tools, "messages": [{"role": "user", "content": [part]}]})
            .to_string();
        let (rest, referenced) = strip_references(body.as_bytes());
        assert_eq!(
            referenced,
            ReferencedInput { tokens: DOCUMENT_TOKENS, tool_uses: 1, ..ReferencedInput::default() }
        );
        let rest: Value = serde_json::from_slice(&rest).unwrap();
        assert_eq!(rest["messages"][0]["content"], json!([{"type": "text", "text": "(document)"}]));
        assert_eq!(rest.get("tools"), None);
    }
}
