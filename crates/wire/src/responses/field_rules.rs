//! The fields of a request that a translation accounts for.

use crate::chat::ChatFeature;
use crate::chat::FieldRule::{self, Default, Ignored, List, Object, Read};
use crate::chat::ObjectRule;

pub(super) const REQUEST: ObjectRule = rule(&[
    ("model", Read),
    ("input", List(&ITEM)),
    ("instructions", Read),
    ("max_output_tokens", Read),
    ("tools", List(&TOOL)),
    ("tool_choice", Read),
    ("parallel_tool_calls", Read),
    ("text", Object(&TEXT)),
    ("reasoning", Object(&REASONING)),
    ("include", Read),
    ("store", Read),
    ("background", Read),
    ("previous_response_id", Read),
    ("conversation", Read),
    ("prompt", Read),
    ("temperature", Read),
    ("top_p", Read),
    ("top_logprobs", Read),
    ("stream", Read),
    ("truncation", Default(&[r#""disabled""#])),
    ("stream_options", Ignored(ChatFeature::Delivery)),
    ("max_tool_calls", Ignored(ChatFeature::WebSearchOffer)),
    ("metadata", Ignored(ChatFeature::Identifiers)),
    ("client_metadata", Ignored(ChatFeature::Identifiers)),
    ("user", Ignored(ChatFeature::Identifiers)),
    ("safety_identifier", Ignored(ChatFeature::Identifiers)),
    ("service_tier", Ignored(ChatFeature::ServiceTier)),
    ("prompt_cache_key", Ignored(ChatFeature::CachePoints)),
    ("prompt_cache_options", Ignored(ChatFeature::CachePoints)),
    ("prompt_cache_retention", Ignored(ChatFeature::CachePoints)),
    ("context_management", Ignored(ChatFeature::ContextEditing)),
]);

const TEXT: ObjectRule = rule(&[("format", Read), ("verbosity", Read)]);

const REASONING: ObjectRule = rule(&[
    ("effort", Read),
    ("summary", Read),
    ("mode", Default(&[r#""standard""#])),
    ("generate_summary", Ignored(ChatFeature::ReasoningSummary)),
    ("context", Ignored(ChatFeature::ReasoningState)),
]);

const ITEM: ObjectRule = rule(&[
    ("type", Read),
    ("role", Read),
    ("content", List(&PART)),
    ("call_id", Read),
    ("name", Read),
    ("namespace", Read),
    ("arguments", Read),
    ("input", Read),
    ("output", List(&PART)),
    ("tools", List(&TOOL)),
    ("id", Ignored(ChatFeature::Identifiers)),
    ("status", Ignored(ChatFeature::Identifiers)),
    ("phase", Ignored(ChatFeature::Identifiers)),
    ("end_turn", Ignored(ChatFeature::Identifiers)),
    ("summary", Ignored(ChatFeature::ReasoningState)),
    ("encrypted_content", Ignored(ChatFeature::ReasoningState)),
    ("action", Ignored(ChatFeature::VendorToolHistory)),
]);

const PART: ObjectRule = rule(&[
    ("type", Read),
    ("text", Read),
    ("refusal", Read),
    ("image_url", Read),
    ("file_id", Read),
    ("file_data", Read),
    ("file_url", Read),
    ("filename", Read),
    ("detail", Ignored(ChatFeature::ImageDetail)),
    ("annotations", Ignored(ChatFeature::VendorToolHistory)),
    ("logprobs", Ignored(ChatFeature::Delivery)),
    ("prompt_cache_breakpoint", Ignored(ChatFeature::CachePoints)),
]);

const TOOL: ObjectRule = rule(&[
    ("type", Read),
    ("name", Read),
    ("description", Read),
    ("parameters", Read),
    ("strict", Read),
    ("format", Read),
    ("defer_loading", Ignored(ChatFeature::ContextEditing)),
    ("tools", List(&NESTED_TOOL)),
    ("external_web_access", Ignored(ChatFeature::WebSearchOffer)),
    ("indexed_web_access", Ignored(ChatFeature::WebSearchOffer)),
    ("search_context_size", Ignored(ChatFeature::WebSearchOffer)),
    ("search_content_types", Ignored(ChatFeature::WebSearchOffer)),
    ("filters", Ignored(ChatFeature::WebSearchOffer)),
    ("user_location", Ignored(ChatFeature::WebSearchOffer)),
]);

/// A tool in a namespace.
const NESTED_TOOL: ObjectRule = rule(&[
    ("type", Read),
    ("name", Read),
    ("description", Read),
    ("parameters", Read),
    ("strict", Read),
    ("format", Read),
    ("defer_loading", Ignored(ChatFeature::ContextEditing)),
]);

const fn rule(fields: &'static [(&'static str, FieldRule)]) -> ObjectRule {
    ObjectRule { has_snake_case: false, fields }
}
