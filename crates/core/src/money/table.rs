//! Prices that depend on service tier, region, cache TTL and prompt length.
//!
//! Vendors charge more for a faster tier, for a region, for longer-lived cache entries and for long prompts, and a fee
//! for tools that they run. A [`PriceTable`] has the base price and a multiplier for each of these that is configured.
//! A value that costs more than the base price and has no multiplier has no price: such a request is refused, because
//! a budget that reserves it at the base price could be exceeded. The *response* reports how the call was actually
//! served, and that is posted.

use super::{Money, Price, Usage};
use crate::vocabulary::named_enum;
use std::fmt;

/// The base rate: multipliers are in thousandths.
const BASE: u32 = 1_000;

named_enum! {
    /// A value in a request or response that changes the price.
    pub enum Surcharge as "surcharge" {
        /// A prioritised service tier.
        Priority = "priority",
        /// A service tier served as capacity permits; never costs more.
        Flex = "flex",
        /// Batch processing within a day; never costs more.
        Batch = "batch",
        /// Prepaid capacity; never costs more.
        Scale = "scale",
        /// Prepaid capacity, at another vendor.
        Reserved = "reserved",
        /// Faster output.
        Fast = "fast",
        /// The fastest output.
        Ultrafast = "ultrafast",
        /// Latency-optimised inference of Bedrock.
        Optimized = "optimized",
        /// Inference in the United States only.
        Us = "us",
        /// Inference in Europe only.
        Eu = "eu",
    }
}

impl Surcharge {
    /// Whether it never costs more than the base price.
    #[must_use]
    pub const fn never_costs_more(self) -> bool {
        matches!(self, Self::Flex | Self::Batch | Self::Scale | Self::Reserved)
    }
}

named_enum! {
    /// A request field that affects the price.
    pub enum PriceDimension as "price dimension" {
        /// `service_tier`.
        Tier = "service_tier",
        /// `speed`.
        Speed = "speed",
        /// `inference_geo`.
        Geography = "inference_geo",
        /// `performanceConfig.latency`.
        Latency = "latency",
    }
}

/// How a call is served in each dimension: unknown, at the base price, or with a surcharge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceTier([Option<Option<Surcharge>>; PriceDimension::ALL.len()]);

impl ServiceTier {
    /// A copy with one dimension set to the base price (`None`) or to a surcharge.
    #[must_use]
    pub const fn with(mut self, dimension: PriceDimension, served: Option<Surcharge>) -> Self {
        self.0[dimension.index()] = Some(served);
        self
    }

    /// How the call is served in this dimension; the outer `None` means unknown.
    #[must_use]
    pub const fn of(&self, dimension: PriceDimension) -> Option<Option<Surcharge>> {
        self.0[dimension.index()]
    }

    /// A copy with unknown dimensions taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at].or(other.0[at])))
    }

    fn iter(self) -> impl Iterator<Item = Surcharge> {
        self.0.into_iter().flatten().flatten()
    }
}

/// What a response reports besides tokens that affects its cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageExtras {
    /// Tokens written to the prompt cache with a TTL of one hour, if the vendor reports them.
    pub cache_write_1h: Option<u64>,
    /// Billable uses of tools that the vendor runs.
    pub tool_uses: u64,
    /// How the call was served.
    pub service: ServiceTier,
}

/// What a request asks for that affects its cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedPricing {
    /// Requested service tier.
    pub service: ServiceTier,
    /// Whether it may write prompt cache entries with a TTL of one hour.
    pub long_cache: bool,
    /// A value without any known price, as `field: value`.
    pub unknown: Option<String>,
}

impl UsageExtras {
    /// Nothing reported.
    pub const NONE: Self =
        Self { cache_write_1h: None, tool_uses: 0, service: ServiceTier([None; PriceDimension::ALL.len()]) };

    /// Fills in what the vendor did not report with what was requested.
    #[must_use]
    pub fn or_requested(self, usage_cache_write: u64, service: ServiceTier, long_cache: bool) -> Self {
        let requested = long_cache.then_some(usage_cache_write);
        Self { cache_write_1h: self.cache_write_1h.or(requested), service: self.service.or(service), ..self }
    }
}

/// A multiplier on the base price of input and output, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceMultiplier {
    /// For all input, cached or not.
    pub input: u32,
    /// For output.
    pub output: u32,
}

impl PriceMultiplier {
    const ONE: Self = Self { input: BASE, output: BASE };

    fn times(self, other: Self) -> Self {
        let times = |one: u32, other: u32| {
            u32::try_from((u64::from(one) * u64::from(other)).div_ceil(BASE.into())).unwrap_or(u32::MAX)
        };
        Self { input: times(self.input, other.input), output: times(self.output, other.output) }
    }

    /// The higher of both, per component.
    fn max(self, other: Self) -> Self {
        Self { input: self.input.max(other.input), output: self.output.max(other.output) }
    }
}

/// A requested value that costs more than the base price and has no configured price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnpricedRequest(String);

impl fmt::Display for UnpricedRequest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A model's prices with all surcharges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceTable {
    base: Price,
    cache_write_1h: Option<Money>,
    tool_use: Option<Money>,
    multipliers: [Option<PriceMultiplier>; Surcharge::ALL.len()],
    long_context: Option<(u64, PriceMultiplier)>,
}

impl From<Price> for PriceTable {
    fn from(base: Price) -> Self {
        let multipliers = [None; Surcharge::ALL.len()];
        Self { base, cache_write_1h: None, tool_use: None, multipliers, long_context: None }
    }
}

impl PriceTable {
    /// A copy with a price for cache entries with a TTL of one hour.
    #[must_use]
    pub const fn with_cache_write_1h(self, per_million: Option<Money>) -> Self {
        Self { cache_write_1h: per_million, ..self }
    }

    /// A copy with a fee for each use of a tool that the vendor runs.
    #[must_use]
    pub const fn with_tool_use(self, fee: Option<Money>) -> Self {
        Self { tool_use: fee, ..self }
    }

    /// A copy with a multiplier for this surcharge.
    #[must_use]
    pub fn with_multiplier(mut self, surcharge: Surcharge, rate: PriceMultiplier) -> Self {
        self.multipliers[surcharge.index()] = Some(rate);
        self
    }

    /// A copy with a multiplier on every token of a call whose prompt is longer than `above`.
    #[must_use]
    pub const fn with_long_context(self, above: u64, rate: PriceMultiplier) -> Self {
        Self { long_context: Some((above, rate)), ..self }
    }

    /// The base price.
    #[must_use]
    pub const fn base(&self) -> &Price {
        &self.base
    }

    /// Cost of this usage, with the service tier that the response reports. A surcharge without a price is posted at
    /// the base price, except a cache TTL of one hour, which every vendor charges at no more than twice the input
    /// price.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Money {
        let extras = &usage.extras;
        let mut rate = extras
            .service
            .iter()
            .filter_map(|one| self.multipliers[one.index()])
            .fold(PriceMultiplier::ONE, PriceMultiplier::times);
        if let Some((above, long)) = self.long_context
            && usage.total_input() > above
        {
            rate = rate.times(long);
        }
        let long = extras.cache_write_1h.unwrap_or(0).min(usage.cache_write);
        let counts = Usage { cache_write: usage.cache_write - long, ..*usage };
        let (input, output) = self.base.parts(&counts);
        let long = u128::from(self.long_cache_price().as_nanos()) * u128::from(long);
        let rated = |part: u128, rate: u32| part.saturating_mul(rate.into()).div_ceil(BASE.into());
        let millionths =
            rated(input.saturating_add(long), rate.input).saturating_add(rated(output, rate.output));
        let tokens = Money::from_nanos(u64::try_from(millionths.div_ceil(1_000_000)).unwrap_or(u64::MAX));
        tokens.saturating_add(self.fees(extras.tool_uses))
    }

    /// Whether the model is declared free.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.base == Price::FREE
    }

    /// Maximum cost of a call that asks for this: every input token at the highest of its prices, and the most
    /// expensive way it may be served.
    pub fn max_cost(
        &self,
        input: u64,
        output: u64,
        tool_uses: u64,
        requested: Option<&RequestedPricing>,
    ) -> Result<Money, UnpricedRequest> {
        let is_free = self.is_free();
        let mut rate = PriceMultiplier::ONE;
        let mut long_cache = false;
        if let Some(requested) = requested.filter(|_| !is_free) {
            if let Some(unknown) = &requested.unknown {
                return Err(UnpricedRequest(format!("{unknown} has no configured price; omit it")));
            }
            for surcharge in requested.service.iter() {
                let priced = self.multipliers[surcharge.index()];
                let Some(multiplier) =
                    priced.or(surcharge.never_costs_more().then_some(PriceMultiplier::ONE))
                else {
                    return Err(UnpricedRequest(format!(
                        "{surcharge:?} has no price for this model; omit it, or ask the operator to set \
                         models.NAME.surcharges.{surcharge}",
                        surcharge = surcharge.name()
                    )));
                };
                // A vendor may still serve it at the base price.
                rate = rate.times(multiplier.max(PriceMultiplier::ONE));
            }
            if requested.long_cache && self.cache_write_1h.is_none() {
                return Err(UnpricedRequest(
                    "a cache entry with a ttl of 1h has no price for this model; omit the ttl, or ask the operator to set \
                     models.NAME.cache_write_1h"
                        .to_owned(),
                ));
            }
            long_cache = requested.long_cache;
        }
        if let Some((above, long)) = self.long_context
            && input > above
        {
            rate = rate.times(long.max(PriceMultiplier::ONE));
        }
        let max_input = self.base.max_input();
        let max_input = if long_cache { max_input.max(self.long_cache_price()) } else { max_input };
        let part = |price: Money, tokens: u64, rate: u32| {
            let nanos = u128::from(price.as_nanos()).saturating_mul(tokens.into());
            nanos.saturating_mul(rate.into()).div_ceil(BASE.into())
        };
        let (input, output) =
            (part(max_input, input, rate.input), part(self.base.output(), output, rate.output));
        let nanos = input.saturating_add(output).div_ceil(1_000_000);
        Ok(Money::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).saturating_add(self.fees(tool_uses)))
    }

    fn long_cache_price(&self) -> Money {
        let twice = self.base.input().saturating_add(self.base.input());
        self.cache_write_1h.unwrap_or_else(|| twice.max(self.base.max_input()))
    }

    fn fees(&self, uses: u64) -> Money {
        let fee = self.tool_use.unwrap_or_default().as_nanos();
        Money::from_nanos(fee.saturating_mul(uses))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        PriceDimension, PriceMultiplier, PriceTable, RequestedPricing, ServiceTier, Surcharge, UsageExtras,
    };
    use crate::money::{Money, Price, Usage};
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    const fn dollars(dollars: u64) -> Money {
        Money::from_dollars(dollars)
    }

    fn opus() -> PriceTable {
        let price = Price::per_million(dollars(5), dollars(25))
            .with_cache(Money::from_nanos(500_000_000), dollars(6));
        PriceTable::from(price)
    }

    fn service(surcharges: &[Surcharge]) -> ServiceTier {
        let each = surcharges.iter().zip(PriceDimension::ALL);
        each.fold(ServiceTier::default(), |level, (surcharge, at)| level.with(at, Some(*surcharge)))
    }

    fn requested(surcharge: Surcharge) -> RequestedPricing {
        RequestedPricing { service: service(&[surcharge]), ..RequestedPricing::default() }
    }

    fn million() -> Usage {
        Usage { input: 1_000_000, output: 1_000_000, ..Usage::default() }
    }

    #[test]
    fn what_costs_more_and_has_no_price_is_refused_and_nothing_else() {
        for surcharge in Surcharge::ALL {
            let most = opus().max_cost(1_000, 1_000, 0, Some(&requested(surcharge)));
            assert_eq!(most.is_ok(), surcharge.never_costs_more(), "{surcharge}");
            let free = PriceTable::from(Price::FREE).max_cost(1_000, 1_000, 0, Some(&requested(surcharge)));
            assert_eq!(free, Ok(Money::ZERO));
        }
        let unknown =
            RequestedPricing { unknown: Some("service_tier: gold".into()), ..RequestedPricing::default() };
        let error = opus().max_cost(1, 1, 0, Some(&unknown)).unwrap_err();
        assert_eq!(error.to_string(), "service_tier: gold has no configured price; omit it");
        let hour = RequestedPricing { long_cache: true, ..RequestedPricing::default() };
        assert!(
            opus()
                .max_cost(1, 1, 0, Some(&hour))
                .unwrap_err()
                .to_string()
                .contains("models.NAME.cache_write_1h")
        );
        let priced = opus().with_cache_write_1h(Some(dollars(10)));
        assert_eq!(priced.max_cost(1_000_000, 0, 0, Some(&hour)), Ok(dollars(10)));
        assert_eq!(priced.max_cost(1_000_000, 0, 0, None), Ok(dollars(6)));
    }

    #[test]
    fn an_answer_costs_what_it_says_it_was_served_as() {
        let table = opus()
            .with_multiplier(Surcharge::Fast, PriceMultiplier { input: 2_000, output: 2_000 })
            .with_multiplier(Surcharge::Us, PriceMultiplier { input: 1_100, output: 1_100 })
            .with_multiplier(Surcharge::Batch, PriceMultiplier { input: 500, output: 500 })
            .with_long_context(1_000_000, PriceMultiplier { input: 2_000, output: 1_500 })
            .with_tool_use(Some(Money::from_nanos(10_000_000)));
        let served = |surcharges: &[Surcharge]| {
            let extras = UsageExtras { service: service(surcharges), ..UsageExtras::default() };
            table.cost(&Usage { extras, ..million() })
        };
        assert_eq!(served(&[]), dollars(30));
        assert_eq!(served(&[Surcharge::Fast]), dollars(60));
        assert_eq!(served(&[Surcharge::Fast, Surcharge::Us]), dollars(66));
        assert_eq!(served(&[Surcharge::Batch]), dollars(15));
        assert_eq!(served(&[Surcharge::Priority]), dollars(30));
        assert_eq!(table.cost(&Usage { input: 2_000_000, ..million() }), Money::from_nanos(57_500_000_000));
        let extras = UsageExtras { tool_uses: 3, ..UsageExtras::default() };
        assert_eq!(table.cost(&Usage { extras, ..million() }).to_string(), "$30.03");
    }

    #[test]
    fn an_hour_in_the_cache_costs_its_own_price() {
        let hour = |tokens| {
            let extras = UsageExtras { cache_write_1h: Some(tokens), ..UsageExtras::default() };
            Usage { cache_write: 1_000_000, extras, ..Usage::default() }
        };
        let table = opus().with_cache_write_1h(Some(dollars(10)));
        assert_eq!(
            [0, 500_000, 1_000_000, u64::MAX].map(|tokens| table.cost(&hour(tokens))),
            [6, 8, 10, 10].map(dollars)
        );
        // Unreported cache TTLs are taken from the request.
        let untold = Usage { cache_write: 1_000_000, ..Usage::default() };
        let extras = untold.extras.or_requested(untold.cache_write, ServiceTier::default(), true);
        assert_eq!(table.cost(&Usage { extras, ..untold }), dollars(10));
        // The default for a missing price is not below what vendors charge.
        assert_eq!(opus().cost(&hour(1_000_000)), dollars(10));
    }

    proptest! {
        #[test]
        fn no_answer_costs_more_than_the_worst_of_what_was_asked(
            counts in any::<[u16; 4]>(), prices in any::<[u16; 5]>(), multipliers in any::<[(u16, u16); 3]>(),
            above in any::<u16>(), hour in any::<u16>(), uses in 0..9_u64, slack in any::<u16>(),
        ) {
            let nanos = |price: u16| Money::from_nanos(u64::from(price) * 1_000_000);
            let rate = |(input, output): (u16, u16)| PriceMultiplier { input: input.into(), output: output.into() };
            let table = PriceTable::from(
                Price::per_million(nanos(prices[0]), nanos(prices[1])).with_cache(nanos(prices[2]), nanos(prices[3])),
            )
            .with_cache_write_1h(Some(nanos(prices[4])))
            .with_multiplier(Surcharge::Fast, rate(multipliers[0]))
            .with_multiplier(Surcharge::Us, rate(multipliers[1]))
            .with_long_context(above.into(), rate(multipliers[2]))
            .with_tool_use(Some(nanos(7)));
            let [input, cache_read, cache_write, output] = counts.map(u64::from);
            let service = service(&[Surcharge::Fast, Surcharge::Us]);
            let extras = UsageExtras { cache_write_1h: Some(hour.into()), tool_uses: uses, service };
            let usage = Usage { input, cache_read, cache_write, output, extras };
            let requested = RequestedPricing { service, long_cache: true, unknown: None };
            let bound = usage.total_input() + u64::from(slack);
            let most = table.max_cost(bound, output, uses, Some(&requested)).unwrap();
            prop_assert!(table.cost(&usage) <= most, "{} > {}", table.cost(&usage), most);
            // Without surcharges, the cost equals the base price's.
            let plain = Usage { extras: UsageExtras::default(), ..usage };
            let base = PriceTable::from(*table.base());
            prop_assert_eq!(base.cost(&plain), table.base().cost(&plain));
        }
    }
}
