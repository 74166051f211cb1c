//! Helpers that load settings from text.

use seawall_config::{Input, Loaded, Problems, load};
use seawall_core::time::UtcTime;

/// The date on which all of these tests run.
pub(crate) fn today() -> UtcTime {
    UtcTime::from_civil(2026, 11, 16)
}

pub(crate) fn read(text: &str) -> Result<Loaded, Problems> {
    load(&Input::of_file("seawall.toml", text, today()))
}

#[track_caller]
pub(crate) fn accepted(text: &str) -> Loaded {
    match read(text) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}\n{text}"),
    }
}
