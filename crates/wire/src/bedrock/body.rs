//! Common to the body readers of this dialect.

use crate::RequestError;
use serde::Deserialize;
use serde_json::value::RawValue;

/// Parses an object into `T`. A JSON array is rejected, although serde would accept one with the values in field order.
pub(super) fn read_object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Option<T> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

pub(super) fn missing(field: impl Into<String>) -> RequestError {
    RequestError::Missing { field: field.into() }
}

pub(super) fn invalid(field: impl Into<String>, problem: &'static str) -> RequestError {
    RequestError::Invalid { field: field.into(), problem }
}
