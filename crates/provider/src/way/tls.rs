//! TLS trust.
//!
//! By default the system's root certificates are used: a company's own CA works here as for every other program, and a
//! CA that is no longer trusted is removed by a system update, independent of gateway releases. A system without any
//! root certificates is reported when the gateway starts. Additional CAs can be configured as files.
//!
//! Client certificates are not supported, and certificate verification cannot be turned off.

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore};
use seawall_core::setting::SettingError;
use seawall_core::time::UtcTime;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The wall clock, for certificates and signatures.
pub type DateClock = Arc<dyn Fn() -> UtcTime + Send + Sync>;

/// Number of servers whose TLS sessions are cached for resumption.
const SESSIONS: usize = 256;

/// The trusted certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// Whether to trust the system's root certificates.
    pub system_roots: bool,
    /// Additional CA files, in PEM.
    pub extra_roots: Vec<PathBuf>,
}

impl Default for TlsOptions {
    /// The system's root certificates only.
    fn default() -> Self {
        Self { system_roots: true, extra_roots: Vec::new() }
    }
}

/// Validated TLS settings with at least one CA. Clones share the session cache.
#[derive(Clone)]
pub struct TlsSettings {
    config: ClientConfig,
}

impl TlsOptions {
    /// Loads the CAs. `date` is the clock for certificate validity.
    pub fn check(&self, date: DateClock) -> Result<TlsSettings, SettingError> {
        let mut roots = RootCertStore::empty();
        if self.system_roots {
            let found = rustls_native_certs::load_native_certs();
            // Some systems contain an unparsable certificate; the others are still used.
            roots.add_parsable_certificates(found.certs);
        }
        for file in &self.extra_roots {
            let wrong = |problem: &dyn fmt::Display| {
                SettingError::new("extra_roots", format!("{}: {problem}", file.display()))
            };
            let mut count = 0;
            for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
                let certificate = certificate.map_err(|error| wrong(&error))?;
                roots.add(certificate).map_err(|error| wrong(&error))?;
                count += 1;
            }
            if count == 0 {
                return Err(wrong(&"holds no certificate"));
            }
        }
        if roots.is_empty() {
            return Err(SettingError::new(
                "tls",
                "no authority is trusted: this machine has none, and none is given",
            ));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(HandedDate(date)));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| SettingError::new("tls", error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(TlsSettings { config })
    }
}

impl TlsSettings {
    /// The same with these ALPN protocols.
    pub(super) fn offering(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

struct HandedDate(DateClock);

impl fmt::Debug for HandedDate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HandedDate")
    }
}

impl TimeProvider for HandedDate {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos((self.0)().as_nanos())))
    }
}

#[cfg(test)]
mod tests {
    use super::{DateClock, TlsOptions};
    use seawall_core::time::UtcTime;
    use std::sync::Arc;

    fn refusal(options: &TlsOptions) -> String {
        let date: DateClock = Arc::new(|| UtcTime::from_civil(2026, 1, 1));
        options.check(date).err().unwrap().to_string()
    }

    #[test]
    fn nobody_to_trust_is_a_mistake() {
        let nobody = TlsOptions { system_roots: false, extra_roots: vec![] };
        assert!(refusal(&nobody).starts_with("tls: no authority is trusted"), "{}", refusal(&nobody));
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let mut options = TlsOptions { system_roots: false, extra_roots: vec!["Cargo.toml".into()] };
        assert_eq!(refusal(&options), "extra_roots: Cargo.toml: holds no certificate");
        options.extra_roots = vec!["no-such-file.pem".into()];
        assert!(refusal(&options).starts_with("extra_roots: no-such-file.pem: "), "{}", refusal(&options));
    }
}
