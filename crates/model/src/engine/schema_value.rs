//! A JSON value that satisfies a schema, for structured output.
//!
//! It has the right types, all required fields and an allowed value where a schema lists some. Patterns and rules that
//! compare fields are not considered.

use serde_json::{Map, Value, json};

/// Schemas may refer to themselves; deeper values are null.
const MAX_DEPTH: usize = 24;

/// A value that satisfies `schema`; texts are taken from `question`.
pub(super) fn satisfy(schema: &Value, question: &str) -> Value {
    ValueWriter { root: schema, question }.value(schema, 0)
}

struct ValueWriter<'a> {
    root: &'a Value,
    question: &'a str,
}

impl ValueWriter<'_> {
    fn value(&self, schema: &Value, depth: usize) -> Value {
        if depth > MAX_DEPTH {
            return Value::Null;
        }
        if let Some(target) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) {
            return self.root.pointer(target).map_or(Value::Null, |schema| self.value(schema, depth + 1));
        }
        if let Some(constant) = schema.get("const").or_else(|| schema["enum"].get(0)) {
            return constant.clone();
        }
        for choice in ["anyOf", "oneOf", "allOf"] {
            if let Some(first) = schema[choice].get(0) {
                return self.value(first, depth + 1);
            }
        }
        let kind = schema["type"].as_str().or_else(|| schema["type"].get(0)?.as_str());
        match kind {
            Some("object") => self.object(schema, depth),
            None if schema.get("properties").is_some() => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => self.text(schema).into(),
            Some("integer") => integer(schema),
            Some("number") => json!(lowest(schema)),
            Some("boolean") => json!(true),
            _ => Value::Null,
        }
    }

    /// All required fields, or all fields if none is required.
    fn object(&self, schema: &Value, depth: usize) -> Value {
        let Some(properties) = schema["properties"].as_object() else { return json!({}) };
        let required: Option<Vec<&str>> =
            schema["required"].as_array().map(|names| names.iter().filter_map(Value::as_str).collect());
        let is_wanted = |name: &str| required.as_ref().is_none_or(|names| names.contains(&name));
        let fields = properties.iter().filter(|(name, _)| is_wanted(name));
        let filled: Map<_, _> =
            fields.map(|(name, schema)| (name.clone(), self.value(schema, depth + 1))).collect();
        Value::Object(filled)
    }

    fn array(&self, schema: &Value, depth: usize) -> Value {
        let (least, most) = (schema["minItems"].as_u64().unwrap_or(1), schema["maxItems"].as_u64());
        // Enough to see that it is a list; a schema cannot ask for more memory than a request has.
        let length = least.max(1).min(most.unwrap_or(u64::MAX)).min(16);
        (0..length).map(|_| self.value(&schema["items"], depth + 1)).collect()
    }

    fn text(&self, schema: &Value) -> String {
        match schema["format"].as_str() {
            Some("date") => return "2026-01-31".to_owned(),
            Some("time") => return "09:00:00Z".to_owned(),
            Some("date-time") => return "2026-01-31T09:00:00Z".to_owned(),
            Some("email") => return "reader@example.com".to_owned(),
            Some("uri") => return "https://example.com/".to_owned(),
            Some("uuid") => return "00000000-0000-4000-8000-000000000000".to_owned(),
            _ => {}
        }
        let limit = |name: &str| schema[name].as_u64().and_then(|number| usize::try_from(number).ok());
        let most = limit("maxLength").unwrap_or(40);
        let text: String = self.question.chars().take(most).collect();
        let missing = limit("minLength").unwrap_or(0).min(1_000).saturating_sub(text.chars().count());
        text + &"x".repeat(missing)
    }
}

/// The lowest whole number that a schema allows, but 1 if it may be.
fn integer(schema: &Value) -> Value {
    let number = |name: &str| schema[name].as_i64();
    let least = number("minimum").or_else(|| number("exclusiveMinimum")?.checked_add(1));
    let most = number("maximum").or_else(|| number("exclusiveMaximum")?.checked_sub(1));
    let value = least.map_or(1, |least| least.max(1));
    most.map_or(value, |most| value.min(most)).max(least.unwrap_or(i64::MIN)).into()
}

/// The lowest number that a schema allows, but 1 if it may be.
fn lowest(schema: &Value) -> f64 {
    let number = |name: &str| schema[name].as_f64();
    let least = number("minimum").or_else(|| number("exclusiveMinimum").map(|bound| bound + 1.0));
    let most = number("maximum").or_else(|| number("exclusiveMaximum").map(|bound| bound - 1.0));
    let value = least.map_or(1.0, |least| least.max(1.0));
    most.map_or(value, |most| value.min(most)).max(least.unwrap_or(f64::MIN))
}

#[cfg(test)]
mod tests {
    use super::satisfy;
    use serde_json::json;

    #[test]
    fn a_value_has_the_types_the_required_fields_and_the_allowed_values_of_its_schema() {
        let schema = json!({
            "type": "object", "required": ["title", "kind", "tags", "next", "rating", "since", "seen", "volumes"],
            "properties": {
                "title": {"type": "string", "minLength": 9}, "kind": {"enum": ["manga", "novel"]},
                "tags": {"type": "array", "items": {"type": "string", "maxLength": 2}, "minItems": 2},
                "next": {"anyOf": [{"$ref": "#/$defs/book"}, {"type": "null"}]},
                "rating": {"type": "number", "maximum": 0.5}, "since": {"type": ["string", "null"], "format": "date"},
                "seen": {"type": "boolean"}, "volumes": {"type": "integer", "minimum": 3}, "optional": {"type": "null"},
            },
            "$defs": {"book": {"type": "object", "properties": {"id": {"const": 7}}}},
        });
        let expected = json!({
            "title": "What xxxx", "kind": "manga", "tags": ["Wh", "Wh"], "next": {"id": 7}, "rating": 0.5,
            "since": "2026-01-31", "seen": true, "volumes": 3,
        });
        assert_eq!(satisfy(&schema, "What "), expected);
        let endless = json!({"type": "object", "properties": {"next": {"$ref": "#"}}});
        assert!(satisfy(&endless, "").is_object());
    }
}
