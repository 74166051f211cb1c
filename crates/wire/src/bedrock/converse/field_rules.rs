//! The fields of a request that a translation accounts for.

use crate::chat::ChatFeature;
use crate::chat::FieldRule::{self, Default, Ignored, List, Object, Read};
use crate::chat::ObjectRule;

pub(super) const REQUEST: ObjectRule = rule(&[
    ("messages", List(&MESSAGE)),
    ("system", List(&BLOCK)),
    ("inferenceConfig", Object(&INFERENCE)),
    ("toolConfig", Object(&TOOL_CONFIG)),
    ("outputConfig", Object(&OUTPUT_CONFIG)),
    ("guardrailConfig", Read),
    ("promptVariables", Read),
    ("additionalModelRequestFields", Object(&ADDITIONAL)),
    ("additionalModelResponseFieldPaths", Default(&["[]"])),
    ("requestMetadata", Ignored(ChatFeature::Identifiers)),
    ("performanceConfig", Ignored(ChatFeature::ServiceTier)),
    ("serviceTier", Ignored(ChatFeature::ServiceTier)),
]);

const MESSAGE: ObjectRule = rule(&[("role", Read), ("content", List(&BLOCK))]);
const INFERENCE: ObjectRule =
    rule(&[("maxTokens", Read), ("temperature", Read), ("topP", Read), ("stopSequences", Read)]);
const CACHE_POINT: ObjectRule = rule(&[("type", Read), ("ttl", Read)]);
const TOOL_CONFIG: ObjectRule = rule(&[("tools", List(&TOOL)), ("toolChoice", Read)]);
const TOOL: ObjectRule = rule(&[("toolSpec", Object(&TOOL_SPEC)), ("cachePoint", Object(&CACHE_POINT))]);
const TOOL_SPEC: ObjectRule =
    rule(&[("name", Read), ("description", Read), ("inputSchema", Read), ("strict", Read)]);
const OUTPUT_CONFIG: ObjectRule = rule(&[("textFormat", Read)]);

/// Fields of Anthropic's models, and the output limits of all models.
const ADDITIONAL: ObjectRule = rule(&[
    ("thinking", Read),
    ("output_config", Object(&EFFORT)),
    ("top_k", Read),
    ("max_tokens", Read),
    ("max_completion_tokens", Read),
    ("max_tokens_to_sample", Read),
    ("max_new_tokens", Read),
    ("max_gen_len", Read),
    ("maxTokens", Read),
    ("maxTokenCount", Read),
]);
const EFFORT: ObjectRule = rule(&[("effort", Read)]);

const BLOCK: ObjectRule = rule(&[
    ("text", Read),
    ("image", Read),
    ("document", Object(&DOCUMENT)),
    ("toolUse", Read),
    ("toolResult", Object(&RESULT)),
    ("guardContent", Read),
    ("citationsContent", Read),
    ("json", Read),
    ("cachePoint", Object(&CACHE_POINT)),
    ("reasoningContent", Ignored(ChatFeature::ReasoningState)),
]);

const RESULT: ObjectRule =
    rule(&[("toolUseId", Read), ("content", List(&RESULT_BLOCK)), ("status", Read), ("type", Read)]);
const RESULT_BLOCK: ObjectRule =
    rule(&[("text", Read), ("json", Read), ("image", Read), ("document", Object(&DOCUMENT))]);
const DOCUMENT: ObjectRule =
    rule(&[("format", Read), ("name", Read), ("source", Read), ("citations", Object(&CITATIONS))]);
const CITATIONS: ObjectRule = rule(&[("enabled", Default(&["false"]))]);

const fn rule(fields: &'static [(&'static str, FieldRule)]) -> ObjectRule {
    ObjectRule { has_snake_case: false, fields }
}
