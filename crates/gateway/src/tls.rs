//! Encryption of the listener that callers use.
//!
//! Settings name a chain of certificates and a key; both are read when settings are, so that a certificate that was
//! renewed is used from the next reading on, without a restart. A connection keeps what it was opened with. HTTP/2 and
//! HTTP/1.1 are offered, and the client chooses.
//!
//! It will not ask clients for certificates, and will not wait longer than ten seconds for one that does not end its
//! handshake.

use crate::runtime::TokioRuntime;
use crate::secret::{SecretError, fetch_lines};
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use seawall_config::TlsSettings;
use seawall_core::deadline::Deadline;
use seawall_core::handle::{Timer as _, within};
use seawall_provider::Secret;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// How long a handshake may take.
const LONGEST_HANDSHAKE: Duration = Duration::from_secs(10);
/// No chain is longer; a device has no end.
const LONGEST_CHAIN: u64 = 1 << 20;

/// Why there is no encryption.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file with the certificates cannot be read.
    #[error("server.tls.certificate: {0}: {1}")]
    File(String, std::io::Error),
    /// There is no certificate in it.
    #[error("server.tls.certificate: {0}: there is no certificate in PEM in it")]
    NoCertificate(String),
    /// The key is not where settings say.
    #[error("server.tls.key: {0}")]
    Secret(SecretError),
    /// It is no key.
    #[error("server.tls.key: {0}: there is no private key in PEM in it")]
    NoKey(String),
    /// They do not go together, or cannot be used.
    #[error("server.tls: {0}")]
    Unusable(rustls::Error),
}

/// What new connections are encrypted with, and what it was made from.
#[derive(Clone)]
pub(crate) struct Encryption {
    chain: Vec<u8>,
    key: Secret,
    config: Arc<ServerConfig>,
}

impl Encryption {
    /// As settings say. What stays the same keeps the sessions that clients may take up again.
    pub(crate) fn of(
        settings: Option<&TlsSettings>,
        before: Option<&Self>,
    ) -> Result<Option<Self>, TlsError> {
        let Some(TlsSettings { certificate, key: reference }) = settings else { return Ok(None) };
        let mut chain = Vec::new();
        let read = std::fs::File::open(certificate)
            .and_then(|file| file.take(LONGEST_CHAIN).read_to_end(&mut chain));
        read.map_err(|error| TlsError::File(certificate.clone(), error))?;
        let key_text = fetch_lines(reference).map_err(TlsError::Secret)?;
        let key = Secret::new(key_text.as_str());
        if let Some(before) = before.filter(|before| before.chain == chain && before.key == key) {
            return Ok(Some(before.clone()));
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

/// What every listener looks at when a connection comes in.
#[derive(Default)]
pub(crate) struct Door(ArcSwapOption<ServerConfig>);

impl Door {
    /// New connections are encrypted with this from now on, or not at all.
    pub(crate) fn set(&self, encryption: Option<&Encryption>) {
        self.0.store(encryption.map(|encryption| Arc::clone(&encryption.config)));
    }

    /// How to encrypt a connection that comes in now, if it is to be.
    pub(crate) fn lock(&self) -> Option<Lock> {
        self.0.load_full().map(|config| Lock(TlsAcceptor::from(config)))
    }
}

/// Encrypts one connection.
pub(crate) struct Lock(TlsAcceptor);

impl Lock {
    /// The connection once both sides have agreed, or nothing if they do not, or not in time.
    pub(crate) async fn close(
        self,
        stream: TcpStream,
        runtime: TokioRuntime,
    ) -> Option<TlsStream<TcpStream>> {
        self.close_within(LONGEST_HANDSHAKE, stream, runtime).await
    }

    async fn close_within(
        self,
        longest: Duration,
        stream: TcpStream,
        runtime: TokioRuntime,
    ) -> Option<TlsStream<TcpStream>> {
        let until = Deadline::after(runtime.monotonic(), longest);
        within(&runtime, until, self.0.accept(stream)).await?.ok()
    }
}

#[cfg(test)]
mod tests;
