//! What vendors require of a JSON Schema whose observance they enforce.

use super::JsonText;
use crate::fields::JsonFields;
use crate::request::ALREADY_CHECKED;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Keywords whose value is one schema, a list of schemas, or an object of named schemas.
const NESTED: [&str; 8] =
    ["items", "anyOf", "allOf", "oneOf", "prefixItems", "properties", "$defs", "definitions"];

/// Whether OpenAI enforces this schema: every object lists its properties, requires all of them and allows no others.
pub(crate) fn is_strict(schema: &JsonText) -> bool {
    serde_json::from_str(schema.get()).is_ok_and(|schema| is_strict_value(&schema, 0))
}

/// Deeper schemas than this count as not strict; the body's own depth is limited as well.
const MAX_DEPTH: usize = 64;

fn is_strict_value(schema: &Value, depth: usize) -> bool {
    let Value::Object(fields) = schema else { return true };
    if depth > MAX_DEPTH {
        return false;
    }
    if let Some(Value::Object(properties)) = fields.get("properties") {
        let required = fields.get("required").and_then(Value::as_array);
        let is_required = |name: &String| required.is_some_and(|names| names.iter().any(|one| one == name));
        if fields.get("additionalProperties") != Some(&Value::Bool(false))
            || !properties.keys().all(is_required)
        {
            return false;
        }
    } else if fields.get("type").is_some_and(|kind| kind == "object") {
        return false;
    }
    NESTED.iter().filter_map(|name| Some((*name, fields.get(*name)?))).all(|(name, nested)| match nested {
        Value::Array(schemas) => schemas.iter().all(|schema| is_strict_value(schema, depth + 1)),
        Value::Object(named) if matches!(name, "properties" | "$defs" | "definitions") => {
            named.values().all(|schema| is_strict_value(schema, depth + 1))
        }
        nested => is_strict_value(nested, depth + 1),
    })
}

/// The schema with every object closed that does not say whether it is: Anthropic requires that, and an answer that
/// satisfies the closed schema also satisfies the open one. The order of fields stays, because models write an answer in
/// the order of its schema. Text that needs no change is returned as it is.
pub(crate) fn closed(schema: &JsonText) -> Cow<'_, JsonText> {
    let raw = serde_json::from_str(schema.get()).ok();
    match raw.and_then(|raw| close(raw, 0)).and_then(JsonText::new) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(schema),
    }
}

/// The closed schema; `None` if nothing changes.
fn close(schema: &RawValue, depth: usize) -> Option<String> {
    if depth > MAX_DEPTH {
        return None;
    }
    let fields = JsonFields::of_value(schema, &ALREADY_CHECKED).ok()?;
    let is_open = fields.has("properties") && fields.get_any("additionalProperties").is_none();
    let added = is_open.then(|| ("additionalProperties", "false".to_owned()));
    rewrite(&fields, added, |name, value| match name {
        "properties" | "$defs" | "definitions" => {
            let named = JsonFields::of_value(value, &ALREADY_CHECKED).ok()?;
            rewrite(&named, None, |_, schema| close(schema, depth + 1))
        }
        _ if !NESTED.contains(&name) => None,
        _ if value.get().starts_with('[') => {
            let schemas: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            let closed: Vec<_> = schemas.iter().map(|schema| close(schema, depth + 1)).collect();
            let text = |(old, new): (&&RawValue, Option<String>)| new.unwrap_or_else(|| old.get().to_owned());
            let is_changed = closed.iter().any(Option::is_some);
            let list: Vec<_> = schemas.iter().zip(closed).map(text).collect();
            is_changed.then(|| format!("[{}]", list.join(",")))
        }
        _ => close(value, depth + 1),
    })
}

/// An object with a field added in front and some values replaced; `None` if nothing changes.
fn rewrite(
    fields: &JsonFields<'_>,
    added: Option<(&str, String)>,
    mut replace: impl FnMut(&str, &RawValue) -> Option<String>,
) -> Option<String> {
    let mut is_changed = added.is_some();
    let mut body: Vec<_> = added.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    for (name, value) in fields.iter_any() {
        let replaced = replace(name, value);
        is_changed |= replaced.is_some();
        let text = replaced.as_deref().unwrap_or(value.get());
        body.push(format!("{}:{text}", serde_json::Value::from(name)));
    }
    is_changed.then(|| format!("{{{}}}", body.join(",")))
}

#[cfg(test)]
mod tests {
    use super::{closed, is_strict};
    use crate::chat::JsonText;
    use serde_json::{Value, json};

    fn text(schema: &Value) -> JsonText {
        JsonText::new(schema.to_string()).unwrap()
    }

    #[test]
    fn a_schema_is_strict_if_every_object_in_it_is() {
        let item = |extra: Value| {
            let mut item =
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
            item.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            item
        };
        let strict = item(json!({"additionalProperties": false}));
        let open = item(json!({}));
        let optional = item(json!({"additionalProperties": false, "required": []}));
        for (schema, is) in
            [(&strict, true), (&open, false), (&optional, false), (&json!({"type": "object"}), false)]
        {
            assert_eq!(is_strict(&text(schema)), is, "{schema}");
            for outer in [
                json!({"type": "array", "items": schema}),
                json!({"anyOf": [{"type": "null"}, schema]}),
                json!({"$defs": {"x": schema}, "$ref": "#/$defs/x"}),
            ] {
                assert_eq!(is_strict(&text(&outer)), is, "{outer}");
            }
        }
    }

    #[test]
    fn open_objects_are_closed_and_everything_else_stays_as_it_is() {
        let schema = json!({"type": "object", "properties": {
            "properties": {"type": "string"}, "list": {"items": {"properties": {"a": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let expected = json!({"type": "object", "additionalProperties": false, "properties": {
            "properties": {"type": "string"}, "list": {"items": {"additionalProperties": false, "properties": {"a": {}}}},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
        }});
        let value: Value = serde_json::from_str(closed(&text(&schema)).get()).unwrap();
        assert_eq!(value, expected);
        let ordered = JsonText::new(r#"{"properties":{"z":{"const":null},"a":{}}}"#.to_owned()).unwrap();
        let closed_text = r#"{"additionalProperties":false,"properties":{"z":{"const":null},"a":{}}}"#;
        assert_eq!(closed(&ordered).get(), closed_text);
        let spaced = JsonText::new("{ \"type\": \"string\" }".to_owned()).unwrap();
        assert_eq!(closed(&spaced).get(), "{ \"type\": \"string\" }");
    }
}
