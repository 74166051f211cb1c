//! Amazon Bedrock runtime over HTTP: InvokeModel with an Anthropic body, and Converse, each whole or as a stream.
//!
//! Every request is signed (see `sign.rs`). The model's name stands in the path; a stream's binary frames are passed on as
//! they come.
//!
//! It takes its keys from settings, from the places where the vendor's own programs look for them (see `credentials`), or
//! from any other source that implements the vendor's
//! [`ProvideCredentials`](aws_credential_types::provider::ProvideCredentials). Without keys nothing is sent: that is a
//! failure of our own settings, which says nothing of the vendor's health and is not tried again here.

mod credentials;
mod sign;
#[cfg(test)]
mod tests;

pub use credentials::{CredentialOptions, Environment, EnvironmentCredentials, StaticCredentials};

use crate::answer::conclude;
use crate::client::Client;
use crate::headers::FixedHeaders;
use crate::http1::{Request, TokioTimer};
use crate::target::{Answer, Call, CallError, Calling, Target, TargetDialect};
use aws_credential_types::provider::SharedCredentialsProvider;
use credentials::CredentialCache;
use seawall_core::deadline::Deadline;
use seawall_core::failure::{Failure, FailureKind};
use seawall_core::handle::{Timer as _, within};
use seawall_core::setting::SettingError;
use seawall_wire::bedrock::{BedrockOperation, write_path};
use sign::{AUTHORIZATION, DATE, Recipient, Signature, Signer, TOKEN};
use std::time::Duration;

/// How to ask Bedrock.
#[derive(Clone, Debug)]
pub struct BedrockOptions {
    /// The region that signatures name.
    pub region: String,
    /// The model's id, or the ARN of one.
    pub model: String,
    /// Whether to ask in the dialect that all models have in common, rather than in Anthropic's.
    pub converse: bool,
    /// Where our keys come from.
    pub credentials: SharedCredentialsProvider,
    /// Further headers with every request.
    pub headers: Vec<(String, String)>,
}

impl BedrockOptions {
    /// Where the service is found in a region.
    #[must_use]
    pub fn usual_url(region: &str) -> String {
        let china = if region.starts_with("cn-") { ".cn" } else { "" };
        format!("https://bedrock-runtime.{region}.amazonaws.com{china}")
    }

    /// Whether a model is one of Anthropic's, by its id, that of a profile across regions, or an ARN that ends in one of
    /// them. An ARN that does not tell is taken for another vendor's.
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
        // At most one part stands before the vendor's name: where the profile may lead.
        let mut parts = id.split('.');
        let vendor = parts.next().filter(|part| *part == "anthropic").or_else(|| parts.next());
        vendor == Some("anthropic") && parts.next().is_some()
    }
}

/// How long a request waits for keys where there are none.
const KEY_WAIT: Duration = Duration::from_secs(5);

fn check_region(region: &str) -> Result<(), SettingError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if region.is_empty() || !region.bytes().all(is_name) {
        return Err(SettingError::new("region", format!("{region:?} is no name of a region")));
    }
    Ok(())
}

/// A model at Bedrock.
pub struct BedrockTarget {
    client: Client,
    credentials: CredentialCache<TokioTimer>,
    dialect: TargetDialect,
    whole: Operation,
    stream: Operation,
}

/// One of the service's operations.
struct Operation {
    path: String,
    headers: FixedHeaders,
    signer: Signer,
}

impl BedrockTarget {
    /// Asks through this client.
    pub fn new(client: Client, options: &BedrockOptions) -> Result<Self, SettingError> {
        let BedrockOptions { region, model, converse, credentials, headers } = options;
        check_region(region)?;
        if model.is_empty() {
            return Err(SettingError::new("model", "must not be empty"));
        }
        let (dialect, whole, stream) = if *converse {
            let operations = (BedrockOperation::Converse, BedrockOperation::ConverseStream);
            (TargetDialect::BedrockConverse, operations.0, operations.1)
        } else {
            let operations = (BedrockOperation::Invoke, BedrockOperation::InvokeStream);
            (TargetDialect::BedrockInvoke, operations.0, operations.1)
        };
        let operation = |operation: BedrockOperation| {
            let accept = if operation.is_stream() { STREAM_TYPE } else { "application/json" };
            let own = vec![("content-type", "application/json".to_owned()), ("accept", accept.to_owned())];
            let path = client.url().path(&write_path(operation, model));
            let headers = FixedHeaders::new(own, headers)?;
            let authority = client.url().endpoint().authority();
            let recipient = Recipient { region, service: "bedrock", method: "POST", authority, path: &path };
            let signer = Signer::new(&recipient, &headers)?;
            Ok::<_, SettingError>(Operation { path, headers, signer })
        };
        Ok(Self {
            credentials: CredentialCache::new(credentials.clone(), client.timer()),
            dialect,
            whole: operation(whole)?,
            stream: operation(stream)?,
            client,
        })
    }

    async fn ask(&self, call: Call) -> Result<Answer, CallError> {
        // Without keys nothing can be asked, and asking again here does not help.
        let no_key = || Failure::of(FailureKind::Unauthorized);
        let Operation { path, headers, signer } = if call.stream { &self.stream } else { &self.whole };
        let date = self.client.date();
        let timer = self.client.timer();
        let until = Deadline::after(timer.monotonic(), KEY_WAIT);
        let credentials = within(&timer, until, self.credentials.get(date)).await.flatten();
        let credentials = credentials.ok_or_else(no_key)?;
        let Signature { date, authorization } =
            signer.sign(&credentials, date, &call.body).ok_or_else(no_key)?;
        let ours = headers.pairs().iter().map(|(name, value)| (&**name, &**value));
        let signed = [(DATE, &*date), (AUTHORIZATION, &*authorization)];
        let token = credentials.session_token().map(|token| (TOKEN, token));
        let headers: Vec<(&str, &str)> = ours.chain(signed).chain(token).collect();
        let request =
            Request { method: "POST", path, headers: &headers, body: call.body, resend_on_stale: true };
        let response = self.client.send(request).await.map_err(|failure| failure.failure())?;
        conclude(response.into(), call.stream, self.dialect).await
    }
}

/// What a stream comes in.
const STREAM_TYPE: &str = "application/vnd.amazon.eventstream";

impl Target for BedrockTarget {
    fn dialect(&self) -> TargetDialect {
        self.dialect
    }

    fn call(&self, call: Call) -> Calling<'_> {
        Box::pin(self.ask(call))
    }
}
