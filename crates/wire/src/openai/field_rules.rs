//! The fields of a request that a translation accounts for.

use crate::chat::ChatFeature;
use crate::chat::FieldRule::{self, Default, Ignored, IgnoredBeside, List, Object, Read};
use crate::chat::ObjectRule;

pub(super) const REQUEST: ObjectRule = rule(&[
    ("model", Read),
    ("messages", List(&MESSAGE)),
    ("tools", List(&TOOL)),
    ("tool_choice", Read),
    ("parallel_tool_calls", Read),
    ("max_tokens", Read),
    ("max_completion_tokens", Read),
    ("temperature", Read),
    ("top_p", Read),
    ("top_k", Read),
    ("stop", Read),
    ("stream", Read),
    ("stream_options", Object(&STREAM_OPTIONS)),
    ("n", Read),
    ("logprobs", Read),
    ("top_logprobs", Read),
    ("seed", Read),
    ("presence_penalty", Read),
    ("frequency_penalty", Read),
    ("logit_bias", Read),
    ("response_format", Read),
    ("reasoning_effort", Read),
    ("verbosity", Read),
    ("functions", Read),
    ("function_call", Read),
    ("audio", Read),
    ("modalities", Default(&[r#"["text"]"#])),
    ("store", Default(&["false"])),
    ("user", Ignored(ChatFeature::Identifiers)),
    ("safety_identifier", Ignored(ChatFeature::Identifiers)),
    ("metadata", Ignored(ChatFeature::Identifiers)),
    ("service_tier", Ignored(ChatFeature::ServiceTier)),
    ("prompt_cache_key", Ignored(ChatFeature::CachePoints)),
    ("prompt_cache_retention", Ignored(ChatFeature::CachePoints)),
    ("prompt_cache_options", Ignored(ChatFeature::CachePoints)),
    ("prediction", Ignored(ChatFeature::Delivery)),
]);

const STREAM_OPTIONS: ObjectRule =
    rule(&[("include_usage", Read), ("include_obfuscation", Ignored(ChatFeature::Delivery))]);

const MESSAGE: ObjectRule = rule(&[
    ("role", Read),
    ("content", List(&PART)),
    // In a result of a tool it repeats the name in the call; elsewhere it names a participant.
    ("name", IgnoredBeside("role", r#""tool""#, ChatFeature::Identifiers)),
    ("refusal", Read),
    ("tool_calls", List(&CALL)),
    ("tool_call_id", Read),
    ("function_call", Read),
    ("reasoning", Ignored(ChatFeature::ReasoningState)),
    ("reasoning_content", Ignored(ChatFeature::ReasoningState)),
    ("reasoning_details", Ignored(ChatFeature::ReasoningState)),
    ("annotations", Ignored(ChatFeature::VendorToolHistory)),
    ("cache_control", Ignored(ChatFeature::CachePoints)),
]);

const PART: ObjectRule = rule(&[
    ("type", Read),
    ("text", Read),
    ("refusal", Read),
    ("image_url", Object(&IMAGE_URL)),
    ("file", Object(&FILE)),
    ("cache_control", Ignored(ChatFeature::CachePoints)),
    ("prompt_cache_breakpoint", Ignored(ChatFeature::CachePoints)),
]);

const IMAGE_URL: ObjectRule = rule(&[("url", Read), ("detail", Ignored(ChatFeature::ImageDetail))]);
const FILE: ObjectRule = rule(&[("file_data", Read), ("filename", Read), ("file_id", Read)]);

const CALL: ObjectRule = rule(&[
    ("id", Read),
    ("type", Read),
    ("function", Object(&CALLED_FUNCTION)),
    ("custom", Object(&CALLED_CUSTOM)),
    ("index", Ignored(ChatFeature::Identifiers)),
    ("extra_content", Ignored(ChatFeature::ReasoningState)),
]);

const CALLED_FUNCTION: ObjectRule = rule(&[("name", Read), ("arguments", Read)]);
const CALLED_CUSTOM: ObjectRule = rule(&[("name", Read), ("input", Read)]);

const TOOL: ObjectRule = rule(&[
    ("type", Read),
    ("function", Object(&FUNCTION)),
    ("custom", Object(&CUSTOM)),
    ("cache_control", Ignored(ChatFeature::CachePoints)),
]);

const FUNCTION: ObjectRule =
    rule(&[("name", Read), ("description", Read), ("parameters", Read), ("strict", Read)]);
const CUSTOM: ObjectRule = rule(&[("name", Read), ("description", Read), ("format", Read)]);

const fn rule(fields: &'static [(&'static str, FieldRule)]) -> ObjectRule {
    ObjectRule { has_snake_case: false, fields }
}
