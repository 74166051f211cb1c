//! Models, where they are served, and the routes that lead to them.

use crate::field::List;
use crate::kind::{Count, Date, FaceName, Flag, Provider, Rate, Secret, Small, Span, Text, TokenPrice, Url};
use crate::section::section;
use seawall_core::vocabulary::{Grade, OutputLimitField};

section! {
    /// A model by its exact id, and what a million of its tokens cost. A model without a price is never called.
    pub(crate) struct Model {
        /// A million tokens of input.
        input: Option<TokenPrice>,
        /// A million tokens of output.
        output: Option<TokenPrice>,
        /// A million tokens read from the vendor's cache; as other input where nothing is said.
        cache_read: Option<TokenPrice>,
        /// A million tokens written to the vendor's cache; as other input where nothing is said.
        cache_write: Option<TokenPrice>,
        /// Whether it costs nothing, and is meant to.
        free: Flag = "false",
        /// The first day on which the vendor no longer serves it.
        retires: Option<Date>,
        /// Tokens that it can hold, in and out together.
        window: Option<Count>,
    }
}

section! {
    /// One place where a model is served.
    pub(crate) struct Target {
        /// Who serves it.
        provider: Provider,
        /// The id of the model; it needs a price under `models`. At Bedrock, Anthropic's models are asked by InvokeModel and
        /// all others by Converse.
        model: Text,
        /// How strong it is.
        grade: Grade,
        /// The region, for Bedrock.
        region: Option<Text>,
        /// Where it is reached, if not where the provider usually is; with its path, such as `http://localhost:11434/v1`.
        url: Option<Url>,
        /// Where our key there is found, for Anthropic and OpenAI.
        key: Option<Secret>,
        /// The role to take on, for Bedrock, with the keys that are found where the vendor's own programs look for them.
        role: Option<Text>,
        /// What the owner of the role wants to hear, for Bedrock.
        external_id: Option<Text>,
        /// The field in which it takes the limit of output, if it speaks as OpenAI does and a request has no limit or
        /// two. Without it, `max_completion_tokens` at OpenAI and Azure, and `max_tokens` elsewhere.
        output_limit_field: Option<OutputLimitField>,
        /// Calls that may be under way at once.
        concurrency: Small = "100",
        /// The name of its breaker under `breakers`.
        breaker: Text,
    }
}

section! {
    /// A name that callers use for a model, and what stands behind it.
    pub(crate) struct Route {
        /// The targets, in the order in which they are tried.
        targets: List<Text>,
        /// Where its requests may come in.
        faces: List<FaceName>,
        /// The faces at which guests may use it, where `callers.guests` is on. Vendors' dialects are for callers with a
        /// credential unless they are listed here.
        guest_faces: List<FaceName> = "[\"chat\"]",
        /// How long an answer may take to begin, for callers of an API.
        start_time: Span = "\"30s\"",
        /// Whether callers of an API also get answers from the cache, the FAQ and so on.
        fallback: Flag = "false",
        /// Requests that all callers of the route together may make.
        requests: Option<Rate>,
        /// Model tokens that all callers of the route together may use.
        tokens: Option<Rate>,
    }
}
