//! What people write, and what they read when it is wrong.

mod mistakes;
mod profiles;
mod round_trip;
mod strategies;
mod survival;

use seawall_config::{Input, Loaded, Problems, load};
use seawall_core::time::UtcTime;

/// The day on which all of these tests run.
fn today() -> UtcTime {
    UtcTime::from_civil(2026, 11, 16)
}

fn read(text: &str) -> Result<Loaded, Problems> {
    load(&Input::of_file("seawall.toml", text, today()))
}

#[track_caller]
fn accepted(text: &str) -> Loaded {
    match read(text) {
        Ok(loaded) => loaded,
        Err(problems) => panic!("{problems}\n{text}"),
    }
}
