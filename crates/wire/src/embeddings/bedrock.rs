//! The embedding models on Amazon Bedrock, called by InvokeModel.

use super::answer::parse;
use super::head::EmbeddingsRequest;
use crate::answer_error::AnswerError;
use crate::fields::{JsonFields, each, string_of};
use crate::json_out::put_json;
use crate::request::{RequestLimits, check_text};
use crate::request_error::RequestError;
use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The texts in one call of a Cohere model.
const MAX_COHERE_TEXTS: usize = 96;
/// The purpose that Cohere recommends for texts that are stored and searched.
const DEFAULT_INPUT_TYPE: &str = "search_document";

/// A family of embedding models on Bedrock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BedrockEmbeddingModel {
    /// `amazon.titan-embed-text-v1`: one text per call.
    TitanV1,
    /// `amazon.titan-embed-text-v2:0`: one text per call, vectors of 256, 512 or 1,024 numbers.
    TitanV2,
    /// `cohere.embed-english-v3` and `cohere.embed-multilingual-v3`: up to 96 texts.
    CohereV3,
    /// `cohere.embed-v4:0`: the same, with a length of the vectors.
    CohereV4,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TitanRequest<'a> {
    input_text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<u32>,
}

#[derive(Serialize)]
struct CohereRequest<'a> {
    texts: &'a [String],
    input_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_dimension: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockAnswer {
    embedding: Option<Vec<f32>>,
    #[serde(default)]
    input_text_token_count: u64,
    embeddings: Option<CohereVectors>,
}

/// Cohere answers with a list, or with one list per type if the request names types.
#[derive(Deserialize)]
#[serde(untagged)]
enum CohereVectors {
    Plain(Vec<Vec<f32>>),
    ByType { float: Vec<Vec<f32>> },
}

impl BedrockEmbeddingModel {
    /// The family of a model id, also of one in an inference profile or an ARN; `None` if it is no embedding model.
    #[must_use]
    pub fn named(model: &str) -> Option<Self> {
        [
            ("amazon.titan-embed-text-v1", Self::TitanV1),
            ("amazon.titan-embed-text-v2", Self::TitanV2),
            ("cohere.embed-english-v3", Self::CohereV3),
            ("cohere.embed-multilingual-v3", Self::CohereV3),
            ("cohere.embed-v4", Self::CohereV4),
        ]
        .into_iter()
        .find_map(|(name, family)| model.contains(name).then_some(family))
    }

    /// Writes a request. The error names what the model cannot do.
    pub fn write_request(self, request: &EmbeddingsRequest) -> Result<Bytes, RequestError> {
        let EmbeddingsRequest { texts, dimensions, input_type } = request;
        let dimensions = *dimensions;
        let mut out = BytesMut::new();
        if dimensions.is_some() && matches!(self, Self::TitanV1 | Self::CohereV3) {
            return Err(RequestError::untranslatable("dimensions", "vectors of another length"));
        }
        match self {
            Self::TitanV1 | Self::TitanV2 => {
                let [input_text] = &texts[..] else {
                    return Err(RequestError::untranslatable("input", "more than one text per request"));
                };
                put_json(&mut out, &TitanRequest { input_text, dimensions });
            }
            Self::CohereV3 | Self::CohereV4 => {
                if texts.len() > MAX_COHERE_TEXTS {
                    return Err(RequestError::untranslatable("input", "more than 96 texts per request"));
                }
                let input_type = input_type.as_deref().unwrap_or(DEFAULT_INPUT_TYPE);
                put_json(&mut out, &CohereRequest { texts, input_type, output_dimension: dimensions });
            }
        }
        Ok(out.freeze())
    }

    /// Reads a request, as the model does.
    pub fn read_request(
        self,
        body: &[u8],
        limits: &RequestLimits,
    ) -> Result<EmbeddingsRequest, RequestError> {
        let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
        let length = |field: &str| {
            let raw = fields.get(field).map(|raw| raw.get().parse());
            raw.transpose().map_err(|_| RequestError::invalid(field, "Input should be a positive integer"))
        };
        match self {
            Self::TitanV1 | Self::TitanV2 => Ok(EmbeddingsRequest {
                texts: vec![fields.need_string("inputText")?],
                dimensions: length("dimensions")?,
                input_type: None,
            }),
            Self::CohereV3 | Self::CohereV4 => {
                let texts = each(fields.need("texts")?, limits, string_of);
                Ok(EmbeddingsRequest {
                    texts: texts.map_err(|error| error.within("texts"))?,
                    dimensions: length("output_dimension")?,
                    input_type: Some(fields.need_string("input_type")?),
                })
            }
        }
    }

    /// The vectors of an answer, and the tokens that it counts; 0 if it counts none.
    pub fn read_answer(body: &[u8]) -> Result<(Vec<Vec<f32>>, u64), AnswerError> {
        let BedrockAnswer { embedding, input_text_token_count, embeddings } = parse(body)?;
        let vectors = match (embedding, embeddings) {
            (Some(vector), None) => vec![vector],
            (None, Some(CohereVectors::Plain(vectors) | CohereVectors::ByType { float: vectors })) => vectors,
            _ => return Err(AnswerError::unreadable("it has no embeddings")),
        };
        Ok((vectors, input_text_token_count))
    }

    /// Writes an answer, as the model does.
    #[must_use]
    pub fn write_answer(self, vectors: &[Vec<f32>], input_tokens: u64) -> Bytes {
        let body = match self {
            Self::TitanV1 | Self::TitanV2 => {
                json!({"embedding": vectors.first(), "inputTextTokenCount": input_tokens})
            }
            Self::CohereV3 => {
                json!({"embeddings": vectors, "response_type": "embeddings_floats"})
            }
            Self::CohereV4 => {
                json!({"embeddings": {"float": vectors}, "response_type": "embeddings_by_type"})
            }
        };
        body.to_string().into()
    }
}
