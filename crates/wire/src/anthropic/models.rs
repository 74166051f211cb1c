//! The other endpoints of this dialect: token counting and the model list.

use crate::fields::{JsonFields, each};
use crate::json_out::put_json;
use crate::request::{RequestLimits, check_text, read_model, span_of};
use crate::request_error::RequestError;
use bytes::BytesMut;
use serde::Serialize;
use std::ops::Range;

/// The fields of a token-counting request that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountHead {
    /// The model whose tokenizer applies.
    pub model: String,
    /// The number of turns.
    pub turns: usize,
    /// The range of the model name in the body, quotes included.
    pub model_span: Range<usize>,
}

/// Reads a token-counting request, which is a request without an output limit. [`read_text`](super::read_text) extracts
/// the text to count.
pub fn read_count_request(body: &[u8], limits: &RequestLimits) -> Result<CountHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    let model = fields.need("model")?;
    let messages = each(fields.need("messages")?, limits, |raw| JsonFields::of_value(raw, limits).map(drop));
    let turns = messages.map_err(|error| error.within("messages"))?.len();
    if turns == 0 {
        return Err(RequestError::invalid("messages", "at least one message is required"));
    }
    Ok(CountHead { model: read_model(model)?, turns, model_span: span_of(model.get(), text) })
}

/// Appends the response of the token-counting endpoint.
pub fn write_count_answer(out: &mut BytesMut, input_tokens: u64) {
    #[derive(Serialize)]
    struct Count {
        input_tokens: u64,
    }
    put_json(out, &Count { input_tokens });
}

/// An entry of the model list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnthropicModelEntry<'a> {
    /// The name to use in requests.
    pub id: &'a str,
    /// The name for display.
    pub display_name: &'a str,
    /// The creation time, such as `2026-01-31T00:00:00Z`.
    pub created_at: &'a str,
}

#[derive(Serialize)]
struct Model<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    id: &'a str,
    display_name: &'a str,
    created_at: &'a str,
}

impl<'a> From<&AnthropicModelEntry<'a>> for Model<'a> {
    fn from(entry: &AnthropicModelEntry<'a>) -> Self {
        let AnthropicModelEntry { id, display_name, created_at } = *entry;
        Self { kind: "model", id, display_name, created_at }
    }
}

/// Appends one model.
pub fn write_model(out: &mut BytesMut, model: &AnthropicModelEntry<'_>) {
    put_json(out, &Model::from(model));
}

/// Appends the model list as a single page.
pub fn write_models(out: &mut BytesMut, models: &[AnthropicModelEntry<'_>]) {
    #[derive(Serialize)]
    struct Page<'a> {
        data: Vec<Model<'a>>,
        has_more: bool,
        first_id: Option<&'a str>,
        last_id: Option<&'a str>,
    }
    let (first_id, last_id) = (models.first().map(|entry| entry.id), models.last().map(|entry| entry.id));
    let data = models.iter().map(Model::from).collect();
    put_json(out, &Page { data, has_more: false, first_id, last_id });
}
