//! Rate limits and concurrency shares.

use crate::kind::{DurationKind, PercentKind, RateKind, SmallCountKind, UntrackedRuleKind};
use crate::section::section;

section! {
    /// Rate limits and concurrency shares.
    pub(crate) struct LimitsSection {
        /// Limits per caller, by tier.
        tiers: TiersSection,
        /// Limits of all callers together.
        global: GlobalLimitsSection,
        /// Limits at the edge, before authentication.
        edge: EdgeLimitsSection,
        /// Shared limits of guests from one address.
        guests_by_address: GuestsByAddressSection,
        /// Shares of a target's concurrency.
        concurrency: ConcurrencySection,
        /// The `retry-after` of a rejected request.
        retry_after: LimitRetryAfterSection,
        /// Reservations for input by reference, whose tokens cannot be counted from the request body.
        untracked_input: UntrackedInputSection,
    }
}

section! {
    /// Reservations for input by reference, whose tokens cannot be counted from the request body. Values: `reserve` (the
    /// tightest known upper bound), `reserve N tokens` per item, `allow` (reserve nothing, so that a budget can be
    /// exceeded), or `refuse`.
    pub(crate) struct UntrackedInputSection {
        /// Images by URL, file id or bucket location. Bound: the model's maximum tokens per image.
        image: UntrackedRuleKind = "\"reserve\"",
        /// Documents and files by URL, id or bucket location. Bound: the model's context window.
        document: UntrackedRuleKind = "\"reserve\"",
        /// Responses and conversations stored by the vendor. Bound: the model's context window.
        previous_response: UntrackedRuleKind = "\"reserve\"",
        /// Context cached by the vendor under a name. Bound: the model's context window.
        cached_context: UntrackedRuleKind = "\"reserve\"",
        /// Tools that the vendor runs, such as web search, code execution and connectors. Bound: one context window more
        /// than the uses that the request allows, or than five if it sets no limit.
        server_tool: UntrackedRuleKind = "\"reserve\"",
    }
}

section! {
    /// Limits per caller, by tier.
    pub(crate) struct TiersSection as "tier" or UnknownTier {
        /// Tier `prime`.
        prime: TierLimitsSection,
        /// Tier `standard`.
        standard: TierLimitsSection,
        /// Tier `guest`.
        guest: TierLimitsSection,
    }
}

section! {
    /// Limits of one caller of this tier. A limit that is not set does not exist.
    pub(crate) struct TierLimitsSection {
        /// Requests per minute (sliding window).
        minute: Option<RateKind>,
        /// Additional requests that a minute may contain as a burst.
        burst: SmallCountKind = "0",
        /// Requests per hour (sliding window).
        hour: Option<RateKind>,
        /// Requests per calendar day, UTC.
        day: Option<RateKind>,
    }
}

section! {
    /// Limits of all callers together.
    pub(crate) struct GlobalLimitsSection {
        /// Requests per minute (sliding window).
        minute: RateKind,
        /// Sustained requests per second.
        second: RateKind,
        /// Burst size of `second`.
        second_burst: SmallCountKind,
        /// Requests per calendar month, UTC.
        month: RateKind,
    }
}

section! {
    /// Limits at the edge, before authentication.
    pub(crate) struct EdgeLimitsSection {
        /// Requests of all kinds per second.
        account: RateKind,
        /// Admitted requests per second.
        stage: RateKind,
        /// Burst size of `stage`.
        stage_burst: SmallCountKind,
        /// New connections per second.
        connect: RateKind,
        /// Burst size of `connect`.
        connect_burst: SmallCountKind,
        /// Messages per second on long-lived connections.
        message: RateKind,
        /// Burst size of `message`.
        message_burst: SmallCountKind,
    }
}

section! {
    /// Shared limits of guests from one address, so that discarding a cookie does not reset a guest's limits.
    pub(crate) struct GuestsByAddressSection {
        /// Limits of one address, as a multiple of the limits of one guest.
        factor: SmallCountKind,
        /// Prefix length that identifies the network of an IPv6 guest. If more than eight networks of one /48 were active
        /// within an hour, the others of that /48 count as one address.
        ipv6_prefix: SmallCountKind,
    }
}

section! {
    /// Shares of `targets.NAME.concurrency`, so that no caller can occupy all slots of a target. A share is at least one
    /// slot.
    pub(crate) struct ConcurrencySection {
        /// Maximum share of one caller in the concurrent calls of a target.
        per_caller: PercentKind,
        /// Maximum share of the guests from one address.
        per_address: PercentKind,
        /// Maximum share of all guests together.
        guests: PercentKind,
        /// Share that is reserved for callers without a call in flight at the target. Targets with fewer than four slots
        /// reserve none.
        reserved: PercentKind,
    }
}

section! {
    /// The `retry-after` of a request that a limit rejects.
    pub(crate) struct LimitRetryAfterSection {
        /// Random delay added to `retry-after`, from zero to this duration, so that rejected clients do not return at the
        /// same time.
        jitter: DurationKind,
        /// Minimum `retry-after`.
        min: DurationKind,
        /// If the wait is longer than this, the response asks the SDK not to retry (`x-should-retry: false`).
        no_retry_above: DurationKind,
    }
}
