//! Fuzzes the settings loader: arbitrary text gives settings, or errors with positions; settings that are printed load
//! as the same settings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use seawall_config::{SettingsInput, load, show};
use seawall_core::time::UtcTime;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let today = UtcTime::from_civil(2026, 11, 16);
    let mut input = SettingsInput::from_file("fuzz.toml", text, today);
    // The first line is also passed as an environment variable and as an argument.
    if let Some((name, value)) = text.lines().next().and_then(|line| line.split_once('=')) {
        input.environment.push((format!("SEAWALL__{name}"), value.to_owned()));
        input.arguments.push((name.to_owned(), value.to_owned()));
    }
    match load(&input) {
        Ok(loaded) => {
            let _ = loaded.warnings.render(true);
            let again = SettingsInput::from_file("shown.toml", &show(&loaded, true), today);
            let again = load(&again).expect("what is shown can be read");
            assert_eq!(again.settings, loaded.settings);
        }
        Err(problems) => {
            assert!(problems.has_errors());
            assert!(problems.list().iter().all(|problem| !problem.locations.is_empty()));
            let _ = (problems.render(true), problems.to_json());
        }
    }
});
