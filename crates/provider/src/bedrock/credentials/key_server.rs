//! A server that gives keys out.
//!
//! It is asked about once an hour, so nothing of it is kept: no connection, and nothing of where its name led.

use super::failed;
use crate::client::{Client, ClientOptions, Surroundings};
use crate::http1::{Limits, PoolOptions, Request};
use crate::way::TlsSettings;
use aws_credential_types::provider::error::CredentialsError;
use bytes::Bytes;
use std::time::Duration;

/// Longer than any document with keys.
const LONGEST: u64 = 64 << 10;

/// Where a server is, and whom to trust there.
#[derive(Clone)]
pub(super) struct KeyServers {
    pub(super) around: Surroundings,
    pub(super) tls: Option<TlsSettings>,
}

/// One of them.
pub(super) struct KeyServer(Client);

impl KeyServers {
    /// A service somewhere in the network.
    pub(super) fn remote(&self, url: &str) -> Result<KeyServer, CredentialsError> {
        let options = self.options(url, Duration::from_secs(3), Duration::from_secs(5));
        let client = Client::new(&options, &self.around);
        client.map(KeyServer).map_err(|error| failed(error.to_string()))
    }

    /// A service beside this program, at an address that no target may have.
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

/// What a server said.
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
