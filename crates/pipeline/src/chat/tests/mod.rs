//! Tests of the chat protocol: requests, prompts, replies, refusals and texts.

mod ask;
mod prompt;
mod reply;
