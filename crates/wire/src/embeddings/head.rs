//! Requests of OpenAI's embeddings API.

use super::answer::{VectorEncoding, read_usage, write_embeddings};
use super::bedrock::BedrockEmbeddingModel;
use crate::answer_error::AnswerError;
use crate::chat::{ChatRequest, Usage, UsageReport};
use crate::dialect::{DialectId, ModelOperation, OperationAnswer, RequestHead, RequestOptions};
use crate::fields::{JsonFields, each, is_string, string_of};
use crate::request::{RequestLimits, check_text, read_model, span_of, splice};
use crate::request_error::RequestError;
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The fields of a request that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingsHead {
    /// The requested model.
    pub model: String,
    /// The encoding of the vectors.
    pub encoding: VectorEncoding,
    /// The range of the model name in the body, quotes included.
    model_span: Range<usize>,
}

/// A request that is read whole, to be translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingsRequest {
    /// The texts, at least one. Lists of token numbers are only understood by the models of one vendor.
    pub texts: Vec<String>,
    /// The length of the vectors, if the caller requests one.
    pub dimensions: Option<u32>,
    /// The purpose of the embeddings, which Cohere's models require. It is not part of OpenAI's API.
    pub input_type: Option<String>,
}

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed.
pub fn read_embeddings_head(body: &[u8], limits: &RequestLimits) -> Result<EmbeddingsHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    let model = fields.need("model")?;
    check_input(fields.need("input")?)?;
    let encoding = match fields.string("encoding_format")?.as_deref() {
        None | Some("float") => VectorEncoding::Float,
        Some("base64") => VectorEncoding::Base64,
        Some(_) => {
            return Err(RequestError::invalid("encoding_format", "Input should be 'float' or 'base64'"));
        }
    };
    Ok(EmbeddingsHead { model: read_model(model)?, encoding, model_span: span_of(model.get(), text) })
}

fn check_input(raw: &RawValue) -> Result<(), RequestError> {
    let problem = match raw.get() {
        r#""""# => "Input should not be empty",
        text if text.starts_with('"') => return Ok(()),
        text if text.starts_with('[') => {
            if text[1..].trim_start().starts_with(']') {
                "at least one text is required"
            } else {
                return Ok(());
            }
        }
        _ => "Input should be a valid string or a list",
    };
    Err(RequestError::invalid("input", problem))
}

/// Reads the whole request. The error names what only the vendor's own models understand.
pub fn read_embeddings_request(
    body: &[u8],
    limits: &RequestLimits,
) -> Result<EmbeddingsRequest, RequestError> {
    let fields = JsonFields::of_body(check_text(body, limits)?, limits)?;
    let input = fields.need("input")?;
    let texts = if is_string(input) {
        vec![string_of(input).map_err(|error| error.within("input"))?]
    } else {
        let one = |raw: &RawValue| {
            if !is_string(raw) {
                return Err(RequestError::untranslatable("", "token numbers; send the text itself"));
            }
            string_of(raw)
        };
        each(input, limits, one).map_err(|error| error.within("input"))?
    };
    let dimensions = match fields.get("dimensions") {
        None => None,
        Some(raw) => {
            let wrong = |_| RequestError::invalid("dimensions", "Input should be a positive integer");
            Some(raw.get().parse().map_err(wrong)?)
        }
    };
    Ok(EmbeddingsRequest { texts, dimensions, input_type: fields.string("input_type")? })
}

impl RequestHead for EmbeddingsHead {
    fn model(&self) -> &str {
        &self.model
    }

    fn stream(&self) -> bool {
        false
    }

    fn max_output(&self) -> Option<u32> {
        Some(0)
    }

    fn enables_thinking(&self) -> bool {
        false
    }

    fn operation(&self) -> ModelOperation {
        ModelOperation::Embed
    }

    fn pass_through(
        &self,
        body: &Bytes,
        target: DialectId,
        options: &RequestOptions<'_>,
    ) -> Option<Result<Bytes, RequestError>> {
        if target == DialectId::OPENAI_CHAT {
            if self.model == options.model {
                return Some(Ok(body.clone()));
            }
            let model = serde_json::Value::from(options.model).to_string();
            return Some(Ok(splice(body, &[(self.model_span.clone(), &model)])));
        }
        let model =
            BedrockEmbeddingModel::named(options.model).filter(|_| target == DialectId::BEDROCK_INVOKE);
        Some(match model {
            Some(model) => read_embeddings_request(body, options.limits)
                .and_then(|request| model.write_request(&request)),
            None => Err(RequestError::untranslatable("input", "embeddings")),
        })
    }

    fn read_chat(&self, _: &[u8], _: &RequestLimits) -> Result<ChatRequest, RequestError> {
        Err(RequestError::untranslatable("input", "embeddings"))
    }

    fn read_operation_answer(
        &self,
        target: DialectId,
        body: &Bytes,
        header_usage: Option<Usage>,
    ) -> Option<Result<OperationAnswer, AnswerError>> {
        if target == DialectId::OPENAI_CHAT {
            return Some(read_usage(body).map(|report| OperationAnswer { report, body: body.clone() }));
        }
        let answer = BedrockEmbeddingModel::read_answer(body).map(|(vectors, counted)| {
            let input = header_usage.map_or(counted, |usage| usage.total_input());
            let body = write_embeddings(&vectors, self.encoding, &self.model, input);
            let usage = Usage { input, ..Usage::NONE };
            OperationAnswer { report: UsageReport { usage, output_reported: true }, body }
        });
        Some(answer)
    }
}
