//! A configured issuer, with the settings it was built from.
//!
//! It is rebuilt when its terms change; otherwise the same value stays, with its keys. The tier is not part of its
//! terms.

use super::GateError;
use crate::identity::key_source::KeySource;
use crate::identity::token::{Algorithm, Issuer, IssuerOptions, KeySet};
use crate::runtime::TokioRuntime;
use crate::secret::fetch_text;
use seawall_config::{IssuerKeys, IssuerSettings, KeySetValue};
use seawall_core::handle::Timer as _;
use seawall_core::vocabulary::Tier;
use std::io::Read as _;
use std::sync::Arc;

/// Maximum size of a key file in bytes.
const LONGEST_KEYS: u64 = 1 << 20;

/// An issuer, and the settings it was built from.
#[derive(Clone)]
pub(super) struct MadeIssuer {
    name: String,
    settings: IssuerSettings,
    secret: Option<String>,
    pub(super) issuer: Arc<Issuer>,
    pub(super) source: Option<Arc<KeySource>>,
}

impl MadeIssuer {
    pub(super) const fn tier(&self) -> Tier {
        self.settings.tier
    }

    /// The issuer of these settings: the previous one if nothing but its tier has changed.
    pub(super) fn new(
        name: &str,
        settings: &IssuerSettings,
        before: &[Self],
        runtime: TokioRuntime,
    ) -> Result<Self, GateError> {
        let secret = match &settings.keys {
            IssuerKeys::Shared(reference) => {
                Some(fetch_text(reference).map_err(|error| GateError::IssuerSecret(name.to_owned(), error))?)
            }
            IssuerKeys::Public(_) => None,
        };
        let stays = |before: &&Self| {
            let same_but_for_tier = IssuerSettings { tier: settings.tier, ..before.settings.clone() };
            before.name == name && same_but_for_tier == *settings && before.secret == secret
        };
        let made = match before.iter().find(stays) {
            Some(before) => Self { settings: settings.clone(), ..before.clone() },
            None => {
                let wrong = |error| GateError::Issuer(name.to_owned(), error);
                let issuer = Arc::new(options(settings, secret.clone()).check().map_err(wrong)?);
                let source = match &settings.keys {
                    IssuerKeys::Public(KeySetValue::Url(url)) => {
                        Some(Arc::new(KeySource::new(Arc::clone(&issuer), url, runtime).map_err(wrong)?))
                    }
                    _ => None,
                };
                Self { name: name.to_owned(), settings: settings.clone(), secret, issuer, source }
            }
        };
        made.read_file(runtime)?;
        Ok(made)
    }

    /// Reads the key file. It is read again on every settings reload.
    fn read_file(&self, runtime: TokioRuntime) -> Result<(), GateError> {
        let (IssuerKeys::Public(KeySetValue::File(path)), Some(ring)) =
            (&self.settings.keys, self.issuer.ring())
        else {
            return Ok(());
        };
        let mut json = Vec::new();
        let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST_KEYS).read_to_end(&mut json));
        read.map_err(|error| GateError::KeyFile(self.name.clone(), path.clone(), error))?;
        let keys = KeySet::parse(&json);
        let keys = keys.map_err(|error| GateError::Keys(self.name.clone(), path.clone(), error))?;
        ring.replace(keys, runtime.monotonic());
        Ok(())
    }
}

fn options(settings: &IssuerSettings, secret: Option<String>) -> IssuerOptions {
    use seawall_config::Algorithm as Named;
    let algorithm = |named: &Named| match named {
        Named::Rs256 => Algorithm::Rs256,
        Named::Es256 => Algorithm::Es256,
        Named::EdDsa => Algorithm::EdDsa,
        Named::Hs256 => Algorithm::Hs256,
    };
    IssuerOptions {
        audiences: settings.audience.clone(),
        algorithms: settings.algorithms.iter().map(algorithm).collect(),
        secret: secret.map(String::into_bytes),
        leeway: settings.leeway,
        ..IssuerOptions::new(&settings.issuer, "")
    }
}
