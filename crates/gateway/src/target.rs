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
use crate::simulated::{SimulatedModel, simulated};
use seawall_config::{Provider, Settings, TargetSettings};
use seawall_core::money::PriceTable;
use seawall_core::setting::SettingError;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_core::untracked::InputModel;
use seawall_pipeline::{GuardedTarget, Runtime as _, TargetOptions};
use seawall_provider::http1::Limits;
use seawall_provider::way::{TlsOptions, TlsSettings};
use seawall_provider::{
    AnthropicKey, AnthropicOptions, AnthropicTarget, BedrockOptions, BedrockTarget, Client, ClientOptions,
    CredentialOptions, Environment, OpenAiOptions, OpenAiTarget, Secret, Target, TargetDialect,
};
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
    #[error("{0} needs a key: write key = \"env:NAME\" or key = \"file:PATH\"")]
    NoKey(String),
    /// The settings use a simulated model, but the process was started without one.
    #[error("the simulated model starts with the program: start it anew")]
    NoSimulator,
    /// The model has no price.
    #[error("the model {0} has no price")]
    NoPrice(String),
}

/// The inputs that all connectors share.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) cores: usize,
    pub(crate) runtime: TokioRuntime,
    /// The simulated model, if there is one.
    pub(crate) simulated: Option<SimulatedModel>,
}

/// The present targets, with the settings that each was built from.
#[derive(Default)]
pub(crate) struct Targets(BTreeMap<String, Made>);

struct Made {
    way: Way,
    target: Arc<GuardedTarget>,
}

/// The inputs of a connector. It can be kept on a reload if they are equal.
#[derive(PartialEq)]
struct Way {
    settings: TargetSettings,
    key: Option<Secret>,
    connect: Duration,
}

impl Targets {
    /// The targets of these settings, and the errors of those that cannot be built. An unchanged connector keeps its
    /// connections; a target that stays keeps its learned state.
    pub(crate) fn of(
        &self,
        settings: &Settings,
        around: &Surroundings,
    ) -> (Self, Vec<(String, TargetError)>) {
        let (mut made, mut wrong) = (BTreeMap::new(), Vec::new());
        for (name, target) in &settings.targets {
            match self.one(name, target, settings, around) {
                Ok(one) => drop(made.insert(name.clone(), one)),
                Err(error) => wrong.push((name.clone(), error)),
            }
        }
        (Self(made), wrong)
    }

    fn one(
        &self,
        name: &str,
        target: &TargetSettings,
        settings: &Settings,
        around: &Surroundings,
    ) -> Result<Made, TargetError> {
        let key = target.key.as_ref().map(fetch).transpose()?;
        let way = Way { settings: target.clone(), key, connect: settings.deadlines.limits.connect };
        let before = self.0.get(name);
        let upstream = match before {
            Some(before) if before.way == way => before.target.upstream(),
            _ => way.open(around)?,
        };
        let options = TargetOptions {
            name: name.to_owned(),
            model: target.model.clone(),
            grade: target.grade,
            price: price(settings, &target.model)?,
            input: input(settings, &target.model),
            max_output: settings.models.max_outputs.get(&target.model).copied(),
            output_limit_field: target.output_limit_field,
            concurrency: target.concurrency,
            shares: settings.limits.concurrency,
            queue: settings.queue,
            breaker: settings.breakers[&target.breaker].clone(),
            pressure: settings.pressure.clone(),
            upstream,
        };
        let target = match before {
            Some(before) => before.target.successor(options)?,
            None => GuardedTarget::new(options)?,
        };
        Ok(Made { way, target: Arc::new(target) })
    }

    /// Applies the protection settings to every target.
    pub(crate) fn take_effect(&self, now: Timestamp) -> Result<(), SettingError> {
        self.0.values().try_for_each(|made| made.target.take_effect(now))
    }

    /// The target of this name. Checked settings only refer to targets that exist.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<GuardedTarget>> {
        self.0.get(name).map(|made| Arc::clone(&made.target))
    }
}

fn input(settings: &Settings, model: &str) -> InputModel {
    let mut input = InputModel::of(model, settings.models.windows.get(model).copied());
    if let Some(most) = settings.models.image_tokens.get(model) {
        input.images = input.images.at_most(*most);
    }
    input.rules = settings.limits.untracked_input;
    input
}

fn price(settings: &Settings, model: &str) -> Result<PriceTable, TargetError> {
    let list = settings.models.list();
    // Settings with retired models were rejected by the check; a model that was retired since is still billed.
    let listed = list.find(model, UtcTime::from_nanos(0));
    listed.map(|listed| *listed.price()).map_err(|_| TargetError::NoPrice(model.to_owned()))
}

const ANTHROPIC: &str = "https://api.anthropic.com";
const OPENAI: &str = "https://api.openai.com/v1";

impl Way {
    fn open(&self, around: &Surroundings) -> Result<Arc<dyn Target>, TargetError> {
        let model = &self.settings.model;
        Ok(match self.settings.provider {
            Provider::Anthropic => {
                let key = self.key(ANTHROPIC)?.map_or(AnthropicKey::None, AnthropicKey::ApiKey);
                let client = self.client(self.url(ANTHROPIC), around)?.0;
                Arc::new(AnthropicTarget::new(client, &AnthropicOptions::new(key))?)
            }
            Provider::OpenAi => {
                let options = OpenAiOptions::new(self.key(OPENAI)?);
                Arc::new(OpenAiTarget::new(self.client(self.url(OPENAI), around)?.0, &options)?)
            }
            Provider::Bedrock => Arc::new(self.bedrock(around)?),
            Provider::Simulated => {
                let shared = around.simulated.as_ref().ok_or(TargetError::NoSimulator)?;
                Arc::new(simulated(shared, TargetDialect::AnthropicMessages, model))
            }
        })
    }

    fn bedrock(&self, around: &Surroundings) -> Result<BedrockTarget, TargetError> {
        let TargetSettings { model, region, role, external_id, .. } = &self.settings;
        let region = region.clone().unwrap_or_default();
        let (client, world, tls) = self.client(self.url(&BedrockOptions::usual_url(&region)), around)?;
        // Role credentials are fetched over TLS even where the model is called without it.
        let tls = tls.or_else(|| TlsOptions::default().check(Arc::clone(&world.date)).ok());
        let credentials = CredentialOptions {
            region: region.clone(),
            role: role.clone(),
            external_id: external_id.clone(),
            tls,
            environment: Environment::of_process(),
        };
        let options = BedrockOptions {
            region,
            model: model.clone(),
            converse: !BedrockOptions::is_anthropic(model),
            credentials: credentials.check(&world)?,
            headers: Vec::new(),
        };
        Ok(BedrockTarget::new(client, &options)?)
    }

    /// Our key. Only a self-hosted server may need none.
    fn key(&self, vendor: &str) -> Result<Option<Secret>, TargetError> {
        let is_vendors = host(&self.url(vendor)) == host(vendor);
        if self.key.is_none() && is_vendors {
            return Err(TargetError::NoKey(host(vendor).to_owned()));
        }
        Ok(self.key.clone())
    }

    fn url(&self, usual: &str) -> String {
        self.settings.url.clone().unwrap_or_else(|| usual.to_owned())
    }

    fn client(
        &self,
        url: String,
        around: &Surroundings,
    ) -> Result<(Client, seawall_provider::Surroundings, Option<TlsSettings>), TargetError> {
        let runtime = around.runtime;
        let world = seawall_provider::Surroundings::new(runtime.timer(), Arc::new(move || runtime.now().utc));
        // CA certificates are loaded only where TLS is used.
        let is_secure = url.starts_with("https:");
        let tls = is_secure.then(|| TlsOptions::default().check(Arc::clone(&world.date))).transpose()?;
        let usual = ClientOptions::new(url);
        // The caller of this connector has its own timeouts for the first byte and for gaps: a second set would only
        // cost.
        let (head, gap) = (Duration::MAX, Duration::MAX);
        let limits = Limits { connect: self.connect, head, gap, ..usual.limits };
        let options = ClientOptions { cores: around.cores, limits, tls: tls.clone(), ..usual };
        Ok((Client::new(&options, &world)?, world, tls))
    }
}

/// The host of a URL, without its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}
