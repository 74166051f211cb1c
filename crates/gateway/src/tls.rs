//! TLS for the callers' listener.
//!
//! Settings name a certificate chain and a private key. Both are read again on every settings reload, so a renewed
//! certificate takes effect without a restart. An open connection keeps the configuration it was opened with. ALPN
//! offers HTTP/2 and HTTP/1.1, and the client chooses.
//!
//! It does not request client certificates, and does not wait longer than ten seconds for a handshake.

use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch_lines};
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use seawall_config::ServerTlsSettings;
use seawall_core::deadline::Deadline;
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_provider::SecretString;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Timeout of a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer than any certificate chain. Needed because a device file has no end.
const MAX_CHAIN_SIZE: u64 = 1 << 20;

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file cannot be read.
    #[error("server.tls.certificate: {0}: {1}")]
    File(String, std::io::Error),
    /// The certificate file contains no certificate.
    #[error("server.tls.certificate: {0}: no PEM certificate found")]
    NoCertificate(String),
    /// The private key cannot be read.
    #[error("server.tls.key: {0}")]
    Secret(SecretError),
    /// The key file contains no private key.
    #[error("server.tls.key: {0}: no PEM private key found")]
    NoKey(String),
    /// Certificate and key do not match, or cannot be used.
    #[error("server.tls: {0}")]
    Unusable(rustls::Error),
}

/// The TLS configuration for new connections, and the inputs it was built from.
#[derive(Clone)]
pub(crate) struct ServerTls {
    chain: Vec<u8>,
    key: SecretString,
    config: Arc<ServerConfig>,
}

impl ServerTls {
    /// Builds the configuration from settings. If the inputs are unchanged it is kept, so that clients can resume
    /// sessions.
    pub(crate) fn load(
        settings: Option<&ServerTlsSettings>,
        previous: Option<&Self>,
    ) -> Result<Option<Self>, TlsError> {
        let Some(ServerTlsSettings { certificate, key: reference }) = settings else { return Ok(None) };
        let mut chain = Vec::new();
        let read = std::fs::File::open(certificate)
            .and_then(|file| file.take(MAX_CHAIN_SIZE).read_to_end(&mut chain));
        read.map_err(|error| TlsError::File(certificate.clone(), error))?;
        let key_text = fetch_lines(reference).map_err(TlsError::Secret)?;
        let key = SecretString::new(key_text.as_str());
        if let Some(previous) = previous.filter(|previous| previous.chain == chain && previous.key == key) {
            return Ok(Some(previous.clone()));
        }
        let certificates = CertificateDer::pem_slice_iter(&chain).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.ok().filter(|all| !all.is_empty());
        let certificates = certificates.ok_or_else(|| TlsError::NoCertificate(certificate.clone()))?;
        let private = PrivateKeyDer::from_pem_slice(key_text.as_bytes())
            .map_err(|_| TlsError::NoKey(reference.to_string()))?;
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Unusable)?
            .with_no_client_auth()
            .with_single_cert(certificates, private);
        let mut config = config.map_err(TlsError::Unusable)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Some(Self { chain, key, config: Arc::new(config) }))
    }
}

/// The current TLS configuration. Every listener loads it for each new connection.
#[derive(Default)]
pub(crate) struct ReloadableTls(ArcSwapOption<ServerConfig>);

impl ReloadableTls {
    /// Replaces the TLS configuration for new connections; `None` turns TLS off.
    pub(crate) fn set(&self, tls: Option<&ServerTls>) {
        self.0.store(tls.map(|tls| Arc::clone(&tls.config)));
    }

    /// The acceptor for a new connection, or `None` if TLS is off.
    pub(crate) fn handshake(&self) -> Option<TlsHandshake> {
        self.0.load_full().map(|config| TlsHandshake(TlsAcceptor::from(config)))
    }
}

/// Performs the handshake of one connection.
pub(crate) struct TlsHandshake(TlsAcceptor);

impl TlsHandshake {
    /// The encrypted connection, or `None` if the handshake fails or takes too long.
    pub(crate) async fn accept(
        self,
        stream: TcpStream,
        runtime: TokioRuntime,
    ) -> Option<TlsStream<TcpStream>> {
        self.accept_within(HANDSHAKE_TIMEOUT, stream, runtime).await
    }

    async fn accept_within(
        self,
        timeout: Duration,
        stream: TcpStream,
        runtime: TokioRuntime,
    ) -> Option<TlsStream<TcpStream>> {
        let until = Deadline::after(runtime.monotonic(), timeout);
        timeout_at(&runtime, until, self.0.accept(stream)).await?.ok()
    }
}

#[cfg(test)]
mod tests;
