//! The output limit of requests that set none.
//!
//! Such a request gets the model's own maximum, as it would without the gateway: nothing is added to the request, and
//! the maximum is reserved. A limit is added only where that maximum is a large part of the remaining budget, so that
//! one request does not hold the money of all others. The response then reports the limit in `x-seawall-max-tokens`.

use crate::shortage::largest;
use seawall_core::money::Money;
use seawall_provider::TargetDialect;

/// A request without a limit may reserve at most one part in this many of the remaining budget.
const SHARE: u64 = 10;

/// An added limit is not smaller than this, as long as it fits: most answers are shorter.
const MIN_LIMIT: u64 = 4_096;

/// The output that one call may produce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputAllowance {
    /// Maximum number of tokens over all choices.
    pub(crate) tokens: u64,
    /// The limit sent to the vendor for each choice, if any.
    pub(crate) sent: Option<u32>,
    /// Whether that limit was added by the gateway and not set by the caller.
    pub(crate) is_ours: bool,
}

/// What remains for a request that sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputRoom {
    /// The remainder of the tightest budget.
    pub(crate) money: Money,
    /// The route's token limit per period, if it has one.
    pub(crate) tokens: Option<u64>,
}

impl OutputAllowance {
    /// The caller's own limit, which applies to each of `choices` answers.
    pub(crate) fn named(limit: u32, choices: u32) -> Self {
        let tokens = u64::from(limit).saturating_mul(choices.into());
        Self { tokens, sent: Some(limit), is_ours: false }
    }

    /// For a request whose own limit cannot be parsed here: it is forwarded unchanged and may produce this many tokens.
    pub(crate) const fn unread(tokens: u64) -> Self {
        Self { tokens, sent: None, is_ours: false }
    }

    /// For a request without a limit. `max_output` is the model's maximum, `worst` maps output tokens to the maximum
    /// cost of the call, and `input` is the maximum number of input tokens.
    pub(crate) fn unnamed(
        max_output: Option<u64>,
        choices: u32,
        dialect: TargetDialect,
        room: &OutputRoom,
        input: u64,
        worst: impl Fn(u64) -> Money,
    ) -> Self {
        let all = |limit: u64| limit.saturating_mul(choices.into());
        let fits = |limit: u64, money: Money, tokens: Option<u64>| {
            worst(all(limit)) <= money
                && tokens.is_none_or(|tokens| input.saturating_add(all(limit)) <= tokens)
        };
        let is_modest = |limit: &u64| {
            fits(
                *limit,
                Money::from_nanos(room.money.as_nanos() / SHARE),
                room.tokens.map(|tokens| tokens / SHARE),
            )
        };
        let needs_limit = matches!(dialect, TargetDialect::AnthropicMessages | TargetDialect::BedrockInvoke);
        if let Some(limit) = max_output.filter(is_modest) {
            // Two dialects require a limit in every request.
            let sent = needs_limit.then(|| in_field(limit));
            return Self { tokens: all(limit), sent, is_ours: false };
        }
        // A vendor rejects a limit above the model's own, so a model with an unknown maximum gets a small one.
        let modest = max_output.and_then(|most| largest(most, |limit| is_modest(&limit)));
        let wanted = modest.unwrap_or(0).max(MIN_LIMIT).min(max_output.unwrap_or(MIN_LIMIT));
        // If not even one token fits, the rejection says how much would.
        let limit = largest(wanted, |limit| fits(limit, room.money, room.tokens)).unwrap_or(wanted);
        Self { tokens: all(limit), sent: Some(in_field(limit)), is_ours: true }
    }

    /// The limit that the gateway added, which the response reports in a header.
    pub(crate) fn added(&self) -> Option<u32> {
        self.sent.filter(|_| self.is_ours)
    }
}

fn in_field(limit: u64) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::{OutputAllowance, OutputRoom};
    use proptest::prelude::{prop_assert, proptest};
    use seawall_core::money::Money;
    use seawall_provider::TargetDialect::{AnthropicMessages, OpenAiChat};

    /// 100 for the input, 10 per output token.
    fn worst(output: u64) -> Money {
        Money::from_nanos(100 + 10 * output)
    }

    fn room(money: u64) -> OutputRoom {
        OutputRoom { money: Money::from_nanos(money), tokens: None }
    }

    fn unnamed(max_output: Option<u64>, room: OutputRoom) -> OutputAllowance {
        OutputAllowance::unnamed(max_output, 1, OpenAiChat, &room, 50, worst)
    }

    #[test]
    fn nothing_is_sent_while_the_model_s_maximum_is_a_tenth_of_what_is_left() {
        let maximum = 64_000;
        let enough = 10 * worst(maximum).as_nanos();
        let allowed = unnamed(Some(maximum), room(enough));
        assert_eq!((allowed.tokens, allowed.sent, allowed.added()), (maximum, None, None));
        let allowed = unnamed(Some(maximum), room(enough - 10));
        assert_eq!((allowed.tokens, allowed.added()), (maximum - 1, Some(63_999)));
    }

    #[test]
    fn a_limit_that_is_sent_is_at_least_the_usual_one_and_never_more_than_fits() {
        for (money, limit) in [
            (10 * worst(5_000).as_nanos(), 5_000),
            (10 * worst(500).as_nanos(), 4_096),
            (worst(4_096).as_nanos(), 4_096),
            (worst(700).as_nanos(), 700),
            // Nothing fits; the rejection says so.
            (109, 4_096),
        ] {
            assert_eq!(unnamed(Some(64_000), room(money)).added(), Some(limit), "{money}");
        }
        assert_eq!(unnamed(Some(1_000), room(worst(1_000).as_nanos())).added(), Some(1_000));
        // A model with an unknown maximum gets no large limit.
        assert_eq!(unnamed(None, room(u64::MAX)).added(), Some(4_096));
    }

    #[test]
    fn a_dialect_that_needs_a_limit_gets_the_model_s_own() {
        let allowed = OutputAllowance::unnamed(Some(8_192), 1, AnthropicMessages, &room(u64::MAX), 50, worst);
        assert_eq!((allowed.tokens, allowed.sent, allowed.added()), (8_192, Some(8_192), None));
    }

    #[test]
    fn a_route_that_counts_tokens_is_a_budget_of_tokens() {
        let tokens = |tokens| OutputRoom { tokens: Some(tokens), ..room(u64::MAX) };
        assert_eq!(unnamed(Some(8_192), tokens(100_000)).sent, None);
        assert_eq!(unnamed(Some(64_000), tokens(100_000)).added(), Some(9_950));
        assert_eq!(unnamed(Some(64_000), tokens(1_050)).added(), Some(1_000));
    }

    proptest! {
        #[test]
        fn what_is_allowed_fits_wherever_anything_does(
            max_output in proptest::option::of(1_u64..200_000), money in 0_u64..3_000_000, choices in 1_u32..5,
        ) {
            let allowed = OutputAllowance::unnamed(max_output, choices, OpenAiChat, &room(money), 50, worst);
            let one_fits = worst(choices.into()).as_nanos() <= money;
            prop_assert!(!one_fits || worst(allowed.tokens).as_nanos() <= money);
            prop_assert!(allowed.tokens <= max_output.unwrap_or(4_096) * u64::from(choices));
        }
    }
}
