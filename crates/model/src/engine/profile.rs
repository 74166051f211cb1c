//! The models there are.

use seawall_wire::chat::Usage;
use std::time::Duration;

/// How fast a model is and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// What vendors call it.
    pub aliases: &'static [&'static str],
    /// From the request to the first content. The stream's first event comes after half of it.
    pub first_token: Duration,
    /// Between two tokens.
    pub per_token: Duration,
    /// Nano-dollars for a token of input.
    pub input_price: u64,
    /// Nano-dollars for a token of output.
    pub output_price: u64,
}

/// Nano-dollars for a use of a server tool: ten dollars for a thousand.
const TOOL_USE_PRICE: u64 = 10_000_000;

const PROFILES: [Profile; 3] = [
    Profile {
        name: "sonnet",
        aliases: &["claude-3-sonnet-20240229", "anthropic.claude-3-sonnet-20240229-v1:0", "gpt-4o"],
        first_token: Duration::from_millis(600),
        per_token: Duration::from_nanos(1_000_000_000 / 60),
        input_price: 3_000,
        output_price: 15_000,
    },
    Profile {
        name: "haiku",
        aliases: &["claude-3-haiku-20240307", "anthropic.claude-3-haiku-20240307-v1:0", "gpt-4o-mini"],
        first_token: Duration::from_millis(250),
        per_token: Duration::from_nanos(1_000_000_000 / 120),
        input_price: 250,
        output_price: 1_250,
    },
    Profile {
        name: "instant",
        aliases: &[],
        first_token: Duration::ZERO,
        per_token: Duration::ZERO,
        input_price: 250,
        output_price: 1_250,
    },
];

impl Profile {
    /// The model of this name, ours or a vendor's.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name || profile.aliases.contains(&name))
    }

    /// Every model.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &PROFILES
    }

    /// What this usage costs, in nano-dollars.
    #[must_use]
    pub const fn price_of(&self, usage: Usage) -> u64 {
        let input = usage.total_input().saturating_mul(self.input_price);
        let fees = usage.extras.tool_uses.saturating_mul(TOOL_USE_PRICE);
        input.saturating_add(usage.output.saturating_mul(self.output_price)).saturating_add(fees)
    }

    /// When the token of this number, from 0, is there.
    pub(super) fn token_at(&self, number: u64) -> Duration {
        self.first_token
            .saturating_add(self.per_token.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)))
    }
}
