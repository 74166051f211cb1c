//! Which fields of a request a translation accounts for.
//!
//! A reader reads the fields that it knows. That alone would drop every other field silently, so each dialect also
//! declares all fields that it reads or may leave out, as a tree of [`ObjectRule`]s, and a request that is translated is
//! checked against it: a field that is not declared is refused by its path. The simulated model and requests that stay in
//! their dialect are not checked.

use super::ChatFeature;
use crate::fields::{JsonFields, each};
use crate::request::ALREADY_CHECKED;
use crate::request_error::RequestError;
use serde_json::value::RawValue;

/// The fields of an object.
#[derive(Debug)]
pub struct ObjectRule {
    /// Whether each name is also accepted in snake_case. The declared names are in camelCase then.
    pub has_snake_case: bool,
    /// The declared fields.
    pub fields: &'static [(&'static str, FieldRule)],
}

/// What a translation does with a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldRule {
    /// The reader accounts for all of it.
    Read,
    /// An object with these fields.
    Object(&'static ObjectRule),
    /// A list of objects with these fields. Items that are no objects are left to the reader.
    List(&'static ObjectRule),
    /// It belongs to an ignorable feature and is left out.
    Ignored(ChatFeature),
    /// It belongs to an ignorable feature and is left out, if the other field of this name has this value; otherwise it is
    /// refused.
    IgnoredBeside(&'static str, &'static str, ChatFeature),
    /// It is left out if it has one of these values, which are the vendor's defaults, and is refused otherwise.
    Default(&'static [&'static str]),
}

/// Unknown names are cut to this length in errors.
const MAX_NAME_LENGTH: usize = 64;

impl ObjectRule {
    /// Returns an error for the first field of a body that is not declared. The body must have been read before.
    pub(crate) fn check_body(&self, body: &[u8]) -> Result<(), RequestError> {
        self.check(&JsonFields::read(body, &ALREADY_CHECKED)?)
    }

    fn check(&self, fields: &JsonFields<'_>) -> Result<(), RequestError> {
        fields.iter().try_for_each(|(name, value)| {
            let declared = self.fields.iter().find(|(known, _)| self.is_same(known, name));
            let checked = match declared {
                Some((_, FieldRule::IgnoredBeside(other, wanted, _)))
                    if fields.get(other).is_some_and(|raw| raw.get() == *wanted) =>
                {
                    Ok(())
                }
                Some((_, rule)) => rule.check(value),
                None => Err(RequestError::untranslatable("", "a field that has no translation")),
            };
            checked.map_err(|error| error.within(&name.chars().take(MAX_NAME_LENGTH).collect::<String>()))
        })
    }

    fn is_same(&self, known: &str, name: &str) -> bool {
        known == name || self.has_snake_case && is_snake_case_of(name, known)
    }
}

impl FieldRule {
    fn check(self, value: &RawValue) -> Result<(), RequestError> {
        match self {
            Self::Read | Self::Ignored(_) => Ok(()),
            Self::Object(rule) => check_object(rule, value),
            Self::List(rule) if value.get().starts_with('[') => {
                each(value, &ALREADY_CHECKED, |item| check_object(rule, item)).map(|_| ())
            }
            Self::List(rule) => check_object(rule, value),
            Self::Default(values) if values.contains(&value.get()) => Ok(()),
            Self::Default(_) | Self::IgnoredBeside(..) => {
                Err(RequestError::untranslatable("", "a value other than the vendor's default"))
            }
        }
    }
}

fn check_object(rule: &ObjectRule, value: &RawValue) -> Result<(), RequestError> {
    if !value.get().starts_with('{') {
        return Ok(());
    }
    rule.check(&JsonFields::of_value(value, &ALREADY_CHECKED)?)
}

/// Whether a name is the snake_case spelling of a name in camelCase.
fn is_snake_case_of(name: &str, camel: &str) -> bool {
    let mut rest = name;
    let is_same = camel.chars().all(|wanted| {
        let lower = wanted.to_ascii_lowercase();
        let stripped = if wanted == lower { Some(rest) } else { rest.strip_prefix('_') };
        match stripped.and_then(|rest| rest.strip_prefix(lower)) {
            Some(behind) => {
                rest = behind;
                true
            }
            None => false,
        }
    });
    is_same && rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::{FieldRule, ObjectRule};
    use crate::chat::ChatFeature;

    const INNER: ObjectRule =
        ObjectRule { has_snake_case: true, fields: &[("topK", FieldRule::Read), ("x", FieldRule::Read)] };
    const RULE: ObjectRule = ObjectRule {
        has_snake_case: false,
        fields: &[
            ("a", FieldRule::Read),
            ("object", FieldRule::Object(&INNER)),
            ("list", FieldRule::List(&INNER)),
            ("user", FieldRule::Ignored(ChatFeature::Identifiers)),
            ("mode", FieldRule::Default(&["\"auto\""])),
        ],
    };

    #[test]
    fn every_field_is_declared_or_refused_by_its_path() {
        for (body, error) in [
            (r#"{"a":{"anything":1},"user":{"b":2},"mode":"auto","object":{"top_k":1,"topK":2}}"#, ""),
            (r#"{"b":null,"list":["text",{"x":1}],"mode":null}"#, ""),
            (r#"{"b":1}"#, "b: Not supported by the target model: a field that has no translation"),
            (r#"{"object":{"top_kk":1}}"#, "object.top_kk: "),
            (r#"{"list":[{"x":1},{"y":false}]}"#, "list.1.y: "),
            (r#"{"list":{"y":false}}"#, "list.y: "),
            (r#"{"mode":"fast"}"#, "mode: Not supported by the target model: a value other than"),
        ] {
            let found = RULE.check_body(body.as_bytes()).map_err(|error| error.to_string()).err();
            let found = found.unwrap_or_default();
            assert!(
                if error.is_empty() { found.is_empty() } else { found.starts_with(error) },
                "{body}: {found}"
            );
        }
    }
}
