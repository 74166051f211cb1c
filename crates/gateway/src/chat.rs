//! From settings to what our own face goes by.

use seawall_config::{FaceName, Settings};
use seawall_core::cache_policy::FlightOptions;
use seawall_core::setting::SettingError;
use seawall_core::strategy::Language;
use seawall_pipeline::chat::ChatPromptOptions;
use seawall_pipeline::guardrail::{DenyList, Guardrails};
use seawall_pipeline::{ChatRules, FlightBoard, Shelf};
use std::sync::Arc;

/// So many answers are kept in memory: some 16 MiB of usual ones.
pub(crate) const MOST_KEPT: usize = 10_000;

/// What of our own face outlives a change of settings.
#[derive(Clone)]
pub(crate) struct ChatState {
    pub(crate) shelf: Arc<dyn Shelf>,
    pub(crate) flights: (FlightOptions, Arc<FlightBoard>),
}

impl ChatState {
    pub(crate) fn new(settings: &Settings, shelf: Arc<dyn Shelf>) -> Result<Self, SettingError> {
        Ok(Self { shelf, flights: board(settings)? })
    }

    /// The same for other settings. Who waits on an earlier board goes on waiting there.
    pub(crate) fn renewed(&self, settings: &Settings) -> Result<Self, SettingError> {
        let flights =
            if self.flights.0 == settings.cache.flights { self.flights.clone() } else { board(settings)? };
        Ok(Self { shelf: Arc::clone(&self.shelf), flights })
    }

    /// What our own face goes by, where a route has it. Of several routes the first by name is its.
    pub(crate) fn rules(&self, settings: &Settings) -> Result<Option<Arc<ChatRules>>, SettingError> {
        let has_chat = |route: &&String| settings.routes[*route].faces.contains(&FaceName::Chat);
        let Some(route) = settings.routes.keys().find(has_chat) else { return Ok(None) };
        let model = settings.routes[route].targets.first().and_then(|name| settings.targets.get(name));
        let assistant = &settings.assistant;
        let prompt = ChatPromptOptions {
            system: vec![
                ("ja".to_owned(), assistant.prompt_ja.clone()),
                ("en".to_owned(), assistant.prompt_en.clone()),
            ],
            temperature: Some(assistant.temperature),
            max_output: u32::try_from(settings.tokens.limits.output(None)).unwrap_or(u32::MAX),
            history_turns: settings.store.session_turns as usize,
        };
        Ok(Some(Arc::new(ChatRules {
            route: route.clone(),
            model: model.map(|target| target.model.clone()).unwrap_or_default(),
            prompt: prompt.check()?,
            tokens: settings.tokens.limits,
            overhead: settings.tokens.overhead,
            prompt_version: assistant.prompt_version.clone(),
            catalogue_version: assistant.catalogue_version.clone(),
            guardrails: Guardrails(DenyList::both(&assistant.deny)?),
            ages: settings.cache.ages,
            reserves: settings.deadlines.reserves.clone(),
            shelf: Arc::clone(&self.shelf),
            flights: Arc::clone(&self.flights.1),
            language: Language::of_locale(&assistant.locale),
        })))
    }
}

fn board(settings: &Settings) -> Result<(FlightOptions, Arc<FlightBoard>), SettingError> {
    let options = settings.cache.flights;
    Ok((options, Arc::new(FlightBoard::new(options.check()?))))
}
