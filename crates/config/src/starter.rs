//! The first settings file: finds the providers that a machine has credentials for, and writes routes for their models.
//!
//! Both halves are pure. The caller passes the environment and what it found on the network, and writes the text to a file.
//! **What it does not do.** It writes no secret: a key stays in its environment variable, and the file refers to it.

use crate::kind::{Provider, quoted};
use crate::preset::{KeyNeed, PRESETS, ProviderPreset};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A provider whose models can be called from this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundProvider {
    /// The provider.
    pub preset: &'static ProviderPreset,
    /// How it was found, such as the name of a variable.
    pub evidence: String,
    /// The variable of its key, if it is not the usual one or if the base URL is not the vendor's.
    pub key_variable: Option<String>,
    /// Its base URL, if it is not the usual one.
    pub base_url: Option<String>,
    /// The region, for Bedrock.
    pub region: Option<String>,
    /// Its models, where the server listed them.
    pub models: Vec<String>,
}

/// Credentials of AWS that its default chain would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundAwsCredentials {
    /// Where they come from, such as the name of a variable or a profile.
    pub source: String,
    /// The region of the variables or the profile.
    pub region: Option<String>,
}

/// What a settings file is written from.
#[derive(Clone, Copy, Debug)]
pub struct StarterOptions<'a> {
    /// The providers; without any, the file has a route to a simulated model.
    pub providers: &'a [FoundProvider],
    /// The listen address.
    pub listen: &'a str,
    /// The daily budget, if any.
    pub budget: Option<&'a str>,
    /// The data directory, if it is not the profile's.
    pub data_dir: Option<&'a str>,
}

/// What was found in the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Providers that can be used, in the order of [`PRESETS`].
    pub providers: Vec<FoundProvider>,
    /// What looks like a provider and cannot be used, each with the reason.
    pub rejected: Vec<String>,
}

/// A variable with a base URL, by provider. The clients of these vendors read the same ones.
const BASE_URL_VARIABLES: [(&str, &str); 5] = [
    ("anthropic", "ANTHROPIC_BASE_URL"),
    ("openai", "OPENAI_BASE_URL"),
    ("gemini", "GOOGLE_GEMINI_BASE_URL"),
    ("azure", "AZURE_OPENAI_ENDPOINT"),
    ("bedrock", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"),
];

/// Variables that some clients use for the same key.
const OTHER_KEY_VARIABLES: [(&str, &str); 2] = [("gemini", "GOOGLE_API_KEY"), ("azure", "AZURE_API_KEY")];

/// Finds the providers that an environment has keys for. `aws` are the credentials of AWS, or why they cannot be used.
/// `is_own_address` recognises the gateway's own URL, to which the clients on this machine may already point.
#[must_use]
pub fn discover(
    environment: &BTreeMap<String, String>,
    aws: &Result<Option<FoundAwsCredentials>, String>,
    is_own_address: impl Fn(&str) -> bool,
) -> Discovery {
    let mut discovery = Discovery::default();
    for preset in PRESETS {
        let found = match preset.api_family {
            Provider::Bedrock => bedrock(preset, environment, aws),
            _ => by_key(preset, environment, &is_own_address),
        };
        match found {
            Some(Ok(provider)) => discovery.providers.push(provider),
            Some(Err(problem)) => discovery.rejected.push(problem),
            None => {}
        }
    }
    discovery
}

fn by_key(
    preset: &'static ProviderPreset,
    environment: &BTreeMap<String, String>,
    is_own_address: &impl Fn(&str) -> bool,
) -> Option<Result<FoundProvider, String>> {
    let KeyNeed::Required(usual) = preset.key else { return None };
    let other =
        OTHER_KEY_VARIABLES.iter().filter(|(name, _)| *name == preset.name).map(|(_, variable)| *variable);
    let (variable, key) = [usual]
        .into_iter()
        .chain(other)
        .find_map(|variable| Some((variable, environment.get(variable).filter(|key| !key.is_empty())?)))?;
    if let Some(problem) = key_problem(key) {
        return Some(Err(format!("{variable}: {problem}")));
    }
    let url_variable = BASE_URL_VARIABLES.iter().find(|(name, _)| *name == preset.name);
    let url = url_variable
        .and_then(|(_, name)| Some((*name, environment.get(*name).filter(|url| !url.is_empty())?.as_str())));
    let base_url = match url {
        Some((name, url)) if !url.starts_with("http://") && !url.starts_with("https://") => {
            return Some(Err(format!("{name}: must start with https:// or http://")));
        }
        // A client that already uses the gateway; the gateway must not call itself.
        Some((_, url)) if is_own_address(url) => None,
        Some((_, url)) => Some(complete_url(preset, url)),
        None if preset.needs_base_url => {
            let needed = url_variable.map_or("the base URL", |(_, name)| name);
            return Some(Err(format!("{variable} is set, but {needed} is not")));
        }
        None => None,
    };
    let is_written = variable != usual || base_url.is_some();
    Some(Ok(FoundProvider {
        preset,
        evidence: variable.to_owned(),
        key_variable: is_written.then(|| variable.to_owned()),
        base_url,
        region: None,
        models: Vec::new(),
    }))
}

/// The base URL in the form of the settings.
fn complete_url(preset: &ProviderPreset, url: &str) -> String {
    let url = url.trim_end_matches('/');
    match preset.name {
        // Azure's clients take the address of the resource alone.
        "azure" if !url.contains("/openai") => format!("{url}/openai/v1"),
        _ => url.to_owned(),
    }
}

fn bedrock(
    preset: &'static ProviderPreset,
    environment: &BTreeMap<String, String>,
    aws: &Result<Option<FoundAwsCredentials>, String>,
) -> Option<Result<FoundProvider, String>> {
    let credentials = match aws {
        Ok(found) => found.as_ref()?,
        Err(problem) => return Some(Err(format!("AWS credentials: {problem}"))),
    };
    let source = &credentials.source;
    let Some(region) = &credentials.region else {
        return Some(Err(format!("AWS credentials ({source}): no region is set; set AWS_REGION")));
    };
    let endpoint = environment.get("AWS_ENDPOINT_URL_BEDROCK_RUNTIME").filter(|url| !url.is_empty());
    Some(Ok(FoundProvider {
        preset,
        evidence: source.clone(),
        key_variable: None,
        base_url: endpoint.cloned(),
        region: Some(region.clone()),
        models: Vec::new(),
    }))
}

/// Why a value cannot be a key, if it cannot. Nothing of the value is shown.
fn key_problem(key: &str) -> Option<&'static str> {
    if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some(
            "is not a key: it contains spaces, line breaks or other characters that no header may have",
        );
    }
    (key.len() < 8).then_some("is not a key: it has less than 8 characters")
}

/// The names of the routes of a provider.
fn routes(found: &FoundProvider) -> Vec<String> {
    let own = format!("{}/*", found.preset.name);
    let mut names: Vec<&str> = match found.preset.name {
        "anthropic" => vec!["claude-*"],
        "openai" => vec!["gpt-*", "o3*", "o4*", "text-embedding-*"],
        "gemini" => vec!["gemini-*"],
        "bedrock" => vec!["anthropic.*", "amazon.*", "global.*"],
        _ => Vec::new(),
    };
    // Cross-region inference profiles of the geography.
    let region = found.region.as_deref().unwrap_or_default();
    let geography =
        [("us-", "us.*"), ("eu-", "eu.*"), ("ap-northeast-1", "jp.*"), ("ap-northeast-3", "jp.*")];
    names.extend(geography.iter().filter(|(start, _)| region.starts_with(start)).map(|(_, name)| *name));
    names.into_iter().map(str::to_owned).chain([own]).collect()
}

/// The text of a settings file.
#[must_use]
pub fn starter_file(options: &StarterOptions<'_>) -> String {
    let &StarterOptions { providers, listen, budget, data_dir } = options;
    let mut text = String::from(
        "# Settings of Seawall. Everything that is not set here comes from the profile \"gateway\".\n\
         #   all effective settings and their origins: seawall config show --origin FILE\n\
         #   the reference:                            seawall config reference\n\
         profile = \"gateway\"\n\n",
    );
    let _ = writeln!(text, "[server]\nlisten = {}\n", quoted(listen));
    if let Some(data_dir) = data_dir {
        // The first key is created there; a gateway with another directory would not know it.
        let _ = writeln!(text, "[store]\ndata_dir = {}\n", quoted(data_dir));
    }
    match budget {
        Some(budget) => {
            text += "# A call is made only if its maximum cost fits into what is left of the day (UTC).\n";
            let _ = writeln!(text, "[budget]\nday = {}\n", quoted(budget));
        }
        None => {
            text += "# No budget applies until one is set. A call is then made only if its maximum cost fits into what is left.\n\
                     # [budget]\n# day = \"$50/day\"\n\n";
        }
    }
    for found in providers {
        write_provider(&mut text, found);
    }
    if providers.is_empty() {
        text += "# No provider was found, so this target is simulated: it needs no key and costs nothing.\n\
                 [targets.simulated]\nprovider = \"simulated\"\nmodel = \"sonnet\"\n\n\
                 [models.sonnet]\nfree = true\n\n\
                 [routes.simulated]\ntargets = [\"simulated\"]\n\n\
                 # A real model: set its key in the environment, and run `seawall init --force`, or write\n\
                 # [targets.anthropic]\n# provider = \"anthropic\"\n# model = \"*\"\n#\n\
                 # [routes.\"claude-*\"]\n# targets = [\"anthropic\"]\n\n";
    } else if providers.len() > 1 {
        text += "# A route with several targets tries them in order. A name of your own:\n\
                 # [routes.assistant]\n# targets = [\"first\", \"second\"]   # targets with a model instead of \"*\"\n";
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn write_provider(text: &mut String, found: &FoundProvider) {
    let name = found.preset.name;
    let _ = writeln!(text, "# {}, found by {}.", found.preset.description, found.evidence);
    if !found.models.is_empty() {
        let _ = writeln!(text, "# Its models: {}", found.models.join(", "));
    }
    let _ = writeln!(text, "[targets.{name}]\nprovider = {}", quoted(name));
    text.push_str("model = \"*\"   # the model that the caller names\n");
    if let Some(region) = &found.region {
        let _ = writeln!(text, "region = {}", quoted(region));
    }
    if let Some(url) = &found.base_url {
        let _ = writeln!(text, "base_url = {}", quoted(url));
    }
    if let Some(variable) = &found.key_variable {
        let _ = writeln!(text, "api_key = {}", quoted(&format!("env:{variable}")));
    }
    text.push('\n');
    for route in routes(found) {
        let _ = writeln!(text, "[routes.{}]\ntargets = [{}]\n", quoted(&route), quoted(name));
    }
}

#[cfg(test)]
mod tests {
    use super::{Discovery, FoundAwsCredentials, FoundProvider, StarterOptions, discover, starter_file};
    use crate::load::{SettingsInput, load};
    use crate::preset::PRESETS;
    use crate::problem::{Problem, ProblemCode};
    use seawall_core::time::UtcTime;
    use std::collections::BTreeMap;

    fn found(variables: &[(&str, &str)]) -> Discovery {
        found_with(variables, &Ok(None))
    }

    fn found_with(
        variables: &[(&str, &str)],
        aws: &Result<Option<FoundAwsCredentials>, String>,
    ) -> Discovery {
        let variables: BTreeMap<_, _> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        discover(&variables, aws, |url| url.contains(":7700"))
    }

    fn aws(region: Option<&str>) -> Result<Option<FoundAwsCredentials>, String> {
        Ok(Some(FoundAwsCredentials { source: "profile shop".to_owned(), region: region.map(str::to_owned) }))
    }

    fn written(providers: &[FoundProvider], budget: Option<&str>) -> String {
        starter_file(&StarterOptions { providers, listen: "127.0.0.1:7700", budget, data_dir: None })
    }

    fn names(discovery: &Discovery) -> Vec<&str> {
        discovery.providers.iter().map(|found| found.preset.name).collect()
    }

    #[test]
    fn keys_in_the_environment_are_found_and_their_values_appear_nowhere() {
        let variables = [
            ("ANTHROPIC_API_KEY", "sk-ant-secret"),
            ("OPENAI_API_KEY", "sk-secret-openai"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:9000/v1/"),
            ("GOOGLE_API_KEY", "secret-gemini"),
            ("AZURE_OPENAI_API_KEY", "secret-azure"),
            ("AZURE_OPENAI_ENDPOINT", "https://shop.openai.azure.com"),
        ];
        let discovery = found_with(&variables, &aws(Some("ap-northeast-1")));
        assert_eq!(names(&discovery), ["anthropic", "openai", "bedrock", "gemini", "azure"]);
        assert_eq!(discovery.rejected, Vec::<String>::new());
        let text = written(&discovery.providers, Some("$10/day"));
        assert!(!text.contains("secret"), "{text}");
        assert!(
            text.contains("base_url = \"http://127.0.0.1:9000/v1\"\napi_key = \"env:OPENAI_API_KEY\""),
            "{text}"
        );
        assert!(text.contains("api_key = \"env:GOOGLE_API_KEY\""), "{text}");
        assert!(text.contains("https://shop.openai.azure.com/openai/v1"), "{text}");
        assert!(text.contains("[routes.\"jp.*\"]"), "{text}");
    }

    #[test]
    fn what_cannot_be_used_is_rejected_with_a_reason() {
        let rejected = |variables| found(variables).rejected.join("; ");
        assert!(rejected(&[("ANTHROPIC_API_KEY", "two\nlines-of-text")]).contains("line breaks"));
        assert!(rejected(&[("OPENAI_API_KEY", "short")]).contains("less than 8"));
        let url = rejected(&[("OPENAI_API_KEY", "sk-12345678"), ("OPENAI_BASE_URL", "localhost:9")]);
        assert_eq!(url, "OPENAI_BASE_URL: must start with https:// or http://");
        let azure = rejected(&[("AZURE_OPENAI_API_KEY", "sk-12345678")]);
        assert_eq!(azure, "AZURE_OPENAI_API_KEY is set, but AZURE_OPENAI_ENDPOINT is not");
        assert_eq!(
            found_with(&[], &aws(None)).rejected,
            ["AWS credentials (profile shop): no region is set; set AWS_REGION"]
        );
        assert_eq!(
            found_with(&[], &Err("profile shop does not exist".to_owned())).rejected,
            ["AWS credentials: profile shop does not exist"]
        );
        assert_eq!(found(&[("ANTHROPIC_API_KEY", "")]), Discovery::default());
    }

    #[test]
    fn the_gateway_is_not_its_own_provider() {
        let key = ("ANTHROPIC_API_KEY", "sk-ant-12345678");
        let discovery = found(&[key, ("ANTHROPIC_BASE_URL", "http://127.0.0.1:7700")]);
        assert_eq!(discovery.providers[0].base_url, None);
    }

    #[test]
    fn the_data_directory_of_the_first_key_is_in_the_file() {
        let text = starter_file(&StarterOptions {
            providers: &[],
            listen: "127.0.0.1:7700",
            budget: None,
            data_dir: Some("/var/lib/sea \"wall\""),
        });
        let today = UtcTime::from_civil(2026, 11, 18);
        let loaded = load(&SettingsInput::from_file("seawall.toml", &text, today));
        assert_eq!(loaded.unwrap().settings.store.data_dir, "/var/lib/sea \"wall\"");
    }

    #[test]
    fn every_file_that_can_be_written_is_accepted_without_a_warning() {
        let today = UtcTime::from_civil(2026, 11, 18);
        let every = PRESETS.iter().filter(|preset| preset.name != "simulated").map(|preset| FoundProvider {
            preset,
            evidence: "a test".to_owned(),
            key_variable: None,
            base_url: preset.needs_base_url.then(|| "https://a.openai.azure.com/openai/v1".to_owned()),
            region: (preset.name == "bedrock").then(|| "eu-west-1".to_owned()),
            models: vec!["llama".to_owned()],
        });
        let every: Vec<FoundProvider> = every.collect();
        for providers in [Vec::new(), every.clone()].into_iter().chain(every.into_iter().map(|one| vec![one]))
        {
            for budget in [None, Some("$10/day")] {
                let text = written(&providers, budget);
                let loaded = load(&SettingsInput::from_file("seawall.toml", &text, today));
                let loaded = loaded.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
                // The only thing that may be wrong is what was not answered.
                let unexpected =
                    |problem: &&Problem| budget.is_some() || problem.code != ProblemCode::NoBudget;
                let problem = loaded.warnings.list().iter().find(unexpected);
                assert!(problem.is_none(), "{}\n{text}", loaded.warnings);
                assert_eq!(loaded.settings.targets.len(), providers.len().max(1));
            }
        }
    }
}
