//! `seawall config`.

use crate::output::print;
use crate::serve::{describe_budget, generate_demo_key, simulated_model};
use crate::settings::{Overrides, SettingsLoader, check_environment, invalid_settings, use_colours};
use crate::{CommandError, count_of};
use anyhow::anyhow;
use clap::{Args, Subcommand};
use seawall_config::{
    Activation, LoadedSettings, Problems, SettingChange, Settings, diff, profile_names, reference, schema,
    show,
};
use seawall_gateway::{ServeOptions, Supervisor, TokioRuntime, preflight};
use seawall_pipeline::Tier;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Validate settings and report all problems (exit code 2 if there are errors).
    Check(CheckArguments),
    /// Print all effective settings as TOML.
    Show(ShowArguments),
    /// Print the JSON Schema of settings, for editors.
    Schema,
    /// Print the settings reference as Markdown.
    Reference,
    /// Compare two files or profiles, and show which changes need a restart.
    Diff(DiffArguments),
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// Settings file. Default: seawall.toml in this directory if there is one, otherwise the profile `demo`.
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Do not read the secrets and files that settings refer to, for machines that do not have them.
    #[arg(long)]
    without_secrets: bool,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// Settings file. Default: seawall.toml in this directory if there is one, otherwise the profile `demo`.
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Show the origin of each value.
    #[arg(long)]
    origin: bool,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// Old settings: a file or the name of a profile.
    old: PathBuf,
    /// New settings: a file or the name of a profile.
    new: PathBuf,
    /// Print the differences as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &ConfigCommand) -> Result<(), CommandError> {
    match command {
        ConfigCommand::Check(arguments) => check(arguments),
        ConfigCommand::Show(arguments) => {
            let loaded =
                SettingsLoader::new(arguments.file.as_deref(), &arguments.overrides).load_for_command()?;
            print(&show(&loaded, arguments.origin))
        }
        ConfigCommand::Schema => print(&format!("{:#}\n", schema())),
        ConfigCommand::Reference => print(&reference()),
        ConfigCommand::Diff(arguments) => print_diff(arguments),
    }
}

fn check(arguments: &CheckArguments) -> Result<(), CommandError> {
    check_environment()?;
    let loader = SettingsLoader::new(arguments.file.as_deref(), &arguments.overrides);
    loader.report_found_file();
    let name = loader.file.as_deref().map_or("settings".into(), Path::to_string_lossy);
    let loaded_settings = loader.read().and_then(|file| loader.load(file));
    let startup = match &loaded_settings {
        Ok(loaded) if !arguments.without_secrets => check_startup(&loaded.settings),
        _ => Ok(()),
    };
    if arguments.json {
        let mut problems =
            loaded_settings.as_ref().map_or_else(Problems::to_json, |loaded| loaded.warnings.to_json());
        if let (Err(problem), Some(list)) = (&startup, problems.as_array_mut()) {
            let (code, severity) = ("cannot-start", "error");
            list.push(
                serde_json::json!({ "code": code, "severity": severity, "message": problem, "locations": [] }),
            );
        }
        let is_valid = loaded_settings.is_ok() && startup.is_ok();
        print(&format!("{}\n", serde_json::json!({ "valid": is_valid, "problems": problems })))?;
        return if is_valid { Ok(()) } else { Err(CommandError::Printed(String::new())) };
    }
    let loaded = loaded_settings.map_err(|problems| invalid_settings(&problems))?;
    let warnings = loaded.warnings.list().len();
    if warnings > 0 {
        eprint!("{}", loaded.warnings.render(use_colours()));
    }
    startup.map_err(|problem| CommandError::InvalidInput(anyhow!("{name}: {problem}")))?;
    let settings = &loaded.settings;
    print(&format!(
        "{name}: ok ({}, {}, {}{})\n",
        count_of(settings.routes.len(), "route"),
        count_of(settings.targets.len(), "target"),
        describe_budget(settings),
        if warnings > 0 { format!("; {}", count_of(warnings, "warning")) } else { String::new() },
    ))
}

/// Whether `serve` would start with these settings, as far as that can be checked without starting.
fn check_startup(settings: &Settings) -> Result<(), String> {
    let message = |failed: CommandError| match failed {
        CommandError::InvalidInput(error) | CommandError::Failed(error) | CommandError::Coded(_, error) => {
            format!("{error:#}")
        }
        CommandError::Printed(text) => text,
    };
    let simulated = simulated_model(settings, &TokioRuntime::new()).map_err(message)?;
    let keys =
        generate_demo_key(settings).map_err(message)?.map(|key| (Tier::Prime, key)).into_iter().collect();
    let options = ServeOptions {
        settings: Arc::new(settings.clone()),
        simulated,
        keys,
        supervisor: Supervisor::default(),
        diagnostics: None,
    };
    preflight(options).map_err(|error| error.to_string())
}

fn print_diff(arguments: &DiffArguments) -> Result<(), CommandError> {
    let changes = diff(&load_file_or_profile(&arguments.old)?, &load_file_or_profile(&arguments.new)?);
    if arguments.json {
        let to_json = |change: &SettingChange| {
            serde_json::json!({
                "key": change.key, "old": change.old, "new": change.new,
                "needs_restart": change.activation == Activation::Restart,
                "implemented": change.activation != Activation::NotImplemented,
            })
        };
        let lines: Vec<_> = changes.iter().map(to_json).collect();
        return print(&format!("{}\n", serde_json::Value::from(lines)));
    }
    let mut text = String::new();
    for change in &changes {
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not set)".to_owned());
        let note = match change.activation {
            Activation::Live => "",
            Activation::Restart => "  (needs a restart)",
            Activation::NotImplemented => "  (not implemented)",
        };
        text.push_str(&format!("{}: {} -> {}{note}\n", change.key, shown(&change.old), shown(&change.new)));
    }
    if changes.is_empty() {
        text.push_str("no differences\n");
    }
    print(&text)
}

/// Loads a file, or a profile if no file has this name.
fn load_file_or_profile(name: &Path) -> Result<LoadedSettings, CommandError> {
    let profile = name
        .to_str()
        .filter(|text| profile_names().any(|profile_name| profile_name == *text) && !name.exists());
    match profile {
        Some(profile) => SettingsLoader::from_profile(profile).load_or_fail(),
        None => SettingsLoader::new(Some(name), &Overrides::default()).load_or_fail(),
    }
}
