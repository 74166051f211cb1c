//! Reads a price file in the JSON form that the community maintains (`model_prices_and_context_window.json` of LiteLLM).
//!
//! The file is one object; each key is a model and each value its prices **per token** in dollars:
//!
//! ```json
//! {
//!   "groq/openai/gpt-oss-20b": {
//!     "litellm_provider": "groq",
//!     "input_cost_per_token": 7.5e-08,
//!     "output_cost_per_token": 3e-07,
//!     "cache_read_input_token_cost": 3.75e-08,
//!     "max_input_tokens": 131072,
//!     "max_output_tokens": 65536
//!   }
//! }
//! ```
//!
//! Rows of providers that Seawall has no preset for, and rows without a price per token (images, audio), are left out.
//! **What it does not do.** It believes no nonsense: a price that is negative, not a number or beyond any real one rejects
//! the whole file, with the model and the field, because money would be counted with it.

use super::{Catalogue, CatalogueEntry};
use crate::kind::parse_date;
use seawall_core::money::{ModelPriceOptions, Money, PriceMultiplier};
use serde_json::{Map, Value};

/// Dollars per million tokens that no model has ever cost.
const MAX_PRICE: f64 = 100_000.0;

/// Thresholds above which the community's file lists other prices, as the suffix of its keys.
const LONG_CONTEXT: [(u64, &str); 4] = [
    (100_000, "_above_100k_tokens"),
    (128_000, "_above_128k_tokens"),
    (200_000, "_above_200k_tokens"),
    (272_000, "_above_272k_tokens"),
];

/// The community's name of a provider, the prefix of its models in the file, and our name.
const PROVIDERS: [(&str, &str, &str); 13] = [
    ("anthropic", "anthropic/", "anthropic"),
    ("openai", "openai/", "openai"),
    ("text-completion-openai", "", "openai"),
    ("bedrock", "bedrock/", "bedrock"),
    ("bedrock_converse", "bedrock/", "bedrock"),
    ("gemini", "gemini/", "gemini"),
    ("groq", "groq/", "groq"),
    ("mistral", "mistral/", "mistral"),
    ("deepseek", "deepseek/", "deepseek"),
    ("together_ai", "together_ai/", "together"),
    ("fireworks_ai", "fireworks_ai/", "fireworks"),
    ("openrouter", "openrouter/", "openrouter"),
    ("xai", "xai/", "xai"),
];

/// Why a price file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriceFileError {
    /// It is not JSON.
    #[error("it is not valid JSON: {0}")]
    NotJson(String),
    /// It is not an object of models.
    #[error("it must be a JSON object with a model under each key")]
    NotAnObject,
    /// No row has a price of a known provider.
    #[error("it has no model with a price per token of a provider that Seawall knows")]
    Empty,
    /// A field of a row makes no sense.
    #[error("{model}: {field}: {problem}")]
    Field {
        /// The model as in the file.
        model: String,
        /// The key.
        field: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
}

impl Catalogue {
    /// Reads a price file. `name` is shown as the source of its rows.
    ///
    /// ```
    /// use seawall_config::Catalogue;
    /// use seawall_core::time::UtcTime;
    ///
    /// let text = r#"{"groq/some-model": {"litellm_provider": "groq",
    ///     "input_cost_per_token": 7.5e-08, "output_cost_per_token": 3e-07}}"#;
    /// let prices = Catalogue::from_price_file("prices.json", text).unwrap();
    /// let found = prices.find("groq", "some-model", UtcTime::from_civil(2026, 11, 18)).unwrap();
    /// assert_eq!(found.price.input.to_string(), "$0.075");
    /// ```
    pub fn from_price_file(name: &str, text: &str) -> Result<Self, PriceFileError> {
        let parsed: Value =
            serde_json::from_str(text).map_err(|error| PriceFileError::NotJson(error.to_string()))?;
        let Value::Object(rows) = parsed else { return Err(PriceFileError::NotAnObject) };
        let mut entries = Vec::new();
        for (model, row) in &rows {
            let Value::Object(row) = row else { return Err(PriceFileError::NotAnObject) };
            entries.extend(PriceRow { model, row, file: name }.read()?);
        }
        if entries.is_empty() {
            return Err(PriceFileError::Empty);
        }
        // The file lists some models with and without their prefix.
        entries.sort_by(|a, b| (a.provider, &a.price.model).cmp(&(b.provider, &b.price.model)));
        entries.dedup_by(|a, b| a.provider == b.provider && a.price.model == b.price.model);
        Ok(Self::new(entries))
    }
}

/// One model of the file.
struct PriceRow<'a> {
    model: &'a str,
    row: &'a Map<String, Value>,
    file: &'a str,
}

impl PriceRow<'_> {
    /// `None` for a row that does not concern us.
    fn read(&self) -> Result<Option<CatalogueEntry>, PriceFileError> {
        let provider = self.row.get("litellm_provider").and_then(Value::as_str).unwrap_or_default();
        let Some((_, prefix, provider)) = PROVIDERS.iter().find(|(name, ..)| *name == provider) else {
            return Ok(None);
        };
        let id = self.model.strip_prefix(prefix).unwrap_or(self.model);
        let without_output = self.row.get("mode").and_then(Value::as_str) == Some("embedding");
        let Some(input) = self.price("input_cost_per_token", "")? else { return Ok(None) };
        let output = match self.price("output_cost_per_token", "")? {
            Some(output) => output,
            None if without_output => Money::ZERO,
            None => return Ok(None),
        };
        if id.is_empty() || (input == Money::ZERO && output == Money::ZERO) {
            // The file writes 0 where a price is unknown, too.
            return Ok(None);
        }
        let max_output = if without_output { Some(0) } else { self.count("max_output_tokens")? };
        let price = ModelPriceOptions {
            cache_read: self.price("cache_read_input_token_cost", "")?,
            cache_write: self.price("cache_creation_input_token_cost", "")?,
            cache_write_1h: self.price("cache_creation_input_token_cost_above_1hr", "")?,
            long_context: self.long_context(input, output)?,
            retires: self.row.get("deprecation_date").and_then(Value::as_str).and_then(parse_date),
            without_output,
            ..ModelPriceOptions::new(id, input, output)
        };
        let batch = (
            self.price("input_cost_per_token_batches", "")?,
            self.price("output_cost_per_token_batches", "")?,
        );
        Ok(Some(CatalogueEntry {
            provider,
            from: None,
            price,
            batch,
            context_window: self.count("max_input_tokens")?,
            max_output,
            note: "".into(),
            source: self.file.to_owned().into(),
            date: None,
        }))
    }

    /// A price per million tokens.
    fn price(&self, field: &'static str, suffix: &str) -> Result<Option<Money>, PriceFileError> {
        let Some(value) = self.row.get(&[field, suffix].concat()) else { return Ok(None) };
        if value.is_null() {
            return Ok(None);
        }
        let problem = |problem: &str| self.error(field, problem.to_owned());
        let per_token = value.as_f64().ok_or_else(|| problem("is not a number"))?;
        let per_million = per_token * 1e6;
        if !(0.0..=MAX_PRICE).contains(&per_million) {
            return Err(problem(&format!("{per_token} dollars per token is not a price")));
        }
        // Nine decimals: nano-dollars. The range check above leaves room in an u64.
        Money::parse(&format!("{per_million:.9}")).map(Some).map_err(|_| problem("is not a price"))
    }

    fn long_context(
        &self,
        input: Money,
        output: Money,
    ) -> Result<Option<(u64, PriceMultiplier)>, PriceFileError> {
        for (above, suffix) in LONG_CONTEXT {
            let long_input = self.price("input_cost_per_token", suffix)?;
            let long_output = self.price("output_cost_per_token", suffix)?;
            if long_input.is_none() && long_output.is_none() {
                continue;
            }
            let multiplier = PriceMultiplier {
                input: thousandths(input, long_input),
                output: thousandths(output, long_output),
            };
            return Ok(Some((above, multiplier)));
        }
        Ok(None)
    }

    fn count(&self, field: &'static str) -> Result<Option<u64>, PriceFileError> {
        match self.row.get(field) {
            None | Some(Value::Null) => Ok(None),
            // The file has some counts as 1e6 and some as text.
            Some(value) => {
                let text = value.as_str().and_then(|text| text.parse::<u64>().ok());
                let number = value.as_u64().or_else(|| {
                    let number = value.as_f64()?;
                    let is_count = number.fract() == 0.0 && (0.0..1e12).contains(&number);
                    is_count.then(|| format!("{number:.0}").parse().ok()).flatten()
                });
                number.or(text).map(Some).ok_or_else(|| self.error(field, "is not a count of tokens".into()))
            }
        }
    }

    fn error(&self, field: &'static str, problem: String) -> PriceFileError {
        PriceFileError::Field { model: self.model.to_owned(), field, problem }
    }
}

/// What a price is of the base price, rounded up, so that no call costs more than was reserved.
fn thousandths(base: Money, price: Option<Money>) -> u32 {
    let Some(price) = price else { return 1_000 };
    let (base, price) = (u128::from(base.as_nanos()), u128::from(price.as_nanos()));
    if base == 0 {
        return 1_000;
    }
    u32::try_from((price * 1_000).div_ceil(base)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Catalogue, PriceFileError};
    use seawall_core::money::{Money, PriceList, PriceMultiplier};
    use seawall_core::time::UtcTime;

    fn read(text: &str) -> Result<Catalogue, PriceFileError> {
        Catalogue::from_price_file("prices.json", text)
    }

    fn today() -> UtcTime {
        UtcTime::from_civil(2026, 11, 18)
    }

    #[test]
    fn a_community_file_is_read_without_a_rounding_error() {
        let catalogue = read(
            r#"{
              "sample_spec": {"input_cost_per_token": 0.0, "litellm_provider": "one of the providers", "max_tokens": "text"},
              "claude-sonnet-5-5": {"litellm_provider": "anthropic", "input_cost_per_token": 2e-06,
                "output_cost_per_token": 1e-05, "cache_read_input_token_cost": 1e-07,
                "cache_creation_input_token_cost": 2.5e-06, "cache_creation_input_token_cost_above_1hr": 4e-06,
                "input_cost_per_token_above_200k_tokens": 4e-06, "output_cost_per_token_above_200k_tokens": 1.5e-05,
                "max_input_tokens": 1e6, "max_output_tokens": "128000", "deprecation_date": "2027-06-30"},
              "gemini/gemini-embedding-001": {"litellm_provider": "gemini", "mode": "embedding",
                "input_cost_per_token": 1.5e-07, "output_cost_per_token": 0},
              "dall-e-3": {"litellm_provider": "openai", "output_cost_per_image": 0.04},
              "groq/free-for-now": {"litellm_provider": "groq", "input_cost_per_token": 0, "output_cost_per_token": 0}
            }"#,
        )
        .unwrap();
        assert_eq!(catalogue.entries().len(), 2);
        let sonnet = catalogue.find("anthropic", "claude-sonnet-5-5", today()).unwrap();
        let dollars = |text| Money::parse(text).unwrap();
        let price = &sonnet.price;
        assert_eq!((price.input, price.output), (dollars("2"), dollars("10")));
        assert_eq!(price.cache_read, Some(dollars("0.1")));
        assert_eq!((price.cache_write, price.cache_write_1h), (Some(dollars("2.5")), Some(dollars("4"))));
        assert_eq!(price.long_context, Some((200_000, PriceMultiplier { input: 2_000, output: 1_500 })));
        assert_eq!((sonnet.context_window, sonnet.max_output), (Some(1_000_000), Some(128_000)));
        assert_eq!(price.retires, Some(UtcTime::from_civil(2027, 6, 30)));
        let embedding = catalogue.find("gemini", "gemini-embedding-001", today()).unwrap();
        assert_eq!((embedding.price.input, embedding.max_output), (dollars("0.15"), Some(0)));
        for entry in catalogue.entries() {
            PriceList::new(std::slice::from_ref(&entry.price)).unwrap();
        }
    }

    #[test]
    fn nonsense_is_rejected_with_the_model_and_the_field() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert!(error("{").starts_with("it is not valid JSON"), "{}", error("{"));
        assert_eq!(read("[]"), Err(PriceFileError::NotAnObject));
        assert_eq!(read(r#"{"m": 1}"#), Err(PriceFileError::NotAnObject));
        assert_eq!(read("{}"), Err(PriceFileError::Empty));
        let with = |price: &str| {
            error(&format!(
                r#"{{"m": {{"litellm_provider": "xai", "output_cost_per_token": 1e-6, "input_cost_per_token": {price}}}}}"#
            ))
        };
        assert_eq!(with("-1e-6"), "m: input_cost_per_token: -0.000001 dollars per token is not a price");
        assert_eq!(with("5"), "m: input_cost_per_token: 5 dollars per token is not a price");
        assert_eq!(with("\"cheap\""), "m: input_cost_per_token: is not a number");
        let window = r#"{"m": {"litellm_provider": "xai", "input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6,
            "max_input_tokens": -5}}"#;
        assert_eq!(error(window), "m: max_input_tokens: is not a count of tokens");
    }
}
