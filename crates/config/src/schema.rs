//! The JSON Schema of settings, for editors.

use crate::kind::{JsonType, ValueFormat};
use crate::profile::profile_names;
use crate::raw::shape;
use crate::shape::{KeyShape, SectionShape, ValueShape};
use serde_json::{Map, Value, json};

/// The JSON Schema (draft 2020-12) of a settings file.
#[must_use]
pub fn schema() -> Value {
    let mut root = section(shape());
    if let Value::Object(root) = &mut root {
        root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        root.insert("title".into(), json!("Seawall settings"));
        // A file contains only what differs from its profile, so no key is required at the top level.
        if let Some(Value::Object(properties)) = root.get_mut("properties") {
            let names: Vec<&str> = profile_names().collect();
            properties.insert(
                "profile".into(),
                json!({ "type": "string", "enum": names, "description": "Base profile of this file." }),
            );
        }
    }
    root
}

fn section(shape: &SectionShape) -> Value {
    let properties: Map<String, Value> =
        shape.keys.iter().map(|one| (one.name.to_owned(), key(one))).collect();
    json!({
        "type": "object",
        "description": shape.doc,
        "additionalProperties": false,
        "properties": properties,
    })
}

fn key(key: &KeyShape) -> Value {
    let mut value = match &key.shape {
        ValueShape::Scalar(scalar) => format(&scalar.format),
        ValueShape::List(scalar) => json!({ "type": "array", "items": format(&scalar.format) }),
        ValueShape::Section(inner) => section(inner),
        ValueShape::Named(inner) => json!({
            "type": "object",
            // The word `none` removes an entry of the profile.
            "additionalProperties": { "anyOf": [section(inner), { "const": "none" }] },
        }),
    };
    if key.is_optional && !matches!(key.shape, ValueShape::Named(_)) {
        value = json!({ "anyOf": [value, { "const": "none" }] });
    }
    if let Value::Object(object) = &mut value {
        object.insert("description".into(), json!(key.doc));
        if let Some(default) = key.default.and_then(as_json) {
            object.insert("default".into(), default);
        }
    }
    value
}

/// A default as JSON. It is written as TOML; all defaults in use have the same notation in JSON.
fn as_json(toml: &str) -> Option<Value> {
    serde_json::from_str(toml).ok()
}

fn format(format: &ValueFormat) -> Value {
    let examples: Vec<Value> = format
        .examples
        .iter()
        .filter_map(|example| serde_json::from_str(&example.replace('_', "")).ok())
        .collect();
    if !format.choices.is_empty() {
        return json!({ "type": "string", "enum": format.choices });
    }
    let mut value = match format.json {
        JsonType::Text => json!({ "type": "string" }),
        JsonType::Integer => json!({ "type": "integer", "minimum": 0 }),
        JsonType::Number => json!({ "type": "number" }),
        JsonType::Boolean => json!({ "type": "boolean" }),
        JsonType::TextOrInteger => {
            json!({ "anyOf": [{ "const": "all" }, { "type": "integer", "minimum": 1, "maximum": 1024 }] })
        }
    };
    if let Value::Object(object) = &mut value {
        if let Some(pattern) = format.pattern {
            object.insert("pattern".into(), json!(pattern));
        }
        if format.json != JsonType::Boolean && !examples.is_empty() {
            object.insert("examples".into(), examples.into());
        }
    }
    value
}
