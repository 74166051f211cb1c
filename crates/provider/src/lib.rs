//! Carrying one attempt to one vendor, and bringing the answer back as it arrives.
//!
//! A [`Target`] makes one attempt and says how it went: [`AnthropicTarget`], [`OpenAiTarget`] or [`BedrockTarget`], each in
//! its own dialect, which whoever calls must speak. All of them go through a [`Client`]: [`way`] finds the server and opens
//! a line to it, encrypted or not, [`http1`] or [`http2`] carry the request. Nothing here retries, and limits, budgets and
//! breakers are not known: who asked for the attempt decides what a failure leads to.

mod answer;
mod anthropic;
mod bedrock;
mod client;
mod headers;
pub mod http1;
pub mod http2;
mod openai;
mod target;
mod tasks;
pub mod way;

pub use anthropic::{AnthropicKey, AnthropicOptions, AnthropicTarget};
pub use bedrock::{BedrockOptions, BedrockTarget, EnvironmentCredentials, StaticCredentials};
pub use client::{
    Client, ClientOptions, Http2Use, Response, ResponseBody, ResponseHeaders, Surroundings, enter_core,
};
pub use headers::Secret;
pub use openai::{OpenAiOptions, OpenAiTarget};
pub use target::{Answer, Call, Calling, Frames, Target, TargetDialect};
