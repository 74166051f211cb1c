//! Gemini over HTTP, at Google's Gemini API or on Vertex AI.

use crate::client::Client;
use crate::headers::{FixedHeaders, SecretString};
use crate::http1::HttpRequest;
use crate::response::read_response;
use crate::target::{Call, CallError, CallFuture, Target, UpstreamResponse};
use crate::trace::with_trace;
use seawall_core::setting::SettingError;
use seawall_wire::dialect::DialectId;
use seawall_wire::gemini::{DEFAULT_VERSION, path_for};
use std::borrow::Cow;
use std::sync::Arc;

/// How the credential is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeminiKey {
    /// An API key in the vendor's own header, `x-goog-api-key`.
    ApiKey(SecretString),
    /// An access token as `authorization: Bearer`, which projects on Vertex AI require.
    Bearer(SecretString),
    /// No credential, for other servers that require none.
    None,
}

impl GeminiKey {
    /// This credential for a base URL: an access token for a project on Vertex AI, otherwise an API key. Vertex AI also
    /// takes API keys, at a URL that names no project.
    #[must_use]
    pub fn for_url(url: &str, key: SecretString) -> Self {
        if url.contains("/projects/") { Self::Bearer(key) } else { Self::ApiKey(key) }
    }
}

/// Settings of a Gemini endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeminiOptions {
    /// The gateway's credential.
    pub key: GeminiKey,
    /// Additional headers for every request.
    pub headers: Vec<(String, String)>,
}

impl GeminiOptions {
    /// No additional headers.
    #[must_use]
    pub const fn new(key: GeminiKey) -> Self {
        Self { key, headers: Vec::new() }
    }
}

/// A model behind a Gemini endpoint: `POST {base}/models/{model}:generateContent`, or `:streamGenerateContent?alt=sse`.
/// A base without a path is completed with the default API version.
pub struct GeminiTarget {
    client: Arc<Client>,
    unstreamed: String,
    stream: String,
    headers: Arc<FixedHeaders>,
}

impl GeminiTarget {
    /// A target that uses this client and model.
    pub fn new(client: Client, model: &str, options: &GeminiOptions) -> Result<Self, SettingError> {
        let mut own = vec![("content-type", "application/json".to_owned())];
        match &options.key {
            GeminiKey::ApiKey(key) => own.push(("x-goog-api-key", key.expose().to_owned())),
            GeminiKey::Bearer(token) => own.push(("authorization", format!("Bearer {}", token.expose()))),
            GeminiKey::None => {}
        }
        let headers = FixedHeaders::new(own, &options.headers)?;
        Ok(Self::at(Arc::new(client), Arc::new(headers), model))
    }

    fn at(client: Arc<Client>, headers: Arc<FixedHeaders>, model: &str) -> Self {
        let version = if client.url().path("").is_empty() { DEFAULT_VERSION } else { "" };
        let path = |stream| client.url().path(&[version, &path_for(model, stream)].concat());
        Self { unstreamed: path(false), stream: path(true), client, headers }
    }

    async fn send(&self, call: Call) -> Result<UpstreamResponse, CallError> {
        let Call { body, stream, .. } = call;
        let headers = with_trace(Cow::Borrowed(self.headers.pairs()), call.trace.as_deref());
        let request = HttpRequest {
            method: "POST",
            path: if stream { &self.stream } else { &self.unstreamed },
            headers: &headers,
            body,
            resend_on_stale: true,
        };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        let response = read_response(response.into(), stream, DialectId::GEMINI).await;
        response.map_err(|error| self.headers.redact(error))
    }
}

impl Target for GeminiTarget {
    fn dialect(&self) -> DialectId {
        DialectId::GEMINI
    }

    fn for_model(&self, model: &str) -> Option<Arc<dyn Target>> {
        Some(Arc::new(Self::at(Arc::clone(&self.client), Arc::clone(&self.headers), model)))
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(self.send(call))
    }
}

#[cfg(test)]
mod tests {
    use super::{GeminiKey, SecretString};

    #[test]
    fn projects_on_vertex_take_an_access_token_and_everything_else_an_api_key() {
        let key = || SecretString::new("k");
        let at = |url: &str| GeminiKey::for_url(url, key());
        let project = "https://us-central1-aiplatform.googleapis.com/v1/projects/p/locations/us-central1/publishers/google";
        assert_eq!(at(project), GeminiKey::Bearer(key()));
        for url in [
            "https://generativelanguage.googleapis.com",
            "https://aiplatform.googleapis.com/v1/publishers/google",
            "http://localhost:8080",
        ] {
            assert_eq!(at(url), GeminiKey::ApiKey(key()));
        }
    }
}
