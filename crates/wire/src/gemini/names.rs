//! Field names of requests. The vendor accepts each in camelCase and in snake_case.

use crate::fields::JsonFields;
use crate::request_error::RequestError;

/// A field name in the two spellings that the vendor accepts.
#[derive(Clone, Copy)]
pub(super) struct FieldName {
    camel: &'static str,
    snake: &'static str,
}

impl FieldName {
    const fn new(camel: &'static str, snake: &'static str) -> Self {
        Self { camel, snake }
    }

    /// The spelling in which the field is present, or camelCase if it is absent. A request with both spellings is
    /// rejected, even if one of them is null, because the vendor's parser might use the other one.
    pub(super) fn spelled_in(self, fields: &JsonFields<'_>) -> Result<&'static str, RequestError> {
        match (fields.get_any(self.camel), fields.get_any(self.snake)) {
            (Some(_), Some(_)) => Err(RequestError::Duplicate { field: self.camel.to_owned() }),
            (None, Some(_)) => Ok(self.snake),
            (_, None) => Ok(self.camel),
        }
    }

    /// Whether the field is present and not null, in either spelling.
    pub(super) fn is_in(self, fields: &JsonFields<'_>) -> Result<bool, RequestError> {
        Ok(fields.has(self.spelled_in(fields)?))
    }
}

pub(super) const ALLOWED_FUNCTION_NAMES: FieldName =
    FieldName::new("allowedFunctionNames", "allowed_function_names");
pub(super) const CACHED_CONTENT: FieldName = FieldName::new("cachedContent", "cached_content");
pub(super) const CANDIDATE_COUNT: FieldName = FieldName::new("candidateCount", "candidate_count");
pub(super) const FUNCTION_CALL: FieldName = FieldName::new("functionCall", "function_call");
pub(super) const FUNCTION_CALLING_CONFIG: FieldName =
    FieldName::new("functionCallingConfig", "function_calling_config");
pub(super) const FUNCTION_DECLARATIONS: FieldName =
    FieldName::new("functionDeclarations", "function_declarations");
pub(super) const FUNCTION_RESPONSE: FieldName = FieldName::new("functionResponse", "function_response");
pub(super) const GENERATION_CONFIG: FieldName = FieldName::new("generationConfig", "generation_config");
pub(super) const IMAGE_CONFIG: FieldName = FieldName::new("imageConfig", "image_config");
pub(super) const INLINE_DATA: FieldName = FieldName::new("inlineData", "inline_data");
pub(super) const LOGPROBS: FieldName = FieldName::new("responseLogprobs", "response_logprobs");
pub(super) const MAX_OUTPUT_TOKENS: FieldName = FieldName::new("maxOutputTokens", "max_output_tokens");
pub(super) const MIME_TYPE: FieldName = FieldName::new("mimeType", "mime_type");
pub(super) const PARAMETERS_JSON_SCHEMA: FieldName =
    FieldName::new("parametersJsonSchema", "parameters_json_schema");
pub(super) const RESPONSE_JSON_SCHEMA: FieldName =
    FieldName::new("responseJsonSchema", "response_json_schema");
pub(super) const RESPONSE_MIME_TYPE: FieldName = FieldName::new("responseMimeType", "response_mime_type");
pub(super) const RESPONSE_MODALITIES: FieldName = FieldName::new("responseModalities", "response_modalities");
pub(super) const RESPONSE_SCHEMA: FieldName = FieldName::new("responseSchema", "response_schema");
pub(super) const SPEECH_CONFIG: FieldName = FieldName::new("speechConfig", "speech_config");
pub(super) const STOP_SEQUENCES: FieldName = FieldName::new("stopSequences", "stop_sequences");
pub(super) const SYSTEM_INSTRUCTION: FieldName = FieldName::new("systemInstruction", "system_instruction");
pub(super) const THINKING_BUDGET: FieldName = FieldName::new("thinkingBudget", "thinking_budget");
pub(super) const THINKING_CONFIG: FieldName = FieldName::new("thinkingConfig", "thinking_config");
pub(super) const THOUGHT_SIGNATURE: FieldName = FieldName::new("thoughtSignature", "thought_signature");
pub(super) const TOOL_CONFIG: FieldName = FieldName::new("toolConfig", "tool_config");
pub(super) const TOP_P: FieldName = FieldName::new("topP", "top_p");
pub(super) const FREQUENCY_PENALTY: FieldName = FieldName::new("frequencyPenalty", "frequency_penalty");
pub(super) const INCLUDE_THOUGHTS: FieldName = FieldName::new("includeThoughts", "include_thoughts");
pub(super) const PRESENCE_PENALTY: FieldName = FieldName::new("presencePenalty", "presence_penalty");
pub(super) const THINKING_LEVEL: FieldName = FieldName::new("thinkingLevel", "thinking_level");
pub(super) const TOP_K: FieldName = FieldName::new("topK", "top_k");
pub(super) const DISPLAY_NAME: FieldName = FieldName::new("displayName", "display_name");
