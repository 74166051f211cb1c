//! Models, targets and routes.

use crate::field::{ListField, NamedSections};
use crate::kind::{
    AmountKind, BooleanKind, CountKind, DateKind, DurationKind, FaceName, PercentKind, ProviderKind,
    RateKind, SecretKind, SmallCountKind, TextKind, TokenPriceKind, UrlKind,
};
use crate::section::section;
use seawall_core::balance::{BalanceScope, BalanceStrategy};
use seawall_core::vocabulary::{Grade, OpenAiApi, OutputLimitField};

section! {
    /// A model by its exact id, with its prices per million tokens. A model that is not listed here has the prices of the
    /// built-in catalogue (`seawall prices`). A model without a price is called only where no budget applies.
    pub(crate) struct ModelSection {
        /// Price of input tokens.
        input: Option<TokenPriceKind>,
        /// Price of output tokens.
        output: Option<TokenPriceKind>,
        /// Price of tokens read from the vendor's prompt cache. Default: the price of input.
        cache_read: Option<TokenPriceKind>,
        /// Price of tokens written to the vendor's prompt cache. Default: the price of input.
        cache_write: Option<TokenPriceKind>,
        /// Price of tokens written to the vendor's prompt cache with a lifetime of one hour. Without it, requests that use
        /// this lifetime are refused.
        cache_write_1h: Option<TokenPriceKind>,
        /// Price of one use of a tool that the vendor runs, such as a web search.
        server_tool_use: Option<AmountKind>,
        /// Price multipliers by the value of `service_tier`, `speed`, `inference_geo` or `latency` in a request, such as
        /// `priority`, `fast` or `us`. A request with a value that costs more and is not listed here is refused.
        surcharges: NamedSections<SurchargeSection>,
        /// Price multipliers for calls with a long prompt.
        long_context: Option<LongContextSection>,
        /// Whether the model is free of charge. It then needs no prices.
        free: BooleanKind = "false",
        /// First day on which the vendor no longer serves the model.
        retires: Option<DateKind>,
        /// Context window in tokens, input and output together.
        context_window: Option<CountKind>,
        /// Maximum output tokens of one response. A request without its own limit reserves this number. Default: such a
        /// request is sent with a limit of 4,096. Under a budget, InvokeModel with a body in another format than Anthropic's
        /// requires it, together with `context_window`. 0 for an embedding model: it then needs no price for output, and is
        /// not asked for an answer.
        max_output: Option<CountKind>,
        /// Maximum number of tokens that an image counts as. Default: the number published by the vendor.
        image_tokens: Option<CountKind>,
    }
}

section! {
    /// Price multipliers of a model.
    pub(crate) struct SurchargeSection {
        /// Multiplier of all input prices, in percent of the normal price.
        input: PercentKind,
        /// Multiplier of the output price, in percent of the normal price.
        output: PercentKind,
    }
}

section! {
    /// Price multipliers of a model for calls with a long prompt.
    pub(crate) struct LongContextSection {
        /// Prompt length in tokens above which the multipliers apply, to all tokens of the call.
        above: CountKind,
        /// Multiplier of all input prices, in percent of the normal price.
        input: PercentKind,
        /// Multiplier of the output price, in percent of the normal price.
        output: PercentKind,
    }
}

section! {
    /// A target: one model at one provider, account and region.
    pub(crate) struct TargetSection {
        /// Provider of the model: a vendor, or a kind of server. It determines the API, the base URL, the environment variable
        /// of the API key, and the prices.
        provider: ProviderKind,
        /// Model id. `*` sends the name that the caller used, for routes with a wildcard. On Bedrock, requests to InvokeModel and Converse are forwarded to the
        /// same operation; for other callers, Anthropic models are called with InvokeModel and all others with Converse.
        model: TextKind,
        /// The model behind a deployment name, for its price and limits. For Azure, where `model` is a name of the operator's.
        base_model: Option<TextKind>,
        /// Grade of the model.
        grade: Grade = "\"strong\"",
        /// AWS region, for Bedrock.
        region: Option<TextKind>,
        /// Base URL including the path, such as `http://localhost:11434/v1`. Default: the provider's public endpoint. For
        /// Gemini, a URL without a path is completed with `/v1beta`; on Vertex AI it ends with the publisher, such as
        /// `https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1/publishers/google`.
        base_url: Option<UrlKind>,
        /// Reference to the API key. Default: the provider's usual environment variable, such as `env:GROQ_API_KEY`; none for
        /// servers on the operator's own machines and for other base URLs. For a project on Vertex AI it is an access token, which
        /// is sent as a bearer token and must be renewed from outside, as a file that is replaced before a reload.
        api_key: Option<SecretKind>,
        /// References to several API keys, instead of `api_key`. The first one that the vendor accepts is used. If the vendor
        /// rejects or throttles it, or its quota is used up, the call is repeated with the next one, and the key is set aside
        /// for a while.
        api_keys: Option<ListField<SecretKind>>,
        /// ARN of the IAM role to assume, for Bedrock. Credentials come from the default AWS credential provider chain.
        role_arn: Option<TextKind>,
        /// External id that the role's trust policy requires, for Bedrock.
        external_id: Option<TextKind>,
        /// Request field for the output token limit of an OpenAI-compatible server; it is used if a request has neither field
        /// or both. Default: `max_completion_tokens` for `openai`, `azure`, `groq`, `vllm` and `sglang`, `max_tokens` for all other
        /// providers, and for `openai` with a base URL that is neither OpenAI's nor Azure's.
        output_limit_field: Option<OutputLimitField>,
        /// APIs of an OpenAI-compatible server. A request in an API that the server has is sent as it came; any other is
        /// translated. Default: `both` for `openai`, `azure`, `vllm` and `sglang`, `chat_completions` for all other providers, and
        /// for `openai` with a base URL that is neither OpenAI's nor Azure's.
        api: Option<OpenAiApi>,
        /// Maximum number of concurrent calls.
        concurrency: SmallCountKind = "100",
        /// Share of the requests among the targets that a route balances, relative to the others. 0 for a target that is only
        /// called if no other is available.
        weight: SmallCountKind = "1",
        /// Name of the circuit breaker under `breakers`.
        breaker: TextKind = "\"default\"",
    }
}

section! {
    /// A route: an alias that callers use as the model name, with its candidate targets. A name that ends with `*`, such as
    /// `claude-*`, serves every model name that begins with the rest; the longest match wins, and an exact name before all
    /// wildcards.
    pub(crate) struct RouteSection {
        /// Targets in order of preference.
        targets: ListField<TextKind>,
        /// How requests are distributed over targets of the same model. `ordered`: the first in `targets` that is available.
        /// `weighted`: at random, by `targets.NAME.weight`. `least_latency`: the better of two random ones, by the time to
        /// their first content and their calls in flight. `affinity`: requests of one session or with the same beginning
        /// of the prompt go to the same target, so that its prompt cache is used, unless it has more than its share of the
        /// calls. The others of the group are tried next.
        balance: BalanceStrategy = "\"ordered\"",
        /// Which targets of the route are balanced with each other: those of the same `model`, or of the same `grade`. Groups
        /// keep their order in `targets`.
        balance_across: BalanceScope = "\"model\"",
        /// Faces (caller-facing protocols) that serve the route.
        faces: ListField<FaceName> = "[\"anthropic\", \"openai\", \"bedrock\", \"gemini\"]",
        /// Faces on which guests may use the route if `callers.guests` is on. On all other faces callers need a credential.
        guest_faces: ListField<FaceName> = "[\"chat\"]",
        /// Timeout for the beginning of a response, for API callers. Default: `deadlines.start`.
        start_timeout: Option<DurationKind>,
        /// Whether API callers receive an apology as an answer instead of an error if no target answers. Streams of the route may
        /// then pause for `deadlines.stream_idle` only. The answer cache and the other rungs are for the chat.
        fallback: BooleanKind = "false",
        /// Texts that requests on this route must not contain, on any face; spelling variants are matched as well. The chat
        /// route also applies `assistant.deny`.
        deny: ListField<TextKind> = "[]",
        /// Request rate limit of all callers of the route together.
        requests: Option<RateKind>,
        /// Token rate limit of all callers of the route together.
        tokens: Option<RateKind>,
    }
}
