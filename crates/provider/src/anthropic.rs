//! Anthropic Messages over HTTP.

use crate::answer::conclude;
use crate::client::Client;
use crate::headers::{FixedHeaders, Secret};
use crate::http1::Request;
use crate::target::{Answer, Call, Calling, Target, TargetDialect};
use seawall_core::failure::Failure;
use seawall_core::setting::SettingError;

/// In which header a key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnthropicKey {
    /// The vendor's own header, `x-api-key`.
    ApiKey(Secret),
    /// `authorization: Bearer`, as gateways and tokens of limited life want it.
    Bearer(Secret),
}

/// How to ask an Anthropic Messages endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnthropicOptions {
    /// Our key there.
    pub key: AnthropicKey,
    /// The version of the dialect.
    pub version: String,
    /// Further headers with every request.
    pub headers: Vec<(String, String)>,
}

impl AnthropicOptions {
    /// The usual version of the dialect and no further headers.
    #[must_use]
    pub fn new(key: AnthropicKey) -> Self {
        Self { key, version: "2023-06-01".to_owned(), headers: Vec::new() }
    }
}

/// A model behind an Anthropic Messages endpoint: `POST {base}/v1/messages`.
pub struct AnthropicTarget {
    client: Client,
    path: String,
    headers: FixedHeaders,
}

impl AnthropicTarget {
    /// Asks through this client.
    pub fn new(client: Client, options: &AnthropicOptions) -> Result<Self, SettingError> {
        let key = match &options.key {
            AnthropicKey::ApiKey(key) => ("x-api-key", key.expose().to_owned()),
            AnthropicKey::Bearer(key) => ("authorization", format!("Bearer {}", key.expose())),
        };
        let own = vec![
            ("content-type", "application/json".to_owned()),
            key,
            ("anthropic-version", options.version.clone()),
        ];
        let headers = FixedHeaders::new(own, &options.headers)?;
        Ok(Self { path: client.url().path("/v1/messages"), client, headers })
    }

    async fn ask(&self, call: Call) -> Result<Answer, Failure> {
        let request = Request {
            method: "POST",
            path: &self.path,
            headers: self.headers.pairs(),
            body: call.body,
            resend_on_stale: true,
        };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        conclude(response, call.stream, TargetDialect::AnthropicMessages).await
    }
}

impl Target for AnthropicTarget {
    fn dialect(&self) -> TargetDialect {
        TargetDialect::AnthropicMessages
    }

    fn call(&self, call: Call) -> Calling<'_> {
        Box::pin(async move { Ok(self.ask(call).await?) })
    }
}
