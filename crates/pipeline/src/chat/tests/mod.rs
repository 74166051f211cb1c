//! Tests of the chat protocol: requests, prompts, replies, refusals and texts.

mod prompt;
mod reply;
mod request;
