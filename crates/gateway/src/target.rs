//! Builds the connector of a target from its settings.
//!
//! Anthropic and OpenAI-compatible servers are reached at the vendor's address, or at the URL in the settings including
//! its path (`http://localhost:11434/v1`). Bedrock is reached by region, or at the URL in the settings. A Bedrock model
//! is called by the operation that the caller used, InvokeModel or Converse. For callers of other dialects, Anthropic's
//! models are called by InvokeModel, in their own dialect, and all others by Converse. An ARN that does not reveal the
//! model's vendor is treated as another vendor's. Simulated models run in this process and speak Anthropic's dialect.
//!
//! No call is made here: a missing key is an error at once, a wrong one shows with the first call.

use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch};
use crate::simulated_target::{SimulatedModel, simulated_target};
use seawall_config::{KeyHeader, ModelFacts, Provider, ProviderPreset, Settings, TargetSettings};
use seawall_core::money::{ModelPriceOptions, Money, Price, PriceList, PriceTable};
use seawall_core::setting::SettingError;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::untracked::{InputFeature, InputModel, UntrackedRule, UntrackedRules};
use seawall_pipeline::{GuardedTarget, ModelLookup, ModelTerms, PriceStatus, Runtime as _, TargetOptions};
use seawall_provider::connect::{ClientTlsOptions, ClientTlsSettings};
use seawall_provider::http1::HttpLimits;
use seawall_provider::{
    AnthropicKey, AnthropicOptions, AnthropicTarget, BedrockOptions, BedrockTarget, Client, ClientOptions,
    CredentialOptions, Environment, GeminiKey, GeminiOptions, GeminiTarget, OpenAiOptions, OpenAiTarget,
    SecretString, Target,
};
use seawall_wire::dialect::DialectId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Why a connector cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Our key cannot be read.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The vendor requires a key, and the settings name none.
    #[error("{0} requires api_key: write api_key = \"env:NAME\" or api_key = \"file:PATH\"")]
    NoKey(String),
    /// The settings use a simulated model, but the process was started without one.
    #[error("a simulated model can only be added at startup: restart the gateway")]
    NoSimulatedModel,
    /// The model has no price.
    #[error("the model {0} has no price")]
    NoPrice(String),
}

/// The inputs that all connectors share.
#[derive(Clone, Debug)]
pub(crate) struct TargetEnvironment {
    pub(crate) cores: usize,
    pub(crate) runtime: TokioRuntime,
    /// The simulated model, if there is one.
    pub(crate) simulated: Option<SimulatedModel>,
}

/// The present targets, with the settings that each was built from.
#[derive(Default)]
pub(crate) struct Targets(BTreeMap<String, BuiltTarget>);

struct BuiltTarget {
    connector: ConnectorSettings,
    target: Arc<GuardedTarget>,
}

/// The inputs of a connector. It can be kept on a reload if they are equal.
#[derive(PartialEq)]
struct ConnectorSettings {
    settings: TargetSettings,
    /// In the order in which they are used; empty if there is none.
    keys: Vec<SecretString>,
    connect: Duration,
}

impl Targets {
    /// The targets of these settings, and the errors of those that cannot be built. An unchanged connector keeps its
    /// connections; a target that stays keeps its learned state.
    pub(crate) fn rebuild(
        &self,
        settings: &Settings,
        environment: &TargetEnvironment,
    ) -> (Self, Vec<(String, TargetError)>) {
        let (mut built, mut errors) = (BTreeMap::new(), Vec::new());
        for (name, target) in &settings.targets {
            match self.build(name, target, settings, environment) {
                Ok(one) => drop(built.insert(name.clone(), one)),
                Err(error) => errors.push((name.clone(), error)),
            }
        }
        (Self(built), errors)
    }

    fn build(
        &self,
        name: &str,
        target: &TargetSettings,
        settings: &Settings,
        environment: &TargetEnvironment,
    ) -> Result<BuiltTarget, TargetError> {
        let references = target.api_key.iter().chain(&target.more_api_keys);
        let keys = references.map(fetch).collect::<Result<_, _>>()?;
        let connector =
            ConnectorSettings { settings: target.clone(), keys, connect: settings.deadlines.limits.connect };
        let previous = self.0.get(name);
        let mut upstreams = match previous {
            Some(previous) if previous.connector == connector => previous.target.upstreams(),
            _ => connector.connect(environment)?,
        };
        let more_keys = upstreams.split_off(1);
        let upstream = upstreams.remove(0);
        let facts = target.facts.clone().unwrap_or_else(|| unnamed_model(&target.model));
        let options = TargetOptions {
            name: name.to_owned(),
            model: target.model.clone(),
            grade: target.grade,
            price: price(&facts)?,
            price_status: price_status(Some(&facts)),
            input: input(untracked_rules(settings), &facts),
            max_output: facts.max_output,
            output_limit_field: target.output_limit_field,
            concurrency: target.concurrency,
            shares: settings.limits.concurrency,
            queue: settings.queue,
            breaker: settings.breakers[&target.breaker].clone(),
            pressure: settings.pressure.clone(),
            upstream,
            more_keys,
        };
        let target = match previous {
            Some(previous) => previous.target.with_settings(options),
            None => GuardedTarget::new(options),
        };
        Ok(BuiltTarget { connector, target: Arc::new(target) })
    }

    /// Applies the concurrency, breaker and pressure settings of every target.
    pub(crate) fn apply_settings(&self, now: Timestamp) {
        self.0.values().for_each(|built| built.target.apply_settings(now));
    }

    /// The target of this name. Checked settings only refer to targets that exist.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<GuardedTarget>> {
        self.0.get(name).map(|built| Arc::clone(&built.target))
    }
}

/// The facts of a target before a caller has named its model; nothing is called with them.
fn unnamed_model(model: &str) -> ModelFacts {
    ModelFacts {
        price: ModelPriceOptions { free: true, ..ModelPriceOptions::new(model, Money::ZERO, Money::ZERO) },
        is_priced: false,
        is_from_catalogue: false,
        is_from_price_file: false,
        context_window: None,
        max_output: None,
        image_tokens: None,
    }
}

/// Looks up what callers name where a target has no model of its own.
pub(crate) fn model_lookup(settings: &Settings) -> ModelLookup {
    let presets: BTreeMap<String, &'static ProviderPreset> = settings
        .targets
        .iter()
        .filter(|(_, target)| target.is_for_any_model())
        .map(|(name, target)| (name.clone(), target.preset))
        .collect();
    let (models, rules) = (settings.models.clone(), untracked_rules(settings));
    Arc::new(move |target, model| {
        let facts = presets.get(target).and_then(|preset| models.facts(preset, model));
        let (status, facts) = (price_status(facts.as_ref()), facts.unwrap_or_else(|| unnamed_model(model)));
        let (price, price_status) = match price(&facts) {
            Ok(price) => (price, status),
            Err(_) => (Price::per_million(Money::ZERO, Money::ZERO).into(), PriceStatus::Missing),
        };
        ModelTerms { price, price_status, input: input(rules, &facts), max_output: facts.max_output }
    })
}

const fn price_status(facts: Option<&ModelFacts>) -> PriceStatus {
    match facts {
        Some(ModelFacts { is_priced: true, .. }) => PriceStatus::Known,
        Some(_) => PriceStatus::Unknown,
        None => PriceStatus::Missing,
    }
}

/// The rules for input that bytes do not bound. Where no budget applies, nothing is reserved, so that nothing needs a bound;
/// what the settings refuse stays refused.
fn untracked_rules(settings: &Settings) -> UntrackedRules {
    let rules = settings.limits.untracked_input;
    if !settings.models.allows_unpriced {
        return rules;
    }
    UntrackedRules::new(InputFeature::ALL.map(|feature| match rules.of(feature) {
        UntrackedRule::Reserve => UntrackedRule::Allow,
        rule => rule,
    }))
}

fn input(rules: UntrackedRules, facts: &ModelFacts) -> InputModel {
    let mut input = InputModel::of(&facts.price.model, facts.context_window);
    if let Some(max_tokens) = facts.image_tokens {
        input.images = input.images.with_max(max_tokens);
    }
    input.rules = rules;
    input
}

fn price(facts: &ModelFacts) -> Result<PriceTable, TargetError> {
    let list = PriceList::new(std::slice::from_ref(&facts.price))?;
    // Settings with retired models were rejected by the check; a model that was retired since is still billed.
    let listed = list.find(&facts.price.model, UtcTime::from_nanos(0));
    listed.map(|listed| *listed.price()).map_err(|_| TargetError::NoPrice(facts.price.model.clone()))
}

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";
const GEMINI: &str = "https://generativelanguage.googleapis.com";

impl ConnectorSettings {
    /// A connector for each key, over the same connections; one without a key if there is none.
    fn connect(&self, environment: &TargetEnvironment) -> Result<Vec<Arc<dyn Target>>, TargetError> {
        let model = &self.settings.model;
        match self.settings.provider {
            Provider::Anthropic => self.with_keys(ANTHROPIC, environment, |client, key| {
                let key = key.map_or(AnthropicKey::None, AnthropicKey::ApiKey);
                Ok(Arc::new(AnthropicTarget::new(client, &AnthropicOptions::new(key))?))
            }),
            Provider::OpenAi => self.with_keys(OPENAI, environment, |client, key| {
                let uses_api_key_header = self.settings.key_header == KeyHeader::ApiKey;
                let options =
                    OpenAiOptions { api: self.settings.api, uses_api_key_header, ..OpenAiOptions::new(key) };
                Ok(Arc::new(OpenAiTarget::new(client, &options)?))
            }),
            Provider::Gemini => self.with_keys(GEMINI, environment, |client, key| {
                let key = key.map_or(GeminiKey::None, |key| GeminiKey::for_url(&self.url(GEMINI), key));
                Ok(Arc::new(GeminiTarget::new(client, model, &GeminiOptions::new(key))?))
            }),
            Provider::Bedrock => Ok(vec![Arc::new(self.bedrock(environment)?)]),
            Provider::Simulated => {
                let shared = environment.simulated.as_ref().ok_or(TargetError::NoSimulatedModel)?;
                Ok(vec![Arc::new(simulated_target(shared, DialectId::ANTHROPIC_MESSAGES, model))])
            }
        }
    }

    fn with_keys(
        &self,
        vendor: &str,
        environment: &TargetEnvironment,
        connect: impl Fn(Client, Option<SecretString>) -> Result<Arc<dyn Target>, TargetError>,
    ) -> Result<Vec<Arc<dyn Target>>, TargetError> {
        // Only a self-hosted server may need no key.
        if self.keys.is_empty() && host(&self.url(vendor)) == host(vendor) {
            return Err(TargetError::NoKey(host(vendor).to_owned()));
        }
        let client = self.client(self.url(vendor), environment)?.0;
        if self.keys.is_empty() {
            return Ok(vec![connect(client, None)?]);
        }
        self.keys.iter().map(|key| connect(client.clone(), Some(key.clone()))).collect()
    }

    fn bedrock(&self, environment: &TargetEnvironment) -> Result<BedrockTarget, TargetError> {
        let TargetSettings { model, region, role_arn: role, external_id, .. } = &self.settings;
        let region = region.clone().unwrap_or_default();
        let (client, client_runtime, tls) =
            self.client(self.url(&BedrockOptions::default_url(&region)), environment)?;
        // Role credentials are fetched over TLS even where the model is called without it.
        let tls =
            tls.or_else(|| ClientTlsOptions::default().check(Arc::clone(&client_runtime.wall_clock)).ok());
        let credentials = CredentialOptions {
            region: region.clone(),
            role: role.clone(),
            external_id: external_id.clone(),
            tls,
            environment: Environment::from_process(),
        };
        let options = BedrockOptions {
            region,
            model: model.clone(),
            converse: !BedrockOptions::is_anthropic(model),
            credentials: credentials.check(&client_runtime)?,
            headers: Vec::new(),
        };
        Ok(BedrockTarget::new(client, &options)?)
    }

    fn url(&self, default: &str) -> String {
        self.settings.base_url.clone().unwrap_or_else(|| default.to_owned())
    }

    fn client(
        &self,
        url: String,
        environment: &TargetEnvironment,
    ) -> Result<(Client, seawall_provider::ClientRuntime, Option<ClientTlsSettings>), TargetError> {
        let runtime = environment.runtime;
        let client_runtime =
            seawall_provider::ClientRuntime::new(runtime.timer(), Arc::new(move || runtime.now().utc));
        // CA certificates are loaded only where TLS is used.
        let is_secure = url.starts_with("https:");
        let tls = is_secure
            .then(|| ClientTlsOptions::default().check(Arc::clone(&client_runtime.wall_clock)))
            .transpose()?;
        let defaults = ClientOptions::new(url);
        // The caller of this connector has its own timeouts for the first byte and for gaps: a second set would only
        // cost.
        let (head, gap) = (Duration::MAX, Duration::MAX);
        let limits = HttpLimits {
            connect_timeout: self.connect,
            head_timeout: head,
            idle_timeout: gap,
            ..defaults.limits
        };
        let options = ClientOptions { cores: environment.cores, limits, tls: tls.clone(), ..defaults };
        Ok((Client::new(&options, &client_runtime)?, client_runtime, tls))
    }
}

/// The host of a URL, without its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}
