//! `seawall import`: takes over the configuration of another gateway.

use crate::output::{print, write_file};
use crate::settings::{SettingsLoader, invalid_settings};
use crate::{CommandError, count_of};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use seawall_config::import_litellm;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Take over a config.yaml of LiteLLM's proxy: models, fallbacks, prices and the daily budget.
    ///
    /// No secret is copied. Everything that was not taken over is listed.
    Litellm(LitellmArguments),
}

#[derive(Args)]
pub(crate) struct LitellmArguments {
    /// The configuration (YAML).
    #[arg(value_name = "CONFIG")]
    config: PathBuf,
    /// Settings file to write. Default: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON, with the settings as text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &ImportCommand) -> Result<(), CommandError> {
    let ImportCommand::Litellm(arguments) = command;
    let name = arguments.config.display();
    let yaml = std::fs::read_to_string(&arguments.config).with_context(|| format!("cannot read {name}"));
    let imported = import_litellm(&yaml.map_err(CommandError::InvalidInput)?)
        .map_err(|error| CommandError::InvalidInput(anyhow!("{name}: {error}")))?;
    let output = arguments.output.as_deref();
    // What was taken over must be usable; otherwise the problems say what to change.
    let checked = SettingsLoader::of_text(output.unwrap_or(Path::new("seawall.toml")), &imported.text);
    if let Some(path) = output {
        write_file(path, &imported.text, arguments.force)?;
    }
    if arguments.json {
        let shown = json!({
            "settings": imported.text, "targets": imported.targets, "routes": imported.routes,
            "not_taken_over": imported.notes, "valid": checked.is_ok(),
        });
        print(&format!("{shown:#}\n"))?;
    } else {
        if output.is_none() {
            print(&imported.text)?;
        }
        for note in &imported.notes {
            eprintln!("not taken over: {note}");
        }
        eprintln!(
            "{} and {} taken over, {} not",
            count_of(imported.routes, "route"),
            count_of(imported.targets, "target"),
            count_of(imported.notes.len(), "item")
        );
    }
    checked.map(drop).map_err(|problems| invalid_settings(&problems))
}
