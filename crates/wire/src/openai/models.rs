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

/// Appends the list of models.
pub fn write_models(out: &mut BytesMut, models: &[ModelEntry<'_>]) {
    #[derive(Serialize)]
    struct List<'a> {
        object: &'a str,
        data: Vec<Model<'a>>,
    }
    #[derive(Serialize)]
    struct Model<'a> {
        id: &'a str,
        object: &'a str,
        created: u64,
        owned_by: &'a str,
    }
    let data = models.iter().map(|entry| {
        let ModelEntry { id, created, owned_by } = *entry;
        Model { id, object: "model", created, owned_by }
    });
    put_json(out, &List { object: "list", data: data.collect() });
}
