//! The table of features.

use super::feature::FeatureCell::{self, Absent, Emulated, Field, OwnOnly};
use super::feature::{ChatFeature, FeatureRow};

/// Every feature, in the order in which they are checked.
pub const FEATURES: &[FeatureRow] = &[
    row(
        ChatFeature::StructuredOutput,
        "structured output",
        [
            Field("output_config.format"),
            Field("response_format"),
            Field("text.format"),
            Field("outputConfig.textFormat"),
            Field("generationConfig.responseJsonSchema"),
        ],
    ),
    row(
        ChatFeature::JsonMode,
        "JSON output without a schema",
        [
            Absent,
            Field("response_format"),
            Field("text.format"),
            Absent,
            Field("generationConfig.responseMimeType"),
        ],
    ),
    row(
        ChatFeature::Reasoning,
        "reasoning effort",
        [
            Field("thinking"),
            Field("reasoning_effort"),
            Field("reasoning.effort"),
            Field("additionalModelRequestFields"),
            Field("generationConfig.thinkingConfig"),
        ],
    ),
    ignorable(
        ChatFeature::ReasoningSummary,
        "reasoning summaries",
        "they show how the answer came about and are not part of it",
        [
            Field("thinking.display"),
            Absent,
            Field("reasoning.summary"),
            Absent,
            Field("generationConfig.thinkingConfig.includeThoughts"),
        ],
    ),
    row(
        ChatFeature::ForcedTool,
        "a required tool call",
        [
            Field("tool_choice"),
            Field("tool_choice"),
            Field("tool_choice"),
            Field("toolConfig.toolChoice"),
            Field("toolConfig.functionCallingConfig"),
        ],
    ),
    row(
        ChatFeature::NoTool,
        "tools that must not be called",
        [
            Field("tool_choice"),
            Field("tool_choice"),
            Field("tool_choice"),
            Emulated("the tools are not offered, if the conversation has no tool calls"),
            Field("toolConfig.functionCallingConfig"),
        ],
    ),
    row(
        ChatFeature::AllowedTools,
        "a subset of the tools",
        [
            Emulated("only the allowed tools are offered"),
            Field("tool_choice"),
            Field("tool_choice"),
            Emulated("only the allowed tools are offered"),
            Field("toolConfig.functionCallingConfig.allowedFunctionNames"),
        ],
    ),
    row(
        ChatFeature::SingleToolCall,
        "no parallel tool calls",
        [
            Field("tool_choice.disable_parallel_tool_use"),
            Field("parallel_tool_calls"),
            Field("parallel_tool_calls"),
            Absent,
            Absent,
        ],
    ),
    row(
        ChatFeature::StrictTools,
        "strict tools",
        [
            Field("tools.strict"),
            Field("tools.function.strict"),
            Field("tools.strict"),
            Field("toolConfig.tools.toolSpec.strict"),
            Field("toolConfig.functionCallingConfig.mode"),
        ],
    ),
    row(
        ChatFeature::CustomTools,
        "tools with free text",
        [
            Emulated("a function with one text"),
            Field("tools.custom"),
            Field("tools"),
            Emulated("a function with one text"),
            Emulated("a function with one text"),
        ],
    ),
    row(
        ChatFeature::Images,
        "images",
        [
            Field("messages.content.image"),
            Field("messages.content.image_url"),
            Field("input.content.input_image"),
            Field("messages.content.image"),
            Field("contents.parts.inlineData"),
        ],
    ),
    row(
        ChatFeature::ImageUrls,
        "images by URL",
        [
            Field("messages.content.image.source.url"),
            Field("messages.content.image_url"),
            Field("input.content.input_image"),
            Absent,
            Absent,
        ],
    ),
    row(
        ChatFeature::Documents,
        "documents",
        [
            Field("messages.content.document"),
            Field("messages.content.file"),
            Field("input.content.input_file"),
            Field("messages.content.document"),
            Field("contents.parts.inlineData"),
        ],
    ),
    row(
        ChatFeature::DocumentUrls,
        "documents by URL",
        [
            Field("messages.content.document.source.url"),
            Absent,
            Field("input.content.input_file.file_url"),
            Absent,
            Absent,
        ],
    ),
    row(
        ChatFeature::StopSequences,
        "stop sequences",
        [
            Field("stop_sequences"),
            Field("stop"),
            Absent,
            Field("inferenceConfig.stopSequences"),
            Field("generationConfig.stopSequences"),
        ],
    ),
    row(
        ChatFeature::Sampling,
        "temperature and top_p",
        [
            Field("temperature"),
            Field("temperature"),
            Field("temperature"),
            Field("inferenceConfig.temperature"),
            Field("generationConfig.temperature"),
        ],
    ),
    row(
        ChatFeature::HighTemperature,
        "a temperature above 1",
        [Absent, Field("temperature"), Field("temperature"), Absent, Field("generationConfig.temperature")],
    ),
    row(
        ChatFeature::TopK,
        "top_k",
        [
            Field("top_k"),
            OwnOnly("top_k"),
            Absent,
            Field("additionalModelRequestFields.top_k"),
            Field("generationConfig.topK"),
        ],
    ),
    row(ChatFeature::Seed, "a seed", [Absent, Field("seed"), Absent, Absent, Field("generationConfig.seed")]),
    row(
        ChatFeature::Penalties,
        "presence and frequency penalties",
        [Absent, Field("frequency_penalty"), Absent, Absent, Field("generationConfig.frequencyPenalty")],
    ),
    row(ChatFeature::LogitBias, "logit_bias", [Absent, OwnOnly("logit_bias"), Absent, Absent, Absent]),
    row(
        ChatFeature::Verbosity,
        "verbosity",
        [Absent, Field("verbosity"), Field("text.verbosity"), Absent, Absent],
    ),
    row(
        ChatFeature::Choices,
        "several answers",
        [Absent, OwnOnly("n"), Absent, Absent, OwnOnly("generationConfig.candidateCount")],
    ),
    row(
        ChatFeature::LogProbabilities,
        "log probabilities",
        [
            Absent,
            OwnOnly("logprobs"),
            OwnOnly("top_logprobs"),
            Absent,
            OwnOnly("generationConfig.responseLogprobs"),
        ],
    ),
    ignorable(
        ChatFeature::CachePoints,
        "cache points",
        "they change what a prompt costs, not how it is answered",
        [
            Field("cache_control"),
            OwnOnly("prompt_cache_key"),
            OwnOnly("prompt_cache_key"),
            Field("cachePoint"),
            Absent,
        ],
    ),
    ignorable(
        ChatFeature::Identifiers,
        "user and request identifiers",
        "they are for one vendor's abuse monitoring and reports, and are not passed to another vendor",
        [
            OwnOnly("metadata"),
            OwnOnly("user"),
            OwnOnly("safety_identifier"),
            OwnOnly("requestMetadata"),
            OwnOnly("labels"),
        ],
    ),
    ignorable(
        ChatFeature::ServiceTier,
        "service tier and speed",
        "they change price and speed, not the answer; the target's default tier is used and billed",
        [
            OwnOnly("service_tier"),
            OwnOnly("service_tier"),
            OwnOnly("service_tier"),
            OwnOnly("serviceTier"),
            OwnOnly("serviceTier"),
        ],
    ),
    ignorable(
        ChatFeature::ImageDetail,
        "the resolution of images",
        "the image is sent whole; each vendor scales it to what its models read",
        [
            Absent,
            OwnOnly("messages.content.image_url.detail"),
            OwnOnly("input.content.detail"),
            Absent,
            OwnOnly("generationConfig.mediaResolution"),
        ],
    ),
    ignorable(
        ChatFeature::ReasoningState,
        "thoughts of earlier turns",
        "they are signed or encrypted for the vendor that made them, and no other can read them",
        [
            OwnOnly("messages.content.thinking"),
            OwnOnly("messages.reasoning_content"),
            OwnOnly("input.reasoning"),
            OwnOnly("messages.content.reasoningContent"),
            OwnOnly("contents.parts.thoughtSignature"),
        ],
    ),
    ignorable(
        ChatFeature::ContextEditing,
        "context editing and compaction",
        "they only shorten what the vendor reads; the target receives the whole conversation",
        [OwnOnly("context_management"), Absent, OwnOnly("context_management"), Absent, Absent],
    ),
    ignorable(
        ChatFeature::WebSearchOffer,
        "an offer to search the web",
        "the model may decline it, and coding agents make it in every request; a required search is refused",
        [Absent, Absent, OwnOnly("tools.web_search"), Absent, Absent],
    ),
    ignorable(
        ChatFeature::VendorToolHistory,
        "calls of the vendor's own tools in earlier turns",
        "their results are bound to their vendor; what the model wrote about them is kept",
        [
            OwnOnly("messages.content.server_tool_use"),
            OwnOnly("messages.annotations"),
            OwnOnly("input.web_search_call"),
            Absent,
            Absent,
        ],
    ),
    ignorable(
        ChatFeature::Delivery,
        "delivery hints",
        "they change how fast or in what pieces an answer arrives",
        [
            OwnOnly("tools.eager_input_streaming"),
            OwnOnly("prediction"),
            OwnOnly("stream_options"),
            Absent,
            Absent,
        ],
    ),
];

const fn row(feature: ChatFeature, name: &'static str, cells: [FeatureCell; 5]) -> FeatureRow {
    FeatureRow { feature, name, ignorable: None, cells }
}

const fn ignorable(
    feature: ChatFeature,
    name: &'static str,
    reason: &'static str,
    cells: [FeatureCell; 5],
) -> FeatureRow {
    FeatureRow { feature, name, ignorable: Some(reason), cells }
}

#[cfg(test)]
mod tests {
    use super::FEATURES;
    use crate::chat::ChatFeature;

    #[test]
    fn every_feature_has_exactly_one_row() {
        for (index, row) in FEATURES.iter().enumerate() {
            assert_eq!(row.feature as usize, index, "{}", row.name);
            assert_eq!(row.feature.row().name, row.name);
        }
        assert_eq!(FEATURES.len(), ChatFeature::Delivery as usize + 1);
    }
}
