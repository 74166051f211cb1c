//! Price list: the price and the retirement date of each model.
//!
//! A model is found by its exact id only; substrings and aliases do not match. A model without a price is refused,
//! never treated as free: a price of zero must be declared.

use super::{Money, Price, PriceMultiplier, PriceTable, Surcharge, Usage};
use crate::setting::SettingError;
use crate::time::UtcTime;
use std::collections::BTreeMap;

/// No vendor charges more per million tokens; a higher price is a misplaced decimal point.
const MAX_PRICE: Money = Money::from_dollars(10_000);

/// A model's settings before validation: prices per million tokens, surcharges and retirement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelPriceOptions {
    /// The vendor's full model id.
    pub model: String,
    /// Price of input.
    pub input: Money,
    /// Price of output.
    pub output: Money,
    /// Price of prompt cache reads; the input price by default.
    pub cache_read: Option<Money>,
    /// Price of prompt cache writes; the input price by default.
    pub cache_write: Option<Money>,
    /// Price of prompt cache writes with a TTL of one hour. Without it, requests that ask for this TTL are refused.
    pub cache_write_1h: Option<Money>,
    /// Fee for one use of a tool that the vendor runs; zero by default.
    pub tool_use: Option<Money>,
    /// Multipliers on all prices, by service tier.
    pub multipliers: Vec<(Surcharge, PriceMultiplier)>,
    /// Multiplier on all prices of a call whose prompt is longer than this many tokens.
    pub long_context: Option<(u64, PriceMultiplier)>,
    /// Declares that the model costs nothing.
    pub free: bool,
    /// Declares that the model generates no output, such as an embedding model. Its output needs no price.
    pub without_output: bool,
    /// First moment at which the vendor no longer serves the model.
    pub retires: Option<UtcTime>,
}

impl ModelPriceOptions {
    /// A model with prices for input and output and defaults for the rest.
    #[must_use]
    pub fn new(model: &str, input: Money, output: Money) -> Self {
        let model = model.to_owned();
        Self {
            model,
            input,
            output,
            cache_read: None,
            cache_write: None,
            cache_write_1h: None,
            tool_use: None,
            multipliers: Vec::new(),
            long_context: None,
            free: false,
            without_output: false,
            retires: None,
        }
    }

    fn check(&self) -> Result<ListedModel, SettingError> {
        let refuse = |problem: String| Err(SettingError::new("price", format!("{}: {problem}", self.model)));
        if self.model.is_empty() || self.model.trim() != self.model {
            return Err(SettingError::new("price", format!("{:?} is not a model id", self.model)));
        }
        let (read, write) = (self.cache_read.unwrap_or(self.input), self.cache_write.unwrap_or(self.input));
        let all = [
            ("input", self.input),
            ("output", self.output),
            ("cache_read", read),
            ("cache_write", write),
            ("cache_write_1h", self.cache_write_1h.unwrap_or(write)),
        ];
        for (name, amount) in all {
            if amount > MAX_PRICE {
                return refuse(format!("{name} is {amount} per million tokens; the maximum is {MAX_PRICE}"));
            }
            if self.free && amount > Money::ZERO {
                return refuse(format!("declared free, but {name} is {amount}"));
            }
            let costs_nothing = self.free || self.without_output && name == "output";
            if !costs_nothing && amount == Money::ZERO {
                return refuse(format!("{name} is {amount}; set free = true if the model costs nothing"));
            }
        }
        let price = Price::per_million(self.input, self.output).with_cache(read, write);
        let mut price =
            PriceTable::from(price).with_cache_write_1h(self.cache_write_1h).with_tool_use(self.tool_use);
        for (surcharge, rate) in &self.multipliers {
            price = price.with_multiplier(*surcharge, *rate);
        }
        if let Some((above, rate)) = self.long_context {
            price = price.with_long_context(above, rate);
        }
        Ok(ListedModel { price, retires: self.retires })
    }
}

/// Price and retirement of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedModel {
    price: PriceTable,
    retires: Option<UtcTime>,
}

impl ListedModel {
    /// The prices of the model.
    #[must_use]
    pub const fn price(&self) -> &PriceTable {
        &self.price
    }

    /// When the vendor stops serving the model, if known.
    #[must_use]
    pub const fn retires(&self) -> Option<UtcTime> {
        self.retires
    }
}

/// Why a model has no price.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceError {
    /// The model is not on the list.
    #[error("the model {0:?} has no price; models without a price are not called")]
    Unknown(String),
    /// The vendor no longer serves the model.
    #[error("the model {model:?} was retired on {year:04}-{month:02}-{day:02}")]
    Retired {
        /// The model id.
        model: String,
        /// Year of retirement.
        year: i64,
        /// Month of retirement.
        month: u32,
        /// Day of retirement.
        day: u32,
    },
}

/// Prices of all configured models.
///
/// ```
/// use seawall_core::money::{ModelPriceOptions, Money, PriceList};
/// use seawall_core::time::UtcTime;
///
/// let sonnet = ModelPriceOptions::new("claude-3-sonnet", Money::from_dollars(3), Money::from_dollars(15));
/// let prices = PriceList::new(&[sonnet]).unwrap();
/// let today = UtcTime::from_civil(2026, 11, 15);
/// assert!(prices.find("claude-3-sonnet", today).is_ok());
/// let error = prices.find("sonnet", today).unwrap_err();
/// assert_eq!(error.to_string(), "the model \"sonnet\" has no price; models without a price are not called");
/// ```
#[derive(Clone, Debug, Default)]
pub struct PriceList(BTreeMap<Box<str>, ListedModel>);

impl PriceList {
    /// Builds the list. Fails on invalid prices and on a model that is listed twice.
    pub fn new(models: &[ModelPriceOptions]) -> Result<Self, SettingError> {
        let mut list = BTreeMap::new();
        for model in models {
            if list.insert(model.model.as_str().into(), model.check()?).is_some() {
                return Err(SettingError::new("price", format!("{} has two prices", model.model)));
            }
        }
        Ok(Self(list))
    }

    /// The model with exactly this id, if it is listed and still served.
    pub fn find(&self, model: &str, now: UtcTime) -> Result<&ListedModel, PriceError> {
        let listed = self.0.get(model).ok_or_else(|| PriceError::Unknown(model.to_owned()))?;
        match listed.retires {
            Some(retires) if retires <= now => {
                let (year, month, day) = retires.civil();
                Err(PriceError::Retired { model: model.to_owned(), year, month, day })
            }
            _ => Ok(listed),
        }
    }

    /// Cost of `usage` at a model, retired or not: a call that was made must be posted.
    pub fn cost(&self, model: &str, usage: &Usage) -> Result<Money, PriceError> {
        let listed = self.0.get(model).ok_or_else(|| PriceError::Unknown(model.to_owned()))?;
        Ok(listed.price.cost(usage))
    }

    /// Models that have retired or will within `days` of `now`, in order of retirement.
    #[must_use]
    pub fn retiring(&self, now: UtcTime, days: u64) -> Vec<(&str, UtcTime)> {
        let last_day = now.day().saturating_add(days);
        let dated = self.0.iter().filter_map(|(model, listed)| listed.retires.map(|at| (&**model, at)));
        let mut found: Vec<_> = dated.filter(|(_, at)| at.day() <= last_day).collect();
        found.sort_by_key(|(_, at)| *at);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::{ModelPriceOptions, Money, PriceError, PriceList, Usage};
    use crate::time::UtcTime;
    use std::time::Duration;

    fn sonnet() -> ModelPriceOptions {
        ModelPriceOptions::new("sonnet-1", Money::from_dollars(3), Money::from_dollars(15))
    }

    fn problem(model: ModelPriceOptions) -> String {
        PriceList::new(&[model]).unwrap_err().to_string()
    }

    #[test]
    fn invalid_prices_are_rejected_by_name() {
        let cent = Money::from_nanos(10_000_000);
        let dear = Money::from_dollars(10_000).saturating_add(Money::from_nanos(1));
        assert_eq!(
            problem(ModelPriceOptions { output: dear, ..sonnet() }),
            "price: sonnet-1: output is $10000.000000001 per million tokens; the maximum is $10000.00"
        );
        assert_eq!(
            problem(ModelPriceOptions { cache_write: Some(Money::ZERO), ..sonnet() }),
            "price: sonnet-1: cache_write is $0.00; set free = true if the model costs nothing"
        );
        let free =
            ModelPriceOptions { free: true, ..ModelPriceOptions::new("own", Money::ZERO, Money::ZERO) };
        assert_eq!(
            problem(ModelPriceOptions { cache_read: Some(cent), ..free.clone() }),
            "price: own: declared free, but cache_read is $0.01"
        );
        for name in ["", " sonnet", "sonnet "] {
            assert!(
                problem(ModelPriceOptions { model: name.into(), ..sonnet() }).ends_with("is not a model id")
            );
        }
        assert!(
            PriceList::new(&[free, ModelPriceOptions { output: Money::from_dollars(10_000), ..sonnet() }])
                .is_ok()
        );
        assert_eq!(
            PriceList::new(&[sonnet(), sonnet()]).unwrap_err().to_string(),
            "price: sonnet-1 has two prices"
        );
    }

    #[test]
    fn only_the_exact_id_finds_a_model() {
        let prices = PriceList::new(&[sonnet()]).unwrap();
        let today = UtcTime::from_civil(2026, 11, 15);
        for wrong in ["sonnet", "sonnet-10", "SONNET-1", "sonnet-1 ", ""] {
            assert_eq!(prices.find(wrong, today).unwrap_err(), PriceError::Unknown(wrong.into()));
            assert!(prices.cost(wrong, &Usage::default()).is_err());
        }
        let usage = Usage { input: 1_200, output: 250, ..Usage::default() };
        assert_eq!(prices.find("sonnet-1", today).unwrap().price().cost(&usage).to_string(), "$0.00735");
        assert_eq!(prices.find("sonnet-1", today).unwrap().retires(), None);
    }

    #[test]
    fn a_model_is_served_until_the_moment_it_retires_and_booked_after_it() {
        let end = UtcTime::from_civil(2025, 7, 21);
        let later = ModelPriceOptions { retires: Some(end + Duration::from_secs(86_400)), ..sonnet() };
        let first = ModelPriceOptions { model: "z".into(), retires: Some(end), ..sonnet() };
        let prices = PriceList::new(&[later, first]).unwrap();
        let before = UtcTime::from_nanos(end.as_nanos() - 1);
        assert_eq!(prices.find("z", before).unwrap().retires(), Some(end));
        let error = prices.find("z", end).unwrap_err();
        assert_eq!(error.to_string(), "the model \"z\" was retired on 2025-07-21");
        assert_eq!(prices.cost("z", &Usage { output: 1, ..Usage::default() }), Ok(Money::from_nanos(15_000)));
        let names =
            |days| prices.retiring(before, days).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!((names(0), names(1), names(2)), (vec![], vec!["z"], vec!["z", "sonnet-1"]));
    }
}
