//! Configuration of the assistant.

use crate::answer_cache::{AnswerCache, CacheVersions};
use crate::prompt::{ChatPrompt, PromptModel};
use crate::router::Router;
use crate::single_flight::AnswerSingleFlight;
use seawall_core::cache_policy::CacheAges;
use seawall_core::deadline::RungReserves;
use seawall_core::history::TokenLimits;
use seawall_core::strategy::Language;
use seawall_core::tokens::{Calibration, OverheadOptions};
use seawall_pipeline::guardrail::Guardrails;
use std::sync::Arc;

/// Configuration of the assistant, as the settings define it.
pub struct ChatRules {
    /// The route that chat messages use.
    pub route: String,
    /// The routing rules of messages.
    pub router: Router,
    /// The model that token estimates are made for.
    pub model: String,
    /// The prompt that is sent with every message.
    pub prompt: ChatPrompt,
    /// Token limits of the prompt and its history.
    pub tokens: TokenLimits,
    /// Tokens that the vendor counts on top of the text.
    pub overhead: OverheadOptions,
    /// The prompt version, which is part of every answer cache key.
    pub prompt_version: String,
    /// The catalogue version, which is part of every answer cache key.
    pub catalogue_version: String,
    /// Guardrails for messages and answers.
    pub guardrails: Guardrails,
    /// Maximum ages of cached answers.
    pub ages: CacheAges,
    /// The deadline for the first text, and the share of it that each rung needs.
    pub reserves: RungReserves,
    /// The answer cache.
    pub answer_cache: Arc<dyn AnswerCache>,
    /// Single flight for equal questions that arrive concurrently. A configuration reload passes it on while its
    /// settings are unchanged.
    pub single_flight: Arc<AnswerSingleFlight>,
    /// The language of replies to callers whose language is not known yet.
    pub language: Language,
}

impl ChatRules {
    pub(crate) fn prompt_model<'a>(&'a self, calibration: &'a Calibration) -> PromptModel<'a> {
        PromptModel { model: &self.model, limits: &self.tokens, overhead: self.overhead, calibration }
    }

    pub(crate) fn versions(&self) -> CacheVersions {
        CacheVersions {
            route: self.route.as_str().into(),
            prompt: self.prompt_version.as_str().into(),
            catalogue: self.catalogue_version.as_str().into(),
        }
    }
}
