//! HTTP client for servers that return credentials.
//!
//! They are called about once an hour, so neither connections nor DNS results are kept.

use super::failed;
use crate::client::{Client, ClientOptions, Surroundings};
use crate::http1::{Limits, PoolOptions, Request};
use crate::way::TlsSettings;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;
use std::time::Duration;

/// Larger than any credential document.
const LONGEST: u64 = 64 << 10;

/// How to reach such servers, and which certificates to trust.
#[derive(Clone)]
pub(super) struct KeyServers {
    pub(super) around: Surroundings,
    pub(super) tls: Option<TlsSettings>,
}

/// One server.
pub(super) struct KeyServer(Client);

impl KeyServers {
    /// A server on the network.
    pub(super) fn remote(&self, url: &str) -> Result<KeyServer, CredentialsError> {
        let options = self.options(url, Duration::from_secs(3), Duration::from_secs(5));
        let client = Client::new(&options, &self.around);
        client.map(KeyServer).map_err(|error| failed(error.to_string()))
    }

    /// A server next to this process, at an address that is blocked for targets.
    pub(super) fn beside(&self, url: &str) -> Result<KeyServer, CredentialsError> {
        let options = self.options(url, Duration::from_secs(1), Duration::from_secs(2));
        let client = Client::new_beside(&options, &self.around);
        client.map(KeyServer).map_err(|error| failed(error.to_string()))
    }

    fn options(&self, url: &str, connect: Duration, head: Duration) -> ClientOptions {
        let limits = Limits { connect, write: connect, head, gap: head, body_bytes: LONGEST };
        let pool = PoolOptions { max_idle: 0, ..PoolOptions::default() };
        ClientOptions { limits, pool, tls: self.tls.clone(), ..ClientOptions::new(url) }
    }
}

/// A server's response.
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl KeyServer {
    pub(super) const fn url(&self) -> &crate::way::BaseUrl {
        self.0.url()
    }

    pub(super) async fn ask(
        &self,
        method: &'static str,
        path: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Said, CredentialsError> {
        let request = Request { method, path, headers, body, resend_on_stale: false };
        let response = self.0.send(request).await.map_err(|error| failed(error.to_string()))?;
        let status = response.status;
        let body = response.body.collect().await.map_err(|error| failed(error.to_string()))?;
        Ok(Said { status, body })
    }
}
