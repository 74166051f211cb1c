//! Checks of models, targets and routes.

use super::Checker;
use super::callers::suggest_name;
use super::limits::route_quotas;
use super::operation::denied;
use crate::kind::{DateKind, Provider, ValueKind as _, quoted};
use crate::problem::{Problem, ProblemCode};
use crate::raw::{self, RootSection};
use crate::settings::{ModelSettings, RouteSettings, TargetSettings};
use seawall_core::money::{ModelPriceOptions, Money, PriceList, PriceMultiplier, Surcharge};
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{OpenAiApi, OutputLimitField};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

/// A model that retires within this time causes a warning.
const RETIREMENT_NOTICE: Duration = Duration::from_secs(90 * 86_400);

pub(super) fn models(
    models: &BTreeMap<String, raw::ModelSection>,
    checker: &mut Checker<'_>,
) -> ModelSettings {
    let mut settings = ModelSettings::default();
    for (id, model) in models {
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

fn price(id: &str, model: &raw::ModelSection, checker: &mut Checker<'_>) -> Option<ModelPriceOptions> {
    let is_free = model.free.value;
    // A model that generates nothing needs no price for it.
    let without_output = model.max_output.as_ref().is_some_and(|max_output| max_output.value == 0);
    for (key, price) in [("input", &model.input), ("output", &model.output)] {
        if price.is_none() && !is_free && !(without_output && key == "output") {
            let message =
                format!("{}: no price for {key}; a model without a price is never called", model.path);
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

pub(super) fn targets(raw: &RootSection, checker: &mut Checker<'_>) -> BTreeMap<String, TargetSettings> {
    let used: BTreeSet<&String> =
        raw.routes.values().flat_map(|route| &route.targets.value).map(|target| &target.value).collect();
    let mut targets = BTreeMap::new();
    for (name, target) in &raw.targets {
        let path = &target.path;
        match raw.models.get(&target.model.value) {
            None => {
                let message = format!("{path}.model: model {} has no price", quoted(&target.model.value));
                let near = suggest_name("model", &target.model.value, raw.models.keys());
                let help =
                    format!("{near}\notherwise add [models.{}] with its prices", quoted(&target.model.value));
                checker
                    .add(Problem::error(ProblemCode::UnknownModel, message, target.model.origin).help(help));
            }
            Some(model) => retirement(target, model, checker),
        }
        if !raw.breakers.contains_key(&target.breaker.value) {
            let message = format!("{path}.breaker: unknown breaker {}", quoted(&target.breaker.value));
            let help = suggest_name("breaker", &target.breaker.value, raw.breakers.keys());
            checker
                .add(Problem::error(ProblemCode::UnknownBreaker, message, target.breaker.origin).help(help));
        }
        let concurrency = NonZeroU32::new(target.concurrency.value).unwrap_or_else(|| {
            checker.report_invalid(target, "concurrency", &target.concurrency, "must be at least 1");
            NonZeroU32::MIN
        });
        if !used.contains(name) {
            let message = format!("{path} is not used by any route");
            let help = format!("add it to a route, or remove it with targets.{name} = \"none\"");
            checker.add(Problem::warning(ProblemCode::UnusedTarget, message, target.origin).help(help));
        }
        provider(target, checker);
        targets.insert(name.clone(), settings(target, concurrency));
    }
    targets
}

fn retirement(target: &raw::TargetSection, model: &raw::ModelSection, checker: &mut Checker<'_>) {
    let Some(retires) = &model.retires else { return };
    let day = DateKind::to_toml(&retires.value);
    let left =
        Duration::from_secs(retires.value.day().saturating_sub(checker.today.day()).saturating_mul(86_400));
    let is_over = retires.value <= UtcTime::start_of_day(checker.today.day());
    let help = "replace it with another model";
    if is_over {
        let message = format!("{}.model: the vendor retired this model on {day}", target.path);
        let problem = Problem::error(ProblemCode::RetiredModel, message, target.model.origin);
        checker.add(problem.also_at(retires.origin, "retirement date").help(help));
    } else if left <= RETIREMENT_NOTICE {
        let message = format!("{}.model: the vendor will retire this model on {day}", target.path);
        let problem = Problem::warning(ProblemCode::RetiringModel, message, target.model.origin);
        checker.add(problem.also_at(retires.origin, "retirement date").help(help));
    }
}

/// Checks the keys that a provider requires, and those that it does not use.
fn provider(target: &raw::TargetSection, checker: &mut Checker<'_>) {
    let name = target.provider.value;
    let missing = match name {
        Provider::Anthropic | Provider::OpenAi | Provider::Gemini => {
            // A self-hosted server may need no key; the vendor always does.
            let is_self_hosted = target.base_url.as_ref().is_some_and(|url| !is_vendor_api(&url.value));
            (target.api_key.is_none() && !is_self_hosted).then_some(("api_key", "api_key = \"env:NAME\""))
        }
        Provider::Bedrock => target.region.is_none().then_some(("region", "region = \"ap-northeast-1\"")),
        Provider::Simulated => None,
    };
    if let Some((key, help)) = missing {
        let message = format!("{}: provider {name} requires {key}", target.path);
        let problem = Problem::error(ProblemCode::IncompleteTarget, message, target.provider.origin);
        checker.add(problem.help(format!("write {help}")));
    }
    let bedrock = [
        ("region", target.region.as_ref().map(|text| text.origin)),
        ("role_arn", target.role_arn.as_ref().map(|text| text.origin)),
        ("external_id", target.external_id.as_ref().map(|text| text.origin)),
    ];
    let key = [("api_key", target.api_key.as_ref().map(|secret| secret.origin))];
    let openai = [
        ("output_limit_field", target.output_limit_field.as_ref().map(|field| field.origin)),
        ("api", target.api.as_ref().map(|api| api.origin)),
    ];
    let url = [("base_url", target.base_url.as_ref().map(|url| url.origin))];
    let unused: Vec<_> = match name {
        Provider::OpenAi => bedrock.to_vec(),
        Provider::Anthropic | Provider::Gemini => bedrock.into_iter().chain(openai).collect(),
        Provider::Bedrock => key.into_iter().chain(openai).collect(),
        Provider::Simulated => bedrock.into_iter().chain(key).chain(openai).chain(url).collect(),
    };
    for (key, origin) in unused {
        if let Some(origin) = origin {
            let message = format!("{}.{key}: provider {name} does not use this key", target.path);
            let help = format!("remove it, or write {key} = \"none\" if it comes from a profile");
            checker.add(Problem::warning(ProblemCode::UnusedKey, message, origin).help(help));
        }
    }
    if let Some(url) = &target.base_url {
        if !url.value.starts_with("http://") && !url.value.starts_with("https://") {
            checker.report_invalid(target, "base_url", url, "must start with https:// or http://");
        } else if target.api_key.is_some() && url.value.starts_with("http://") && !is_local(&url.value) {
            let message = format!("{}.base_url: the API key would be sent unencrypted", target.path);
            checker.add(
                Problem::warning(ProblemCode::UnencryptedUrl, message, url.origin).help("use an https URL"),
            );
        }
    }
}

/// Whether the host of a URL is this machine.
pub(super) fn is_local(url: &str) -> bool {
    let host = host(url);
    host == "localhost" || host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

/// Whether a URL is a vendor's own.
fn is_vendor_api(url: &str) -> bool {
    let host = host(url);
    ["api.anthropic.com", "api.openai.com"].contains(&host) || host.ends_with(".googleapis.com")
}

fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

fn settings(target: &raw::TargetSection, concurrency: NonZeroU32) -> TargetSettings {
    let text = |text: &Option<crate::source::Located<String>>| text.as_ref().map(|text| text.value.clone());
    TargetSettings {
        provider: target.provider.value,
        model: target.model.value.clone(),
        grade: target.grade.value,
        region: text(&target.region),
        base_url: text(&target.base_url),
        api_key: target.api_key.as_ref().map(|secret| secret.value.clone()),
        role_arn: text(&target.role_arn),
        external_id: text(&target.external_id),
        output_limit_field: output_limit_field(target),
        api: openai_api(target),
        concurrency,
        breaker: target.breaker.value.clone(),
    }
}

/// The field in the settings; otherwise the one that the server is known to accept. Servers that are only compatible
/// with OpenAI seldom support the newer of the two fields.
fn output_limit_field(target: &raw::TargetSection) -> OutputLimitField {
    match &target.output_limit_field {
        Some(field) => field.value,
        None if is_openai(target) => OutputLimitField::MaxCompletionTokens,
        None => OutputLimitField::MaxTokens,
    }
}

/// The APIs in the settings; otherwise those that the server is known to have.
fn openai_api(target: &raw::TargetSection) -> OpenAiApi {
    match &target.api {
        Some(api) => api.value,
        None if is_openai(target) => OpenAiApi::Both,
        None => OpenAiApi::ChatCompletions,
    }
}

/// Whether the server is OpenAI's own or Azure's.
fn is_openai(target: &raw::TargetSection) -> bool {
    target.base_url.as_ref().is_none_or(|url| {
        let host = host(&url.value);
        host == "api.openai.com"
            || [".openai.azure.com", ".cognitiveservices.azure.com"].iter().any(|end| host.ends_with(end))
    })
}

pub(super) fn routes(raw: &RootSection, checker: &mut Checker<'_>) -> BTreeMap<String, RouteSettings> {
    let mut routes = BTreeMap::new();
    for (name, route) in &raw.routes {
        let path = &route.path;
        for (key, is_empty, origin, example) in [
            ("targets", route.targets.value.is_empty(), route.targets.origin, "[\"sonnet\"]"),
            ("faces", route.faces.value.is_empty(), route.faces.origin, "[\"anthropic\"]"),
        ] {
            if is_empty {
                let message =
                    format!("{path}.{key}: the list is empty, so the route could not serve any request");
                let help =
                    format!("write {key} = {example}, or remove the route with routes.{name} = \"none\"");
                checker.add(Problem::error(ProblemCode::NoTargets, message, origin).help(help));
            }
        }
        let mut seen = BTreeMap::new();
        for target in &route.targets.value {
            if !raw.targets.contains_key(&target.value) {
                let message = format!("{path}.targets: unknown target {}", quoted(&target.value));
                let help = suggest_name("target", &target.value, raw.targets.keys());
                checker.add(Problem::error(ProblemCode::UnknownTarget, message, target.origin).help(help));
            }
            if let Some(first) = seen.insert(&target.value, target.origin) {
                let message = format!("{path}.targets: {} is listed twice", quoted(&target.value));
                checker.add(
                    Problem::error(ProblemCode::Duplicate, message, target.origin)
                        .also_at(first, "first listed here"),
                );
            }
        }
        checker.check_positive(route, "start_timeout", &route.start_timeout);
        let quotas = route_quotas(name, route, checker);
        let settings = RouteSettings {
            targets: route.targets.value.iter().map(|target| target.value.clone()).collect(),
            faces: route.faces.value.iter().map(|face| face.value).collect(),
            guest_faces: route.guest_faces.value.iter().map(|face| face.value).collect(),
            start_timeout: route.start_timeout.value,
            fallback: route.fallback.value,
            deny: denied(&format!("{path}.deny"), &route.deny.value, checker),
            requests: route.requests.as_ref().map(|rate| rate.value),
            tokens: route.tokens.as_ref().map(|rate| rate.value),
            quotas,
        };
        routes.insert(name.clone(), settings);
    }
    if raw.routes.is_empty() {
        let message = "no routes are configured, so no request could be served";
        let help = "add [routes.NAME] with its targets";
        checker.add(Problem::error(ProblemCode::NoTargets, message, raw.origin).help(help));
    }
    routes
}
