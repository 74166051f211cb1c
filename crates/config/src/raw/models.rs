//! Models, where they are served, and the routes that lead to them.

use crate::field::{List, Named};
use crate::kind::{
    Amount, Count, Date, FaceName, Flag, Percent, Provider, Rate, Secret, Small, Span, Text, TokenPrice, Url,
};
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
        /// A million tokens written to the vendor's cache for an hour. A request that asks for it is refused where nothing
        /// is said.
        cache_write_1h: Option<TokenPrice>,
        /// One use of a tool that the vendor runs, such as a web search.
        server_tool_use: Option<Amount>,
        /// What changes all prices of a call, by the value of `service_tier`, `speed`, `inference_geo` or `latency`:
        /// `priority`, `fast`, `us` and so on. A request with a value that costs more and is not here is refused.
        surcharges: Named<Surcharge>,
        /// What changes all prices of a call with a long prompt.
        long_context: Option<LongContext>,
        /// Whether it costs nothing, and is meant to.
        free: Flag = "false",
        /// The first day on which the vendor no longer serves it.
        retires: Option<Date>,
        /// Tokens that it can hold, in and out together.
        window: Option<Count>,
        /// The maximum number of tokens in one of its answers. It is what a request reserves that names no limit of its own.
        /// Without it, such a request is sent with a limit of 4,096. InvokeModel with another body than Anthropic's needs it, and
        /// `window`, under a budget.
        max_output: Option<Count>,
        /// The most tokens that it counts a picture as. Without it, what its vendor publishes.
        image_tokens: Option<Count>,
    }
}

section! {
    /// A rate on the prices of a model.
    pub(crate) struct Surcharge {
        /// On all input, in percent of the usual price.
        input: Percent,
        /// On output.
        output: Percent,
    }
}

section! {
    /// A rate on the prices of a model for long prompts.
    pub(crate) struct LongContext {
        /// It holds for every token of a call whose prompt has more tokens than this.
        above: Count,
        /// On all input, in percent of the usual price.
        input: Percent,
        /// On output.
        output: Percent,
    }
}

section! {
    /// One place where a model is served.
    pub(crate) struct Target {
        /// Who serves it.
        provider: Provider,
        /// The id of the model; it needs a price under `models`. At Bedrock, callers of InvokeModel and of Converse are passed
        /// on as they ask; for all others Anthropic's models are asked by InvokeModel and other vendors' by Converse.
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
        /// Texts that no request of the route may hold, at any face; they are looked for however they are spelled. The
        /// chat's route also has those of `assistant.deny`.
        deny: List<Text> = "[]",
        /// Requests that all callers of the route together may make.
        requests: Option<Rate>,
        /// Model tokens that all callers of the route together may use.
        tokens: Option<Rate>,
    }
}
