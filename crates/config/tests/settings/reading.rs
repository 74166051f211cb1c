//! Helpers that load settings from text.

use seawall_config::{LoadedSettings, Problems, SettingsInput, load};
use seawall_core::time::UtcTime;

/// The date on which all of these tests run.
pub(crate) fn today() -> UtcTime {
    UtcTime::from_civil(2026, 11, 16)
}

pub(crate) fn read(text: &str) -> Result<LoadedSettings, Problems> {
    load(&SettingsInput::from_file("seawall.toml", text, today()))
}

#[track_caller]
pub(crate) fn accepted(text: &str) -> LoadedSettings {
    match read(text) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}\n{text}"),
    }
}
