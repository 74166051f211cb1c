//! From a target's settings to a way there.

use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch};
use seawall_config::{Provider, Settings, TargetSettings};
use seawall_core::money::Price;
use seawall_core::setting::SettingError;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_pipeline::{GuardedTarget, Runtime as _, TargetOptions};
use seawall_provider::http1::Limits;
use seawall_provider::way::TlsOptions;
use seawall_provider::{
    AnthropicKey, AnthropicOptions, AnthropicTarget, Client, ClientOptions, Secret, Target,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
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
    /// This program cannot speak to that provider.
    #[error("targets of the provider {0} cannot be served yet")]
    Provider(&'static str),
    /// A simulated model that was not wanted at the start.
    #[error("the simulated model starts with the program: start it anew")]
    NoSimulator,
    /// A price is missing.
    #[error("the model {0} has no price")]
    NoPrice(String),
}

/// What every way to a target is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    pub(crate) cores: usize,
    pub(crate) runtime: TokioRuntime,
    /// Where simulated models are served.
    pub(crate) simulated: Option<SocketAddr>,
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
    pub(crate) fn of(&self, settings: &Settings, around: Surroundings) -> (Self, Vec<(String, TargetError)>) {
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
        around: Surroundings,
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
            concurrency: target.concurrency,
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

fn price(settings: &Settings, model: &str) -> Result<Price, TargetError> {
    let list = settings.models.list();
    // Retired models were refused when the settings were checked; one that retires since is still billed.
    let listed = list.find(model, UtcTime::from_nanos(0));
    listed.map(|listed| *listed.price()).map_err(|_| TargetError::NoPrice(model.to_owned()))
}

/// Where Anthropic serves its models.
const ANTHROPIC: &str = "https://api.anthropic.com";

impl Way {
    fn open(&self, around: Surroundings) -> Result<Arc<dyn Target>, TargetError> {
        let url = match (self.settings.provider, around.simulated) {
            (Provider::Simulated, Some(address)) => format!("http://{address}"),
            (Provider::Anthropic, _) => self.settings.url.clone().unwrap_or_else(|| ANTHROPIC.to_owned()),
            (Provider::Simulated, None) => return Err(TargetError::NoSimulator),
            (provider, _) => return Err(TargetError::Provider(provider.name())),
        };
        let runtime = around.runtime;
        let world = seawall_provider::Surroundings::new(runtime.timer(), Arc::new(move || runtime.now().utc));
        // Certificates are read only where one will be looked at.
        let is_secure = url.starts_with("https:");
        let tls = is_secure.then(|| TlsOptions::default().check(Arc::clone(&world.date))).transpose()?;
        let usual = ClientOptions::new(url);
        let limits = Limits { connect: self.connect, ..usual.limits };
        let client = Client::new(&ClientOptions { cores: around.cores, limits, tls, ..usual }, &world)?;
        let key = AnthropicKey::ApiKey(self.key.clone().unwrap_or_else(|| Secret::new("none")));
        Ok(Arc::new(AnthropicTarget::new(client, &AnthropicOptions::new(key))?))
    }
}
