//! From a target's settings to a way there.
//!
//! Anthropic and whatever speaks like OpenAI are found at the vendor's address or at the one that settings name, with its
//! path (`http://localhost:11434/v1`). Bedrock is found by its region, or at the address that settings name. Anthropic's
//! models are asked there by InvokeModel, in their own dialect, and all others by Converse; an ARN that does not tell whose
//! model it stands for is asked by Converse, too. Simulated models are asked in this process, in Anthropic's dialect.
//!
//! Nothing is asked here: a key that is missing is told at once, one that is wrong by the first call.

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

/// Why there is no way to a target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A setting makes no sense.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Our key is not where it should be.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The vendor wants a key, and none is named.
    #[error("{0} needs a key: write key = \"env:NAME\" or key = \"file:PATH\"")]
    NoKey(String),
    /// A simulated model that was not wanted at the start.
    #[error("the simulated model starts with the program: start it anew")]
    NoSimulator,
    /// A price is missing.
    #[error("the model {0} has no price")]
    NoPrice(String),
}

/// What every way to a target is made with.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) cores: usize,
    pub(crate) runtime: TokioRuntime,
    /// The simulated model, where there is one.
    pub(crate) simulated: Option<SimulatedModel>,
}

/// The targets that are there, with what they were made from.
#[derive(Default)]
pub(crate) struct Targets(BTreeMap<String, Made>);

struct Made {
    way: Way,
    target: Arc<GuardedTarget>,
}

/// What decides whether a way to a target can stay as it is.
#[derive(PartialEq)]
struct Way {
    settings: TargetSettings,
    key: Option<Secret>,
    connect: Duration,
}

impl Targets {
    /// The targets of these settings, and those that there is no way to. A way that stays the same keeps its connections; a target that stays keeps what was
    /// learned of it.
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

    /// From now on every target is protected as its settings say.
    pub(crate) fn take_effect(&self, now: Timestamp) -> Result<(), SettingError> {
        self.0.values().try_for_each(|made| made.target.take_effect(now))
    }

    /// The target of this name, which settings that were checked have.
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
    // Retired models were refused when the settings were checked; one that retires since is still billed.
    let listed = list.find(model, UtcTime::from_nanos(0));
    listed.map(|listed| *listed.price()).map_err(|_| TargetError::NoPrice(model.to_owned()))
}

/// Where Anthropic serves its models.
const ANTHROPIC: &str = "https://api.anthropic.com";
/// Where OpenAI serves its models.
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
        // Roles are given out over an encrypted way even where the model is asked over a plain one.
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

    /// Our key. Only a server of one's own may want none.
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
        // Certificates are read only where one will be looked at.
        let is_secure = url.starts_with("https:");
        let tls = is_secure.then(|| TlsOptions::default().check(Arc::clone(&world.date))).transpose()?;
        let usual = ClientOptions::new(url);
        // Whoever asks has a clock of its own for the answer to begin and for its gaps: a second one would only cost.
        let (head, gap) = (Duration::MAX, Duration::MAX);
        let limits = Limits { connect: self.connect, head, gap, ..usual.limits };
        let options = ClientOptions { cores: around.cores, limits, tls: tls.clone(), ..usual };
        Ok((Client::new(&options, &world)?, world, tls))
    }
}

/// The host of an address, without its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', ':']).next().unwrap_or_default()
}
