//! Finds request features that affect cost: input whose size the body does not bound, and price options.
//!
//! Most requests have none. [`may_have_features`] establishes that with one scan over field names and types, without
//! parsing; only a body with a suspicious name or type is parsed by [`read_features`]. The scan may report false
//! positives but never false negatives. A field name with escapes counts as suspicious.
//!
//! [`read_features`] matches names, not positions, in all dialects alike, so that it finds a document in a message, in
//! a tool result or wherever else a vendor reads one. Values that are plain data to a vendor (schemas, tool arguments)
//! are skipped. A body that cannot be walked counts as one that references a document.

mod gemini;
mod scalar;
mod source;

pub(crate) use scalar::{LenientScalar, ServiceOption, parse_service_option};

use crate::fields::{JsonFields, is_string, string_of};
use crate::request::{ALREADY_CHECKED, RequestLimits};
use crate::request_error::RequestError;
use seawall_core::money::{PriceDimension, RequestedPricing, Surcharge};
use seawall_core::untracked::{USUAL_TOOL_USES, UntrackedInput};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use source::MediaSource;
use std::borrow::Cow;
use std::fmt;

/// The features of a request that affect its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFeatures {
    /// Input whose token count is not bounded by the size of the body.
    pub untracked: UntrackedInput,
    /// Options that change the price.
    pub pricing: RequestedPricing,
}

/// Whether a field of this name may be such a feature, at any position.
fn may_be_feature(name: &[u8]) -> bool {
    matches!(
        name,
        b"source"
            | b"file_id"
            | b"image_url"
            | b"video_url"
            | b"audio_url"
            | b"file_url"
            | b"file_data"
            | b"file"
            | b"image"
            | b"document"
            | b"video"
            | b"s3Location"
            | b"systemTool"
            | b"previous_response_id"
            | b"conversation"
            | b"thread"
            | b"prompt"
            | b"cached_content"
            | b"cachedContent"
            | b"mcp_servers"
            | b"container"
            | b"web_search_options"
            | b"search_parameters"
            | b"data_sources"
            | b"plugins"
            | b"context_management"
            | b"service_tier"
            | b"serviceTier"
            | b"speed"
            | b"inference_geo"
            | b"performanceConfig"
            | b"ttl"
            | b"extra_body"
            | b"additionalModelRequestFields"
    ) || gemini::is_media(name)
        || gemini::is_vendor_tool(name)
        || name.contains(&b'\\')
}

/// Whether content of this type is entirely contained in the request, so that its bytes bound it.
fn is_inline(kind: &[u8]) -> bool {
    matches!(
        kind,
        b"text"
            | b"function"
            | b"custom"
            | b"object"
            | b"string"
            | b"number"
            | b"integer"
            | b"boolean"
            | b"array"
            | b"null"
            | b"OBJECT"
            | b"STRING"
            | b"NUMBER"
            | b"INTEGER"
            | b"BOOLEAN"
            | b"ARRAY"
            | b"ephemeral"
            | b"tool_use"
            | b"tool_result"
            | b"thinking"
            | b"redacted_thinking"
            | b"enabled"
            | b"disabled"
            | b"adaptive"
            | b"auto"
            | b"any"
            | b"tool"
            | b"none"
            | b"json_schema"
            | b"json_object"
            | b"refusal"
            | b"input_text"
            | b"output_text"
            | b"input_audio"
            | b"default"
            | b"message"
            | b"reasoning"
            | b"summary_text"
            | b"reasoning_text"
            | b"function_call"
            | b"function_call_output"
            | b"custom_tool_call"
            | b"custom_tool_call_output"
    )
}

/// Whether a JSON body may have cost features. May return true for a body without any, never false for one that has
/// some.
#[must_use]
pub fn may_have_features(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(quote) = json.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let Some((text, behind)) = string_at(json, at + quote + 1) else { return true };
        at = behind;
        let Some(value) = value_offset(json, at) else { continue };
        if may_be_feature(text) {
            return true;
        }
        if text == b"type" && json.get(value) == Some(&b'"') {
            let Some((kind, behind)) = string_at(json, value + 1) else { return true };
            if !is_inline(kind) {
                return true;
            }
            at = behind;
        }
    }
    false
}

/// The content of the string that begins here, and the offset after its closing quote.
fn string_at(json: &[u8], start: usize) -> Option<(&[u8], usize)> {
    let mut at = start;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', json.get(at..)?)?;
        if json[found] == b'"' {
            return Some((&json[start..found], found + 1));
        }
        at = found + 2;
    }
}

/// The offset of a field's value, if the string that ends here is a field name.
fn value_offset(json: &[u8], at: usize) -> Option<usize> {
    let skip = |at: usize| {
        let blank = json.get(at..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        Some(at + blank)
    };
    let colon = skip(at)?;
    if json.get(colon) != Some(&b':') {
        return None;
    }
    skip(colon + 1)
}

/// Reads the cost features of a body of any dialect.
pub fn read_features(body: &[u8], limits: &RequestLimits) -> Result<RequestFeatures, RequestError> {
    let mut features = RequestFeatures::default();
    read_top(&JsonFields::read(body, limits)?, &mut features)?;
    Ok(features)
}

fn read_top(fields: &JsonFields<'_>, features: &mut RequestFeatures) -> Result<(), RequestError> {
    let RequestFeatures { untracked, pricing } = features;
    let has = |names: &[&str]| names.iter().any(|name| fields.has(name));
    untracked.continues_response |= has(&["previous_response_id", "conversation", "thread"]);
    // An object references a prompt stored at the vendor; a string is the prompt itself.
    untracked.continues_response |= fields.get("prompt").is_some_and(|raw| raw.get().starts_with('{'));
    untracked.cached_context |= has(&["cached_content", "cachedContent"]);
    for connector in
        ["mcp_servers", "container", "web_search_options", "search_parameters", "data_sources", "plugins"]
    {
        if fields.has(connector) {
            add_uses(untracked, USUAL_TOOL_USES);
        }
    }
    // Compaction makes the vendor process the whole conversation once more.
    if fields.get("context_management").is_some_and(|raw| raw.get().contains("compact")) {
        add_uses(untracked, 1);
    }
    for field in [PriceDimension::Tier, PriceDimension::Speed, PriceDimension::Geography] {
        if let Some(value) = fields.string(field.name())? {
            request_option(pricing, field, &value);
        }
    }
    for (field, part, dimension) in [
        ("serviceTier", "type", PriceDimension::Tier),
        ("performanceConfig", "latency", PriceDimension::Latency),
    ] {
        if let Some(raw) = fields.get(field).filter(|raw| is_string(raw)) {
            // The Gemini API has a string where Bedrock has an object.
            request_option(pricing, dimension, &string_of(raw).map_err(|error| error.within(field))?);
            continue;
        }
        if let Some(value) = fields.object(field, &ALREADY_CHECKED)? {
            request_option(pricing, dimension, &value.string(part)?.unwrap_or_default());
        }
    }
    for (name, raw) in fields.iter() {
        match name {
            "additionalModelRequestFields" | "extra_body" => {
                let Ok(inner) = JsonFields::of_value(raw, &ALREADY_CHECKED) else { continue };
                read_top(&inner, &mut *features)?;
            }
            // At the top of a Responses body this is the conversation; elsewhere it is a tool's input.
            "input" => walk(raw, name, features),
            _ if is_data(name) => {}
            _ => walk(raw, name, features),
        }
    }
    Ok(())
}

/// Records that the request asks for a service option that has its own price.
pub(crate) fn request_option(pricing: &mut RequestedPricing, dimension: PriceDimension, value: &str) {
    match (is_base_price(value), Surcharge::parse(value)) {
        (true, _) => pricing.service = pricing.service.with(dimension, None),
        (false, Ok(surcharge)) => pricing.service = pricing.service.with(dimension, Some(surcharge)),
        (false, Err(_)) => {
            let value: String = value.chars().filter(|character| !character.is_control()).take(32).collect();
            pricing.unknown = Some(format!("{dimension}: {value}"));
        }
    }
}

/// Whether this value of a service option is billed at the base price.
pub(crate) fn is_base_price(value: &str) -> bool {
    matches!(
        value,
        "" | "auto"
            | "default"
            | "standard"
            | "standard_only"
            | "unspecified"
            | "global"
            | "not_available"
            | "on_demand"
    )
}

/// Whether a field of this name holds plain data that the vendor does not interpret, such as a schema.
fn is_data(name: &str) -> bool {
    matches!(
        name,
        "input"
            | "input_schema"
            | "inputSchema"
            | "parameters"
            | "parametersJsonSchema"
            | "parameters_json_schema"
            | "responseSchema"
            | "response_schema"
            | "responseJsonSchema"
            | "response_json_schema"
            | "args"
            | "response"
            | "function"
            | "toolSpec"
            | "json"
            | "metadata"
            | "requestMetadata"
            | "arguments"
            | "schema"
            | "json_schema"
            | "response_format"
            | "output_config"
            | "citations"
            | "thinking"
            | "stop_sequences"
            | "stop"
            | "logit_bias"
    )
}

fn walk(raw: &RawValue, name: &str, features: &mut RequestFeatures) {
    let is_tool = name == "tools";
    let mut json = serde_json::Deserializer::from_str(raw.get());
    let value = ValueWalker { name, is_tool, features: &mut *features };
    if value.deserialize(&mut json).is_err() {
        features.untracked.referenced_documents = features.untracked.referenced_documents.saturating_add(1);
    }
}

fn add_uses(untracked: &mut UntrackedInput, uses: u64) {
    untracked.tool_uses = Some(untracked.tool_uses.unwrap_or(0).saturating_add(uses));
}

/// Walks any value; carries the name of the field that holds it.
struct ValueWalker<'f, 'n> {
    name: &'n str,
    is_tool: bool,
    features: &'f mut RequestFeatures,
}

impl<'de> DeserializeSeed<'de> for ValueWalker<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueWalker<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { name, is_tool, features } = self;
        while list.next_element_seed(ValueWalker { name, is_tool, features: &mut *features })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { name, is_tool, features } = self;
        let mut object = FeatureObject { name, ..FeatureObject::default() };
        while let Some(key) = map.next_key::<LenientScalar<'de>>()? {
            let key = key.text.unwrap_or_default();
            match &*key {
                "type" => object.kind = map.next_value::<LenientScalar<'de>>()?.text.unwrap_or_default(),
                "format" => object.format = map.next_value::<LenientScalar<'de>>()?.text.unwrap_or_default(),
                "ttl" => {
                    let ttl = map.next_value::<LenientScalar<'de>>()?.text;
                    features.pricing.long_cache |= ttl.is_some_and(|ttl| ttl != "5m");
                }
                "max_uses" => object.max_uses = map.next_value::<LenientScalar<'de>>()?.number,
                "file_id" => object.has_file_id = map.next_value::<LenientScalar<'de>>()?.text.is_some(),
                "systemTool" => {
                    map.next_value::<IgnoredAny>()?;
                    add_uses(&mut features.untracked, USUAL_TOOL_USES);
                }
                "computerUse" | "computer_use" if is_tool => {
                    map.next_value::<IgnoredAny>()?;
                    features.untracked.vendor_tools += 1;
                }
                tool if is_tool && gemini::is_vendor_tool(tool.as_bytes()) => {
                    map.next_value::<IgnoredAny>()?;
                    add_uses(&mut features.untracked, USUAL_TOOL_USES);
                }
                media
                    if matches!(media, "source" | "image_url" | "file")
                        || gemini::is_media(media.as_bytes()) =>
                {
                    let source = map.next_value::<MediaSource<'de>>()?;
                    let is_image = key == "image_url";
                    // In a search result, `source` is a string with the name of its page, not a reference. In the
                    // Responses dialect, a file is a string beside its name.
                    if is_image || !source.is_text || key == "file_data" {
                        object.sources.push((is_image, source));
                    }
                }
                "video_url" | "audio_url" | "file_url" => {
                    map.next_value::<IgnoredAny>()?;
                    features.untracked.referenced_documents += 1;
                }
                key if is_data(key) => drop(map.next_value::<IgnoredAny>()?),
                key => map.next_value_seed(ValueWalker {
                    name: key,
                    is_tool: key == "tools",
                    features: &mut *features,
                })?,
            }
        }
        object.count(is_tool, &mut features.untracked);
        Ok(())
    }
}

/// An object that may be an image, a document or a tool.
#[derive(Default)]
struct FeatureObject<'a, 'n> {
    name: &'n str,
    kind: Cow<'a, str>,
    format: Cow<'a, str>,
    max_uses: Option<u64>,
    has_file_id: bool,
    sources: Vec<(bool, MediaSource<'a>)>,
}

impl FeatureObject<'_, '_> {
    fn count(&self, is_tool: bool, untracked: &mut UntrackedInput) {
        if is_tool {
            return self.count_tool(untracked);
        }
        for (is_image, source) in &self.sources {
            let is_image = *is_image
                || self.kind.contains("image")
                || self.name == "image"
                || source.media_type.starts_with("image/");
            source.count(is_image, &self.format, untracked);
        }
        let is_file =
            matches!(&*self.kind, "container_upload" | "input_file" | "file" | "input_image" | "image_file");
        if self.has_file_id && is_file {
            untracked.referenced_documents = untracked.referenced_documents.saturating_add(1);
        }
        untracked.continues_response |= self.kind == "item_reference";
    }

    fn count_tool(&self, untracked: &mut UntrackedInput) {
        let is_run_by_caller = ["bash_", "text_editor_", "computer_", "browser_", "memory_"]
            .iter()
            .any(|kind| self.kind.starts_with(kind));
        match &*self.kind {
            // The tools of a namespace are counted by themselves.
            "" | "function" | "custom" | "namespace" => {}
            "computer" | "local_shell" | "apply_patch" => untracked.vendor_tools += 1,
            _ if is_run_by_caller => untracked.vendor_tools += 1,
            _ => add_uses(untracked, self.max_uses.unwrap_or(USUAL_TOOL_USES)),
        }
    }
}

#[cfg(test)]
mod tests;
