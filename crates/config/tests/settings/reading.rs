//! Helpers that load settings from text.

use seawall_config::{LoadedSettings, Problems, SettingsInput, load};
use seawall_core::time::UtcTime;

/// The date on which all of these tests run.
pub(crate) fn today() -> UtcTime {
    UtcTime::from_civil(2026, 11, 16)
}

/// Loads a text that starts from the profile `mangaassist`, unless it names another one: that profile has a value for nearly
/// everything, which a test can then change.
pub(crate) fn read(text: &str) -> Result<LoadedSettings, Problems> {
    let input = SettingsInput::from_file("seawall.toml", text, today());
    load(&SettingsInput { arguments: base_profile(text), ..input })
}

/// The profile `mangaassist`, for a text that names none.
pub(crate) fn base_profile(text: &str) -> Vec<(String, String)> {
    let names_one = text.lines().any(|line| line.starts_with("profile"));
    if names_one { Vec::new() } else { vec![("profile".to_owned(), "mangaassist".to_owned())] }
}

#[track_caller]
pub(crate) fn accepted(text: &str) -> LoadedSettings {
    match read(text) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}\n{text}"),
    }
}
