//! A configured issuer, with the settings it was built from.
//!
//! It is rebuilt when its terms change; otherwise the same value stays, with its keys. The tier is not part of its
//! terms.

use super::AuthenticatorError;
use crate::identity::key_source::KeySource;
use crate::identity::token::{IssuerOptions, JsonWebKeySet, TokenAlgorithm, TokenIssuer};
use crate::runtime::TokioRuntime;
use crate::secret::fetch_text;
use seawall_config::{IssuerKeys, IssuerSettings, JwksSource};
use seawall_core::runtime::Timer as _;
use seawall_core::vocabulary::Tier;
use std::io::Read as _;
use std::sync::Arc;

/// Maximum size of a key file in bytes.
const MAX_KEY_FILE_SIZE: u64 = 1 << 20;

/// An issuer, and the settings it was built from.
#[derive(Clone)]
pub(super) struct ConfiguredIssuer {
    name: String,
    settings: IssuerSettings,
    secret: Option<String>,
    pub(super) issuer: Arc<TokenIssuer>,
    pub(super) source: Option<Arc<KeySource>>,
}

impl ConfiguredIssuer {
    pub(super) const fn tier(&self) -> Tier {
        self.settings.tier
    }

    /// The issuer of these settings: the previous one if nothing but its tier has changed.
    pub(super) fn new(
        name: &str,
        settings: &IssuerSettings,
        before: &[Self],
        runtime: TokioRuntime,
    ) -> Result<Self, AuthenticatorError> {
        let secret = match &settings.keys {
            IssuerKeys::Shared(reference) => Some(
                fetch_text(reference)
                    .map_err(|error| AuthenticatorError::IssuerSecret(name.to_owned(), error))?,
            ),
            IssuerKeys::Public(_) => None,
        };
        let is_unchanged = |before: &&Self| {
            let same_but_for_tier = IssuerSettings { tier: settings.tier, ..before.settings.clone() };
            before.name == name && same_but_for_tier == *settings && before.secret == secret
        };
        let configured = match before.iter().find(is_unchanged) {
            Some(before) => Self { settings: settings.clone(), ..before.clone() },
            None => {
                let invalid = |error| AuthenticatorError::Issuer(name.to_owned(), error);
                let issuer = Arc::new(options(settings, secret.clone()).check().map_err(invalid)?);
                let source = match &settings.keys {
                    IssuerKeys::Public(JwksSource::Url(url)) => {
                        Some(Arc::new(KeySource::new(Arc::clone(&issuer), url, runtime).map_err(invalid)?))
                    }
                    _ => None,
                };
                Self { name: name.to_owned(), settings: settings.clone(), secret, issuer, source }
            }
        };
        configured.load_key_file(runtime)?;
        Ok(configured)
    }

    /// Reads the key file. It is read again on every settings reload.
    fn load_key_file(&self, runtime: TokioRuntime) -> Result<(), AuthenticatorError> {
        let (IssuerKeys::Public(JwksSource::File(path)), Some(ring)) =
            (&self.settings.keys, self.issuer.ring())
        else {
            return Ok(());
        };
        let mut json = Vec::new();
        let read =
            std::fs::File::open(path).and_then(|file| file.take(MAX_KEY_FILE_SIZE).read_to_end(&mut json));
        read.map_err(|error| AuthenticatorError::KeyFile(self.name.clone(), path.clone(), error))?;
        let keys = JsonWebKeySet::parse(&json);
        let keys = keys.map_err(|error| AuthenticatorError::Keys(self.name.clone(), path.clone(), error))?;
        ring.replace(keys, runtime.monotonic());
        Ok(())
    }
}

fn options(settings: &IssuerSettings, secret: Option<String>) -> IssuerOptions {
    use seawall_config::JwtAlgorithm as Named;
    let algorithm = |named: &Named| match named {
        Named::Rs256 => TokenAlgorithm::Rs256,
        Named::Es256 => TokenAlgorithm::Es256,
        Named::EdDsa => TokenAlgorithm::EdDsa,
        Named::Hs256 => TokenAlgorithm::Hs256,
    };
    IssuerOptions {
        audiences: settings.audience.clone(),
        algorithms: settings.algorithms.iter().map(algorithm).collect(),
        secret: secret.map(String::into_bytes),
        leeway: settings.leeway,
        ..IssuerOptions::new(&settings.issuer, "")
    }
}
