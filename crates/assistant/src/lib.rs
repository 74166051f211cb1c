//! Answers the messages of the gateway's own chat.
//!
//! A vendor's API passes a request on to a model, or returns an error. An assistant always answers: it tries the *rungs*
//! of its plan (fresh cache, strong model, fast model, stale cache, apology) until one answers, inside one deadline for
//! the first text. [`Assistant::serve_until`] does that for one message. It asks models through the
//! [pipeline](seawall_pipeline), which identifies and admits callers, pays, retries and records.
//!
//! `seawall-core` decides for any gateway and knows no shop. This crate knows one: its intents, its carts, its busy
//! evenings and the texts for its customers. It translates them into the neutral values that `core` decides on.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `assistant` | one message, from its bytes to its reply |
//! | `prompt` | the model request that a message becomes, with as much history as fits |
//! | [`intent`] | what a message is about, and what that implies for retrieval and the answer cache |
//! | [`router`] | the priority of a message, its models, and whether a prepared answer comes first |
//! | [`plan`] | which rungs a message may use, and why no more |
//! | `cascade` | the fallback cascade over the rungs of the plan |
//! | `stream` | a streamed reply: text that the guardrail releases, then one end |
//! | `finalizer` | what is done with a complete answer: cache, single flight, the final event |
//! | `answer_cache` | complete answers, and the keys under which they may be shared |
//! | `single_flight` | one model call for all that ask the same at the same time |
//! | `rules` | the configuration, replaced as a whole by a reload |
//! | [`fallback`], `texts` | prepared texts in Japanese and English |
//! | [`reference`](mod@reference) | the pages of documentation that are made from these tables |
//!
//! It knows no sockets and no vendors: bytes of the chat protocol are read and written by
//! [`chat_face`](seawall_wire::chat_face).

mod answer_cache;
mod assistant;
mod cascade;
pub mod fallback;
mod finalizer;
pub mod intent;
pub mod plan;
mod prompt;
pub mod reference;
pub mod router;
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
