//! Anthropic Messages over HTTP.
//!
//! Beta features that a caller requests are sent in `anthropic-beta`, after those from the settings. Invalid names, or
//! too many of them, are the caller's error, and nothing is sent. An API version set by the caller replaces the
//! configured one.

use crate::client::Client;
use crate::headers::{FixedHeaders, SecretString};
use crate::http1::{HttpRequest, is_token_byte};
use crate::response::read_response;
use crate::target::{Call, CallError, CallFuture, Target, UpstreamResponse};
use crate::trace::with_trace;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::setting::SettingError;
use seawall_wire::dialect::DialectId;
use std::borrow::Cow;

/// How the key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnthropicKey {
    /// In the vendor's own header, `x-api-key`.
    ApiKey(SecretString),
    /// As `authorization: Bearer`, for gateways and short-lived tokens.
    Bearer(SecretString),
    /// No key, for self-hosted servers that require none.
    None,
}

/// Settings of an Anthropic Messages endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnthropicOptions {
    /// The gateway's key.
    pub key: AnthropicKey,
    /// The API version.
    pub version: String,
    /// Additional headers for every request.
    pub headers: Vec<(String, String)>,
}

impl AnthropicOptions {
    /// The default API version and no additional headers.
    #[must_use]
    pub fn new(key: AnthropicKey) -> Self {
        Self { key, version: ANTHROPIC_VERSION.to_owned(), headers: Vec::new() }
    }
}

/// A model behind an Anthropic Messages endpoint: `POST {base}/v1/messages`.
pub struct AnthropicTarget {
    client: Client,
    path: String,
    headers: FixedHeaders,
}

impl AnthropicTarget {
    /// A target that uses this client.
    pub fn new(client: Client, options: &AnthropicOptions) -> Result<Self, SettingError> {
        let key = match &options.key {
            AnthropicKey::ApiKey(key) => Some(("x-api-key", key.expose().to_owned())),
            AnthropicKey::Bearer(key) => Some(("authorization", format!("Bearer {}", key.expose()))),
            AnthropicKey::None => None,
        };
        let mut own = vec![("content-type", "application/json".to_owned())];
        own.extend(key);
        own.push((VERSION_HEADER, options.version.clone()));
        let headers = FixedHeaders::new(own, &options.headers)?;
        Ok(Self { path: client.url().path("/v1/messages"), client, headers })
    }

    async fn send(&self, call: Call) -> Result<UpstreamResponse, CallError> {
        let Call { body, stream, betas, anthropic_version, trace, .. } = call;
        let headers = if betas.is_empty() && anthropic_version.is_none() {
            Cow::Borrowed(self.headers.pairs())
        } else {
            Cow::Owned(self.call_headers(&betas, anthropic_version.as_deref())?)
        };
        let headers = with_trace(headers, trace.as_deref());
        let request =
            HttpRequest { method: "POST", path: &self.path, headers: &headers, body, resend_on_stale: true };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        let response = read_response(response.into(), stream, DialectId::ANTHROPIC_MESSAGES).await;
        response.map_err(|error| self.headers.redact(error))
    }

    /// The headers of a call, with its beta features and API version.
    fn call_headers(
        &self,
        betas: &[String],
        version: Option<&str>,
    ) -> Result<Vec<(String, String)>, Failure> {
        let is_wrong = |version: &str| version.len() > MAX_BETA_LENGTH || !version.bytes().all(is_token_byte);
        if betas.len() > MAX_BETAS
            || !betas.iter().all(|name| is_valid_beta(name))
            || version.is_some_and(is_wrong)
        {
            return Err(Failure::of(FailureKind::BadRequest));
        }
        let mut all = self.headers.pairs().to_vec();
        if let Some(version) = version {
            let ours = all.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(VERSION_HEADER));
            ours.into_iter().for_each(|(_, value)| version.clone_into(value));
        }
        if betas.is_empty() {
            return Ok(all);
        }
        let named = betas.join(",");
        match all.iter_mut().find(|(name, _)| name.eq_ignore_ascii_case(BETA_HEADER)) {
            Some((_, value)) => {
                value.push(',');
                value.push_str(&named);
            }
            None => all.push((BETA_HEADER.to_owned(), named)),
        }
        Ok(all)
    }
}

const BETA_HEADER: &str = "anthropic-beta";
const VERSION_HEADER: &str = "anthropic-version";
/// The default API version.
pub const ANTHROPIC_VERSION: &str = "2023-06-01";
const MAX_BETAS: usize = 20;
const MAX_BETA_LENGTH: usize = 100;

/// Whether a name can be part of a header list: no comma, no space, no line break.
fn is_valid_beta(name: &str) -> bool {
    (1..=MAX_BETA_LENGTH).contains(&name.len()) && name.bytes().all(is_token_byte)
}

impl Target for AnthropicTarget {
    fn dialect(&self) -> DialectId {
        DialectId::ANTHROPIC_MESSAGES
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(self.send(call))
    }
}
