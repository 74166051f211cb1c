//! The price catalogue: list prices, context windows and output limits of known models.
//!
//! A target whose model has no entry under `models` is priced from here: first from the price file of the settings
//! (`prices.file`, read by [`community`]), then from the table that is part of the program. Every row names its source
//! and the day on which it was read. **What it does not do.** It never guesses: a model without a row has no price, and
//! neither has a row that begins in the future.

mod community;

pub use community::PriceFileError;

use crate::kind::{parse_amount, parse_date};
use seawall_core::money::{ModelPriceOptions, Money, PriceMultiplier, Surcharge};
use seawall_core::time::UtcTime;
use std::borrow::Cow;
use std::sync::LazyLock;

const TABLE: &str = include_str!("../../catalogue/prices.csv");

/// The columns, in order. A test compares them with the header of the file.
const COLUMNS: [&str; 20] = [
    "provider",
    "model",
    "from",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "cache_write_1h",
    "batch_input",
    "batch_output",
    "context_window",
    "max_output",
    "long_above",
    "long_input",
    "long_output",
    "surcharges",
    "retires",
    "note",
    "source",
    "date",
];

/// A table that is older than this is probably wrong for some models.
pub const MAX_CATALOGUE_AGE_DAYS: u64 = 90;

/// One row of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogueEntry {
    /// The provider whose list price this is, as in `targets.NAME.provider`.
    pub provider: &'static str,
    /// The first day on which the price applies; `None` if it always has.
    pub from: Option<UtcTime>,
    /// The prices.
    pub price: ModelPriceOptions,
    /// Prices of batch processing per million tokens, input and output, where listed.
    pub batch: (Option<Money>, Option<Money>),
    /// Context window in tokens.
    pub context_window: Option<u64>,
    /// Maximum output tokens of an answer; 0 for an embedding model.
    pub max_output: Option<u64>,
    /// A remark for people, may be empty.
    pub note: Cow<'static, str>,
    /// Where the row comes from.
    pub source: Cow<'static, str>,
    /// The day on which the source was read; for a price file, the day on which it was last changed, if known.
    pub date: Option<UtcTime>,
}

/// A list of prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalogue {
    /// Sorted by provider and model.
    entries: Vec<CatalogueEntry>,
}

static BUILT_IN: LazyLock<Catalogue> =
    LazyLock::new(|| Catalogue::new(TABLE.lines().skip(1).filter_map(parse_row).collect()));

impl Catalogue {
    fn new(mut entries: Vec<CatalogueEntry>) -> Self {
        entries
            .sort_by(|a, b| (a.provider, &a.price.model, a.from).cmp(&(b.provider, &b.price.model, b.from)));
        Self { entries }
    }

    /// The table that is part of the program.
    #[must_use]
    pub fn built_in() -> &'static Self {
        &BUILT_IN
    }

    /// All rows, by provider and model.
    #[must_use]
    pub fn entries(&self) -> &[CatalogueEntry] {
        &self.entries
    }

    /// The row that applies to a model on a day. A name without its date, such as `claude-sonnet-4-5`, is the vendor's
    /// alias of the one dated model and has its price.
    #[must_use]
    pub fn find(&self, provider: &str, model: &str, today: UtcTime) -> Option<&CatalogueEntry> {
        // All dated ids of an alias begin with it, and so does the alias itself.
        let start = self
            .entries
            .partition_point(|entry| (entry.provider, entry.price.model.as_str()) < (provider, model));
        let near = self.entries[start..]
            .iter()
            .take_while(|entry| entry.provider == provider && entry.price.model.starts_with(model));
        let applies = |entry: &&CatalogueEntry| entry.from.is_none_or(|from| from <= today);
        let newest = |is_match: &dyn Fn(&str) -> bool| {
            let matching = near.clone().filter(applies).filter(|entry| is_match(&entry.price.model));
            matching.max_by_key(|entry| entry.from)
        };
        newest(&|id| id == model).or_else(|| newest(&|id| without_date(id) == Some(model)))
    }

    /// The same rows with this date, where they have none.
    #[must_use]
    pub fn dated(mut self, date: Option<UtcTime>) -> Self {
        for entry in &mut self.entries {
            entry.date = entry.date.or(date);
        }
        self
    }

    /// Whether it lists any model of a provider.
    #[must_use]
    pub fn has_provider(&self, provider: &str) -> bool {
        let start = self.entries.partition_point(|entry| entry.provider < provider);
        self.entries.get(start).is_some_and(|entry| entry.provider == provider)
    }

    /// How many days ago the newest row was read.
    #[must_use]
    pub fn age_in_days(&self, today: UtcTime) -> Option<u64> {
        self.date().map(|date| today.day().saturating_sub(date.day()))
    }

    /// Whether its prices are probably wrong for some models.
    #[must_use]
    pub fn is_stale(&self, today: UtcTime) -> bool {
        self.age_in_days(today).is_some_and(|age| age > MAX_CATALOGUE_AGE_DAYS)
    }

    /// The day on which the newest row was read, or a price file was last changed.
    #[must_use]
    pub fn date(&self) -> Option<UtcTime> {
        self.entries.iter().filter_map(|entry| entry.date).max()
    }
}

/// An id without the release date at its end.
fn without_date(id: &str) -> Option<&str> {
    let (name, date) = id.rsplit_once('-')?;
    (date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit())).then_some(name)
}

fn parse_row(line: &'static str) -> Option<CatalogueEntry> {
    let cells: Vec<&'static str> = line.split(',').collect();
    let cell = |name: &str| {
        let index = COLUMNS.iter().position(|column| *column == name)?;
        cells.get(index).copied()
    };
    let filled = |name: &str| cell(name).filter(|text| !text.is_empty());
    let money = |name: &str| filled(name).and_then(parse_amount);
    let count = |name: &str| filled(name).and_then(|text| text.parse::<u64>().ok());
    let date = |name: &str| filled(name).and_then(parse_date);
    let max_output = count("max_output");
    let without_output = max_output == Some(0);
    let output = money("output").or(without_output.then_some(Money::ZERO))?;
    let long_context = match (count("long_above"), filled("long_input"), filled("long_output")) {
        (Some(above), Some(input), Some(output)) => Some((
            above,
            PriceMultiplier { input: parse_multiplier(input)?, output: parse_multiplier(output)? },
        )),
        _ => None,
    };
    let surcharge = |text: &str| {
        let (name, factor) = text.split_once('=')?;
        let factor = parse_multiplier(factor)?;
        Some((Surcharge::parse(name).ok()?, PriceMultiplier { input: factor, output: factor }))
    };
    let surcharges = cell("surcharges")?.split_whitespace().map(surcharge).collect::<Option<_>>()?;
    Some(CatalogueEntry {
        provider: filled("provider")?,
        from: date("from"),
        price: ModelPriceOptions {
            cache_read: money("cache_read"),
            cache_write: money("cache_write"),
            cache_write_1h: money("cache_write_1h"),
            multipliers: surcharges,
            long_context,
            without_output,
            retires: date("retires"),
            ..ModelPriceOptions::new(filled("model")?, money("input")?, output)
        },
        batch: (money("batch_input"), money("batch_output")),
        context_window: count("context_window"),
        max_output,
        note: cell("note")?.into(),
        source: filled("source")?.into(),
        date: Some(date("date")?),
    })
}

/// A whole percentage in thousandths.
fn parse_multiplier(text: &str) -> Option<u32> {
    text.strip_suffix('%')?.parse::<u32>().ok()?.checked_mul(10)
}

#[cfg(test)]
mod tests {
    use super::{COLUMNS, Catalogue, TABLE};
    use crate::preset::PRESETS;
    use seawall_core::money::{Money, PriceList};
    use seawall_core::time::UtcTime;
    use std::collections::BTreeSet;

    fn day(month: u32, day: u32) -> UtcTime {
        UtcTime::from_civil(2026, month, day)
    }

    #[test]
    fn every_row_of_the_table_is_valid_and_distinct() {
        assert_eq!(TABLE.lines().next().unwrap().split(',').collect::<Vec<_>>(), COLUMNS);
        let entries = Catalogue::built_in().entries();
        assert_eq!(entries.len(), TABLE.lines().count() - 1, "a row could not be parsed");
        let mut seen = BTreeSet::new();
        for entry in entries {
            let id = &entry.price.model;
            assert!(seen.insert((entry.provider, id, entry.from)), "{id} is listed twice");
            assert!(entry.date.is_some() && entry.date <= Catalogue::built_in().date());
            assert!(entry.context_window.is_some_and(|window| window > 0), "{id} has no context window");
            assert!(PRESETS.iter().any(|preset| preset.catalogue == entry.provider), "{}", entry.provider);
            PriceList::new(std::slice::from_ref(&entry.price)).unwrap();
        }
    }

    #[test]
    fn prices_are_found_by_provider_id_alias_and_day() {
        let input = |provider, model, today| {
            Some(Catalogue::built_in().find(provider, model, today)?.price.input.as_nanos() / 10_000_000)
        };
        assert_eq!(input("anthropic", "claude-sonnet-5-5", day(11, 18)), Some(200));
        assert_eq!(input("anthropic", "claude-sonnet-4-5", day(11, 18)), Some(300));
        assert_eq!(input("openai", "claude-sonnet-5-5", day(11, 18)), None);
        assert_eq!(input("anthropic", "claude", day(11, 18)), None);
        // A price that changes on a known day.
        assert_eq!(input("gemini", "gemini-4-argon", day(11, 30)), Some(200));
        assert_eq!(input("gemini", "gemini-4-argon", day(12, 1)), Some(400));
        assert!(
            Catalogue::built_in().find("gemini", "gemini-4-argon", day(1, 1)).unwrap().price.input
                > Money::ZERO
        );
    }
}
