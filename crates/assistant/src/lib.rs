//! Answers the messages of the gateway's own chat.
//!
//! A vendor's API passes a request on to a model, or returns an error. An assistant always answers: it tries the *rungs*
//! of its plan (fresh cache, strong model, fast model, stale cache, apology) until one answers, inside one deadline for
//! the first text. [`Assistant::serve_until`] does that for one message. It asks models through the
//! [pipeline](seawall_pipeline), which identifies and admits callers, pays, retries and records.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `assistant` | one message, from its bytes to its reply |
//! | `prompt` | the model request that a message becomes, with as much history as fits |
//! | `cascade` | the fallback cascade over the rungs of the plan |
//! | `stream` | a streamed reply: text that the guardrail releases, then one end |
//! | `finalizer` | what is done with a complete answer: cache, single flight, the final event |
//! | `answer_cache` | complete answers, and the keys under which they may be shared |
//! | `single_flight` | one model call for all that ask the same at the same time |
//! | `rules` | the configuration, replaced as a whole by a reload |
//! | `texts` | prepared texts in Japanese and English |
//!
//! It knows no sockets and no vendors: bytes of the chat protocol are read and written by
//! [`chat_face`](seawall_wire::chat_face).

mod answer_cache;
mod assistant;
mod cascade;
mod finalizer;
mod prompt;
mod rules;
mod single_flight;
mod stream;
#[cfg(test)]
mod tests;
mod texts;

pub use answer_cache::{AnswerCache, PendingLookup};
pub use assistant::{Assistant, AssistantContent, AssistantReply, ChatInbound};
pub use prompt::{ChatPrompt, ChatPromptOptions, PreparedChat, PromptModel};
pub use rules::ChatRules;
pub use single_flight::AnswerSingleFlight;
pub use stream::ChatStream;
pub use texts::{ChatText, apologies, apology};
