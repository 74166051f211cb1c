//! HTTP client for servers that return credentials.
//!
//! They are called about once an hour, so neither connections nor DNS results are kept.

use super::provider_error;
use crate::client::{Client, ClientOptions, ClientRuntime};
use crate::connect::ClientTlsSettings;
use crate::http1::{HttpLimits, HttpRequest, PoolOptions};
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;
use std::time::Duration;

/// Larger than any credential document.
const MAX_DOCUMENT_BYTES: u64 = 64 << 10;

/// How to reach such servers, and which certificates to trust.
#[derive(Clone)]
pub(super) struct CredentialEndpoints {
    pub(super) runtime: ClientRuntime,
    pub(super) tls: Option<ClientTlsSettings>,
}

/// One server.
pub(super) struct CredentialEndpoint(Client);

impl CredentialEndpoints {
    /// A server on the network.
    pub(super) fn remote(&self, url: &str) -> Result<CredentialEndpoint, CredentialsError> {
        let options = self.options(url, Duration::from_secs(3), Duration::from_secs(5));
        let client = Client::new(&options, &self.runtime);
        client.map(CredentialEndpoint).map_err(|error| provider_error(error.to_string()))
    }

    /// A server next to this process, at an address that is blocked for targets.
    pub(super) fn local(&self, url: &str) -> Result<CredentialEndpoint, CredentialsError> {
        let options = self.options(url, Duration::from_secs(1), Duration::from_secs(2));
        let client = Client::new_for_metadata(&options, &self.runtime);
        client.map(CredentialEndpoint).map_err(|error| provider_error(error.to_string()))
    }

    fn options(&self, url: &str, connect: Duration, head: Duration) -> ClientOptions {
        let limits = HttpLimits {
            connect_timeout: connect,
            write_timeout: connect,
            head_timeout: head,
            idle_timeout: head,
            max_body_bytes: MAX_DOCUMENT_BYTES,
        };
        let pool = PoolOptions { max_idle: 0, ..PoolOptions::default() };
        ClientOptions { limits, pool, tls: self.tls.clone(), ..ClientOptions::new(url) }
    }
}

/// A server's response.
pub(super) struct CredentialResponse {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl CredentialEndpoint {
    pub(super) const fn url(&self) -> &crate::connect::BaseUrl {
        self.0.url()
    }

    pub(super) async fn send(
        &self,
        method: &'static str,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<CredentialResponse, CredentialsError> {
        let request = HttpRequest { method, path, headers, body, resend_on_stale: false };
        let response = self.0.send(request).await.map_err(|error| provider_error(error.to_string()))?;
        let status = response.status;
        let body = response.body.collect().await.map_err(|error| provider_error(error.to_string()))?;
        Ok(CredentialResponse { status, body })
    }
}
