//! Which models there are.

use crate::json_out::put_json;
use bytes::BytesMut;
use serde::Serialize;

/// A model as callers see it in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelEntry<'a> {
    /// The name to ask for it by.
    pub id: &'a str,
    /// Since when it exists, in seconds since 1970.
    pub created: u64,
    /// Whose it is.
    pub owned_by: &'a str,
}

#[derive(Serialize)]
struct Model<'a> {
    id: &'a str,
    object: &'a str,
    created: u64,
    owned_by: &'a str,
}

impl<'a> From<&ModelEntry<'a>> for Model<'a> {
    fn from(entry: &ModelEntry<'a>) -> Self {
        let ModelEntry { id, created, owned_by } = *entry;
        Self { id, object: "model", created, owned_by }
    }
}

/// Appends one model.
pub fn write_model(out: &mut BytesMut, model: &ModelEntry<'_>) {
    put_json(out, &Model::from(model));
}

/// Appends the list of models.
pub fn write_models(out: &mut BytesMut, models: &[ModelEntry<'_>]) {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'a str,
        data: Vec<Model<'a>>,
    }
    put_json(out, &List { object: "list", data: models.iter().map(Model::from).collect() });
}
