//! Models of other vendors on Bedrock that have their own body format: Titan and Llama. They generate the same text as
//! every other simulated model.

use bytes::{Bytes, BytesMut};
use seawall_wire::bedrock::{StreamKind, write_chunk, write_failure_frame};
use seawall_wire::chat::{
    AnswerPart, ChatAnswer, ChatEvent, ChatRequest, FinishReason, RequestPart, Role, Turn, Usage,
};
use seawall_wire::dialect::UrlParameters;
use seawall_wire::{JsonFields, RequestError, RequestLimits};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The body format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VendorFormat {
    /// `inputText`, and `textGenerationConfig`.
    Titan,
    /// `prompt`, and `max_gen_len`.
    Llama,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TitanFields {
    input_text: Option<String>,
    text_generation_config: Option<TitanConfig>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TitanConfig {
    max_token_count: Option<u32>,
}

#[derive(Deserialize)]
struct LlamaFields {
    prompt: Option<String>,
    max_gen_len: Option<u32>,
}

impl VendorFormat {
    /// The body format of a model id; `None` for Anthropic's.
    pub(super) fn of_model(model: &str) -> Option<Self> {
        if model.contains("amazon.titan") {
            Some(Self::Titan)
        } else if model.contains("meta.llama") {
            Some(Self::Llama)
        } else {
            None
        }
    }

    /// Parses the request body.
    pub(super) fn read(
        self,
        url: &UrlParameters,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<ChatRequest, RequestError> {
        JsonFields::read(body, limits)?;
        let wrong = |field: &str| RequestError::Invalid {
            field: field.to_owned(),
            problem: "is not a valid body for this model",
        };
        let (field, text, max_output) = match self {
            Self::Titan => {
                let fields: TitanFields = serde_json::from_slice(body).map_err(|_| wrong("inputText"))?;
                let config = fields.text_generation_config.and_then(|config| config.max_token_count);
                ("inputText", fields.input_text, config)
            }
            Self::Llama => {
                let fields: LlamaFields = serde_json::from_slice(body).map_err(|_| wrong("prompt"))?;
                ("prompt", fields.prompt, fields.max_gen_len)
            }
        };
        let text = text.ok_or_else(|| RequestError::Missing { field: field.to_owned() })?;
        Ok(ChatRequest {
            model: url.model.clone(),
            turns: vec![Turn { role: Role::User, parts: vec![RequestPart::Text(text)] }],
            max_output,
            stream: url.stream,
            stream_usage: true,
            ..ChatRequest::default()
        })
    }

    /// Writes the body of a whole answer.
    pub(super) fn write_answer(self, answer: &ChatAnswer) -> Bytes {
        let text: String = answer.parts.iter().filter_map(text_of).collect();
        let Usage { input, output, .. } = answer.usage;
        let reason = self.reason(answer.finish);
        let body = match self {
            Self::Titan => json!({
                "inputTextTokenCount": input,
                "results": [{ "tokenCount": output, "outputText": text, "completionReason": reason }],
            }),
            Self::Llama => json!({
                "generation": text, "prompt_token_count": input, "generation_token_count": output,
                "stop_reason": reason,
            }),
        };
        body.to_string().into()
    }

    const fn reason(self, finish: FinishReason) -> &'static str {
        match (self, finish) {
            (Self::Titan, FinishReason::MaxTokens) => "LENGTH",
            (Self::Titan, _) => "FINISH",
            (Self::Llama, FinishReason::MaxTokens) => "length",
            (Self::Llama, _) => "stop",
        }
    }

    fn chunk(self, text: &str, reason: Option<&str>) -> Value {
        match self {
            Self::Titan => json!({ "outputText": text, "index": 0, "completionReason": reason }),
            Self::Llama => json!({ "generation": text, "stop_reason": reason }),
        }
    }
}

fn text_of(part: &AnswerPart) -> Option<&str> {
    match part {
        AnswerPart::Text(text) => Some(text),
        AnswerPart::ToolCall(_) => None,
    }
}

/// Writes one stream.
pub(super) struct VendorFormatWriter {
    format: VendorFormat,
    usage: Usage,
}

impl VendorFormatWriter {
    pub(super) const fn new(format: VendorFormat) -> Self {
        Self { format, usage: super::answer_writer::NO_USAGE }
    }

    /// Appends the frames for an event; `at` is the time since the request arrived.
    pub(super) fn write(&mut self, out: &mut BytesMut, event: &ChatEvent, at: Duration) {
        match event {
            ChatEvent::Started { usage, .. } | ChatEvent::Usage(usage) => self.usage = *usage,
            ChatEvent::Text(text) => {
                write_chunk(out, self.format.chunk(text, None).to_string().as_bytes());
            }
            ChatEvent::Finished(finish) => {
                let mut last = self.format.chunk("", Some(self.format.reason(*finish)));
                last["amazon-bedrock-invocationMetrics"] = json!({
                    "inputTokenCount": self.usage.input, "outputTokenCount": self.usage.output,
                    "invocationLatency": at.as_millis(), "firstByteLatency": 0,
                });
                write_chunk(out, last.to_string().as_bytes());
            }
            ChatEvent::Failed { failure, message } => {
                write_failure_frame(out, StreamKind::Invoke, failure.kind, message);
            }
            ChatEvent::Thinking(_) | ChatEvent::ToolCallStarted { .. } | ChatEvent::ToolInput(_) => {}
        }
    }
}
