//! Checks of targets.

use super::Checker;
use super::callers::suggest_name;
use crate::catalogue::Catalogue;
use crate::kind::{DateKind, Provider, SecretReference, ValueKind as _, quoted};
use crate::preset::{KeyNeed, ProviderPreset};
use crate::problem::{Problem, ProblemCode};
use crate::raw::{self, RootSection};
use crate::settings::{ANY_MODEL, ModelFacts, ModelSettings, PriceSource, TargetSettings};
use crate::source::Located;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{OpenAiApi, OutputLimitField};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

/// A model that retires within this time causes a warning.
const RETIREMENT_NOTICE: Duration = Duration::from_secs(90 * 86_400);

pub(super) fn targets(
    raw: &RootSection,
    models: &ModelSettings,
    checker: &mut Checker<'_>,
) -> BTreeMap<String, TargetSettings> {
    let used: BTreeSet<&String> =
        raw.routes.values().flat_map(|route| &route.targets.value).map(|target| &target.value).collect();
    let mut targets = BTreeMap::new();
    for (name, target) in &raw.targets {
        let path = &target.path;
        let facts = facts(target, raw, models, checker);
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
        check_keys(target, checker);
        targets.insert(name.clone(), settings(target, concurrency, facts));
    }
    stale_prices(&targets, models, raw, checker);
    targets
}

/// What is known of the model of a target. Reports a model without a price.
fn facts(
    target: &raw::TargetSection,
    raw: &RootSection,
    models: &ModelSettings,
    checker: &mut Checker<'_>,
) -> Option<ModelFacts> {
    let (preset, model) = (target.provider.value, &target.model.value);
    if model == ANY_MODEL {
        if preset.api_family == Provider::Simulated {
            let problem = format!("provider {} needs the id of a model instead of *", preset.name);
            checker.report_invalid(target, "model", &target.model, &problem);
        }
        return None;
    }
    let base = target.base_model.as_ref().map_or(model, |base| &base.value);
    let facts = models.facts(preset, base).map(|mut facts| {
        facts.price.model.clone_from(model);
        facts
    });
    match &facts {
        Some(facts) => retirement(target, facts, raw, checker),
        // Its section has a problem that was reported.
        None if raw.models.contains_key(base) => {}
        None => {
            let message = format!("{}.model: model {} has no price", target.path, quoted(base));
            let entries = Catalogue::built_in().entries();
            let listed = entries.iter().filter(|entry| entry.provider == preset.catalogue);
            let names = raw.models.keys().chain(listed.map(|entry| &entry.price.model));
            let near = suggest_name("model", base, names);
            let help = if preset.needs_base_url && target.base_model.is_none() {
                "write base_model = \"MODEL\" with the model behind this deployment".to_owned()
            } else {
                format!("{near}\notherwise add [models.{}] with its prices", quoted(base))
            };
            checker.add(Problem::error(ProblemCode::UnknownModel, message, target.model.origin).help(help));
        }
    }
    facts
}

fn retirement(target: &raw::TargetSection, facts: &ModelFacts, raw: &RootSection, checker: &mut Checker<'_>) {
    let Some(retires) = facts.price.retires else { return };
    let day = DateKind::to_toml(&retires);
    let left = Duration::from_secs(retires.day().saturating_sub(checker.today.day()).saturating_mul(86_400));
    let is_over = retires <= UtcTime::start_of_day(checker.today.day());
    let problem = if is_over {
        let message = format!("{}.model: the vendor retired this model on {day}", target.path);
        Problem::error(ProblemCode::RetiredModel, message, target.model.origin)
    } else if left <= RETIREMENT_NOTICE {
        let message = format!("{}.model: the vendor will retire this model on {day}", target.path);
        Problem::warning(ProblemCode::RetiringModel, message, target.model.origin)
    } else {
        return;
    };
    let written = raw.models.get(&target.model.value).and_then(|model| model.retires.as_ref());
    let problem = match written {
        Some(date) => problem.also_at(date.origin, "retirement date"),
        None => problem,
    };
    checker.add(problem.help("replace it with another model"));
}

/// Reports that prices of an old list are in use: once for each list, at the first target that uses it.
fn stale_prices(
    targets: &BTreeMap<String, TargetSettings>,
    models: &ModelSettings,
    raw: &RootSection,
    checker: &mut Checker<'_>,
) {
    let mut reported = Vec::new();
    for (name, target) in targets {
        let Some(source) = models.price_source(target) else { continue };
        let catalogue = source.catalogue();
        let Some(age) = catalogue.age_in_days(checker.today).filter(|_| catalogue.is_stale(checker.today))
        else {
            continue;
        };
        if reported.contains(&source) {
            continue;
        }
        reported.push(source);
        let origin = raw.targets.get(name).map_or(raw.origin, |section| section.model.origin);
        let priced = if target.is_for_any_model() {
            "the prices of its models are".to_owned()
        } else {
            format!("the price of {} is", quoted(&target.model))
        };
        let (list, help) = match source {
            PriceSource::BuiltIn => (
                format!("a catalogue that is {age} days old"),
                "update Seawall, set prices.file, or write the present price under models",
            ),
            PriceSource::File(_) => (
                format!("prices.file, which was last changed {age} days ago"),
                "fetch the file again, or write the present price under models",
            ),
        };
        let message = format!("targets.{name}.model: {priced} from {list}");
        checker.add(Problem::warning(ProblemCode::StaleCatalogue, message, origin).help(help));
    }
}

/// Checks the keys that a provider requires, and those that it does not use.
fn provider(target: &raw::TargetSection, checker: &mut Checker<'_>) {
    let preset = target.provider.value;
    let (name, family) = (preset.name, preset.api_family);
    let missing = match family {
        Provider::Bedrock => target.region.is_none().then_some(("region", "region = \"ap-northeast-1\"")),
        _ if preset.needs_base_url && target.base_url.is_none() => {
            Some(("base_url", "base_url = \"https://NAME.openai.azure.com/openai/v1\""))
        }
        _ => None,
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
    let key = [
        ("api_key", target.api_key.as_ref().map(|secret| secret.origin)),
        ("api_keys", target.api_keys.as_ref().map(|secrets| secrets.origin)),
    ];
    let openai = [
        ("output_limit_field", target.output_limit_field.as_ref().map(|field| field.origin)),
        ("api", target.api.as_ref().map(|api| api.origin)),
    ];
    let url = [("base_url", target.base_url.as_ref().map(|url| url.origin))];
    let unused: Vec<_> = match family {
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
        } else if (target.api_key.is_some() || target.api_keys.is_some())
            && url.value.starts_with("http://")
            && !is_local(&url.value)
        {
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

fn settings(
    target: &raw::TargetSection,
    concurrency: NonZeroU32,
    facts: Option<ModelFacts>,
) -> TargetSettings {
    let text = |text: &Option<Located<String>>| text.as_ref().map(|text| text.value.clone());
    let preset = target.provider.value;
    TargetSettings {
        provider: preset.api_family,
        preset,
        model: target.model.value.clone(),
        facts,
        grade: target.grade.value,
        region: text(&target.region),
        base_url: text(&target.base_url).or_else(|| preset.base_url.map(str::to_owned)),
        api_key: api_key(target),
        more_api_keys: listed_keys(target).skip(1).collect(),
        key_header: preset.key_header,
        role_arn: text(&target.role_arn),
        external_id: text(&target.external_id),
        output_limit_field: output_limit_field(target),
        api: openai_api(target),
        concurrency,
        weight: target.weight.value,
        base_model: text(&target.base_model),
        breaker: target.breaker.value.clone(),
    }
}

/// The key in the settings; otherwise the provider's usual variable. Another server than the vendor's own never receives
/// the vendor's key unless the settings say so.
fn api_key(target: &raw::TargetSection) -> Option<SecretReference> {
    if let Some(key) =
        target.api_key.as_ref().map(|key| key.value.clone()).or_else(|| listed_keys(target).next())
    {
        return Some(key);
    }
    let preset = target.provider.value;
    let is_usual_server =
        preset.needs_base_url || target.base_url.as_ref().is_none_or(|url| is_vendor_api(&url.value));
    match preset.key {
        KeyNeed::Required(variable) if is_usual_server => {
            Some(SecretReference::Variable(variable.to_owned()))
        }
        _ => None,
    }
}

/// The keys in the list, if there is one.
fn listed_keys(target: &raw::TargetSection) -> impl Iterator<Item = SecretReference> {
    target.api_keys.iter().flat_map(|keys| &keys.value).map(|key| key.value.clone())
}

/// Checks that there is either one key or a list of different keys.
fn check_keys(target: &raw::TargetSection, checker: &mut Checker<'_>) {
    let Some(keys) = &target.api_keys else { return };
    let path = &target.path;
    if let Some(single) = &target.api_key {
        let message = format!("{path}.api_keys: api_key is set, too");
        let problem = Problem::error(ProblemCode::InvalidValue, message, keys.origin);
        let help = "write all keys in api_keys, or api_keys = \"none\" if it comes from a profile";
        checker.add(problem.also_at(single.origin, "the single key").help(help));
    }
    if keys.value.is_empty() {
        let message = format!("{path}.api_keys: the list is empty");
        let help = "write api_keys = [\"env:NAME_1\", \"env:NAME_2\"], or api_key for a single one";
        checker.add(Problem::error(ProblemCode::InvalidValue, message, keys.origin).help(help));
    }
    for (index, key) in keys.value.iter().enumerate() {
        if let Some(first) = keys.value[..index].iter().find(|other| other.value == key.value) {
            let message = format!("{path}.api_keys: the same key is listed twice");
            let problem = Problem::error(ProblemCode::Duplicate, message, key.origin);
            checker.add(problem.also_at(first.origin, "first listed here"));
        }
    }
}

/// The field in the settings; otherwise the one that the server is known to accept. Servers that are only compatible
/// with OpenAI seldom support the newer of the two fields.
fn output_limit_field(target: &raw::TargetSection) -> OutputLimitField {
    match &target.output_limit_field {
        Some(field) => field.value,
        None if is_unknown_server(target) => OutputLimitField::MaxTokens,
        None => target.provider.value.output_limit_field,
    }
}

/// The APIs in the settings; otherwise those that the server is known to have.
fn openai_api(target: &raw::TargetSection) -> OpenAiApi {
    match &target.api {
        Some(api) => api.value,
        None if is_unknown_server(target) => OpenAiApi::ChatCompletions,
        None => target.provider.value.openai_api,
    }
}

/// Whether the server is neither a preset's own nor Azure's: `openai` with another base URL is any compatible server.
fn is_unknown_server(target: &raw::TargetSection) -> bool {
    let is_generic = |preset: &ProviderPreset| preset.name == "openai";
    is_generic(target.provider.value)
        && target.base_url.as_ref().is_some_and(|url| {
            let host = host(&url.value);
            host != "api.openai.com"
                && ![".openai.azure.com", ".cognitiveservices.azure.com"]
                    .iter()
                    .any(|end| host.ends_with(end))
        })
}
