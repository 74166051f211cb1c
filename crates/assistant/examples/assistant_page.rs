//! Prints a reference page that is generated from the assistant's own tables: `routing` or `strategy`.
//!
//! `cargo xtask docs` runs it, so that xtask need not depend on the assistant to write about it.

use seawall_assistant::reference;
use seawall_config::{SettingsInput, load};
use seawall_core::time::UtcTime;
use std::process::ExitCode;

fn main() -> ExitCode {
    let page = match std::env::args().nth(1).as_deref() {
        Some("routing") => match load(&SettingsInput::from_file(
            "routing",
            "profile = \"mangaassist\"",
            UtcTime::from_nanos(0),
        )) {
            Ok(loaded) => {
                let hours = loaded.settings.hours;
                reference::routing(&hours.evening_peak, hours.off_peak.hours())
            }
            Err(problems) => {
                eprintln!("the profile is not valid: {problems}");
                return ExitCode::FAILURE;
            }
        },
        Some("strategy") => reference::strategy(),
        _ => {
            eprintln!("usage: page routing|strategy");
            return ExitCode::from(2);
        }
    };
    print!("{page}");
    ExitCode::SUCCESS
}
