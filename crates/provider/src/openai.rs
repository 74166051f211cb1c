//! OpenAI chat completions and Responses over HTTP, at OpenAI or any compatible server (vLLM, Ollama, llama.cpp).

use crate::client::Client;
use crate::headers::{FixedHeaders, SecretString};
use crate::http1::HttpRequest;
use crate::response::read_response;
use crate::target::{Call, CallError, CallFuture, Target, UpstreamResponse};
use crate::trace::with_trace;
use bytes::Bytes;
use seawall_core::setting::SettingError;
use seawall_core::vocabulary::OpenAiApi;
use seawall_wire::RequestLimits;
use seawall_wire::dialect::{DialectId, ModelOperation};
use seawall_wire::openai::{for_upstream, read_request};
use std::borrow::Cow;

/// Settings of an OpenAI-compatible endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAiOptions {
    /// The gateway's key, if one is required.
    pub key: Option<SecretString>,
    /// Whether the key is sent in the header `api-key`, as Azure expects it, instead of as a bearer token.
    pub uses_api_key_header: bool,
    /// The APIs of the server.
    pub api: OpenAiApi,
    /// Whether to request the usage of streams. Without it the cost of a stream is only estimated, but some servers
    /// reject the option.
    pub include_usage: bool,
    /// Additional headers for every request.
    pub headers: Vec<(String, String)>,
}

impl OpenAiOptions {
    /// Chat completions only, with usage and without additional headers.
    #[must_use]
    pub const fn new(key: Option<SecretString>) -> Self {
        Self {
            key,
            uses_api_key_header: false,
            api: OpenAiApi::ChatCompletions,
            include_usage: true,
            headers: Vec::new(),
        }
    }
}

/// A model behind an OpenAI-compatible endpoint: `POST {base}/chat/completions` and `POST {base}/responses`, where the
/// base usually ends in `/v1`.
pub struct OpenAiTarget {
    client: Client,
    api: OpenAiApi,
    paths: OpenAiPaths,
    headers: FixedHeaders,
    include_usage: bool,
}

/// The paths of the operations.
struct OpenAiPaths {
    chat: String,
    responses: String,
    compact: String,
    embeddings: String,
}

impl OpenAiTarget {
    /// A target that uses this client.
    pub fn new(client: Client, options: &OpenAiOptions) -> Result<Self, SettingError> {
        let mut own = vec![("content-type", "application/json".to_owned())];
        if let Some(key) = &options.key {
            own.push(if options.uses_api_key_header {
                ("api-key", key.expose().to_owned())
            } else {
                ("authorization", format!("Bearer {}", key.expose()))
            });
        }
        let headers = FixedHeaders::new(own, &options.headers)?;
        let [chat, responses, compact, embeddings] =
            ["/chat/completions", "/responses", "/responses/compact", "/embeddings"]
                .map(|path| client.url().path(path));
        let paths = OpenAiPaths { chat, responses, compact, embeddings };
        let OpenAiOptions { api, include_usage, .. } = *options;
        Ok(Self { client, api, paths, headers, include_usage })
    }

    async fn send(&self, call: Call) -> Result<UpstreamResponse, CallError> {
        let Call { body, stream, operation, .. } = call;
        let default = self.operation_dialect(operation).unwrap_or(self.dialect());
        let dialect = call.dialect.filter(|dialect| self.accepts(*dialect)).unwrap_or(default);
        let is_chat = dialect == DialectId::OPENAI_CHAT;
        // A Responses stream always reports its usage.
        let body = if is_chat && stream && self.include_usage { with_include_usage(body) } else { body };
        let headers = with_trace(Cow::Borrowed(self.headers.pairs()), call.trace.as_deref());
        let request = HttpRequest {
            method: "POST",
            path: match operation {
                ModelOperation::Generate if is_chat => &self.paths.chat,
                ModelOperation::Generate => &self.paths.responses,
                ModelOperation::Compact => &self.paths.compact,
                ModelOperation::Embed => &self.paths.embeddings,
            },
            headers: &headers,
            body,
            resend_on_stale: true,
        };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        let response = read_response(response.into(), stream, dialect).await;
        response.map_err(|error| self.headers.redact(error))
    }
}

/// Adds the option to report usage. The body stays unchanged if it has the option already, or cannot be parsed: the
/// vendor then reports the error.
fn with_include_usage(body: Bytes) -> Bytes {
    match read_request(&body, &RequestLimits::default()) {
        Ok(head) => for_upstream(&body, &head, &head.model),
        Err(_) => body,
    }
}

impl Target for OpenAiTarget {
    fn dialect(&self) -> DialectId {
        match self.api {
            OpenAiApi::Both | OpenAiApi::ChatCompletions => DialectId::OPENAI_CHAT,
            OpenAiApi::Responses => DialectId::RESPONSES,
        }
    }

    fn accepts(&self, dialect: DialectId) -> bool {
        dialect == self.dialect() || (self.api == OpenAiApi::Both && dialect == DialectId::RESPONSES)
    }

    fn operation_dialect(&self, operation: ModelOperation) -> Option<DialectId> {
        match operation {
            ModelOperation::Generate => Some(self.dialect()),
            ModelOperation::Compact => Some(DialectId::RESPONSES).filter(|dialect| self.accepts(*dialect)),
            // Every OpenAI-compatible server has the same API for embeddings.
            ModelOperation::Embed => Some(DialectId::OPENAI_CHAT),
        }
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(self.send(call))
    }
}

#[cfg(test)]
mod tests {
    use super::with_include_usage;
    use bytes::Bytes;

    #[test]
    fn usage_is_asked_for_once() {
        let body =
            Bytes::from_static(br#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#);
        let asking = with_include_usage(body);
        let read: serde_json::Value = serde_json::from_slice(&asking).unwrap();
        assert_eq!(read["stream_options"]["include_usage"], true);
        assert_eq!((&read["model"], &read["messages"][0]["content"]), (&"m".into(), &"hi".into()));
        assert_eq!(with_include_usage(asking.clone()), asking);
        assert_eq!(with_include_usage(Bytes::from_static(b"{")), "{");
    }
}
