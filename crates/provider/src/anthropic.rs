//! Anthropic Messages over HTTP.
//!
//! Features in trial that a caller names go along in `anthropic-beta`, behind those that settings name. Names that could
//! not stand in a header, or too many of them, are the caller's mistake, and nothing is sent then.

use crate::answer::conclude;
use crate::client::Client;
use crate::headers::{FixedHeaders, Secret};
use crate::http1::{Request, is_token_byte};
use crate::target::{Answer, Call, CallError, Calling, Target, TargetDialect};
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::setting::SettingError;

/// In which header a key is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnthropicKey {
    /// The vendor's own header, `x-api-key`.
    ApiKey(Secret),
    /// `authorization: Bearer`, as gateways and tokens of limited life want it.
    Bearer(Secret),
    /// None: for a server of one's own that asks for none.
    None,
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
            AnthropicKey::ApiKey(key) => Some(("x-api-key", key.expose().to_owned())),
            AnthropicKey::Bearer(key) => Some(("authorization", format!("Bearer {}", key.expose()))),
            AnthropicKey::None => None,
        };
        let mut own = vec![("content-type", "application/json".to_owned())];
        own.extend(key);
        own.push(("anthropic-version", options.version.clone()));
        let headers = FixedHeaders::new(own, &options.headers)?;
        Ok(Self { path: client.url().path("/v1/messages"), client, headers })
    }

    async fn ask(&self, call: Call) -> Result<Answer, CallError> {
        let Call { body, stream, betas } = call;
        let all;
        let headers = if betas.is_empty() {
            self.headers.pairs()
        } else {
            all = self.with_betas(&betas)?;
            &all
        };
        let request = Request { method: "POST", path: &self.path, headers, body, resend_on_stale: true };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        conclude(response.into(), stream, TargetDialect::AnthropicMessages).await
    }

    /// The headers of every call, and the features in trial that this one names.
    fn with_betas(&self, betas: &[String]) -> Result<Vec<(String, String)>, Failure> {
        if betas.len() > MOST_BETAS || !betas.iter().all(|name| is_beta(name)) {
            return Err(Failure::of(FailureKind::BadRequest));
        }
        let named = betas.join(",");
        let mut all = self.headers.pairs().to_vec();
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
const MOST_BETAS: usize = 20;
const LONGEST_BETA: usize = 100;

/// A name that can stand in a list in a header: no comma, no space, no line end.
fn is_beta(name: &str) -> bool {
    (1..=LONGEST_BETA).contains(&name.len()) && name.bytes().all(is_token_byte)
}

impl Target for AnthropicTarget {
    fn dialect(&self) -> TargetDialect {
        TargetDialect::AnthropicMessages
    }

    fn call(&self, call: Call) -> Calling<'_> {
        Box::pin(self.ask(call))
    }
}
