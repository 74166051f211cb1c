//! Derives the rules of our own chat face from settings.

use seawall_assistant::router::Router;
use seawall_assistant::{AnswerCache, AnswerSingleFlight, ChatPromptOptions, ChatRules, apologies};
use seawall_config::{FaceName, Settings};
use seawall_core::cache_policy::SingleFlightOptions;
use seawall_core::setting::SettingError;
use seawall_core::strategy::Language;
use seawall_pipeline::guardrail::{DenyList, Guardrails};
use std::sync::Arc;

/// Capacity of the answer cache in memory: about 16 MiB of answers of typical size.
pub(crate) const CACHE_CAPACITY: usize = 10_000;

/// The state of our own chat face that survives a settings reload.
#[derive(Clone)]
pub(crate) struct ChatState {
    pub(crate) answer_cache: Arc<dyn AnswerCache>,
    pub(crate) single_flight: (SingleFlightOptions, Arc<AnswerSingleFlight>),
}

impl ChatState {
    pub(crate) fn new(settings: &Settings, answer_cache: Arc<dyn AnswerCache>) -> Result<Self, SettingError> {
        Ok(Self { answer_cache, single_flight: new_single_flight(settings)? })
    }

    /// The same state under new settings. Requests that wait in an earlier single-flight table keep waiting there.
    pub(crate) fn rebuild(&self, settings: &Settings) -> Result<Self, SettingError> {
        let single_flight = if self.single_flight.0 == settings.cache.single_flight {
            self.single_flight.clone()
        } else {
            new_single_flight(settings)?
        };
        Ok(Self { answer_cache: Arc::clone(&self.answer_cache), single_flight })
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
            history_turns: assistant.max_history_turns as usize,
        };
        Ok(Some(Arc::new(ChatRules {
            route: route.clone(),
            router: Router::new(settings.hours.evening_peak),
            model: model.map(|target| target.model.clone()).unwrap_or_default(),
            prompt: prompt.check()?,
            tokens: settings.tokens.limits,
            overhead: settings.tokens.overhead,
            prompt_version: assistant.prompt_version.clone(),
            catalogue_version: assistant.catalogue_version.clone(),
            guardrails: guardrails(settings, route)?,
            ages: settings.cache.ages,
            reserves: settings.deadlines.reserves.clone(),
            answer_cache: Arc::clone(&self.answer_cache),
            single_flight: Arc::clone(&self.single_flight.1),
            language: Language::of_locale(&assistant.locale),
        })))
    }
}

/// The texts that answer on a route whose models give no answer, if it prefers them over an error.
pub(crate) fn fallback_texts(settings: &Settings, is_wanted: bool) -> Arc<[Box<str>]> {
    if !is_wanted {
        return Arc::default();
    }
    // Callers of a vendor's dialect do not say their language.
    let has_chat = chat_route(settings).is_some();
    let language = if has_chat { Language::of_locale(&settings.assistant.locale) } else { Language::English };
    apologies(language).map(Into::into).collect()
}

/// The route that serves our own chat face: of several, the first by name.
fn chat_route(settings: &Settings) -> Option<&String> {
    settings.routes.keys().find(|route| settings.routes[*route].faces.contains(&FaceName::Chat))
}

/// The denied texts for requests of a route: those of the assistant first, if the route is the assistant's, then the
/// route's own. Rules are numbered in that order.
pub(crate) fn guardrails(settings: &Settings, route: &String) -> Result<Guardrails, SettingError> {
    let route_texts = settings.routes.get(route).map(|route| route.deny.as_slice()).unwrap_or_default();
    let assistant_texts =
        if chat_route(settings) == Some(route) { settings.assistant.deny.as_slice() } else { &[] };
    Ok(Guardrails(DenyList::both(&[assistant_texts, route_texts].concat())?))
}

fn new_single_flight(
    settings: &Settings,
) -> Result<(SingleFlightOptions, Arc<AnswerSingleFlight>), SettingError> {
    let options = settings.cache.single_flight;
    Ok((options, Arc::new(AnswerSingleFlight::new(options.check()?))))
}
