//! Carrying one attempt to one vendor, and bringing the answer back as it arrives.
//!
//! A [`Target`] makes one attempt and says how it went: [`AnthropicTarget`], [`OpenAiTarget`] or [`BedrockTarget`], each in
//! its own dialect, which whoever calls must speak. All of them go through a [`Client`]: [`way`] finds the server and opens
//! a line to it, encrypted or not, [`http1`] or [`http2`] carry the request. Nothing here retries, and limits, budgets and
//! breakers are not known: who asked for the attempt decides what a failure leads to.
//!
//! [`LocalTarget`] asks a server in this process instead, by the same paths and without a socket.
//!
//! Without the feature `client` there is only what a target is, and no network.

mod answer;
#[cfg(feature = "client")]
mod anthropic;
#[cfg(feature = "client")]
mod bedrock;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod headers;
#[cfg(feature = "client")]
pub mod http1;
#[cfg(feature = "client")]
pub mod http2;
mod local;
#[cfg(feature = "client")]
mod openai;
mod target;
#[cfg(feature = "client")]
mod tasks;
#[cfg(feature = "client")]
pub mod way;

#[cfg(feature = "client")]
pub use anthropic::{AnthropicKey, AnthropicOptions, AnthropicTarget};
#[cfg(feature = "client")]
pub use bedrock::{
    BedrockOptions, BedrockTarget, CredentialOptions, Environment, EnvironmentCredentials, StaticCredentials,
};
#[cfg(feature = "client")]
pub use client::{
    Client, ClientOptions, Http2Use, Response, ResponseBody, ResponseHeaders, Surroundings, enter_core,
};
#[cfg(feature = "client")]
pub use headers::Secret;
pub use local::{LocalResponse, LocalTarget, Responding};
#[cfg(feature = "client")]
pub use openai::{OpenAiOptions, OpenAiTarget};
pub use target::{Answer, Call, CallError, Calling, Frames, Target, TargetDialect};
