//! The output limit of requests that set none.
//!
//! Such a request gets the model's own maximum, as it would without the gateway, and the maximum is reserved. Nothing is
//! added to the request, except where the dialect requires a limit (Anthropic Messages and InvokeModel): there the
//! model's maximum is written into the body. A lower limit is added only where that maximum is a large part of the
//! remaining budget, so that one request does not hold the money of all others. The response then reports the limit in
//! `x-seawall-max-tokens`.

use crate::shortage::largest_where;
use seawall_core::money::Money;
use seawall_wire::dialect::DialectId;

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
    pub(crate) sent_limit: Option<u32>,
    /// Whether the response reports that limit, because the gateway added it and it is lower than the model's maximum.
    pub(crate) is_reported: bool,
}

/// What remains for a request that sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputBudget {
    /// The remainder of the tightest budget.
    pub(crate) money: Money,
    /// The route's token limit per period, if it has one.
    pub(crate) tokens: Option<u64>,
}

impl OutputAllowance {
    /// The caller's own limit, which applies to each of `choices` answers.
    pub(crate) fn of_request(limit: u32, choices: u32) -> Self {
        let tokens = u64::from(limit).saturating_mul(choices.into());
        Self { tokens, sent_limit: Some(limit), is_reported: false }
    }

    /// For a request whose own limit cannot be parsed here: it is forwarded unchanged and may produce this many tokens.
    pub(crate) const fn opaque(tokens: u64) -> Self {
        Self { tokens, sent_limit: None, is_reported: false }
    }

    /// For a request without a limit. `max_output` is the model's maximum, `max_cost` maps output tokens to the maximum
    /// cost of the call, and `input` is the maximum number of input tokens.
    pub(crate) fn without_limit(
        max_output: Option<u64>,
        choices: u32,
        dialect: DialectId,
        budget: &OutputBudget,
        input: u64,
        max_cost: impl Fn(u64) -> Money,
    ) -> Self {
        let all = |limit: u64| limit.saturating_mul(choices.into());
        let fits = |limit: u64, money: Money, tokens: Option<u64>| {
            max_cost(all(limit)) <= money
                && tokens.is_none_or(|tokens| input.saturating_add(all(limit)) <= tokens)
        };
        let is_modest = |limit: &u64| {
            fits(
                *limit,
                Money::from_nanos(budget.money.as_nanos() / SHARE),
                budget.tokens.map(|tokens| tokens / SHARE),
            )
        };
        let needs_limit = dialect.requires_output_limit();
        if let Some(limit) = max_output.filter(is_modest) {
            // Two dialects require a limit in every request.
            let sent_limit = needs_limit.then(|| to_field(limit));
            return Self { tokens: all(limit), sent_limit, is_reported: false };
        }
        // A vendor rejects a limit above the model's own, so a model with an unknown maximum gets a small one.
        let modest = max_output.and_then(|max| largest_where(max, |limit| is_modest(&limit)));
        let preferred = modest.unwrap_or(0).max(MIN_LIMIT).min(max_output.unwrap_or(MIN_LIMIT));
        // If not even one token fits, the rejection says how much would.
        let limit =
            largest_where(preferred, |limit| fits(limit, budget.money, budget.tokens)).unwrap_or(preferred);
        Self { tokens: all(limit), sent_limit: Some(to_field(limit)), is_reported: true }
    }

    /// The limit that the gateway added, which the response reports in a header.
    pub(crate) fn added_limit(&self) -> Option<u32> {
        self.sent_limit.filter(|_| self.is_reported)
    }
}

fn to_field(limit: u64) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::{OutputAllowance, OutputBudget};
    use proptest::prelude::{prop_assert, proptest};
    use seawall_core::money::Money;
    use seawall_wire::dialect::DialectId;

    const ANTHROPIC_MESSAGES: DialectId = DialectId::ANTHROPIC_MESSAGES;
    const OPENAI_CHAT: DialectId = DialectId::OPENAI_CHAT;

    /// 100 for the input, 10 per output token.
    fn max_cost(output: u64) -> Money {
        Money::from_nanos(100 + 10 * output)
    }

    fn budget(money: u64) -> OutputBudget {
        OutputBudget { money: Money::from_nanos(money), tokens: None }
    }

    fn without_limit(max_output: Option<u64>, budget: OutputBudget) -> OutputAllowance {
        OutputAllowance::without_limit(max_output, 1, OPENAI_CHAT, &budget, 50, max_cost)
    }

    #[test]
    fn nothing_is_sent_while_the_model_s_maximum_is_a_tenth_of_what_is_left() {
        let maximum = 64_000;
        let enough = 10 * max_cost(maximum).as_nanos();
        let allowed = without_limit(Some(maximum), budget(enough));
        assert_eq!((allowed.tokens, allowed.sent_limit, allowed.added_limit()), (maximum, None, None));
        let allowed = without_limit(Some(maximum), budget(enough - 10));
        assert_eq!((allowed.tokens, allowed.added_limit()), (maximum - 1, Some(63_999)));
    }

    #[test]
    fn a_limit_that_is_sent_is_at_least_the_usual_one_and_never_more_than_fits() {
        for (money, limit) in [
            (10 * max_cost(5_000).as_nanos(), 5_000),
            (10 * max_cost(500).as_nanos(), 4_096),
            (max_cost(4_096).as_nanos(), 4_096),
            (max_cost(700).as_nanos(), 700),
            // Nothing fits; the rejection says so.
            (109, 4_096),
        ] {
            assert_eq!(without_limit(Some(64_000), budget(money)).added_limit(), Some(limit), "{money}");
        }
        assert_eq!(without_limit(Some(1_000), budget(max_cost(1_000).as_nanos())).added_limit(), Some(1_000));
        // A model with an unknown maximum gets no large limit.
        assert_eq!(without_limit(None, budget(u64::MAX)).added_limit(), Some(4_096));
    }

    #[test]
    fn a_dialect_that_needs_a_limit_gets_the_model_s_own() {
        let allowed = OutputAllowance::without_limit(
            Some(8_192),
            1,
            ANTHROPIC_MESSAGES,
            &budget(u64::MAX),
            50,
            max_cost,
        );
        assert_eq!((allowed.tokens, allowed.sent_limit, allowed.added_limit()), (8_192, Some(8_192), None));
    }

    #[test]
    fn a_route_that_counts_tokens_is_a_budget_of_tokens() {
        let tokens = |tokens| OutputBudget { tokens: Some(tokens), ..budget(u64::MAX) };
        assert_eq!(without_limit(Some(8_192), tokens(100_000)).sent_limit, None);
        assert_eq!(without_limit(Some(64_000), tokens(100_000)).added_limit(), Some(9_950));
        assert_eq!(without_limit(Some(64_000), tokens(1_050)).added_limit(), Some(1_000));
    }

    proptest! {
        #[test]
        fn what_is_allowed_fits_wherever_anything_does(
            max_output in proptest::option::of(1_u64..200_000), money in 0_u64..3_000_000, choices in 1_u32..5,
        ) {
            let allowed = OutputAllowance::without_limit(max_output, choices, OPENAI_CHAT, &budget(money), 50, max_cost);
            let one_fits = max_cost(choices.into()).as_nanos() <= money;
            prop_assert!(!one_fits || max_cost(allowed.tokens).as_nanos() <= money);
            prop_assert!(allowed.tokens <= max_output.unwrap_or(4_096) * u64::from(choices));
        }
    }
}
