//! `seawall config`.

use crate::serve::{made_up_key, simulated_model};
use crate::settings::{Origins, Overrides, check_environment, colours, refused};
use crate::{Failed, counted};
use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use seawall_config::{
    Change, Loaded, Needs, Problems, Settings, diff, profile_names, reference, schema, show,
};
use seawall_gateway::{ServeOptions, TokioRuntime, preflight};
use seawall_pipeline::Tier;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The content of a new settings file.
const STARTER: &str = include_str!("starter.toml");

#[derive(Subcommand)]
pub(crate) enum ConfigCommand {
    /// Says whether settings can be used, and everything that is wrong with them (exit code 2).
    Check(CheckArguments),
    /// Prints every setting that holds, as TOML that can be used again.
    Show(ShowArguments),
    /// Prints a JSON Schema, for editors that complete and check while one writes.
    Schema,
    /// Prints the page that explains every setting, as Markdown.
    Reference,
    /// Says what differs between two files or profiles, and what of it needs a restart.
    Diff(DiffArguments),
    /// Writes a file to begin with.
    Init(InitArguments),
}

#[derive(Args)]
pub(crate) struct CheckArguments {
    /// The file; without it, what `serve` would do without one.
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Prints what was found as JSON.
    #[arg(long)]
    json: bool,
    /// Does not look for the secrets and files that settings name: for a machine that does not have them.
    #[arg(long)]
    without_secrets: bool,
}

#[derive(Args)]
pub(crate) struct ShowArguments {
    /// The file; without it, what `serve` would do without one.
    file: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    /// Says behind each value where it was written.
    #[arg(long)]
    origin: bool,
}

#[derive(Args)]
pub(crate) struct DiffArguments {
    /// A file, or the name of a profile.
    old: PathBuf,
    /// Another.
    new: PathBuf,
    /// Prints the differences as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(crate) struct InitArguments {
    /// Where to write it.
    #[arg(default_value = "seawall.toml")]
    file: PathBuf,
    /// Writes over a file that is there.
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(command: &ConfigCommand) -> Result<(), Failed> {
    match command {
        ConfigCommand::Check(arguments) => check(arguments),
        ConfigCommand::Show(arguments) => {
            let loaded = Origins::new(arguments.file.as_deref(), &arguments.overrides).load_or_fail()?;
            print(&show(&loaded, arguments.origin))
        }
        ConfigCommand::Schema => print(&format!("{:#}\n", schema())),
        ConfigCommand::Reference => print(&reference()),
        ConfigCommand::Diff(arguments) => differences(arguments),
        ConfigCommand::Init(arguments) => init(arguments),
    }
}

fn print(text: &str) -> Result<(), Failed> {
    let written = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    match written {
        // A reader that closes the pipe early has what it wanted.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failed::Broken(error.into())),
        _ => Ok(()),
    }
}

fn check(arguments: &CheckArguments) -> Result<(), Failed> {
    check_environment()?;
    let origins = Origins::new(arguments.file.as_deref(), &arguments.overrides);
    let name = arguments.file.as_deref().map_or("settings".into(), Path::to_string_lossy);
    let found = origins.read().and_then(|file| origins.load(file));
    let start = match &found {
        Ok(loaded) if !arguments.without_secrets => would_start(&loaded.settings),
        _ => Ok(()),
    };
    if arguments.json {
        let mut problems = found.as_ref().map_or_else(Problems::to_json, |loaded| loaded.warnings.to_json());
        if let (Err(problem), Some(list)) = (&start, problems.as_array_mut()) {
            let (code, severity) = ("cannot-start", "error");
            list.push(
                serde_json::json!({ "code": code, "severity": severity, "message": problem, "places": [] }),
            );
        }
        let is_valid = found.is_ok() && start.is_ok();
        print(&format!("{}\n", serde_json::json!({ "valid": is_valid, "problems": problems })))?;
        return if is_valid { Ok(()) } else { Err(Failed::Shown(String::new())) };
    }
    let loaded = found.map_err(|problems| refused(&problems))?;
    let warnings = loaded.warnings.list().len();
    if warnings > 0 {
        eprint!("{}", loaded.warnings.render(colours()));
    }
    start.map_err(|problem| Failed::BadInput(anyhow!("{name}: {problem}")))?;
    let settings = &loaded.settings;
    print(&format!(
        "{name}: fine ({}, {}, {} a day{})\n",
        counted(settings.routes.len(), "route"),
        counted(settings.targets.len(), "target"),
        settings.budget.limits.day_cap(0),
        if warnings > 0 { format!("; {}", counted(warnings, "warning")) } else { String::new() },
    ))
}

/// Whether `serve` would start with these settings, as far as that can be checked without starting.
fn would_start(settings: &Settings) -> Result<(), String> {
    let said = |failed: Failed| match failed {
        Failed::BadInput(error) | Failed::Broken(error) => format!("{error:#}"),
        Failed::Shown(text) => text,
    };
    let simulated = simulated_model(settings, &TokioRuntime::new()).map_err(said)?;
    let keys = made_up_key(settings).map_err(said)?.map(|key| (Tier::Prime, key)).into_iter().collect();
    let options = ServeOptions { settings: Arc::new(settings.clone()), simulated, keys, diagnostics: true };
    preflight(options).map_err(|error| error.to_string())
}

fn differences(arguments: &DiffArguments) -> Result<(), Failed> {
    let changes = diff(&one_side(&arguments.old)?, &one_side(&arguments.new)?);
    if arguments.json {
        let line = |change: &Change| {
            serde_json::json!({
                "key": change.key, "old": change.old, "new": change.new,
                "needs_restart": change.needs == Needs::Restart,
                "is_followed": change.needs != Needs::NotYet,
            })
        };
        let lines: Vec<_> = changes.iter().map(line).collect();
        return print(&format!("{}\n", serde_json::Value::from(lines)));
    }
    let mut text = String::new();
    for change in &changes {
        let side = |value: &Option<String>| value.clone().unwrap_or_else(|| "(not there)".to_owned());
        let note = match change.needs {
            Needs::Live => "",
            Needs::Restart => "  (needs a restart)",
            Needs::NotYet => "  (not followed yet)",
        };
        text.push_str(&format!("{}: {} -> {}{note}\n", change.key, side(&change.old), side(&change.new)));
    }
    if changes.is_empty() {
        text.push_str("no difference\n");
    }
    print(&text)
}

/// Loads a file, or a profile if no file has this name.
fn one_side(name: &Path) -> Result<Loaded, Failed> {
    let profile = name.to_str().filter(|text| profile_names().any(|known| known == *text) && !name.exists());
    match profile {
        Some(profile) => Origins::of_profile(profile).load_or_fail(),
        None => Origins::new(Some(name), &Overrides::default()).load_or_fail(),
    }
}

fn init(arguments: &InitArguments) -> Result<(), Failed> {
    let path = &arguments.file;
    let mut options = std::fs::OpenOptions::new();
    options.write(true);
    if arguments.force {
        options.create(true).truncate(true)
    } else {
        options.create_new(true)
    };
    let mut file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let error = anyhow!("{} is there already; --force writes over it", path.display());
            return Err(Failed::BadInput(error));
        }
        opened => {
            opened.with_context(|| format!("cannot write {}", path.display())).map_err(Failed::Broken)?
        }
    };
    let written = file.write_all(STARTER.as_bytes());
    written.with_context(|| format!("cannot write {}", path.display())).map_err(Failed::Broken)?;
    let name = path.display();
    print(&format!(
        "wrote {name}\ncheck it: seawall config check {name}\nrun it:   seawall serve --config {name}\n"
    ))
}
