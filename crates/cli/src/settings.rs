//! Sources of settings: a profile, a file, the environment, arguments.

use crate::CommandError;
use anyhow::anyhow;
use clap::Args;
use seawall_config::{LoadedSettings, Problems, SettingSource, SettingsInput, parse_settings, read_file};
use seawall_core::time::UtcTime;
use seawall_gateway::TokioRuntime;
use seawall_pipeline::Runtime as _;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// The profile of `serve` without a file.
const DEFAULT_SERVE_PROFILE: &str = "demo";

#[derive(Args, Default)]
pub(crate) struct Overrides {
    /// Base profile; overrides the profile of the file.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Setting that overrides the file and the environment, such as budget.day='$100/day'. Can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,
}

impl Overrides {
    /// The profile from the arguments.
    pub(crate) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    if key.is_empty() {
        return Err("must be KEY=VALUE".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// All sources of settings, which can be read repeatedly.
pub(crate) struct SettingsLoader {
    pub(crate) file: Option<PathBuf>,
    arguments: Vec<(String, String)>,
}

impl SettingsLoader {
    pub(crate) fn new(file: Option<&Path>, overrides: &Overrides) -> Self {
        let mut arguments = Vec::new();
        let fallback = file.is_none().then(|| DEFAULT_SERVE_PROFILE.to_owned());
        if let Some(profile) = overrides.profile.clone().or(fallback) {
            arguments.push(("profile".to_owned(), profile));
        }
        arguments.extend(overrides.settings.iter().cloned());
        Self { file: file.map(Path::to_owned), arguments }
    }

    /// A profile without changes.
    pub(crate) fn from_profile(name: &str) -> Self {
        Self { file: None, arguments: vec![("profile".to_owned(), name.to_owned())] }
    }

    /// Checks a text as the settings file of this name, without any other source.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<LoadedSettings, Problems> {
        let input = SettingsInput::from_file(&path.display().to_string(), text, today());
        parse_settings(&input).read_price_file().check()
    }

    /// Adds a setting that overrides all others.
    pub(crate) fn set(&mut self, key: &str, value: String) {
        self.arguments.push((key.to_owned(), value));
    }

    /// Reads the file, if there is one.
    pub(crate) fn read(&self) -> Result<Option<SettingSource>, Problems> {
        self.file.as_deref().map(read_file).transpose()
    }

    /// Loads the settings with this content of the file.
    pub(crate) fn load(&self, file: Option<SettingSource>) -> Result<LoadedSettings, Problems> {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        let environment = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
        let input = SettingsInput {
            file,
            environment: environment.collect(),
            arguments: self.arguments.clone(),
            today: today(),
            price_file: None,
        };
        parse_settings(&input).read_price_file().check()
    }

    /// Reads and loads the settings; problems are displayed and fail.
    pub(crate) fn load_or_fail(&self) -> Result<LoadedSettings, CommandError> {
        check_environment()?;
        let read = self.read().map_err(|problems| invalid_settings(&problems))?;
        self.load(read).map_err(|problems| invalid_settings(&problems))
    }
}

/// Refuses a setting in the environment that is not valid UTF-8: a lossy conversion would change it silently.
pub(crate) fn check_environment() -> Result<(), CommandError> {
    let is_setting_variable =
        |name: &str| name.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("SEAWALL__"));
    let invalid = std::env::vars_os().find(|(name, value)| {
        is_setting_variable(&name.to_string_lossy()) && (name.to_str().is_none() || value.to_str().is_none())
    });
    match invalid {
        Some((name, _)) => {
            let name = name.to_string_lossy();
            Err(CommandError::InvalidInput(anyhow!("environment variable {name} is not valid UTF-8")))
        }
        None => Ok(()),
    }
}

/// The failure of a command whose settings are invalid: all problems, formatted for people.
pub(crate) fn invalid_settings(problems: &Problems) -> CommandError {
    CommandError::Printed(problems.render(use_colours()))
}

/// Whether standard error is a terminal and `NO_COLOR` is not set.
pub(crate) fn use_colours() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

fn today() -> UtcTime {
    TokioRuntime::new().now().utc
}
