//! Takes over the configuration of another gateway: the `config.yaml` of LiteLLM's proxy.
//!
//! The result is the text of a settings file and a list of what could not be taken over. **What it does not do.** It copies
//! no secret: a key that the file contains is left out and named, and a reference to a variable becomes the same reference.

use crate::catalogue::Catalogue;
use crate::kind::quoted;
use crate::preset::{KeyNeed, ProviderPreset, find_preset};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A configuration that was taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedSettings {
    /// The text of the settings file.
    pub text: String,
    /// The number of models, each a target.
    pub targets: usize,
    /// The number of names that callers use, each a route.
    pub routes: usize,
    /// What was not taken over, each with the reason or with what to do instead.
    pub notes: Vec<String>,
}

/// Why a configuration cannot be taken over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// It is not YAML.
    #[error("it is not valid YAML: {0}")]
    NotYaml(String),
    /// It has no list of models.
    #[error("it has no model_list, so it is not a configuration of LiteLLM's proxy")]
    NoModels,
}

/// LiteLLM's name of a provider, and ours.
const PROVIDERS: [(&str, &str); 22] = [
    ("anthropic", "anthropic"),
    ("openai", "openai"),
    ("text-completion-openai", "openai"),
    ("bedrock", "bedrock"),
    ("gemini", "gemini"),
    ("azure", "azure"),
    ("openrouter", "openrouter"),
    ("groq", "groq"),
    ("mistral", "mistral"),
    ("deepseek", "deepseek"),
    ("together_ai", "together"),
    ("fireworks_ai", "fireworks"),
    ("xai", "xai"),
    ("ollama", "ollama"),
    ("ollama_chat", "ollama"),
    ("hosted_vllm", "vllm"),
    ("vllm", "vllm"),
    ("lm_studio", "lmstudio"),
    ("llamafile", "llamacpp"),
    ("custom_openai", "openai"),
    ("openai_like", "openai"),
    ("litellm_proxy", "openai"),
];

/// Parameters of a model that the import reads, or that mean nothing here.
const KNOWN_PARAMETERS: [&str; 13] = [
    "model",
    "api_key",
    "api_base",
    "base_url",
    "rpm",
    "tpm",
    "aws_region_name",
    "aws_role_name",
    "input_cost_per_token",
    "output_cost_per_token",
    "custom_llm_provider",
    "max_parallel_requests",
    "timeout",
];

/// Takes over a `config.yaml`.
pub fn import_litellm(yaml: &str) -> Result<ImportedSettings, ImportError> {
    let parsed: Value =
        serde_saphyr::from_str(yaml).map_err(|error| ImportError::NotYaml(first_line(&error.to_string())))?;
    let models = parsed.get("model_list").and_then(Value::as_array).ok_or(ImportError::NoModels)?;
    let mut import = LitellmImport::default();
    for (index, model) in models.iter().enumerate() {
        import.model(index, model);
    }
    import.fallbacks(&parsed);
    import.settings(&parsed);
    Ok(import.finish())
}

/// What decides about retries here.
const RETRIES: &str =
    "retries depend on the kind of failure and a retry budget (retry.max_retries, retry.budget)";

/// Why a setting of the router has no counterpart.
fn decided_otherwise(key: &str) -> Option<&'static str> {
    Some(match key {
        "num_retries" | "retry_policy" => RETRIES,
        "routing_strategy" => "targets of a route are tried in order; a busy one is skipped",
        "allowed_fails" | "allowed_fails_policy" => {
            "a circuit breaker opens by failure rate (breakers.NAME.failure_threshold, failure_rate)"
        }
        "cooldown_time" => "a circuit breaker stays open for breakers.NAME.open_for",
        "timeout" | "request_timeout" => "set deadlines.api or routes.NAME.start_timeout if you need it",
        _ => return None,
    })
}

/// A message of the parser without its excerpt, which may contain a key.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[derive(Default)]
struct LitellmImport {
    /// The text of each target, by its name.
    targets: BTreeMap<String, String>,
    /// The text of each priced model, by its id.
    models: BTreeMap<String, String>,
    /// The targets of each route, in order.
    routes: Vec<(String, Vec<String>)>,
    budget: Option<String>,
    notes: Vec<String>,
}

impl LitellmImport {
    fn note(&mut self, text: String) {
        if !self.notes.contains(&text) {
            self.notes.push(text);
        }
    }

    fn model(&mut self, index: usize, model: &Value) {
        let parameters = model.get("litellm_params").and_then(Value::as_object);
        let name = model.get("model_name").and_then(Value::as_str);
        let (Some(parameters), Some(name)) = (parameters, name) else {
            self.note(format!("model_list[{index}]: has no model_name or no litellm_params"));
            return;
        };
        let Some((preset, id)) = self.provider(name, parameters) else { return };
        let target = self.free_name(preset.name, id);
        let mut text = self.target(name, &target, preset, id, parameters);
        if preset.name == "azure" {
            let info = model.get("model_info").and_then(|info| info.get("base_model")?.as_str());
            let base = info.map_or(name, |base| base.strip_prefix("azure/").unwrap_or(base));
            if Catalogue::built_in().entries().iter().any(|entry| entry.price.model == base) {
                let _ = writeln!(text, "base_model = {}", quoted(base));
            } else {
                self.note(format!(
                    "{name}: write base_model, the model behind the deployment, for its price"
                ));
            }
        }
        self.model_info(name, preset, model.get("model_info"));
        self.targets.insert(target.clone(), text);
        self.price(name, id, parameters);
        // LiteLLM writes a wildcard on both sides; ours is the name of the route.
        match self.routes.iter_mut().find(|(route, _)| route == name) {
            Some((_, targets)) => {
                targets.push(target);
                self.note(format!(
                    "{name}: its deployments are tried in order; LiteLLM distributes requests over them"
                ));
            }
            None => self.routes.push((name.to_owned(), vec![target])),
        }
        for parameter in parameters.keys().filter(|key| !KNOWN_PARAMETERS.contains(&key.as_str())) {
            let text = match (parameter.as_str(), preset.name) {
                // A date of Azure's older API; the v1 API, which targets use, has none.
                ("api_version", "azure") => "is not needed: Azure's v1 API is used".to_owned(),
                ("num_retries" | "max_retries", _) => format!("was not taken over: {RETRIES}"),
                _ => "was not taken over".to_owned(),
            };
            self.note(format!("{name}: litellm_params.{parameter} {text}"));
        }
    }

    /// Everything that `model_info` says apart from Azure's `base_model`.
    fn model_info(&mut self, name: &str, preset: &ProviderPreset, info: Option<&Value>) {
        for key in info.and_then(Value::as_object).into_iter().flat_map(Map::keys) {
            let hint = match key.as_str() {
                "base_model" if preset.name == "azure" => continue,
                // LiteLLM's own name of the row, which nothing else refers to.
                "id" => continue,
                "input_cost_per_token" | "output_cost_per_token" => {
                    "; write the price as [models.NAME] input and output"
                }
                "max_input_tokens" => "; the limit is [models.NAME] context_window",
                "max_tokens" | "max_output_tokens" => "; the limit is [models.NAME] max_output",
                _ => "",
            };
            self.note(format!("{name}: model_info.{key} was not taken over{hint}"));
        }
    }

    fn provider<'a>(
        &mut self,
        name: &str,
        parameters: &'a Map<String, Value>,
    ) -> Option<(&'static ProviderPreset, &'a str)> {
        let Some(model) = parameters.get("model").and_then(Value::as_str) else {
            self.note(format!("{name}: litellm_params.model is missing"));
            return None;
        };
        let custom = parameters.get("custom_llm_provider").and_then(Value::as_str);
        let known = |name: &str| PROVIDERS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let (provider, id) = match (custom, model.split_once('/')) {
            (Some(custom), _) => (known(custom), model),
            (None, Some((prefix, rest))) if known(prefix).is_some() => (known(prefix), rest),
            (None, Some((prefix, _))) => {
                self.note(format!("{name}: provider {} is not supported", quoted(prefix)));
                return None;
            }
            (None, None) if model.starts_with("claude") => (Some("anthropic"), model),
            (None, None) => (Some("openai"), model),
        };
        // Bedrock's names may carry the API as well.
        let id = ["converse/", "invoke/", "responses/"]
            .iter()
            .find_map(|part| id.strip_prefix(part))
            .unwrap_or(id);
        let preset = provider.and_then(find_preset);
        if preset.is_none() {
            self.note(format!("{name}: provider {} is not supported", quoted(custom.unwrap_or_default())));
        }
        Some((preset?, id))
    }

    /// A name for a target that no other has.
    fn free_name(&self, provider: &str, id: &str) -> String {
        let id = id.rsplit(['/', '.']).next().filter(|last| last.len() > 2).unwrap_or(id);
        let sign = |sign: char| if sign.is_ascii_alphanumeric() || sign == '-' { sign } else { '-' };
        let plain: String = id.chars().map(sign).collect();
        let plain = match plain.trim_matches('-') {
            "" => provider.to_owned(),
            plain => plain.to_owned(),
        };
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let mut names = [plain.clone()].into_iter().chain(numbered);
        names.find(|name| !self.targets.contains_key(name)).unwrap_or(plain)
    }

    fn target(
        &mut self,
        name: &str,
        target: &str,
        preset: &'static ProviderPreset,
        id: &str,
        parameters: &Map<String, Value>,
    ) -> String {
        let text = |key: &str| parameters.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let mut written = format!("[targets.{target}]\nprovider = {}\n", quoted(preset.name));
        let _ = writeln!(written, "model = {}", quoted(id));
        if let Some(url) = text("api_base").or_else(|| text("base_url")) {
            match url.strip_prefix("os.environ/") {
                Some(variable) => {
                    self.note(format!(
                        "{name}: its base URL is in the variable {variable}; write it as base_url"
                    ));
                }
                None => {
                    let url = url.trim_end_matches('/');
                    let url = match preset.name {
                        "azure" if !url.contains("/openai") => format!("{url}/openai/v1"),
                        "ollama" if !url.ends_with("/v1") => format!("{url}/v1"),
                        _ => url.to_owned(),
                    };
                    let _ = writeln!(written, "base_url = {}", quoted(&url));
                }
            }
        } else if preset.needs_base_url {
            self.note(format!("{name}: provider {} needs a base_url", preset.name));
        }
        match text("api_key").map(|key| key.strip_prefix("os.environ/")) {
            Some(Some(variable)) => {
                let _ = writeln!(written, "api_key = {}", quoted(&format!("env:{variable}")));
            }
            Some(None) => {
                let variable = match preset.key {
                    KeyNeed::Required(variable) => variable.to_owned(),
                    _ => format!("{}_API_KEY", preset.name.to_ascii_uppercase()),
                };
                let _ = writeln!(written, "api_key = {}", quoted(&format!("env:{variable}")));
                self.note(format!("{name}: the file contains its key; set it as {variable} instead"));
            }
            None => {}
        }
        // Only secrets can be references in the settings; other values come from the environment as settings do.
        let mut plain = |key: &str, ours: &str| {
            let value = text(key)?;
            let Some(variable) = value.strip_prefix("os.environ/") else { return Some(value) };
            self.note(format!(
                "{name}: {key} is in the variable {variable}; write its value as {ours}, or set \
                 SEAWALL__TARGETS__{}__{} to it",
                target.to_ascii_uppercase().replace('-', "_"),
                ours.to_ascii_uppercase()
            ));
            None
        };
        let (region, role) = (plain("aws_region_name", "region"), plain("aws_role_name", "role_arn"));
        if let Some(region) = region {
            let _ = writeln!(written, "region = {}", quoted(region));
        } else if preset.name == "bedrock" {
            let _ = writeln!(written, "region = \"us-east-1\"");
            if text("aws_region_name").is_none() {
                self.note(format!("{name}: names no region; us-east-1 was written"));
            }
        }
        if let Some(role) = role {
            let _ = writeln!(written, "role_arn = {}", quoted(role));
        }
        if let Some(slots) = parameters.get("max_parallel_requests").and_then(Value::as_u64) {
            let _ = writeln!(written, "concurrency = {slots}");
        }
        for key in ["rpm", "tpm"] {
            if parameters.contains_key(key) {
                self.note(format!(
                    "{name}: {key} limits a deployment; limit its callers by routes.NAME.requests or .tokens instead"
                ));
            }
        }
        if parameters.contains_key("timeout") {
            self.note(format!(
                "{name}: timeout; set routes.NAME.start_timeout or deadlines.api if you need it"
            ));
        }
        written
    }

    /// Prices that the file sets itself.
    fn price(&mut self, name: &str, id: &str, parameters: &Map<String, Value>) {
        let keys = ["input_cost_per_token", "output_cost_per_token"];
        let price = |key: &str| {
            let per_token = parameters.get(key)?.as_f64().filter(|price| (0.0..=0.1).contains(price))?;
            Some(trimmed(&format!("{:.9}", per_token * 1e6)).to_owned())
        };
        if let (Some(input), Some(output)) = (price(keys[0]), price(keys[1])) {
            let section =
                format!("[models.{}]\ninput = \"${input}/M\"\noutput = \"${output}/M\"\n", quoted(id));
            self.models.insert(id.to_owned(), section);
            return;
        }
        // Half of a price would make the other half free.
        for key in keys.into_iter().filter(|key| parameters.contains_key(*key)) {
            self.note(format!(
                "{name}: litellm_params.{key} was not taken over: a price needs both input and output, each from 0 to 0.1 \
                 dollars per token"
            ));
        }
    }

    /// Fallbacks of a name become further targets of its route.
    fn fallbacks(&mut self, parsed: &Value) {
        for place in ["router_settings", "litellm_settings"] {
            let Some(fallbacks) = parsed.get(place).and_then(|part| part.get("fallbacks")) else { continue };
            let pairs = fallbacks.as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
            for (name, others) in pairs {
                let others = others.as_array().into_iter().flatten().filter_map(Value::as_str);
                let added: Vec<String> = others.flat_map(|other| self.targets_of(other)).collect();
                match self.routes.iter_mut().find(|(route, _)| route == name) {
                    Some((_, targets)) if !added.is_empty() => {
                        let new: Vec<_> =
                            added.into_iter().filter(|target| !targets.contains(target)).collect();
                        targets.extend(new);
                    }
                    _ => self.note(format!("{place}.fallbacks: {name} has no fallback among the models")),
                }
            }
        }
    }

    fn targets_of(&self, route: &str) -> Vec<String> {
        let found = self.routes.iter().find(|(name, _)| name == route);
        found.map(|(_, targets)| targets.clone()).unwrap_or_default()
    }

    fn settings(&mut self, parsed: &Value) {
        let section = |name: &str| parsed.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        let mut litellm = section("litellm_settings");
        if let Some(budget) = litellm.remove("max_budget").as_ref().and_then(Value::as_f64) {
            let duration = litellm.remove("budget_duration");
            let duration = duration.as_ref().and_then(Value::as_str).unwrap_or_default();
            if ["1d", "24h", "1d "].contains(&duration) && budget.is_finite() && budget > 0.0 {
                self.budget = Some(format!("${}/day", trimmed(&format!("{budget:.9}"))));
            } else {
                let text = format!(
                    "litellm_settings.max_budget: {budget} per {}; Seawall's budget is per day, set budget.day",
                    if duration.is_empty() { "lifetime" } else { duration }
                );
                self.note(text);
            }
        }
        litellm.remove("fallbacks");
        if litellm.remove("drop_params").and_then(|value| value.as_bool()) == Some(true) {
            self.note(
                "litellm_settings.drop_params: Seawall drops nothing silently; a target that cannot express a request \
                 is skipped, or the request is rejected"
                    .to_owned(),
            );
        }
        let mut router = section("router_settings");
        router.remove("fallbacks");
        for (place, keys) in [("litellm_settings", litellm), ("router_settings", router)] {
            for key in keys.keys() {
                let reason = decided_otherwise(key).map(|reason| format!(": {reason}")).unwrap_or_default();
                self.note(format!("{place}.{key} was not taken over{reason}"));
            }
        }
        let mut general = section("general_settings");
        if general.remove("master_key").is_some() {
            self.note(
                "general_settings.master_key: not copied; create keys with `seawall key create NAME`"
                    .to_owned(),
            );
        }
        if general.remove("database_url").is_some() {
            self.note(
                "general_settings.database_url: keys and spend in LiteLLM's database are not copied"
                    .to_owned(),
            );
        }
        for key in general.keys() {
            self.note(format!("general_settings.{key} was not taken over"));
        }
        let known = ["model_list", "litellm_settings", "router_settings", "general_settings"];
        for key in parsed.as_object().into_iter().flat_map(Map::keys) {
            if key == "environment_variables" {
                self.note("environment_variables: set them in the environment of the program".to_owned());
            } else if !known.contains(&key.as_str()) {
                self.note(format!("{key} was not taken over"));
            }
        }
    }

    fn finish(self) -> ImportedSettings {
        let mut text =
            String::from("# Taken over from a configuration of LiteLLM's proxy.\nprofile = \"gateway\"\n\n");
        if let Some(budget) = &self.budget {
            let _ = writeln!(text, "[budget]\nday = {}\n", quoted(budget));
        }
        for section in self.models.values().chain(self.targets.values()) {
            text.push_str(section);
            text.push('\n');
        }
        for (name, targets) in &self.routes {
            let targets: Vec<String> = targets.iter().map(|target| quoted(target)).collect();
            let _ = writeln!(text, "[routes.{}]\ntargets = [{}]\n", quoted(name), targets.join(", "));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        ImportedSettings { text, targets: self.targets.len(), routes: self.routes.len(), notes: self.notes }
    }
}

/// A decimal number without zeros at its end.
fn trimmed(number: &str) -> &str {
    number.trim_end_matches('0').trim_end_matches('.')
}

#[cfg(test)]
mod tests;
