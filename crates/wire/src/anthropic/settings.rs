//! The settings of a request, to and from the dialect-neutral form.

use super::model_traits::{ModelTraits, ThinkingForm};
use crate::chat::schema::closed;
use crate::chat::{
    ChatFeature, ChatRequest, ChatSettings, Effort, JsonText, OutputFormat, OutputSchema, ReasoningSettings,
    Thinking,
};
use crate::fields::{JsonFields, object_text};
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde::Serialize;
use std::borrow::Cow;

/// The vendor's minimum for `budget_tokens`, which must be less than `max_tokens`.
const MIN_BUDGET: u32 = 1_024;

/// Reads the settings.
pub(super) fn read_settings(
    fields: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<ChatSettings, RequestError> {
    let mut settings = ChatSettings { top_k: fields.count("top_k")?, ..ChatSettings::default() };
    if let Some(choice) = fields.object("tool_choice", limits)? {
        let single = choice.boolean("disable_parallel_tool_use");
        settings.single_tool_call = single.map_err(|error| error.within("tool_choice"))?;
    }
    settings.reasoning = read_reasoning(fields, limits)?;
    if let Some(config) = fields.object("output_config", limits)? {
        settings.output_format =
            read_format(&config, limits).map_err(|error| error.within("output_config"))?;
    }
    Ok(settings)
}

/// Reads `thinking` and `output_config.effort`. Converse carries the same fields for models of this vendor.
pub(crate) fn read_reasoning(
    fields: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<ReasoningSettings, RequestError> {
    let mut reasoning = ReasoningSettings::default();
    if let Some(thinking) = fields.object("thinking", limits)? {
        let read = || {
            reasoning.shows_summary = thinking.string("display")?.as_deref() == Some("summarized");
            Ok(match thinking.need_string("type")?.as_str() {
                "disabled" => Thinking::Off,
                "adaptive" => Thinking::Adaptive,
                "enabled" => Thinking::Budget(thinking.count("budget_tokens")?.unwrap_or(MIN_BUDGET)),
                _ => return Err(RequestError::untranslatable("type", "this type of thinking")),
            })
        };
        let mut read = read;
        reasoning.thinking = Some(read().map_err(|error: RequestError| error.within("thinking"))?);
    }
    if let Some(config) = fields.object("output_config", limits)?
        && let Some(name) = config.string("effort").map_err(|error| error.within("output_config"))?
    {
        let problem = "Input should be 'low', 'medium', 'high', 'xhigh' or 'max'";
        let effort =
            Effort::named(&name).ok_or_else(|| RequestError::invalid("output_config.effort", problem));
        reasoning.effort = Some(effort?);
    }
    Ok(reasoning)
}

fn read_format(config: &JsonFields<'_>, limits: &RequestLimits) -> Result<OutputFormat, RequestError> {
    let Some(format) = config.object("format", limits)? else { return Ok(OutputFormat::Text) };
    let read = || {
        if format.need_string("type")? != "json_schema" {
            return Err(RequestError::untranslatable("type", "output formats other than json_schema"));
        }
        let schema = object_text(format.need("schema")?, limits).map_err(|error| error.within("schema"))?;
        let (name, description) = (format.string("name")?, None);
        Ok(OutputFormat::Schema(OutputSchema { name, description, schema, is_enforced: true }))
    };
    read().map_err(|error: RequestError| error.within("format"))
}

/// Returns an error if the model does not accept something that the dialect has.
pub(super) fn refuse_by_model(request: &ChatRequest, traits: ModelTraits) -> Result<(), RequestError> {
    let differs = |number: Option<f64>| number.is_some_and(|number| (number - 1.0).abs() > f64::EPSILON);
    if !traits.takes_sampling {
        if differs(request.temperature) || differs(request.top_p) {
            return Err(ChatFeature::Sampling.unsupported());
        }
        if request.settings.top_k.is_some() {
            return Err(ChatFeature::TopK.unsupported());
        }
    }
    if !traits.takes_forced_tools && request.uses(ChatFeature::ForcedTool) {
        return Err(ChatFeature::ForcedTool.unsupported());
    }
    Ok(())
}

/// `thinking` and the effort of `output_config`, for a model.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct ReasoningFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thinking: Option<ThinkingFields>,
    #[serde(skip)]
    pub(crate) effort: Option<&'static str>,
}

#[derive(Clone, Copy, Serialize)]
pub(crate) struct ThinkingFields {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    display: Option<&'static str>,
}

impl ReasoningFields {
    /// The fields for a model with these traits and this output limit.
    pub(crate) fn of(
        reasoning: &ReasoningSettings,
        traits: ModelTraits,
        max_output: u32,
    ) -> Result<Self, RequestError> {
        let display = reasoning.shows_summary.then_some("summarized");
        let budget = match (reasoning.thinking, reasoning.effort) {
            (None, None) => return Ok(Self::default()),
            (Some(Thinking::Off), _) if traits.thinking == ThinkingForm::Never => return Ok(Self::default()),
            (Some(Thinking::Off), effort) => {
                let thinking = Some(ThinkingFields { kind: "disabled", budget_tokens: None, display: None });
                let takes_effort = traits.thinking == ThinkingForm::Effort;
                return Ok(Self { thinking, effort: effort.filter(|_| takes_effort).map(effort_name) });
            }
            (Some(Thinking::Budget(tokens)), None) => Some(tokens),
            (Some(Thinking::Adaptive), None) => None,
            (_, Some(effort)) => Some(effort.budget()),
        };
        match traits.thinking {
            ThinkingForm::Never => Err(ChatFeature::Reasoning.unsupported()),
            ThinkingForm::Budget => {
                let wanted = budget.unwrap_or_else(|| Effort::Medium.budget());
                let budget = wanted.max(MIN_BUDGET).min(max_output.saturating_sub(1));
                if budget < MIN_BUDGET {
                    let problem = "reasoning with a limit of at most 1,024 output tokens";
                    let feature = Some(ChatFeature::Reasoning);
                    return Err(RequestError::Untranslatable {
                        field: "max_tokens".to_owned(),
                        problem,
                        feature,
                    });
                }
                let budget_tokens = Some(budget);
                Ok(Self {
                    thinking: Some(ThinkingFields { kind: "enabled", budget_tokens, display }),
                    effort: None,
                })
            }
            ThinkingForm::Effort => {
                let effort = reasoning.effort.or_else(|| budget.map(Effort::of_budget));
                let thinking = Some(ThinkingFields { kind: "adaptive", budget_tokens: None, display });
                Ok(Self { thinking, effort: effort.map(effort_name) })
            }
        }
    }
}

/// The vendor has no effort below low.
const fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Minimal => Effort::Low.name(),
        effort => effort.name(),
    }
}

#[derive(Serialize)]
pub(super) struct OutputConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<FormatFields<'a>>,
}

#[derive(Serialize)]
struct FormatFields<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    schema: Cow<'a, JsonText>,
}

impl<'a> OutputConfig<'a> {
    pub(super) fn of(format: &'a OutputFormat, effort: Option<&'static str>) -> Option<Self> {
        let format = match format {
            OutputFormat::Schema(schema) => {
                Some(FormatFields { kind: "json_schema", schema: closed(&schema.schema) })
            }
            OutputFormat::Text | OutputFormat::Json => None,
        };
        (format.is_some() || effort.is_some()).then_some(Self { effort, format })
    }
}
