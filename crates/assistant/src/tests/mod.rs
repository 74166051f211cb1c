//! Tests of the assistant.

mod faults;
mod prompt;
mod streams;
mod texts;
