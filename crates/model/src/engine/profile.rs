//! The simulated models.

use seawall_core::money::{Money, Price, PriceMultiplier, PriceTable, ServiceTier, Surcharge};
use seawall_wire::chat::Usage;
use std::time::Duration;

/// Speed and prices of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// The model's name.
    pub name: &'static str,
    /// Vendors' names that are accepted for it.
    pub aliases: &'static [&'static str],
    /// Time from the request to the first content. The first event of a stream comes after half of it.
    pub first_token: Duration,
    /// Time between two tokens.
    pub per_token: Duration,
    /// Nano-dollars per input token.
    pub input_price: u64,
    /// Nano-dollars per output token.
    pub output_price: u64,
}

/// The prices of service options, in percent of the base price.
const SURCHARGES: [(Surcharge, u32); 6] = [
    (Surcharge::Priority, 200),
    (Surcharge::Fast, 200),
    (Surcharge::Optimized, 200),
    (Surcharge::Us, 110),
    (Surcharge::Flex, 50),
    (Surcharge::Batch, 50),
];

/// Nano-dollars per use of a server tool: ten dollars per thousand.
const TOOL_USE_PRICE: u64 = 10_000_000;

/// The model that embeds.
const EMBEDDING: &str = "embedding";

const PROFILES: [Profile; 4] = [
    Profile {
        name: "sonnet",
        aliases: &[
            "claude-3-sonnet-20240229",
            "anthropic.claude-3-sonnet-20240229-v1:0",
            "gpt-4o",
            "gemini-2.5-pro",
        ],
        first_token: Duration::from_millis(600),
        per_token: Duration::from_nanos(1_000_000_000 / 60),
        input_price: 3_000,
        output_price: 15_000,
    },
    Profile {
        name: "haiku",
        aliases: &[
            "claude-3-haiku-20240307",
            "anthropic.claude-3-haiku-20240307-v1:0",
            "gpt-4o-mini",
            "gemini-2.5-flash",
            "amazon.titan-text-express-v1",
            "meta.llama3-8b-instruct-v1:0",
        ],
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
    Profile {
        name: EMBEDDING,
        aliases: &[
            "text-embedding-3-small",
            "amazon.titan-embed-text-v2:0",
            "cohere.embed-multilingual-v3",
            "cohere.embed-v4:0",
        ],
        first_token: Duration::from_millis(60),
        per_token: Duration::ZERO,
        input_price: 20,
        output_price: 0,
    },
];

impl Profile {
    /// Looks up a model by its own name or a vendor's name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let is_listed = |profile: &&Self| profile.name == name || profile.aliases.contains(&name);
        PROFILES.iter().find(is_listed).or_else(|| Self::of_family(name))
    }

    /// The model that stands for any other one of a vendor's family, by its size: clients name the vendors' newest models,
    /// of which no list stays complete.
    fn of_family(name: &str) -> Option<&'static Self> {
        // The geography and the vendor of Bedrock's names.
        let id = name.rsplit("anthropic.").next().unwrap_or(name);
        let is_known = ["claude-", "gpt-", "gemini-"].iter().any(|family| id.starts_with(family));
        let is_small = ["haiku", "mini", "nano", "flash", "luna"].iter().any(|size| id.contains(size));
        let size = if is_small { "haiku" } else { "sonnet" };
        PROFILES.iter().find(|profile| is_known && profile.name == size)
    }

    /// Whether the model embeds texts instead of generating answers.
    #[must_use]
    pub fn embeds(&self) -> bool {
        self.name == EMBEDDING
    }

    /// All models.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &PROFILES
    }

    /// The cost of this usage in nano-dollars, including surcharges for the service options.
    #[must_use]
    pub fn price_of(&self, usage: Usage) -> u64 {
        if usage.extras.service != ServiceTier::default() {
            let rated = |table: PriceTable, (surcharge, percent): (Surcharge, u32)| {
                table
                    .with_multiplier(surcharge, PriceMultiplier { input: percent * 10, output: percent * 10 })
            };
            return SURCHARGES.into_iter().fold(self.base_prices(), rated).cost(&usage).as_nanos();
        }
        let input = usage.total_input().saturating_mul(self.input_price);
        let fees = usage.extras.tool_uses.saturating_mul(TOOL_USE_PRICE);
        input.saturating_add(usage.output.saturating_mul(self.output_price)).saturating_add(fees)
    }

    fn base_prices(&self) -> PriceTable {
        let per_million = |nanos: u64| Money::from_nanos(nanos.saturating_mul(1_000_000));
        let price = Price::per_million(per_million(self.input_price), per_million(self.output_price));
        PriceTable::from(price).with_tool_use(Some(Money::from_nanos(TOOL_USE_PRICE)))
    }

    /// The time at which the token of this index, from 0, is available.
    pub(super) fn token_at(&self, number: u64) -> Duration {
        self.first_token
            .saturating_add(self.per_token.saturating_mul(u32::try_from(number).unwrap_or(u32::MAX)))
    }
}
