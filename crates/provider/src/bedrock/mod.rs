//! Amazon Bedrock runtime over HTTP: InvokeModel and Converse, each with and without streaming.
//!
//! Every model is reachable through both APIs, so a caller's request is sent in the dialect in which it arrived.
//! Headers of InvokeModel that a caller sends (guardrail, service tier) are forwarded and signed. Requests from other
//! dialects use InvokeModel for Anthropic's models and Converse for all others.
//!
//! Every request is signed (see `sign.rs`). The model name is part of the path; the binary frames of a stream are
//! forwarded unchanged.
//!
//! Credentials come from the settings, from AWS's default chain (see `credentials`), or from any other source that
//! implements [`ProvideCredentials`](aws_credential_types::provider::ProvideCredentials). Without credentials nothing
//! is sent: that is a configuration error of the gateway, which says nothing about the vendor's health and is not
//! retried here.

mod credentials;
mod sign;
#[cfg(test)]
mod tests;

pub use credentials::{
    CredentialOptions, CredentialSource, Environment, EnvironmentCredentials, StaticCredentials,
};

use crate::client::Client;
use crate::headers::FixedHeaders;
use crate::http1::{HttpRequest, TokioTimer};
use crate::response::read_response;
use crate::target::{Call, CallError, CallFuture, Target, UpstreamResponse};
use crate::trace::TraceHeaders;
use aws_credential_types::provider::SharedCredentialsProvider;
use credentials::CredentialCache;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::runtime::{Timer as _, timeout_at};
use seawall_core::setting::SettingError;
use seawall_wire::bedrock::{BedrockOperation, write_path};
use seawall_wire::dialect::{DialectId, ModelOperation};
use sign::{AUTHORIZATION, DATE, SECURITY_TOKEN, Signature, Signer, SigningEndpoint};
use std::sync::Arc;
use std::time::Duration;

/// Settings of a Bedrock target.
#[derive(Clone, Debug)]
pub struct BedrockOptions {
    /// The region that requests are signed for.
    pub region: String,
    /// The model ID or ARN.
    pub model: String,
    /// Whether Converse, which all models support, is the default dialect instead of Anthropic's.
    pub converse: bool,
    /// The source of credentials.
    pub credentials: SharedCredentialsProvider,
    /// Additional headers for every request.
    pub headers: Vec<(String, String)>,
}

impl BedrockOptions {
    /// The default endpoint of a region.
    #[must_use]
    pub fn default_url(region: &str) -> String {
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        format!("https://bedrock-runtime.{region}.amazonaws.com{china}")
    }

    /// Whether a model is one of Anthropic's: by its ID, by the ID of a cross-region inference profile, or by an ARN
    /// that ends in either. An ARN that does not show the vendor counts as another vendor's.
    ///
    /// ```
    /// use seawall_provider::BedrockOptions;
    ///
    /// assert!(BedrockOptions::is_anthropic("anthropic.claude-3-haiku-20240307-v1:0"));
    /// assert!(BedrockOptions::is_anthropic("apac.anthropic.claude-sonnet-4-20250514-v1:0"));
    /// assert!(!BedrockOptions::is_anthropic("amazon.nova-pro-v1:0"));
    /// ```
    #[must_use]
    pub fn is_anthropic(model: &str) -> bool {
        let id = model.rsplit('/').next().unwrap_or_default();
        // At most one part precedes the vendor's name: the geography of an inference profile.
        let mut parts = id.split('.');
        let vendor = parts.next().filter(|part| *part == "anthropic").or_else(|| parts.next());
        vendor == Some("anthropic") && parts.next().is_some()
    }
}

/// How long a call waits for credentials if there are none.
const CREDENTIAL_TIMEOUT: Duration = Duration::from_secs(5);

fn check_region(region: &str) -> Result<(), SettingError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if region.is_empty() || !region.bytes().all(is_name) {
        return Err(SettingError::new("region", format!("{region:?} is not a valid region name")));
    }
    Ok(())
}

/// A model at Bedrock.
pub struct BedrockTarget {
    client: Arc<Client>,
    credentials: CredentialCache<TokioTimer>,
    region: Box<str>,
    headers: Arc<[(String, String)]>,
    dialect: DialectId,
    invoke: Operations,
    converse: Operations,
}

/// An operation and its streaming counterpart.
struct Operations {
    unstreamed: Operation,
    stream: Operation,
}

/// One operation of the service.
struct Operation {
    path: String,
    headers: FixedHeaders,
    signer: Signer,
}

impl BedrockTarget {
    /// A target that uses this client.
    pub fn new(client: Client, options: &BedrockOptions) -> Result<Self, SettingError> {
        let BedrockOptions { region, model, converse, credentials, headers } = options;
        check_region(region)?;
        if model.is_empty() {
            return Err(SettingError::new("model", "must not be empty"));
        }
        let credentials = CredentialCache::new(credentials.clone(), client.timer());
        Self::at((Arc::new(client), credentials), region, headers.as_slice().into(), model, *converse)
    }

    fn at(
        (client, credentials): (Arc<Client>, CredentialCache<TokioTimer>),
        region: &str,
        headers: Arc<[(String, String)]>,
        model: &str,
        converse: bool,
    ) -> Result<Self, SettingError> {
        let dialect = if converse { DialectId::BEDROCK_CONVERSE } else { DialectId::BEDROCK_INVOKE };
        let operation = |operation: BedrockOperation| {
            let accept = if operation.is_stream() { STREAM_TYPE } else { "application/json" };
            let own = vec![("content-type", "application/json".to_owned()), ("accept", accept.to_owned())];
            let path = client.url().path(&write_path(operation, model));
            let headers = FixedHeaders::new(own, &headers)?;
            let authority = client.url().endpoint().authority();
            let recipient =
                SigningEndpoint { region, service: "bedrock", method: "POST", authority, path: &path };
            let signer = Signer::new(&recipient, &headers)?;
            Ok::<_, SettingError>(Operation { path, headers, signer })
        };
        let operations = |unstreamed, stream| {
            Ok::<_, SettingError>(Operations {
                unstreamed: operation(unstreamed)?,
                stream: operation(stream)?,
            })
        };
        let invoke = operations(BedrockOperation::Invoke, BedrockOperation::InvokeStream)?;
        let converse = operations(BedrockOperation::Converse, BedrockOperation::ConverseStream)?;
        Ok(Self { client, credentials, region: region.into(), headers, dialect, invoke, converse })
    }

    async fn send(&self, call: Call) -> Result<UpstreamResponse, CallError> {
        // Without credentials nothing can be sent, and a retry does not help.
        let no_key = || Failure::of(FailureKind::Unauthorized);
        let dialect = call.dialect.filter(|dialect| self.accepts(*dialect)).unwrap_or(self.dialect);
        let is_converse = dialect == DialectId::BEDROCK_CONVERSE;
        let operations = if is_converse { &self.converse } else { &self.invoke };
        let operation = if call.stream { &operations.stream } else { &operations.unstreamed };
        let Operation { path, headers, signer } = operation;
        if let Some(overridden) = call.headers.iter().find(|(name, _)| headers.contains(name)) {
            // A caller must not override what an operator has set for all calls, such as a guardrail.
            let message =
                Some(format!("{}: is set by the gateway and cannot be overridden", overridden.0).into());
            return Err(CallError { message, ..Failure::of(FailureKind::BadRequest).into() });
        }
        let own: Vec<(&str, &str)> = call.headers.iter().map(|(name, value)| (*name, &**value)).collect();
        let date = self.client.utc_now();
        let timer = self.client.timer();
        let until = Deadline::after(timer.monotonic(), CREDENTIAL_TIMEOUT);
        let credentials = timeout_at(&timer, until, self.credentials.get(date)).await.flatten();
        let credentials = credentials.ok_or_else(no_key)?;
        let Signature { date, authorization } =
            signer.sign_with(&credentials, date, &own, &call.body).ok_or_else(no_key)?;
        let ours = headers.pairs().iter().map(|(name, value)| (&**name, &**value)).chain(own);
        let signed = [(DATE, &*date), (AUTHORIZATION, &*authorization)];
        let token = credentials.session_token().map(|token| (SECURITY_TOKEN, token));
        // Not signed, like all that proxies may change.
        let trace = call.trace.as_deref().into_iter().flat_map(TraceHeaders::pairs);
        let trace = trace.filter(|(name, _)| !headers.contains(name));
        let all: Vec<(&str, &str)> = ours.chain(signed).chain(token).chain(trace).collect();
        let request =
            HttpRequest { method: "POST", path, headers: &all, body: call.body, resend_on_stale: true };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        let response = read_response(response.into(), call.stream, dialect).await;
        response.map_err(|error| headers.redact(error))
    }
}

/// The content type of a stream.
const STREAM_TYPE: &str = "application/vnd.amazon.eventstream";

impl Target for BedrockTarget {
    fn dialect(&self) -> DialectId {
        self.dialect
    }

    fn accepts(&self, dialect: DialectId) -> bool {
        [DialectId::BEDROCK_INVOKE, DialectId::BEDROCK_CONVERSE].contains(&dialect)
    }

    fn for_model(&self, model: &str) -> Option<Arc<dyn Target>> {
        let shared = (Arc::clone(&self.client), self.credentials.clone());
        let converse = !BedrockOptions::is_anthropic(model);
        let target = Self::at(shared, &self.region, Arc::clone(&self.headers), model, converse).ok()?;
        Some(Arc::new(target))
    }

    fn operation_dialect(&self, operation: ModelOperation) -> Option<DialectId> {
        match operation {
            ModelOperation::Generate => Some(self.dialect),
            ModelOperation::Compact => None,
            ModelOperation::Embed => Some(DialectId::BEDROCK_INVOKE),
        }
    }

    fn call(&self, call: Call) -> CallFuture<'_> {
        Box::pin(self.send(call))
    }
}
