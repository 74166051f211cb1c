//! Converts the vendor's own schema type to JSON Schema.
//!
//! `parameters` of a function uses a subset of OpenAPI 3.0, as a protobuf message: types are upper-case enum values,
//! `nullable` is a flag and 64-bit numbers are strings. Other vendors accept only JSON Schema.

use serde_json::{Map, Value};

/// Converts a schema. Keywords that are already JSON Schema stay as they are.
pub(super) fn to_json_schema(schema: Value) -> Value {
    let Value::Object(fields) = schema else { return schema };
    let is_nullable = fields.get("nullable") == Some(&Value::Bool(true));
    let mut converted = Map::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("type", Value::String(kind)) => {
                let kind = kind.to_ascii_lowercase();
                if kind == "type_unspecified" {
                    continue;
                }
                let kinds = if is_nullable { Value::from(vec![kind.as_str(), "null"]) } else { kind.into() };
                converted.insert(name, kinds);
            }
            ("nullable" | "propertyOrdering" | "property_ordering", _) => {}
            ("properties" | "defs" | "$defs", Value::Object(properties)) => {
                let properties = properties.into_iter().map(|(name, schema)| (name, to_json_schema(schema)));
                converted.insert(name, Value::Object(properties.collect()));
            }
            ("items" | "additionalProperties", schema) => {
                converted.insert(name, to_json_schema(schema));
            }
            ("additional_properties", schema) => {
                converted.insert("additionalProperties".to_owned(), to_json_schema(schema));
            }
            ("anyOf" | "any_of" | "oneOf" | "allOf" | "prefixItems", Value::Array(schemas)) => {
                let name = if name == "any_of" { "anyOf".to_owned() } else { name };
                converted.insert(name, schemas.into_iter().map(to_json_schema).collect());
            }
            (known, value) => {
                let name = limit_name(known).map_or(name.clone(), str::to_owned);
                let value = limit_name(known).and_then(|_| as_number(&value)).unwrap_or(value);
                converted.insert(name, value);
            }
        }
    }
    Value::Object(converted)
}

/// The JSON Schema name of a keyword whose value is a 64-bit integer.
fn limit_name(name: &str) -> Option<&'static str> {
    Some(match name {
        "minItems" | "min_items" => "minItems",
        "maxItems" | "max_items" => "maxItems",
        "minLength" | "min_length" => "minLength",
        "maxLength" | "max_length" => "maxLength",
        "minProperties" | "min_properties" => "minProperties",
        "maxProperties" | "max_properties" => "maxProperties",
        _ => return None,
    })
}

fn as_number(value: &Value) -> Option<Value> {
    value.as_str()?.parse::<u64>().ok().map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::to_json_schema;
    use serde_json::json;

    #[test]
    fn the_vendors_schema_becomes_json_schema() {
        let schema = json!({
            "type": "OBJECT", "propertyOrdering": ["type"], "required": ["type"], "min_properties": "1",
            "properties": {
                "type": {"type": "STRING", "enum": ["OBJECT"], "format": "enum", "description": "STRING"},
                "tags": {"type": "ARRAY", "items": {"type": "INTEGER", "nullable": true}, "minItems": "2", "maxItems": 3},
                "any": {"any_of": [{"type": "NUMBER"}, {"type": "TYPE_UNSPECIFIED"}]},
            },
        });
        let expected = json!({
            "type": "object", "required": ["type"], "minProperties": 1,
            "properties": {
                "type": {"type": "string", "enum": ["OBJECT"], "format": "enum", "description": "STRING"},
                "tags": {"type": "array", "items": {"type": ["integer", "null"]}, "minItems": 2, "maxItems": 3},
                "any": {"anyOf": [{"type": "number"}, {}]},
            },
        });
        assert_eq!(to_json_schema(schema), expected);
        assert_eq!(to_json_schema(expected.clone()), expected);
        assert_eq!(to_json_schema(json!(true)), true);
    }
}
