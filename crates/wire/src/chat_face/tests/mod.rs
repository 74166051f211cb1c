//! Tests of the chat protocol.

mod reply;
mod request;
