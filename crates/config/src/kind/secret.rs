//! References to secrets. A secret itself is never part of settings.

use super::{ValueError, ValueFormat, ValueKind, expect_text, quoted};
use crate::problem::ProblemCode;
use crate::redact::find_secrets;
use crate::tree::TomlValue;
use std::fmt;

/// The source of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretReference {
    /// An environment variable.
    Variable(String),
    /// A file.
    File(String),
}

impl fmt::Display for SecretReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "env:{name}"),
            Self::File(path) => write!(formatter, "file:{path}"),
        }
    }
}

/// A reference to a secret: `env:NAME` or `file:PATH`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SecretKind;

impl ValueKind for SecretKind {
    type Value = SecretReference;

    fn format() -> ValueFormat {
        ValueFormat::text("a secret reference", &["env:SEAWALL_SECRET", "file:secrets/key"])
            .pattern("^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$")
    }

    fn parse(value: &TomlValue) -> Result<SecretReference, ValueError> {
        let format = Self::format();
        let help = "write \"env:NAME\" to read it from an environment variable, or \"file:PATH\" to read it from a file";
        // Both a number and a text may be a secret, so the message repeats nothing of them.
        let literal = || {
            ValueError::new(ProblemCode::LiteralSecret, "a secret must not be written in the settings", help)
        };
        let text = match value {
            TomlValue::Text(_) => expect_text(value, Self::format)?,
            TomlValue::Table(_) | TomlValue::Boolean(_) => return Err(format.wrong_type(value)),
            _ => return Err(literal()),
        };
        if !find_secrets(text).is_empty() {
            return Err(literal());
        }
        if let Some(name) = text.strip_prefix("env:") {
            return if is_variable(name) {
                Ok(SecretReference::Variable(name.to_owned()))
            } else {
                let message = "env: must be followed by the name of an environment variable";
                Err(ValueError::new(
                    ProblemCode::ParseError,
                    message,
                    "use letters, digits and _, such as env:SHOP_KEY",
                ))
            };
        }
        match text.strip_prefix("file:") {
            Some("") => Err(ValueError::new(
                ProblemCode::ParseError,
                "file: must be followed by a path",
                format.advice(),
            )),
            Some(path) if !path.contains('\0') => Ok(SecretReference::File(path.to_owned())),
            _ => Err(literal()),
        }
    }

    fn to_toml(value: &SecretReference) -> String {
        quoted(&value.to_string())
    }

    fn is_redacted(_value: &TomlValue) -> bool {
        true
    }
}

fn is_variable(name: &str) -> bool {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.chars().all(is_name)
}

/// The SHA-256 of an API key, such as `sha256:9f86...`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyHashKind;

impl ValueKind for KeyHashKind {
    type Value = [u8; 32];

    fn format() -> ValueFormat {
        let example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        ValueFormat::text("a SHA-256 hash", &[example]).pattern("^sha256:[0-9a-f]{64}$")
    }

    fn parse(value: &TomlValue) -> Result<[u8; 32], ValueError> {
        let format = Self::format();
        let TomlValue::Text(text) = value else { return Err(format.wrong_type(value)) };
        let help =
            "write sha256: followed by the 64 hexadecimal digits of the key's SHA-256, never the key itself";
        let Some(digits) = text.strip_prefix("sha256:") else {
            let message = "not a key hash; this may be the key itself";
            return Err(ValueError::new(ProblemCode::LiteralSecret, message, help));
        };
        let digits_error = || {
            let message = format!(
                "sha256: must be followed by 64 hexadecimal digits, found {} characters",
                digits.chars().count()
            );
            ValueError::new(ProblemCode::ParseError, message, help)
        };
        let mut hash = [0; 32];
        hex::decode_to_slice(digits, &mut hash).map_err(|_| digits_error())?;
        Ok(hash)
    }

    fn to_toml(value: &[u8; 32]) -> String {
        quoted(&format!("sha256:{}", hex::encode(value)))
    }

    fn is_redacted(_value: &TomlValue) -> bool {
        // The key itself may have been written here, with any prefix.
        true
    }
}
