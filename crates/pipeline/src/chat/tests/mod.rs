//! Questions, requests, replies, refusals and texts.

mod ask;
mod prompt;
mod reply;
