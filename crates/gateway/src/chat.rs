//! Derives the rules of our own chat face from settings.

use seawall_config::{FaceName, Settings};
use seawall_core::cache_policy::FlightOptions;
use seawall_core::setting::SettingError;
use seawall_core::strategy::Language;
use seawall_pipeline::chat::ChatPromptOptions;
use seawall_pipeline::guardrail::{DenyList, Guardrails};
use seawall_pipeline::{ChatRules, FlightBoard, Shelf};
use std::sync::Arc;

/// Capacity of the answer cache in memory: about 16 MiB of answers of typical size.
pub(crate) const MOST_KEPT: usize = 10_000;

/// The state of our own chat face that survives a settings reload.
#[derive(Clone)]
pub(crate) struct ChatState {
    pub(crate) shelf: Arc<dyn Shelf>,
    pub(crate) flights: (FlightOptions, Arc<FlightBoard>),
}

impl ChatState {
    pub(crate) fn new(settings: &Settings, shelf: Arc<dyn Shelf>) -> Result<Self, SettingError> {
        Ok(Self { shelf, flights: board(settings)? })
    }

    /// The same state under new settings. Requests that wait on an earlier single-flight board keep waiting there.
    pub(crate) fn renewed(&self, settings: &Settings) -> Result<Self, SettingError> {
        let flights =
            if self.flights.0 == settings.cache.flights { self.flights.clone() } else { board(settings)? };
        Ok(Self { shelf: Arc::clone(&self.shelf), flights })
    }

    /// The rules of our own chat face, if a route serves it. If several routes do, the first by name is used.
    pub(crate) fn rules(&self, settings: &Settings) -> Result<Option<Arc<ChatRules>>, SettingError> {
        let Some(route) = chat_route(settings) else { return Ok(None) };
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
            guardrails: guardrails_of(settings, route)?,
            ages: settings.cache.ages,
            reserves: settings.deadlines.reserves.clone(),
            shelf: Arc::clone(&self.shelf),
            flights: Arc::clone(&self.flights.1),
            language: Language::of_locale(&assistant.locale),
        })))
    }
}

/// The route that serves our own chat face: of several, the first by name.
fn chat_route(settings: &Settings) -> Option<&String> {
    settings.routes.keys().find(|route| settings.routes[*route].faces.contains(&FaceName::Chat))
}

/// The denied texts for requests of a route: those of the assistant first, if the route is the assistant's, then the
/// route's own. Rules are numbered in that order.
pub(crate) fn guardrails_of(settings: &Settings, route: &String) -> Result<Guardrails, SettingError> {
    let own = settings.routes.get(route).map(|route| route.deny.as_slice()).unwrap_or_default();
    let assistants =
        if chat_route(settings) == Some(route) { settings.assistant.deny.as_slice() } else { &[] };
    Ok(Guardrails(DenyList::both(&[assistants, own].concat())?))
}

fn board(settings: &Settings) -> Result<(FlightOptions, Arc<FlightBoard>), SettingError> {
    let options = settings.cache.flights;
    Ok((options, Arc::new(FlightBoard::new(options.check()?))))
}
