//! Operations that generate no answer: embeddings and compaction.

use super::call::ModelCall;
use super::chance::Dice;
use bytes::Bytes;
use seawall_wire::chat::{ChatAnswer, ChatRequest, RequestPart, Role, Turn};
use seawall_wire::dialect::{DialectId, ModelOperation};
use seawall_wire::embeddings::{
    BedrockEmbeddingModel, EmbeddingsRequest, read_embeddings_head, read_embeddings_request, write_embeddings,
};
use seawall_wire::{RequestError, RequestLimits};
use serde_json::json;

/// The length of vectors if the request sets none: as OpenAI's small model.
const DIMENSIONS: u32 = 1_536;
/// The longest vector, so that a request cannot ask for more memory than it has bytes.
const MAX_DIMENSIONS: u32 = 3_072;

/// The format of an operation that generates no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationFormat {
    OpenAiEmbeddings,
    BedrockEmbeddings(BedrockEmbeddingModel),
    Compaction,
}

impl OperationFormat {
    pub(super) fn of_call(call: &ModelCall) -> Option<Self> {
        match call.url.operation {
            ModelOperation::Embed => Some(Self::OpenAiEmbeddings),
            ModelOperation::Compact => Some(Self::Compaction),
            ModelOperation::Generate if call.dialect == DialectId::BEDROCK_INVOKE => {
                BedrockEmbeddingModel::named(&call.url.model).map(Self::BedrockEmbeddings)
            }
            ModelOperation::Generate => None,
        }
    }

    /// Whether the operation needs a model that embeds.
    pub(super) const fn embeds(self) -> bool {
        matches!(self, Self::OpenAiEmbeddings | Self::BedrockEmbeddings(_))
    }

    /// Reads the texts as a conversation to which there is no answer; `None` if the request is a conversation.
    pub(super) fn read(
        self,
        model: &str,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Option<Result<ChatRequest, RequestError>> {
        let (model, read) = match self {
            Self::OpenAiEmbeddings => match read_embeddings_head(body, limits) {
                Ok(head) => (head.model, read_embeddings_request(body, limits)),
                Err(error) => return Some(Err(error)),
            },
            Self::BedrockEmbeddings(family) => (model.to_owned(), family.read_request(body, limits)),
            Self::Compaction => return None,
        };
        Some(read.map(|EmbeddingsRequest { texts, .. }| ChatRequest {
            model,
            turns: vec![Turn { role: Role::User, parts: texts.into_iter().map(RequestPart::Text).collect() }],
            max_output: Some(0),
            ..ChatRequest::default()
        }))
    }

    /// Writes the answer. `answer` has the usage and, for compaction, the text.
    pub(super) fn write(self, body: &[u8], answer: &ChatAnswer) -> Bytes {
        let limits = RequestLimits::default();
        let input = answer.usage.total_input();
        match self {
            Self::OpenAiEmbeddings => {
                let encoding = read_embeddings_head(body, &limits).map(|head| head.encoding);
                let vectors = vectors(read_embeddings_request(body, &limits));
                write_embeddings(&vectors, encoding.unwrap_or_default(), &answer.model, input)
            }
            Self::BedrockEmbeddings(family) => {
                family.write_answer(&vectors(family.read_request(body, &limits)), input)
            }
            Self::Compaction => {
                let output = answer.usage.output;
                let item = json!({
                    "type": "compaction", "id": format!("cmp_{}", answer.id), "encrypted_content": summary(answer),
                });
                let usage = json!({
                    "input_tokens": input, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": output,
                    "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input.saturating_add(output),
                });
                let compaction = json!({
                    "id": answer.id, "object": "response.compaction", "created_at": super::answer_writer::CREATED,
                    "output": [item], "usage": usage,
                });
                compaction.to_string().into()
            }
        }
    }
}

/// The vendor's content is encrypted; this is only not readable at a glance.
fn summary(answer: &ChatAnswer) -> String {
    let mut dice = Dice::new(0).with_text(&answer.id);
    (0..32).map(|_| format!("{:08x}", dice.roll().bits() >> 32)).collect()
}

/// Vectors of length 1 that depend on the texts alone.
fn vectors(request: Result<EmbeddingsRequest, RequestError>) -> Vec<Vec<f32>> {
    // The request was read before.
    let Ok(EmbeddingsRequest { texts, dimensions, .. }) = request else { return Vec::new() };
    let length = dimensions.unwrap_or(DIMENSIONS).clamp(1, MAX_DIMENSIONS);
    texts.iter().map(|text| vector(text, length)).collect()
}

fn vector(text: &str, length: u32) -> Vec<f32> {
    let mut dice = Dice::new(0).with_text(text);
    let mut draw = || {
        // 16 bits are exact in a float.
        let bits = u16::try_from(dice.roll().bits() >> 48).unwrap_or(u16::MAX);
        f32::from(bits) / f32::from(u16::MAX) - 0.5
    };
    let numbers: Vec<f32> = (0..length).map(|_| draw()).collect();
    let norm = numbers.iter().map(|number| number * number).sum::<f32>().sqrt();
    numbers.into_iter().map(|number| number / norm).collect()
}
