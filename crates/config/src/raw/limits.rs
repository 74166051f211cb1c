//! How often who may ask.

use crate::kind::{Percent, Rate, Small, Span, UntrackedText};
use crate::section::section;

section! {
    /// How often who may ask.
    pub(crate) struct Limits {
        /// What one caller may do, by tier.
        tiers: Tiers,
        /// What all callers together may do.
        everybody: Everybody,
        /// What the door takes, before anybody is known.
        edge: Edge,
        /// What guests from one address share.
        guests_by_address: GuestsByAddress,
        /// How many of a target's concurrent calls whose may be.
        concurrency: Concurrency,
        /// What a refused caller is told.
        hint: Hint,
        /// What is reserved for input that a request only names, so that its bytes do not bound its tokens.
        untracked_input: UntrackedInput,
    }
}

section! {
    /// What is reserved for input that a request only names: `reserve` (the tightest bound that is known), `reserve N tokens`
    /// for each, `allow` (nothing is reserved, and a budget can be passed), or `refuse`.
    pub(crate) struct UntrackedInput {
        /// Pictures by URL, file id or place in a bucket. Bound: the most tokens of a picture at the model.
        image: UntrackedText = "\"reserve\"",
        /// Documents and files by URL, id or place in a bucket. Bound: the model's window.
        document: UntrackedText = "\"reserve\"",
        /// Answers and conversations that the vendor keeps. Bound: the model's window.
        previous_response: UntrackedText = "\"reserve\"",
        /// Context that the vendor keeps by name. Bound: the model's window.
        cached_context: UntrackedText = "\"reserve\"",
        /// Tools that the vendor runs: web search, code execution, connectors. Bound: the model's window once more than the
        /// uses that the request allows, or than five.
        server_tool: UntrackedText = "\"reserve\"",
    }
}

section! {
    /// What one caller may do, by tier.
    pub(crate) struct Tiers as "tier" or UnknownTier {
        /// Prime callers.
        prime: TierLimits,
        /// Callers we know.
        standard: TierLimits,
        /// Guests.
        guest: TierLimits,
    }
}

section! {
    /// The limits of one caller.
    pub(crate) struct TierLimits {
        /// Requests in any minute.
        minute: Rate,
        /// How many more there may be in a minute now and then.
        burst: Small,
        /// Requests in any hour.
        hour: Rate,
        /// Requests on a day, UTC.
        day: Rate,
    }
}

section! {
    /// The limits of all callers together.
    pub(crate) struct Everybody {
        /// Requests in any minute.
        minute: Rate,
        /// Requests a second, evenly.
        second: Rate,
        /// How many may come at once.
        second_burst: Small,
        /// Requests in a month, UTC.
        month: Rate,
    }
}

section! {
    /// What the door takes, before anybody is known.
    pub(crate) struct Edge {
        /// Requests a second of all kinds.
        account: Rate,
        /// Requests a second that are let in.
        stage: Rate,
        /// How many of them may come at once.
        stage_burst: Small,
        /// New connections a second.
        connect: Rate,
        /// How many of them may come at once.
        connect_burst: Small,
        /// Messages a second on connections that stay.
        message: Rate,
        /// How many of them may come at once.
        message_burst: Small,
    }
}

section! {
    /// What guests from one address share, so that dropping a cookie wins nothing.
    pub(crate) struct GuestsByAddress {
        /// How many guests' worth of requests one address has.
        factor: Small,
        /// How many bits of an IPv6 address stand for one guest's network. Beyond eight networks of one /48 that were active within an hour, the others of that /48 count as one address.
        ipv6_prefix: Small,
    }
}

section! {
    /// Shares of `targets.NAME.concurrency`, so that no caller takes all calls that a target has room for. A share is at
    /// least one call.
    pub(crate) struct Concurrency {
        /// What one caller may have in flight at a target.
        per_caller: Percent,
        /// What the guests of one address may have in flight at a target.
        per_address: Percent,
        /// What all guests together may have in flight at a target.
        guests: Percent,
        /// What is left for callers that have nothing in flight there. Targets with fewer than four calls reserve none.
        reserved: Percent,
    }
}

section! {
    /// What a refused caller is told about coming back.
    pub(crate) struct Hint {
        /// Waits are spread over this, so that those refused together do not come back together.
        spread: Span,
        /// The shortest wait that is told.
        least: Span,
        /// A client that would wait longer is told not to try again by itself.
        no_retry_above: Span,
    }
}
