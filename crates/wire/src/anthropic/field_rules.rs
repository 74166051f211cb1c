//! The fields of a request that a translation accounts for.

use crate::chat::ChatFeature;
use crate::chat::FieldRule::{self, Default, Ignored, List, Object, Read};
use crate::chat::ObjectRule;

/// The fields of a request. InvokeModel has the same ones.
pub(crate) const REQUEST: ObjectRule = rule(&[
    ("model", Read),
    ("max_tokens", Read),
    ("messages", List(&MESSAGE)),
    ("system", List(&BLOCK)),
    ("tools", List(&TOOL)),
    ("tool_choice", Object(&TOOL_CHOICE)),
    ("temperature", Read),
    ("top_p", Read),
    ("top_k", Read),
    ("stop_sequences", Read),
    ("stream", Read),
    ("thinking", Object(&THINKING)),
    ("output_config", Object(&OUTPUT_CONFIG)),
    ("mcp_servers", Default(&["[]"])),
    ("cache_control", Ignored(ChatFeature::CachePoints)),
    ("metadata", Ignored(ChatFeature::Identifiers)),
    ("diagnostics", Ignored(ChatFeature::Identifiers)),
    ("service_tier", Ignored(ChatFeature::ServiceTier)),
    ("speed", Ignored(ChatFeature::ServiceTier)),
    ("context_management", Ignored(ChatFeature::ContextEditing)),
]);

const TOOL_CHOICE: ObjectRule = rule(&[("type", Read), ("name", Read), ("disable_parallel_tool_use", Read)]);
const THINKING: ObjectRule = rule(&[("type", Read), ("budget_tokens", Read), ("display", Read)]);
const OUTPUT_CONFIG: ObjectRule = rule(&[("effort", Read), ("format", Object(&FORMAT))]);
const FORMAT: ObjectRule = rule(&[("type", Read), ("schema", Read), ("name", Read)]);
const MESSAGE: ObjectRule = rule(&[("role", Read), ("content", List(&BLOCK))]);

const BLOCK: ObjectRule = rule(&[
    ("type", Read),
    ("text", Read),
    ("source", Object(&SOURCE)),
    ("title", Read),
    ("context", Read),
    ("id", Read),
    ("name", Read),
    ("input", Read),
    ("tool_use_id", Read),
    ("content", List(&RESULT_BLOCK)),
    ("is_error", Read),
    // A list is part of an earlier answer, whose text is kept; an object asks for citations.
    ("citations", Object(&CITATIONS)),
    ("caller", Ignored(ChatFeature::VendorToolHistory)),
    ("cache_control", Read),
    ("thinking", Ignored(ChatFeature::ReasoningState)),
    ("signature", Ignored(ChatFeature::ReasoningState)),
    ("data", Ignored(ChatFeature::ReasoningState)),
]);

const CITATIONS: ObjectRule = rule(&[("enabled", Default(&["false"]))]);
const SOURCE: ObjectRule = rule(&[
    ("type", Read),
    ("url", Read),
    ("media_type", Read),
    ("data", Read),
    ("file_id", Read),
    ("content", Read),
]);

const RESULT_BLOCK: ObjectRule = rule(&[
    ("type", Read),
    ("text", Read),
    ("source", Object(&SOURCE)),
    ("citations", Object(&CITATIONS)),
    ("cache_control", Ignored(ChatFeature::CachePoints)),
    // Results of the vendor's web search.
    ("url", Ignored(ChatFeature::VendorToolHistory)),
    ("title", Ignored(ChatFeature::VendorToolHistory)),
    ("encrypted_content", Ignored(ChatFeature::VendorToolHistory)),
    ("page_age", Ignored(ChatFeature::VendorToolHistory)),
    ("error_code", Ignored(ChatFeature::VendorToolHistory)),
]);

const TOOL: ObjectRule = rule(&[
    ("type", Read),
    ("name", Read),
    ("description", Read),
    ("input_schema", Read),
    ("strict", Read),
    ("defer_loading", Ignored(ChatFeature::ContextEditing)),
    ("cache_control", Read),
    ("eager_input_streaming", Ignored(ChatFeature::Delivery)),
]);

const fn rule(fields: &'static [(&'static str, FieldRule)]) -> ObjectRule {
    ObjectRule { has_snake_case: false, fields }
}
