//! Checks of models.

use super::Checker;
use super::spending::is_unlimited;
use crate::catalogue::Catalogue;
use crate::load::PriceFileText;
use crate::problem::{Problem, ProblemCode};
use crate::raw::{self, RootSection};
use crate::settings::ModelSettings;
use seawall_core::money::{ModelPriceOptions, Money, PriceList, PriceMultiplier, Surcharge};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn models(
    raw: &RootSection,
    price_file: Option<&Result<PriceFileText, String>>,
    checker: &mut Checker<'_>,
) -> ModelSettings {
    let mut settings = ModelSettings {
        prices: Vec::new(),
        context_windows: BTreeMap::new(),
        max_outputs: BTreeMap::new(),
        image_tokens: BTreeMap::new(),
        allows_unpriced: is_unlimited(&raw.budget),
        price_file: read_price_file(raw, price_file, checker),
        day: checker.today,
    };
    for (id, model) in &raw.models {
        if let Some(window) = &model.context_window {
            if window.value == 0 {
                checker.report_invalid(model, "context_window", window, "must be at least 1");
            }
            settings.context_windows.insert(id.clone(), window.value);
        }
        if let Some(max_output) = &model.max_output {
            settings.max_outputs.insert(id.clone(), max_output.value);
        }
        if let Some(image_tokens) = &model.image_tokens {
            settings.image_tokens.insert(id.clone(), image_tokens.value);
        }
        if takes_prices_of_catalogue(id, model, settings.price_file.as_deref()) {
            continue;
        }
        let Some(options) = price(id, model, checker) else { continue };
        match PriceList::new(std::slice::from_ref(&options)) {
            Ok(_) => settings.prices.push(options),
            Err(error) => {
                let problem = error.problem().strip_prefix(&format!("{id}: ")).unwrap_or(error.problem());
                let key = ["output", "cache_read", "cache_write_1h", "cache_write", "input"]
                    .into_iter()
                    .find(|key| problem.contains(key));
                let origin = key.and_then(|key| crate::field::KeyOrigins::origin_of(model, key));
                let message = format!("{}: {problem}", model.path);
                checker.add(Problem::error(
                    ProblemCode::InvalidPrice,
                    message,
                    origin.unwrap_or(model.origin),
                ));
            }
        }
    }
    settings
}

/// Whether a section only adds to a model of the catalogue, such as its maximum output.
fn takes_prices_of_catalogue(id: &str, model: &raw::ModelSection, price_file: Option<&Catalogue>) -> bool {
    let prices = [&model.input, &model.output, &model.cache_read, &model.cache_write, &model.cache_write_1h];
    let has_prices = prices.into_iter().any(Option::is_some) || model.free.value;
    let has_rules = model.long_context.is_some() || !model.surcharges.is_empty() || model.retires.is_some();
    let mut catalogues = price_file.into_iter().chain([Catalogue::built_in()]);
    let is_listed =
        catalogues.any(|catalogue| catalogue.entries().iter().any(|entry| entry.price.model == id));
    !has_prices && !has_rules && is_listed
}

/// The prices of the file that the settings name. Reading is up to the loader, so that a check does no I/O.
fn read_price_file(
    raw: &RootSection,
    content: Option<&Result<PriceFileText, String>>,
    checker: &mut Checker<'_>,
) -> Option<Arc<Catalogue>> {
    let name = raw.prices.file.as_ref()?;
    let read = match content {
        Some(Ok(file)) => {
            let catalogue = Catalogue::from_price_file(&name.value, &file.text);
            catalogue.map(|read| read.dated(file.modified)).map_err(|error| error.to_string())
        }
        Some(Err(problem)) => Err(problem.clone()),
        None => Err("it was not read".to_owned()),
    };
    match read {
        Ok(catalogue) => Some(Arc::new(catalogue)),
        Err(problem) => {
            let message = format!("prices.file: cannot use {}: {problem}", crate::kind::quoted(&name.value));
            let help =
                "see docs/costs.md for the form of the file; `seawall prices check --file FILE` checks one";
            checker.add(Problem::error(ProblemCode::InvalidPrice, message, name.origin).help(help));
            None
        }
    }
}

fn price(id: &str, model: &raw::ModelSection, checker: &mut Checker<'_>) -> Option<ModelPriceOptions> {
    let is_free = model.free.value;
    // A model that generates nothing needs no price for it.
    let without_output = model.max_output.as_ref().is_some_and(|max_output| max_output.value == 0);
    for (key, price) in [("input", &model.input), ("output", &model.output)] {
        if price.is_none() && !is_free && !(without_output && key == "output") {
            let message =
                format!("{}: no price for {key}, and the catalogue has no model of this name", model.path);
            let help = format!("write {key} = \"$3/M\", or free = true if the model is free of charge");
            checker.add(Problem::error(ProblemCode::UnpricedModel, message, model.origin).help(help));
        }
    }
    let required = |price: &Option<crate::source::Located<Money>>| match price {
        Some(price) => Some(price.value),
        None => is_free.then_some(Money::ZERO),
    };
    let optional = |price: &Option<crate::source::Located<Money>>| price.as_ref().map(|price| price.value);
    Some(ModelPriceOptions {
        model: id.to_owned(),
        input: required(&model.input)?,
        output: required(&model.output).or(without_output.then_some(Money::ZERO))?,
        cache_read: optional(&model.cache_read),
        cache_write: optional(&model.cache_write),
        cache_write_1h: optional(&model.cache_write_1h),
        tool_use: optional(&model.server_tool_use),
        multipliers: multipliers(model, checker),
        long_context: model.long_context.as_ref().map(|long| {
            (
                long.above.value,
                PriceMultiplier {
                    input: thousandths(long.input.value),
                    output: thousandths(long.output.value),
                },
            )
        }),
        free: is_free,
        without_output,
        retires: model.retires.as_ref().map(|date| date.value),
    })
}

fn multipliers(model: &raw::ModelSection, checker: &mut Checker<'_>) -> Vec<(Surcharge, PriceMultiplier)> {
    let mut multipliers = Vec::new();
    for (name, rate) in &model.surcharges {
        match Surcharge::parse(name) {
            Ok(surcharge) => {
                let (input, output) = (thousandths(rate.input.value), thousandths(rate.output.value));
                multipliers.push((surcharge, PriceMultiplier { input, output }));
            }
            Err(error) => {
                let message = format!("{}: {}", rate.path, error.problem());
                checker.add(Problem::error(ProblemCode::UnknownKey, message, rate.origin));
            }
        }
    }
    multipliers
}

/// A percentage in thousandths, rounded up: a rate is never underestimated.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to the range of the type"
)]
fn thousandths(percent: f64) -> u32 {
    (percent * 10.0).ceil().clamp(0.0, f64::from(u32::MAX)) as u32
}
