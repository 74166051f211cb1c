//! What our own face goes by.

use crate::chat::{ChatPrompt, PromptOccasion};
use crate::flight::FlightBoard;
use crate::guardrail::Guardrails;
use crate::shelf::{Shelf, Versions};
use seawall_core::cache_policy::CacheAges;
use seawall_core::deadline::Reserves;
use seawall_core::history::TokenLimits;
use seawall_core::strategy::Language;
use seawall_core::tokens::{Calibration, OverheadOptions};
use std::sync::Arc;

/// What our own face goes by, as somebody wrote it.
pub struct ChatRules {
    /// The route that its questions take.
    pub route: String,
    /// The model that estimates go by.
    pub model: String,
    /// What goes with every question.
    pub prompt: ChatPrompt,
    /// How many tokens there may be.
    pub tokens: TokenLimits,
    /// What is spent on top of the text.
    pub overhead: OverheadOptions,
    /// Part of the key of every kept answer.
    pub prompt_version: String,
    /// Part of the key of every kept answer.
    pub catalogue_version: String,
    /// What must be neither asked nor answered.
    pub guardrails: Guardrails,
    /// How old kept answers may be.
    pub ages: CacheAges,
    /// When the first text must be there, and what each way of answering needs of that.
    pub reserves: Reserves,
    /// Where answers are kept.
    pub shelf: Arc<dyn Shelf>,
    /// Who asks when many want to know the same. Handed on from rules to rules as long as it stays the same.
    pub flights: Arc<FlightBoard>,
    /// What we speak to who has not said anything yet.
    pub language: Language,
}

impl ChatRules {
    pub(crate) fn occasion<'a>(&'a self, calibration: &'a Calibration) -> PromptOccasion<'a> {
        PromptOccasion { model: &self.model, limits: &self.tokens, overhead: self.overhead, calibration }
    }

    pub(crate) fn versions(&self) -> Versions {
        Versions {
            route: self.route.as_str().into(),
            prompt: self.prompt_version.as_str().into(),
            catalogue: self.catalogue_version.as_str().into(),
        }
    }
}
