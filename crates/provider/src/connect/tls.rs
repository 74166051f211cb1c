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
pub type WallClock = Arc<dyn Fn() -> UtcTime + Send + Sync>;

/// Number of servers whose TLS sessions are cached for resumption.
const SESSIONS: usize = 256;

/// The trusted certificate authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTlsOptions {
    /// Whether to trust the system's root certificates.
    pub system_roots: bool,
    /// Additional CA files, in PEM.
    pub extra_roots: Vec<PathBuf>,
}

impl Default for ClientTlsOptions {
    /// The system's root certificates only.
    fn default() -> Self {
        Self { system_roots: true, extra_roots: Vec::new() }
    }
}

/// Validated TLS settings with at least one CA. Clones share the session cache.
#[derive(Clone)]
pub struct ClientTlsSettings {
    config: ClientConfig,
}

impl ClientTlsOptions {
    /// Loads the CAs. `wall_clock` is the clock for certificate validity.
    pub fn check(&self, wall_clock: WallClock) -> Result<ClientTlsSettings, SettingError> {
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
                return Err(wrong(&"contains no certificate"));
            }
        }
        if roots.is_empty() {
            return Err(SettingError::new(
                "tls",
                "no certificate authority is trusted: the system has none and extra_roots is empty",
            ));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_details(provider, Arc::new(ClockTimeProvider(wall_clock)));
        let builder = builder
            .with_safe_default_protocol_versions()
            .map_err(|error| SettingError::new("tls", error.to_string()))?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        Ok(ClientTlsSettings { config })
    }
}

impl ClientTlsSettings {
    /// The same with these ALPN protocols.
    pub(super) fn with_alpn(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

struct ClockTimeProvider(WallClock);

impl fmt::Debug for ClockTimeProvider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ClockTimeProvider")
    }
}

impl TimeProvider for ClockTimeProvider {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_nanos((self.0)().as_nanos())))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientTlsOptions, WallClock};
    use seawall_core::time::UtcTime;
    use std::sync::Arc;

    fn refusal(options: &ClientTlsOptions) -> String {
        let wall_clock: WallClock = Arc::new(|| UtcTime::from_civil(2026, 1, 1));
        options.check(wall_clock).err().unwrap().to_string()
    }

    #[test]
    fn an_empty_trust_store_is_an_error() {
        let nobody = ClientTlsOptions { system_roots: false, extra_roots: vec![] };
        assert!(
            refusal(&nobody).starts_with("tls: no certificate authority is trusted"),
            "{}",
            refusal(&nobody)
        );
    }

    #[test]
    fn a_file_without_a_certificate_is_named() {
        let mut options = ClientTlsOptions { system_roots: false, extra_roots: vec!["Cargo.toml".into()] };
        assert_eq!(refusal(&options), "extra_roots: Cargo.toml: contains no certificate");
        options.extra_roots = vec!["no-such-file.pem".into()];
        assert!(refusal(&options).starts_with("extra_roots: no-such-file.pem: "), "{}", refusal(&options));
    }
}
