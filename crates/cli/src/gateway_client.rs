//! What commands share that read a running gateway: arguments, requests with their exit codes, and text made safe.

use crate::CommandError;
use crate::admin::{self, AdminClientResponse};
use crate::settings::{Overrides, SettingsLoader};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use seawall_config::Settings;
use serde_json::Value;
use std::io::IsTerminal as _;
use std::path::PathBuf;

/// Exit codes of commands that read a running gateway.
const UNKNOWN_REQUEST: u8 = 3;
const REFUSED: u8 = 4;
const UNREACHABLE: u8 = 5;

/// Which gateway, and how its answers are shown.
#[derive(Args)]
pub(crate) struct GatewayArguments {
    /// Settings file. Default: the profile `demo`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Print JSON, in the names of the admin API.
    #[arg(long)]
    pub(crate) json: bool,
    /// When to use colours: on a terminal unless `NO_COLOR` is set, or always, or never.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl GatewayArguments {
    /// Loads the settings, which name the admin listener.
    pub(crate) fn client(&self) -> Result<GatewayClient, CommandError> {
        let loaded = SettingsLoader::new(self.config.as_deref(), &self.overrides).load_or_fail()?;
        Ok(GatewayClient { settings: Box::new(loaded.settings) })
    }

    pub(crate) fn uses_colours(&self) -> bool {
        let may = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => may && std::io::stdout().is_terminal(),
        }
    }
}

/// A running gateway.
pub(crate) struct GatewayClient {
    settings: Box<Settings>,
}

/// Why the gateway did not answer as wanted.
#[derive(Debug)]
pub(crate) enum ClientError {
    /// There was no response.
    Unreachable(anyhow::Error),
    /// The admin API refused the request.
    Refused(String),
    /// The object does not exist.
    Unknown(String),
    /// The request is invalid.
    InvalidInput(String),
    /// The gateway could not carry it out.
    Failed(String),
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Unreachable(error) => Self::Coded(UNREACHABLE, error),
            ClientError::Refused(message) => Self::Coded(REFUSED, anyhow!(message)),
            ClientError::Unknown(message) => Self::Coded(UNKNOWN_REQUEST, anyhow!(message)),
            ClientError::InvalidInput(message) => Self::InvalidInput(anyhow!(message)),
            ClientError::Failed(message) => Self::Failed(anyhow!(message)),
        }
    }
}

impl GatewayClient {
    /// The JSON at this path. Texts are safe to print.
    pub(crate) fn get(&self, path: &str) -> Result<Value, ClientError> {
        let body = self.get_text(path)?;
        let parsed = serde_json::from_str(&body);
        let not_json = |_| ClientError::Failed("the admin API returned something else than JSON".to_owned());
        parsed.map(printable_value).map_err(not_json)
    }

    /// The text at this path.
    pub(crate) fn get_text(&self, path: &str) -> Result<String, ClientError> {
        let response =
            admin::send_request(&self.settings, "GET", path, b"").map_err(ClientError::Unreachable)?;
        let AdminClientResponse { status, body } = response;
        let body = String::from_utf8_lossy(&body).into_owned();
        if status == 200 {
            return Ok(body);
        }
        let error: Value = serde_json::from_str(&body).unwrap_or_default();
        let message =
            error["error"]["message"].as_str().map_or_else(|| format!("status {status}"), printable);
        Err(match status {
            400 => ClientError::InvalidInput(message),
            401 | 403 => ClientError::Refused(message),
            404 => ClientError::Unknown(message),
            _ => ClientError::Failed(message),
        })
    }
}

/// Text without control characters, and without marks that change the direction of what follows.
pub(crate) fn printable(text: &str) -> String {
    let is_safe = |character: &char| {
        !character.is_control()
            && !matches!(
                character,
                '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
            )
    };
    text.chars().filter(is_safe).collect()
}

fn printable_value(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(printable(&text)),
        Value::Array(items) => items.into_iter().map(printable_value).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (printable(&name), printable_value(value))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{printable, printable_value};
    use serde_json::json;

    #[test]
    fn what_steers_a_terminal_or_turns_text_around_is_removed() {
        assert_eq!(printable("a\u{1b}[31mb\u{7f}\u{9b}c\r\n\u{202e}d\u{2066}e漫画"), "a[31mbcde漫画");
        let value = json!({ "a\u{7}": ["b\u{202e}", { "c": 1 }], "d": null });
        assert_eq!(printable_value(value), json!({ "a": ["b", { "c": 1 }], "d": null }));
    }
}
