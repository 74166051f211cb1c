//! `seawall prices`: the price catalogue.

use crate::CommandError;
use crate::output::print;
use crate::settings::{Overrides, SettingsLoader};
use anyhow::anyhow;
use clap::{Args, Subcommand};
use seawall_config::{
    Catalogue, CatalogueEntry, MAX_CATALOGUE_AGE_DAYS, ModelFacts, PriceFileText, PriceSource, Settings,
    TargetSettings,
};
use seawall_core::money::Money;
use seawall_core::time::UtcTime;
use seawall_gateway::TokioRuntime;
use seawall_pipeline::Runtime as _;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct PricesArguments {
    #[command(subcommand)]
    command: Option<PricesCommand>,
}

#[derive(Subcommand)]
enum PricesCommand {
    /// List prices per million tokens. Default if no command is given.
    List {
        /// Only models of this provider.
        #[arg(long, value_name = "NAME")]
        provider: Option<String>,
        #[command(flatten)]
        source: PriceSourceArguments,
    },
    /// Show everything known of a model.
    Show {
        /// Model id, or a part of one.
        #[arg(value_name = "MODEL")]
        model: String,
        #[command(flatten)]
        source: PriceSourceArguments,
    },
    /// Check the age of the catalogue, a price file, and the prices of the targets of a settings file.
    ///
    /// The exit code is 1 if a list of prices is older than 90 days or a target has no price, and 2 if a file is invalid.
    /// With --config, only the lists that its targets use count: the built-in catalogue, and the file that `prices.file`
    /// names, which is as old as its last change.
    Check {
        /// Settings file whose targets are checked.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        #[command(flatten)]
        source: PriceSourceArguments,
    },
}

/// Which prices are shown.
#[derive(Args, Default)]
struct PriceSourceArguments {
    /// Price file (JSON) to read instead of the built-in catalogue. Settings name one as prices.file.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl PriceSourceArguments {
    fn catalogue(&self) -> Result<Catalogue, CommandError> {
        let Some(path) = &self.file else { return Ok(Catalogue::built_in().clone()) };
        let name = path.display().to_string();
        let file = PriceFileText::read(path)
            .map_err(|problem| CommandError::InvalidInput(anyhow!("cannot read {name}: {problem}")))?;
        Catalogue::from_price_file(&name, &file.text)
            .map(|read| read.dated(file.modified))
            .map_err(|error| CommandError::InvalidInput(anyhow!("{name}: {error}")))
    }
}

pub(crate) fn run(arguments: &PricesArguments) -> Result<(), CommandError> {
    let list = PricesCommand::List { provider: None, source: PriceSourceArguments::default() };
    match arguments.command.as_ref().unwrap_or(&list) {
        PricesCommand::List { provider, source } => {
            let catalogue = source.catalogue()?;
            let is_listed =
                |entry: &&CatalogueEntry| provider.as_ref().is_none_or(|name| entry.provider == name);
            let rows: Vec<&CatalogueEntry> = catalogue.entries().iter().filter(is_listed).collect();
            if rows.is_empty() {
                let known: std::collections::BTreeSet<&str> =
                    catalogue.entries().iter().map(|entry| entry.provider).collect();
                let known: Vec<&str> = known.into_iter().collect();
                let error = anyhow!("no prices of this provider; known are {}", known.join(", "));
                return Err(CommandError::InvalidInput(error));
            }
            let text = if source.json { all_json(&rows) } else { table(&rows, &catalogue) };
            print(&text)
        }
        PricesCommand::Show { model, source } => {
            let catalogue = source.catalogue()?;
            let exact: Vec<&CatalogueEntry> =
                catalogue.entries().iter().filter(|entry| entry.price.model == *model).collect();
            let rows = if exact.is_empty() {
                let wanted = model.to_lowercase();
                let is_near = |entry: &&CatalogueEntry| entry.price.model.to_lowercase().contains(&wanted);
                catalogue.entries().iter().filter(is_near).collect()
            } else {
                exact
            };
            if rows.is_empty() {
                let help = "add its prices as [models.NAME], or use a price file";
                return Err(CommandError::InvalidInput(anyhow!(
                    "the catalogue has no model {model:?}; {help}"
                )));
            }
            let text =
                if source.json { all_json(&rows) } else { rows.iter().map(|row| details(row)).collect() };
            print(&text)
        }
        PricesCommand::Check { config, source } => check(config.as_deref(), source),
    }
}

fn amount(money: Option<Money>) -> String {
    money.map_or_else(|| "-".to_owned(), |money| money.to_string())
}

fn count(number: Option<u64>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

fn date(day: UtcTime) -> String {
    let (year, month, day) = day.civil();
    format!("{year:04}-{month:02}-{day:02}")
}

fn table(rows: &[&CatalogueEntry], catalogue: &Catalogue) -> String {
    let width = rows.iter().map(|entry| entry.price.model.len()).max().unwrap_or(5);
    let mut text = format!(
        "{:<10}  {:<width$}  {:>9}  {:>9}  {:>10}  {:>9}  {:>8}  from\n",
        "provider", "model", "input", "output", "cache read", "context", "output"
    );
    for entry in rows {
        let (price, from) = (&entry.price, entry.from.map(date).unwrap_or_default());
        let line = format!(
            "{:<10}  {:<width$}  {:>9}  {:>9}  {:>10}  {:>9}  {:>8}  {from}",
            entry.provider,
            price.model,
            price.input.to_string(),
            price.output.to_string(),
            amount(price.cache_read),
            count(entry.context_window),
            count(entry.max_output),
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let read = catalogue.date().map(|day| format!(", read on {} or before", date(day))).unwrap_or_default();
    let _ = writeln!(text, "{} models, dollars per million tokens{read}", rows.len());
    text
}

fn details(entry: &CatalogueEntry) -> String {
    let price = &entry.price;
    let mut text = format!("{} at {}\n", price.model, entry.provider);
    let mut line = |name: &str, value: String| {
        if value != "-" && !value.is_empty() {
            let _ = writeln!(text, "  {name:<22}{value}");
        }
    };
    line("input", price.input.to_string());
    line("output", price.output.to_string());
    line("cache read", amount(price.cache_read));
    line("cache write", amount(price.cache_write));
    line("cache write, 1 hour", amount(price.cache_write_1h));
    line("batch input", amount(entry.batch.0));
    line("batch output", amount(entry.batch.1));
    if let Some((above, times)) = price.long_context {
        let percent = |thousandths: u32| f64::from(thousandths) / 10.0;
        line(
            &format!("above {above} tokens"),
            format!("input {}%, output {}%", percent(times.input), percent(times.output)),
        );
    }
    for (surcharge, times) in &price.multipliers {
        line(surcharge.name(), format!("{}%", f64::from(times.input) / 10.0));
    }
    line("context window", count(entry.context_window));
    line("maximum output", count(entry.max_output));
    line("applies from", entry.from.map(date).unwrap_or_default());
    line("retires", price.retires.map(date).unwrap_or_default());
    line("note", entry.note.to_string());
    line("source", entry.source.to_string());
    line("read on", entry.date.map(date).unwrap_or_default());
    text
}

fn all_json(rows: &[&CatalogueEntry]) -> String {
    let dollars = |money: Option<Money>| money.map(|money| money.to_string().replace('$', ""));
    let rows: Vec<Value> = rows
        .iter()
        .map(|entry| {
            let price = &entry.price;
            json!({
                "provider": entry.provider, "model": price.model, "from": entry.from.map(date),
                "input": dollars(Some(price.input)), "output": dollars(Some(price.output)),
                "cache_read": dollars(price.cache_read), "cache_write": dollars(price.cache_write),
                "cache_write_1h": dollars(price.cache_write_1h),
                "batch_input": dollars(entry.batch.0), "batch_output": dollars(entry.batch.1),
                "context_window": entry.context_window, "max_output": entry.max_output,
                "retires": price.retires.map(date), "note": entry.note, "source": entry.source,
                "date": entry.date.map(date),
            })
        })
        .collect();
    format!("{:#}\n", Value::from(rows))
}

fn check(config: Option<&Path>, source: &PriceSourceArguments) -> Result<(), CommandError> {
    let catalogue = source.catalogue()?;
    let today = TokioRuntime::new().now().utc;
    let settings = match config {
        Some(path) => Some(SettingsLoader::new(Some(path), &Overrides::default()).load_or_fail()?.settings),
        None => None,
    };
    let price_file = settings.as_ref().and_then(|settings| settings.models.price_file.as_deref());
    let targets: Vec<TargetPrice<'_>> = settings.as_ref().map(target_prices).unwrap_or_default();
    let unpriced = targets.iter().filter(|target| target.origin == PriceOrigin::Unknown).count();
    let stale = match &settings {
        // Only the lists that these targets use: an old table does no harm where a price file comes before it.
        Some(settings) if source.file.is_none() => stale_lists(settings, today),
        _ => catalogue.is_stale(today).then_some("the catalogue").into_iter().collect(),
    };
    if source.json {
        let list = |list: &Catalogue| {
            json!({
                "models": list.entries().len(), "date": list.date().map(date), "age_days": list.age_in_days(today),
            })
        };
        let targets: Vec<Value> = targets
            .iter()
            .map(|target| json!({ "target": target.name, "model": target.model, "price": target.origin.label() }))
            .collect();
        let mut report = list(&catalogue);
        report["is_old"] = (!stale.is_empty()).into();
        report["price_file"] = price_file.map(list).into();
        report["targets"] = targets.into();
        print(&format!("{report:#}\n"))?;
    } else {
        let mut text = describe_list("catalogue", &catalogue, today);
        if let Some(price_file) = price_file {
            text += &describe_list("price file", price_file, today);
        }
        for target in &targets {
            let _ = writeln!(text, "  {}: {}, {}", target.name, target.model, target.origin.label());
        }
        print(&text)?;
    }
    if !stale.is_empty() {
        return Err(CommandError::Failed(anyhow!(
            "{}: older than {MAX_CATALOGUE_AGE_DAYS} days; update Seawall, or fetch the price file (prices.file) again",
            stale.join(" and ")
        )));
    }
    if unpriced > 0 {
        return Err(CommandError::Failed(anyhow!("{unpriced} targets have no price: their cost is unknown")));
    }
    Ok(())
}

/// The price lists in use that are too old.
fn stale_lists(settings: &Settings, today: UtcTime) -> Vec<&'static str> {
    let used: Vec<PriceSource<'_>> =
        settings.targets.values().filter_map(|target| settings.models.price_source(target)).collect();
    let is_stale = |is_file: bool| {
        let mut used = used.iter().filter(|source| matches!(source, PriceSource::File(_)) == is_file);
        used.any(|source| source.catalogue().is_stale(today))
    };
    let named = [(is_stale(false), "the catalogue"), (is_stale(true), "the price file")];
    named.into_iter().filter(|(is_stale, _)| *is_stale).map(|(_, name)| name).collect()
}

fn describe_list(name: &str, list: &Catalogue, today: UtcTime) -> String {
    let read = match (list.date(), list.age_in_days(today)) {
        (Some(day), Some(age)) => format!(", of {} ({age} days ago)", date(day)),
        _ => String::new(),
    };
    format!("{name}: {} models{read}\n", list.entries().len())
}

/// The price of a target.
struct TargetPrice<'a> {
    name: &'a str,
    model: &'a str,
    origin: PriceOrigin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PriceOrigin {
    Settings,
    Catalogue,
    PriceFile,
    Free,
    ByModel,
    Unknown,
}

impl PriceOrigin {
    const fn label(self) -> &'static str {
        match self {
            Self::Settings => "priced by the settings",
            Self::Catalogue => "priced by the catalogue",
            Self::PriceFile => "priced by the price file",
            Self::Free => "free of charge",
            Self::ByModel => "priced by the model that the caller names",
            Self::Unknown => "no price: its cost is unknown",
        }
    }

    fn of(target: &TargetSettings) -> Self {
        match &target.facts {
            None => Self::ByModel,
            Some(ModelFacts { is_priced: false, .. }) => Self::Unknown,
            Some(ModelFacts { is_from_price_file: true, .. }) => Self::PriceFile,
            Some(ModelFacts { is_from_catalogue: true, .. }) => Self::Catalogue,
            Some(facts) if facts.price.free => Self::Free,
            Some(_) => Self::Settings,
        }
    }
}

fn target_prices(settings: &Settings) -> Vec<TargetPrice<'_>> {
    settings
        .targets
        .iter()
        .map(|(name, target)| TargetPrice { name, model: &target.model, origin: PriceOrigin::of(target) })
        .collect()
}
