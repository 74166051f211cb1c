//! Checked settings of models, targets and routes.

use crate::catalogue::{Catalogue, CatalogueEntry};
use crate::kind::{FaceName, Provider, RateValue, SecretReference};
use crate::preset::{KeyHeader, ProviderPreset};
use seawall_core::balance::{BalanceScope, BalanceStrategy};
use seawall_core::money::{ModelPriceOptions, Money, PriceList};
use seawall_core::quota::QuotaGroup;
use seawall_core::time::UtcTime;
use seawall_core::vocabulary::{Grade, OpenAiApi, OutputLimitField};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

/// The model of a target that sends the name that the caller used.
pub(crate) const ANY_MODEL: &str = "*";

/// Models and their prices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    /// Prices by model id, as far as the settings list them.
    pub prices: Vec<ModelPriceOptions>,
    /// Context windows in tokens, where the settings have them.
    pub context_windows: BTreeMap<String, u64>,
    /// Maximum output tokens of an answer, where the settings have them.
    pub max_outputs: BTreeMap<String, u64>,
    /// Maximum tokens of an image, where configured.
    pub image_tokens: BTreeMap<String, u64>,
    /// Whether models without a price may be called, because no budget applies.
    pub allows_unpriced: bool,
    /// The prices of the price file, if there is one. They come before those of the built-in catalogue.
    pub price_file: Option<Arc<Catalogue>>,
    /// The day whose prices of the catalogue apply.
    pub day: UtcTime,
}

/// A list of prices that targets are priced from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriceSource<'a> {
    /// The price file of the settings.
    File(&'a Catalogue),
    /// The table that is part of the program.
    BuiltIn,
}

impl<'a> PriceSource<'a> {
    /// The list.
    #[must_use]
    pub fn catalogue(self) -> &'a Catalogue {
        match self {
            Self::File(catalogue) => catalogue,
            Self::BuiltIn => Catalogue::built_in(),
        }
    }
}

/// What is known of a model at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFacts {
    /// Its prices; zero if they are unknown.
    pub price: ModelPriceOptions,
    /// Whether its prices are known.
    pub is_priced: bool,
    /// Whether the prices are the catalogue's.
    pub is_from_catalogue: bool,
    /// Whether they are those of the price file, which comes before the built-in table.
    pub is_from_price_file: bool,
    /// Context window in tokens, if known.
    pub context_window: Option<u64>,
    /// Maximum output tokens of an answer, if known.
    pub max_output: Option<u64>,
    /// Maximum tokens of an image, if configured.
    pub image_tokens: Option<u64>,
}

impl ModelSettings {
    /// The price list of the settings.
    #[must_use]
    pub fn price_list(&self) -> PriceList {
        // These prices were accepted when the settings were checked.
        PriceList::new(&self.prices).unwrap_or_default()
    }

    /// The list price of a model at a provider.
    #[must_use]
    pub fn list_price(&self, preset: &ProviderPreset, model: &str) -> Option<&CatalogueEntry> {
        let mut catalogues = self.price_file.as_deref().into_iter().chain([Catalogue::built_in()]);
        catalogues.find_map(|catalogue| catalogue.find(preset.catalogue, model, self.day))
    }

    /// The price list that a target takes its prices from; for a target of any model, the one with most of them. `None` if
    /// its prices are in the settings or unknown.
    #[must_use]
    pub fn price_source(&self, target: &TargetSettings) -> Option<PriceSource<'_>> {
        let file = self.price_file.as_deref().map(PriceSource::File);
        match &target.facts {
            Some(facts) if facts.is_from_price_file => file,
            Some(facts) => facts.is_from_catalogue.then_some(PriceSource::BuiltIn),
            None => {
                let mut sources = file.into_iter().chain([PriceSource::BuiltIn]);
                sources.find(|source| source.catalogue().has_provider(target.preset.catalogue))
            }
        }
    }

    fn is_in_price_file(&self, preset: &ProviderPreset, model: &str) -> bool {
        let file = self.price_file.as_deref();
        file.is_some_and(|file| file.find(preset.catalogue, model, self.day).is_some())
    }

    /// What is known of a model at a provider: from the settings first, then from the catalogue. `None` if the model has no
    /// price and a budget applies.
    #[must_use]
    pub fn facts(&self, preset: &ProviderPreset, model: &str) -> Option<ModelFacts> {
        let listed = self.prices.iter().find(|price| price.model == model);
        let entry = self.list_price(preset, model);
        let free = |is_free: bool| {
            let price = ModelPriceOptions::new(model, Money::ZERO, Money::ZERO);
            is_free.then_some(ModelPriceOptions { free: true, ..price })
        };
        let price = listed
            .cloned()
            .or_else(|| Some(ModelPriceOptions { model: model.to_owned(), ..entry?.price.clone() }))
            .or_else(|| free(preset.is_free));
        let is_priced = price.is_some();
        let known = |own: &BTreeMap<String, u64>, listed: Option<u64>| own.get(model).copied().or(listed);
        Some(ModelFacts {
            price: price.or_else(|| free(self.allows_unpriced))?,
            is_priced,
            is_from_catalogue: listed.is_none() && entry.is_some(),
            is_from_price_file: listed.is_none() && self.is_in_price_file(preset, model),
            context_window: known(&self.context_windows, entry.and_then(|entry| entry.context_window)),
            max_output: known(&self.max_outputs, entry.and_then(|entry| entry.max_output)),
            image_tokens: self.image_tokens.get(model).copied(),
        })
    }
}

/// One model at one provider, account and region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetSettings {
    /// The API of its provider.
    pub provider: Provider,
    /// What is known of its provider.
    pub preset: &'static ProviderPreset,
    /// The model id, or `*` for the name that the caller used.
    pub model: String,
    /// What is known of the model; `None` if the caller names it.
    pub facts: Option<ModelFacts>,
    /// The grade of the model.
    pub grade: Grade,
    /// The region, for Bedrock.
    pub region: Option<String>,
    /// The base URL, if it is not the provider's usual one.
    pub base_url: Option<String>,
    /// Our API key at the provider; the first of several.
    pub api_key: Option<SecretReference>,
    /// Our further API keys there, in the order in which they are used.
    pub more_api_keys: Vec<SecretReference>,
    /// How the server expects the key.
    pub key_header: KeyHeader,
    /// The ARN of the role to assume.
    pub role_arn: Option<String>,
    /// The external id that the owner of the role requires.
    pub external_id: Option<String>,
    /// The request field for the output limit, for OpenAI-compatible servers.
    pub output_limit_field: OutputLimitField,
    /// The APIs of an OpenAI-compatible server.
    pub api: OpenAiApi,
    /// Maximum number of concurrent calls.
    pub concurrency: NonZeroU32,
    /// Its share among the targets that a route balances.
    pub weight: u32,
    /// The model behind a deployment name.
    pub base_model: Option<String>,
    /// The name of its breaker, which exists.
    pub breaker: String,
}

impl TargetSettings {
    /// Whether the caller names the model.
    #[must_use]
    pub fn is_for_any_model(&self) -> bool {
        self.model == ANY_MODEL
    }

    /// The name of the targets that a route balances this one with.
    #[must_use]
    pub fn balance_group(&self, scope: BalanceScope) -> &str {
        match scope {
            BalanceScope::Model => self.base_model.as_ref().unwrap_or(&self.model),
            BalanceScope::Grade => self.grade.name(),
        }
    }
}

/// An alias that callers name, with its candidate targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// Targets in order; all exist, none is repeated, and there is at least one.
    pub targets: Vec<String>,
    /// How requests are distributed over targets of the same model.
    pub balance: BalanceStrategy,
    /// Which targets are balanced with each other.
    pub balance_across: BalanceScope,
    /// The faces that serve it.
    pub faces: Vec<FaceName>,
    /// The faces on which guests may use it.
    pub guest_faces: Vec<FaceName>,
    /// Timeout for the beginning of an answer.
    pub start_timeout: Duration,
    /// Whether API callers also get answers from lower rungs.
    pub fallback: bool,
    /// Texts that no request may contain, none of them empty.
    pub deny: Vec<String>,
    /// The request rate of all its callers together.
    pub requests: Option<RateValue>,
    /// The token rate of all its callers together.
    pub tokens: Option<RateValue>,
    /// Both as quotas, if either is set.
    pub quotas: Option<QuotaGroup>,
}
