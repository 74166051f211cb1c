//! The fields of a request that a translation accounts for.

use crate::chat::ChatFeature;
use crate::chat::FieldRule::{self, Default, Ignored, List, Object, Read};
use crate::chat::ObjectRule;

pub(super) const REQUEST: ObjectRule = rule(&[
    ("model", Read),
    ("contents", List(&CONTENT)),
    ("systemInstruction", Object(&CONTENT)),
    ("tools", List(&TOOL)),
    ("toolConfig", Object(&TOOL_CONFIG)),
    ("generationConfig", Object(&CONFIG)),
    ("cachedContent", Read),
    ("safetySettings", Default(&["[]"])),
    ("store", Default(&["false"])),
    ("labels", Ignored(ChatFeature::Identifiers)),
    ("serviceTier", Ignored(ChatFeature::ServiceTier)),
]);

const CONTENT: ObjectRule = rule(&[("role", Read), ("parts", List(&PART))]);

const PART: ObjectRule = rule(&[
    ("text", Read),
    ("inlineData", Object(&BLOB)),
    ("functionCall", Object(&CALL)),
    ("functionResponse", Object(&RESPONSE)),
    ("thought", Ignored(ChatFeature::ReasoningState)),
    ("thoughtSignature", Ignored(ChatFeature::ReasoningState)),
    ("mediaResolution", Ignored(ChatFeature::ImageDetail)),
    ("partMetadata", Ignored(ChatFeature::Identifiers)),
]);

const BLOB: ObjectRule = rule(&[("mimeType", Read), ("data", Read), ("displayName", Read)]);
const CALL: ObjectRule = rule(&[("id", Read), ("name", Read), ("args", Read)]);
const RESPONSE: ObjectRule =
    rule(&[("id", Read), ("name", Read), ("response", Read), ("parts", List(&RESPONSE_PART))]);
const RESPONSE_PART: ObjectRule = rule(&[("inlineData", Object(&BLOB))]);

const TOOL: ObjectRule = rule(&[("functionDeclarations", List(&FUNCTION))]);
const FUNCTION: ObjectRule =
    rule(&[("name", Read), ("description", Read), ("parameters", Read), ("parametersJsonSchema", Read)]);
const TOOL_CONFIG: ObjectRule = rule(&[("functionCallingConfig", Object(&CALLING))]);
const CALLING: ObjectRule = rule(&[("mode", Read), ("allowedFunctionNames", Read)]);

const CONFIG: ObjectRule = rule(&[
    ("temperature", Read),
    ("topP", Read),
    ("topK", Read),
    ("candidateCount", Read),
    ("maxOutputTokens", Read),
    ("stopSequences", Read),
    ("seed", Read),
    ("presencePenalty", Read),
    ("frequencyPenalty", Read),
    ("responseLogprobs", Read),
    ("logprobs", Read),
    ("responseMimeType", Read),
    ("responseSchema", Read),
    ("responseJsonSchema", Read),
    ("responseModalities", Read),
    ("speechConfig", Read),
    ("imageConfig", Read),
    ("thinkingConfig", Object(&THINKING)),
    ("mediaResolution", Ignored(ChatFeature::ImageDetail)),
]);

const THINKING: ObjectRule =
    rule(&[("includeThoughts", Read), ("thinkingBudget", Read), ("thinkingLevel", Read)]);

const fn rule(fields: &'static [(&'static str, FieldRule)]) -> ObjectRule {
    ObjectRule { has_snake_case: true, fields }
}
