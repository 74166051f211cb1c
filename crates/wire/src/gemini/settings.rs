//! The settings in `generationConfig`, to and from the dialect-neutral form.

use super::names::{
    CANDIDATE_COUNT, FREQUENCY_PENALTY, INCLUDE_THOUGHTS, LOGPROBS, PRESENCE_PENALTY, RESPONSE_JSON_SCHEMA,
    RESPONSE_MIME_TYPE, RESPONSE_SCHEMA, THINKING_BUDGET, THINKING_CONFIG, THINKING_LEVEL, TOP_K,
};
use super::schema::to_json_schema;
use crate::chat::{ChatSettings, Effort, JsonText, OutputFormat, OutputSchema, ReasoningSettings, Thinking};
use crate::fields::{JsonFields, object_text};
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde::Serialize;
use serde_json::value::RawValue;

const JSON: &str = "application/json";

pub(super) fn read_settings(
    config: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<ChatSettings, RequestError> {
    let thinking = THINKING_CONFIG.spelled_in(config)?;
    Ok(ChatSettings {
        output_format: read_format(config, limits)?,
        reasoning: match config.object(thinking, limits)? {
            Some(fields) => read_reasoning(&fields).map_err(|error| error.within(thinking))?,
            None => ReasoningSettings::default(),
        },
        top_k: config.count(TOP_K.spelled_in(config)?)?,
        choices: config.count(CANDIDATE_COUNT.spelled_in(config)?)?.filter(|number| *number != 1),
        log_probabilities: match config.boolean(LOGPROBS.spelled_in(config)?)? {
            true => Some(config.count("logprobs")?.unwrap_or(0)),
            false => None,
        },
        seed: config.integer("seed")?,
        presence_penalty: config.non_zero(PRESENCE_PENALTY.spelled_in(config)?)?,
        frequency_penalty: config.non_zero(FREQUENCY_PENALTY.spelled_in(config)?)?,
        ..ChatSettings::default()
    })
}

fn read_format(config: &JsonFields<'_>, limits: &RequestLimits) -> Result<OutputFormat, RequestError> {
    let name = RESPONSE_MIME_TYPE.spelled_in(config)?;
    let is_json = match config.string(name)?.as_deref() {
        None | Some("" | "text/plain") => false,
        Some(JSON) => true,
        Some(_) => return Err(RequestError::untranslatable(name, "response types other than text and JSON")),
    };
    let (json, own) = (RESPONSE_JSON_SCHEMA.spelled_in(config)?, RESPONSE_SCHEMA.spelled_in(config)?);
    let schema = match (config.get(json), config.get(own)) {
        (Some(raw), None) => object_text(raw, limits).map_err(|error| error.within(json))?,
        (None, Some(raw)) => read_schema(raw, limits).map_err(|error| error.within(own))?,
        (None, None) => return Ok(if is_json { OutputFormat::Json } else { OutputFormat::Text }),
        (Some(_), Some(_)) => {
            let problem = "Only one of responseSchema and responseJsonSchema is allowed";
            return Err(RequestError::invalid(json, problem));
        }
    };
    let (name, description) = (None, None);
    Ok(OutputFormat::Schema(OutputSchema { name, description, schema, is_enforced: true }))
}

/// Reads a schema of the vendor's own form.
pub(super) fn read_schema(raw: &RawValue, limits: &RequestLimits) -> Result<JsonText, RequestError> {
    object_text(raw, limits)?;
    let invalid = || RequestError::invalid("", "Input should be a valid schema");
    let schema = serde_json::from_str(raw.get()).map_err(|_| invalid())?;
    JsonText::new(to_json_schema(schema).to_string()).ok_or_else(invalid)
}

fn read_reasoning(config: &JsonFields<'_>) -> Result<ReasoningSettings, RequestError> {
    let shows_summary = config.boolean(INCLUDE_THOUGHTS.spelled_in(config)?)?;
    let name = THINKING_LEVEL.spelled_in(config)?;
    let effort = match config.string(name)? {
        None => None,
        Some(level) if level == "THINKING_LEVEL_UNSPECIFIED" => None,
        Some(level) => {
            let problem = "Input should be 'MINIMAL', 'LOW', 'MEDIUM' or 'HIGH'";
            Some(Effort::named(&level).ok_or_else(|| RequestError::invalid(name, problem))?)
        }
    };
    let thinking = match config.integer(THINKING_BUDGET.spelled_in(config)?)? {
        Some(0) => Some(Thinking::Off),
        Some(tokens) => Some(u32::try_from(tokens).map_or(Thinking::Adaptive, Thinking::Budget)),
        None => effort.map(|_| Thinking::Adaptive),
    };
    Ok(ReasoningSettings { thinking, effort, shows_summary })
}

/// The settings of `generationConfig` beyond sampling and limits.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SettingsOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    presence_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frequency_penalty: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<&'a JsonText>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingOut>,
}

impl<'a> SettingsOut<'a> {
    pub(super) fn of(settings: &'a ChatSettings, model: &str) -> Self {
        let finite = |number: Option<f64>| number.filter(|number| number.is_finite());
        let (response_mime_type, response_json_schema) = match &settings.output_format {
            OutputFormat::Text => (None, None),
            OutputFormat::Json => (Some(JSON), None),
            OutputFormat::Schema(schema) => (Some(JSON), Some(&schema.schema)),
        };
        Self {
            top_k: settings.top_k,
            seed: settings.seed,
            presence_penalty: finite(settings.presence_penalty),
            frequency_penalty: finite(settings.frequency_penalty),
            response_mime_type,
            response_json_schema,
            thinking_config: ThinkingOut::of(&settings.reasoning, model),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.top_k.is_none()
            && self.seed.is_none()
            && self.presence_penalty.is_none()
            && self.frequency_penalty.is_none()
            && self.response_mime_type.is_none()
            && self.thinking_config.is_none()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    include_thoughts: bool,
}

impl ThinkingOut {
    /// Models before Gemini 3 take a number of tokens, later ones a level, of which the lowest still thinks a little.
    fn of(reasoning: &ReasoningSettings, model: &str) -> Option<Self> {
        let include_thoughts = reasoning.shows_summary;
        let takes_budget = ["gemini-1", "gemini-2"].iter().any(|family| model.contains(family));
        let (thinking_budget, thinking_level) = match (reasoning.thinking, reasoning.effort) {
            (None, None) if !include_thoughts => return None,
            (None, None) => (None, None),
            (Some(Thinking::Off), _) if takes_budget => (Some(0), None),
            (Some(Thinking::Off), _) => (None, Some("MINIMAL")),
            (Some(Thinking::Adaptive), None) if takes_budget => (Some(-1), None),
            (Some(Thinking::Adaptive), None) => (None, Some("HIGH")),
            (Some(Thinking::Budget(tokens)), None) if takes_budget => (Some(i64::from(tokens)), None),
            (Some(Thinking::Budget(tokens)), None) => (None, Some(level_of(Effort::of_budget(tokens)))),
            (_, Some(effort)) if takes_budget => (Some(i64::from(effort.budget().min(24_576))), None),
            (_, Some(effort)) => (None, Some(level_of(effort))),
        };
        Some(Self { thinking_budget, thinking_level, include_thoughts })
    }
}

/// The vendor has no level above high.
const fn level_of(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => "MINIMAL",
        Effort::Low => "LOW",
        Effort::Medium => "MEDIUM",
        Effort::High | Effort::ExtraHigh | Effort::Max => "HIGH",
    }
}
