//! The settings of a request, to and from the dialect-neutral form.

use crate::chat::{ChatSettings, OutputFormat, ReasoningSettings, Verbosity};
use crate::fields::{JsonFields, string_of};
use crate::openai::{SchemaFields, read_effort, read_schema, read_verbosity};
use crate::request::RequestLimits;
use crate::request_error::RequestError;
use serde::Serialize;

const LOG_PROBABILITIES: &str = "message.output_text.logprobs";

/// Reads the settings; the tools are read elsewhere.
pub(super) fn read_settings(
    fields: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<ChatSettings, RequestError> {
    let includes = fields.each("include", limits, string_of)?;
    let top = fields.count("top_logprobs")?.filter(|number| *number > 0);
    let included = includes.iter().any(|name| name == LOG_PROBABILITIES).then_some(0);
    let mut settings = ChatSettings {
        single_tool_call: fields.get("parallel_tool_calls").is_some()
            && !fields.boolean("parallel_tool_calls")?,
        log_probabilities: top.or(included),
        ..ChatSettings::default()
    };
    if let Some(reasoning) = fields.object("reasoning", limits)? {
        settings.reasoning = read_reasoning(&reasoning).map_err(|error| error.within("reasoning"))?;
    }
    if let Some(text) = fields.object("text", limits)? {
        settings.verbosity = read_verbosity(&text).map_err(|error| error.within("text"))?;
        if let Some(format) = text.object("format", limits).map_err(|error| error.within("text"))? {
            settings.output_format =
                read_format(&format, limits).map_err(|error| error.within("text.format"))?;
        }
    }
    Ok(settings)
}

fn read_reasoning(reasoning: &JsonFields<'_>) -> Result<ReasoningSettings, RequestError> {
    let shows_summary = reasoning.string("summary")?.is_some();
    let settings = match reasoning.string("effort")? {
        Some(name) => read_effort(&name).map_err(|error| error.within("effort"))?,
        None => ReasoningSettings::default(),
    };
    Ok(ReasoningSettings { shows_summary, ..settings })
}

fn read_format(format: &JsonFields<'_>, limits: &RequestLimits) -> Result<OutputFormat, RequestError> {
    match format.need_string("type")?.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::Json),
        "json_schema" => read_schema(format, limits),
        _ => Err(RequestError::untranslatable("type", "response formats other than text and JSON")),
    }
}

#[derive(Serialize)]
pub(super) struct ReasoningOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<&'static str>,
}

impl ReasoningOut {
    pub(super) fn of(reasoning: &ReasoningSettings) -> Option<Self> {
        let effort = reasoning.effort_name();
        let summary = reasoning.shows_summary.then_some("auto");
        (effort.is_some() || summary.is_some()).then_some(Self { effort, summary })
    }
}

#[derive(Serialize)]
pub(super) struct TextOut<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<FormatOut<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verbosity: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum FormatOut<'a> {
    JsonObject,
    JsonSchema(SchemaFields<'a>),
}

impl<'a> TextOut<'a> {
    pub(super) fn of(settings: &'a ChatSettings) -> Option<Self> {
        let format = match &settings.output_format {
            OutputFormat::Text => None,
            OutputFormat::Json => Some(FormatOut::JsonObject),
            OutputFormat::Schema(schema) => Some(FormatOut::JsonSchema(SchemaFields::of(schema))),
        };
        let verbosity = settings.verbosity.map(Verbosity::name);
        (format.is_some() || verbosity.is_some()).then_some(Self { format, verbosity })
    }
}
