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

/// The settings file that `seawall init` writes, and that is used if no other is named.
const USUAL_FILE: &str = "seawall.toml";
/// The profile where there is no file.
const DEFAULT_SERVE_PROFILE: &str = "demo";

#[derive(Args, Default)]
pub(crate) struct Overrides {
    /// Base profile; overrides the profile of the file. Without a file argument, no file is read.
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Setting that overrides the file and the environment, such as budget.day='$100/day'. Can be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = assignment)]
    settings: Vec<(String, String)>,
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
    /// Whether the file was found rather than named.
    is_found: bool,
    arguments: Vec<(String, String)>,
}

impl SettingsLoader {
    /// The named file; otherwise the named profile; otherwise `seawall.toml` in the working directory if there is one,
    /// so that all commands use the data directory and the keys of the same gateway; otherwise the profile `demo`.
    pub(crate) fn new(file: Option<&Path>, overrides: &Overrides) -> Self {
        let usual = Path::new(USUAL_FILE);
        // A link to a missing file is a mistake to report, not a missing file.
        let is_found = file.is_none() && overrides.profile.is_none() && usual.symlink_metadata().is_ok();
        let file = file.or(is_found.then_some(usual));
        let mut arguments = Vec::new();
        let fallback = file.is_none().then(|| DEFAULT_SERVE_PROFILE.to_owned());
        if let Some(profile) = overrides.profile.clone().or(fallback) {
            arguments.push(("profile".to_owned(), profile));
        }
        arguments.extend(overrides.settings.iter().cloned());
        Self { file: file.map(Path::to_owned), is_found, arguments }
    }

    /// A profile without changes.
    pub(crate) fn from_profile(name: &str) -> Self {
        Self { file: None, is_found: false, arguments: vec![("profile".to_owned(), name.to_owned())] }
    }

    /// Where the settings come from, for the startup report.
    pub(crate) fn origin(&self) -> String {
        match &self.file {
            Some(file) if self.is_found => format!("file {}, found in this directory", file.display()),
            Some(file) => format!("file {}", file.display()),
            None => {
                let profile = self.arguments.iter().find(|(key, _)| key == "profile");
                format!("profile {}, no file", profile.map_or(DEFAULT_SERVE_PROFILE, |(_, name)| name))
            }
        }
    }

    /// Reports a file that was found rather than named, because the result of a command depends on it.
    pub(crate) fn report_found_file(&self) {
        if let Some(file) = self.file.as_deref().filter(|_| self.is_found) {
            eprintln!("seawall: using the settings in {}", file.display());
        }
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

    /// Reads and loads the settings of a command that is not [`serve`](crate::serve), and reports which file was found.
    pub(crate) fn load_for_command(&self) -> Result<LoadedSettings, CommandError> {
        self.report_found_file();
        self.load_or_fail()
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
