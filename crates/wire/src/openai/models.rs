//! The model list.

use crate::json_out::put_json;
use bytes::BytesMut;
use serde::Serialize;

/// An entry of the model list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenAiModelEntry<'a> {
    /// The name to use in requests.
    pub id: &'a str,
    /// The creation time, in seconds since 1970.
    pub created: u64,
    /// The owner shown to callers.
    pub owned_by: &'a str,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    owned_by: &'a str,
}

impl<'a> From<&OpenAiModelEntry<'a>> for Model<'a> {
    fn from(entry: &OpenAiModelEntry<'a>) -> Self {
        let OpenAiModelEntry { id, created, owned_by } = *entry;
        Self { id, object: "model", created, owned_by }
    }
}

/// Appends one model.
pub fn write_model(out: &mut BytesMut, model: &OpenAiModelEntry<'_>) {
    put_json(out, &Model::from(model));
}

/// Appends the model list.
pub fn write_models(out: &mut BytesMut, models: &[OpenAiModelEntry<'_>]) {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'a str,
        data: Vec<Model<'a>>,
    }
    put_json(out, &List { object: "list", data: models.iter().map(Model::from).collect() });
}
