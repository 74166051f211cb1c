//! From a target's settings to a way there.

use crate::secret::{Secret, SecretError};
use seawall_config::{Provider, Settings, TargetSettings};
use seawall_core::money::Price;
use seawall_core::setting::SettingError;
use seawall_core::time::{Timestamp, UtcTime};
use seawall_pipeline::{GuardedTarget, TargetOptions};
use seawall_provider::http1::{Endpoint, Limits, TokioTimer};
use seawall_provider::{AnthropicTarget, Target};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
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
    /// A price is missing.
    #[error("the model {0} has no price")]
    NoPrice(String),
}

/// What every way to a target is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    pub(crate) cores: usize,
    pub(crate) timer: TokioTimer,
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
    /// The targets of these settings. A way that stays the same keeps its connections; a target that stays keeps what was
    /// learned of it.
    pub(crate) fn of(
        &self,
        settings: &Settings,
        around: Surroundings,
    ) -> Result<Self, (String, TargetError)> {
        let mut made = BTreeMap::new();
        for (name, target) in &settings.targets {
            let one = self.one(name, target, settings, around).map_err(|error| (name.clone(), error))?;
            made.insert(name.clone(), one);
        }
        Ok(Self(made))
    }

    fn one(
        &self,
        name: &str,
        target: &TargetSettings,
        settings: &Settings,
        around: Surroundings,
    ) -> Result<Made, TargetError> {
        let key = target.key.as_ref().map(Secret::fetch).transpose()?;
        let way = Way { settings: target.clone(), key, connect: settings.deadlines.limits.connect };
        let before = self.0.get(name);
        let upstream = match before {
            Some(before) if before.way == way => before.target.upstream(),
            _ => way.open(around)?,
        };
        let options = TargetOptions {
            name: name.to_owned(),
            model: target.model.clone(),
            price: price(settings, &target.model)?,
            concurrency: target.concurrency,
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

impl Way {
    fn open(&self, around: Surroundings) -> Result<Arc<dyn Target>, TargetError> {
        let limits = Limits {
            connect: self.connect,
            write: Duration::from_secs(10),
            // The path has the shorter limits; these only bound a connection nobody waits for any more.
            head: Duration::from_secs(60),
            gap: Duration::from_secs(60),
            body_bytes: 64 << 20,
        };
        let url = match (self.settings.provider, around.simulated) {
            (Provider::Simulated, Some(address)) => format!("http://{address}"),
            (Provider::Anthropic, _) => self.settings.url.clone().unwrap_or_default(),
            (provider, _) => return Err(TargetError::Provider(provider.name())),
        };
        let key = self.key.as_ref().map_or("simulated", Secret::reveal).to_owned();
        Ok(Arc::new(AnthropicTarget::new(&endpoint(&url)?, around.cores, key, limits, around.timer)))
    }
}
fn endpoint(url: &str) -> Result<Endpoint, SettingError> {
    let wrong = |problem: &str| SettingError::new("url", format!("{url}: {problem}"));
    let authority = url.strip_prefix("http://").ok_or_else(|| wrong("must begin with http://"))?;
    let authority = authority.trim_end_matches('/');
    if authority.contains(['/', '?', '#', '@']) {
        return Err(wrong("must be http://host:port and nothing after it"));
    }
    let (host, port) = authority.rsplit_once(':').ok_or_else(|| wrong("must name a port"))?;
    let port: u16 = port.parse().map_err(|_| wrong("must name a port from 1 to 65535"))?;
    let address = authority.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    let address = address.ok_or_else(|| wrong("cannot be resolved"))?;
    if is_metadata(address.ip()) {
        return Err(wrong("is a cloud metadata address"));
    }
    Endpoint::new(host, port, address)
}

/// Where clouds keep the credentials of a machine: never a model.
fn is_metadata(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => {
            let mapped = address.to_ipv4_mapped().is_some_and(|address| address.is_link_local());
            mapped || address.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{endpoint, is_metadata};

    #[test]
    fn an_address_is_a_host_and_a_port_and_nothing_else() {
        for (url, problem) in [
            ("127.0.0.1:80", "must begin with http://"),
            ("https://127.0.0.1:80", "must begin with http://"),
            ("http://127.0.0.1", "must name a port"),
            ("http://127.0.0.1:x", "must name a port from 1 to 65535"),
            ("http://127.0.0.1:80/v1", "must be http://host:port and nothing after it"),
            ("http://user@127.0.0.1:80", "must be http://host:port and nothing after it"),
            ("http://169.254.169.254:80", "is a cloud metadata address"),
            ("http://[::ffff:169.254.169.254]:80", "is a cloud metadata address"),
        ] {
            assert_eq!(
                endpoint(url).err().map(|error| error.to_string()),
                Some(format!("url: {url}: {problem}"))
            );
        }
        assert!(endpoint("http://127.0.0.1:7710").is_ok());
        assert!(endpoint("http://localhost:7710/").is_ok());
        assert!(is_metadata("fd00:ec2::254".parse().unwrap()) && !is_metadata("::1".parse().unwrap()));
    }
}
