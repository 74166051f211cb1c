//! What else callers of this dialect ask for: how many tokens a request has, and which models there are.

use crate::fields::{Fields, each};
use crate::json_out::put_json;
use crate::request::{RequestLimits, check_text, read_model, span_of};
use crate::request_error::RequestError;
use bytes::BytesMut;
use serde::Serialize;
use std::ops::Range;

/// What decisions need of a request to count tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountHead {
    /// The model whose tokens are to be counted.
    pub model: String,
    /// How many turns the conversation has.
    pub turns: usize,
    /// Where the body holds the model's name, with its quotes.
    pub model_span: Range<usize>,
}

/// Reads a request to count tokens: a request without a limit of output. [`read_text`](super::read_text) reads what is to be
/// counted.
pub fn read_count_request(body: &[u8], limits: &RequestLimits) -> Result<CountHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = Fields::of_body(text, limits)?;
    let model = fields.need("model")?;
    let messages = each(fields.need("messages")?, limits, |raw| Fields::of_value(raw, limits).map(drop));
    let turns = messages.map_err(|error| error.within("messages"))?.len();
    if turns == 0 {
        return Err(RequestError::wrong("messages", "must not be empty"));
    }
    Ok(CountHead { model: read_model(model)?, turns, model_span: span_of(model.get(), text) })
}

/// Appends the answer to a request to count tokens.
pub fn write_count_answer(out: &mut BytesMut, input_tokens: u64) {
    #[derive(Serialize)]
    struct Count {
        input_tokens: u64,
    }
    put_json(out, &Count { input_tokens });
}

/// A model as callers see it in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelEntry<'a> {
    /// The name to ask for it by.
    pub id: &'a str,
    /// Its name for people.
    pub display_name: &'a str,
    /// Since when it exists, such as `2026-01-31T00:00:00Z`.
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

impl<'a> From<&ModelEntry<'a>> for Model<'a> {
    fn from(entry: &ModelEntry<'a>) -> Self {
        let ModelEntry { id, display_name, created_at } = *entry;
        Self { kind: "model", id, display_name, created_at }
    }
}

/// Appends one model.
pub fn write_model(out: &mut BytesMut, model: &ModelEntry<'_>) {
    put_json(out, &Model::from(model));
}

/// Appends the list of models, as one page.
pub fn write_models(out: &mut BytesMut, models: &[ModelEntry<'_>]) {
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
