//! A minimal writer for JSON objects of strings, numbers and booleans.

use std::fmt::Write as _;

/// An object under construction.
#[derive(Debug)]
pub(super) struct JsonObject(String);

impl JsonObject {
    pub(super) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds a field whose value is already JSON.
    fn put(mut self, name: &str, value: &str) -> Self {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        put_text(&mut self.0, name);
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    pub(super) fn text(self, name: &str, text: &str) -> Self {
        let mut value = String::with_capacity(text.len() + 2);
        put_text(&mut value, text);
        self.put(name, &value)
    }

    pub(super) fn strings(self, name: &str, texts: &[String]) -> Self {
        let mut value = "[".to_owned();
        for text in texts {
            if value.len() > 1 {
                value.push(',');
            }
            put_text(&mut value, text);
        }
        value.push(']');
        self.put(name, &value)
    }

    pub(super) fn number(self, name: &str, number: u64) -> Self {
        self.put(name, &number.to_string())
    }

    pub(super) fn boolean(self, name: &str, is_true: bool) -> Self {
        self.put(name, if is_true { "true" } else { "false" })
    }

    /// Adds a number of thousandths as a decimal.
    pub(super) fn thousandths(self, name: &str, thousandths: u16) -> Self {
        let decimals = format!("{:03}", thousandths % 1_000);
        let decimals = decimals.trim_end_matches('0');
        let decimals = if decimals.is_empty() { "0" } else { decimals };
        self.put(name, &format!("{}.{decimals}", thousandths / 1_000))
    }

    pub(super) fn object(self, name: &str, object: Self) -> Self {
        self.put(name, &object.finish())
    }

    /// Applies `add` if there is a value.
    pub(super) fn optional<T>(self, value: Option<T>, add: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => add(self, value),
            None => self,
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn put_text(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1F}' => {
                // Writing to a `String` cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::JsonObject;
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use serde_json::{Value, json};

    proptest! {
        #[test]
        fn any_value_is_read_back_as_it_was(
            name: String, text: String, texts: Vec<String>, number: u64, thousandths in 0_u16..=2_000, is_true in any::<bool>(),
        ) {
            let inner = JsonObject::new().strings("texts", &texts).optional(is_true.then_some(number), |object, number| {
                object.number("number", number)
            });
            let written = JsonObject::new()
                .text(&name, &text)
                .thousandths("share", thousandths)
                .boolean("true", is_true)
                .object("inner", inner)
                .finish();
            let read: Value = serde_json::from_str(&written).unwrap();
            let mut expected = json!({"share": f64::from(thousandths) / 1_000.0, "true": is_true,
                "inner": {"texts": texts}});
            if is_true {
                expected["inner"]["number"] = json!(number);
            }
            if !["share", "true", "inner"].contains(&name.as_str()) {
                expected[&name] = json!(text);
                prop_assert_eq!(read, expected);
            }
            prop_assert_eq!(written.contains('\n'), false);
        }
    }

    #[test]
    fn nothing_is_an_object_and_what_must_be_escaped_is() {
        assert_eq!(JsonObject::new().finish(), "{}");
        let all: String = (0..=0x7F).map(char::from).collect();
        let read: Value = serde_json::from_str(&JsonObject::new().text("all", &all).finish()).unwrap();
        assert_eq!(read["all"], all);
        assert_eq!(JsonObject::new().strings("t", &[]).finish(), r#"{"t":[]}"#);
    }
}
