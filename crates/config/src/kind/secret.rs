//! References to secrets. A secret itself is never part of settings.

use super::{Form, Kind, Misread, expect_text, quoted};
use crate::cover::marked_secrets;
use crate::problem::Code;
use crate::tree::Value;
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
pub(crate) struct Secret;

impl Kind for Secret {
    type Value = SecretReference;

    fn form() -> Form {
        Form::text("where a secret is found", &["env:SEAWALL_SECRET", "file:secrets/key"])
            .pattern("^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$")
    }

    fn read(value: &Value) -> Result<SecretReference, Misread> {
        let form = Self::form();
        let help = "write \"env:NAME\" to take it from a variable or \"file:PATH\" to read it from a file";
        // Both a number and a text may be a secret, so the message repeats nothing of them.
        let literal = || Misread::new(Code::LiteralSecret, "a secret must not be written here", help);
        let text = match value {
            Value::Text(_) => expect_text(value, Self::form)?,
            Value::Table(_) | Value::Boolean(_) => return Err(form.wrong_type(value)),
            _ => return Err(literal()),
        };
        if !marked_secrets(text).is_empty() {
            return Err(literal());
        }
        if let Some(name) = text.strip_prefix("env:") {
            return if is_variable(name) {
                Ok(SecretReference::Variable(name.to_owned()))
            } else {
                let message = "what follows env: is not the name of an environment variable";
                Err(Misread::new(
                    Code::Unreadable,
                    message,
                    "write letters, digits and _ such as env:SHOP_KEY",
                ))
            };
        }
        match text.strip_prefix("file:") {
            Some("") => Err(Misread::new(Code::Unreadable, "file: needs a path", form.advice())),
            Some(path) if !path.contains('\0') => Ok(SecretReference::File(path.to_owned())),
            _ => Err(literal()),
        }
    }

    fn show(value: &SecretReference) -> String {
        quoted(&value.to_string())
    }

    fn is_covered(_value: &Value) -> bool {
        true
    }
}

fn is_variable(name: &str) -> bool {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.chars().all(is_name)
}

/// The SHA-256 of an API key, such as `sha256:9f86...`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash;

impl Kind for Hash {
    type Value = [u8; 32];

    fn form() -> Form {
        let example = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        Form::text("the SHA-256 of an API key", &[example]).pattern("^sha256:[0-9a-f]{64}$")
    }

    fn read(value: &Value) -> Result<[u8; 32], Misread> {
        let form = Self::form();
        let Value::Text(text) = value else { return Err(form.wrong_type(value)) };
        let help = "write sha256: and the 64 hexadecimal digits of the key's SHA-256; never the key itself";
        let Some(digits) = text.strip_prefix("sha256:") else {
            let message = "this is not the hash of a key, and may be the key itself";
            return Err(Misread::new(Code::LiteralSecret, message, help));
        };
        let wrong = || {
            let message =
                format!("sha256: needs 64 hexadecimal digits, found {} characters", digits.chars().count());
            Misread::new(Code::Unreadable, message, help)
        };
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(wrong());
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
            let pair = str::from_utf8(pair).map_err(|_| wrong())?;
            if pair.starts_with('+') {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(hash)
    }

    fn show(value: &[u8; 32]) -> String {
        let digits: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
        quoted(&format!("sha256:{digits}"))
    }

    fn is_covered(_value: &Value) -> bool {
        // The key itself may have been written here, with any prefix.
        true
    }
}
