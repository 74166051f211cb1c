//! Clients of model providers.
//!
//! A [`Target`] makes one attempt and returns its result: [`AnthropicTarget`], [`OpenAiTarget`],
//! [`GeminiTarget`] or [`BedrockTarget`], each in its own dialect, which the pipeline must write. All of them use a [`Client`]: [`connect`] resolves the server and
//! opens a connection, with or without TLS, and [`http1`] or [`http2`] carry the request. Nothing here retries, and
//! there are no limits, budgets or breakers: the pipeline decides what follows from a failure.
//!
//! [`LocalTarget`] calls a server in this process instead, with the same paths and without a socket.
//!
//! Without the feature `client` there is only the [`Target`] interface, and no network code.

#[cfg(feature = "client")]
mod anthropic;
#[cfg(feature = "client")]
mod bedrock;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
pub mod connect;
#[cfg(feature = "client")]
mod gemini;
#[cfg(feature = "client")]
mod headers;
#[cfg(feature = "client")]
pub mod http1;
#[cfg(feature = "client")]
pub mod http2;
mod local;
#[cfg(feature = "client")]
mod openai;
mod redact;
mod response;
mod target;
#[cfg(feature = "client")]
mod tasks;
mod trace;

#[cfg(feature = "client")]
pub use anthropic::{ANTHROPIC_VERSION, AnthropicKey, AnthropicOptions, AnthropicTarget};
#[cfg(feature = "client")]
pub use bedrock::{
    BedrockOptions, BedrockTarget, CredentialOptions, CredentialSource, Environment, EnvironmentCredentials,
    StaticCredentials,
};
#[cfg(feature = "client")]
pub use client::{
    Client, ClientOptions, ClientResponse, ClientRuntime, Http2Policy, ResponseBody, ResponseHeaders,
    set_current_core,
};
#[cfg(feature = "client")]
pub use gemini::{GeminiKey, GeminiOptions, GeminiTarget};
#[cfg(feature = "client")]
pub use headers::SecretString;
pub use local::{LocalResponse, LocalResponseFuture, LocalTarget};
#[cfg(feature = "client")]
pub use openai::{OpenAiOptions, OpenAiTarget};
pub use redact::redact;
pub use target::{Call, CallError, CallFuture, ChunkStream, Target, UpstreamResponse};
pub use trace::{TRACEPARENT, TRACESTATE, TraceHeaders};
