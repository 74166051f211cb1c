//! The settings of a request, read into the dialect-neutral form.

use crate::chat::{
    CachePoints, ChatSettings, OutputFormat, OutputSchema, ReasoningSettings, ToolChoice, Verbosity,
};
use crate::fields::{JsonFields, is_string, object_text, string_of};
use crate::request::RequestLimits;
use crate::request_error::RequestError;

/// Reads the settings; the tools are read elsewhere.
pub(super) fn read_settings(
    fields: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<ChatSettings, RequestError> {
    Ok(ChatSettings {
        output_format: match fields.object("response_format", limits)? {
            Some(format) => read_format(&format, limits).map_err(|error| error.within("response_format"))?,
            None => OutputFormat::Text,
        },
        reasoning: match fields.string("reasoning_effort")? {
            Some(name) => read_effort(&name).map_err(|error| error.within("reasoning_effort"))?,
            None => ReasoningSettings::default(),
        },
        single_tool_call: fields.get("parallel_tool_calls").is_some()
            && !fields.boolean("parallel_tool_calls")?,
        allowed_tools: Vec::new(),
        custom_tools: Vec::new(),
        top_k: fields.count("top_k")?,
        choices: fields.count("n")?.filter(|number| *number != 1),
        log_probabilities: match fields.boolean("logprobs")? {
            true => Some(fields.count("top_logprobs")?.unwrap_or(0)),
            false => None,
        },
        seed: fields.integer("seed")?,
        presence_penalty: fields.non_zero("presence_penalty")?,
        frequency_penalty: fields.non_zero("frequency_penalty")?,
        logit_bias: match fields.get("logit_bias") {
            Some(raw) => Some(object_text(raw, limits).map_err(|error| error.within("logit_bias"))?)
                .filter(|bias| bias.get() != "{}"),
            None => None,
        },
        verbosity: read_verbosity(fields)?,
        cache_points: CachePoints::default(),
    })
}

/// Reads the name of an effort; both of OpenAI's dialects have the same ones.
pub(crate) fn read_effort(name: &str) -> Result<ReasoningSettings, RequestError> {
    let problem = "Input should be 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'";
    ReasoningSettings::of_effort_name(name).ok_or_else(|| RequestError::invalid("", problem))
}

/// Reads the verbosity; both of OpenAI's dialects have the same field.
pub(crate) fn read_verbosity(fields: &JsonFields<'_>) -> Result<Option<Verbosity>, RequestError> {
    match fields.string("verbosity")?.as_deref() {
        None | Some("medium") => Ok(None),
        Some("low") => Ok(Some(Verbosity::Low)),
        Some("high") => Ok(Some(Verbosity::High)),
        Some(_) => Err(RequestError::invalid("verbosity", "Input should be 'low', 'medium' or 'high'")),
    }
}

fn read_format(format: &JsonFields<'_>, limits: &RequestLimits) -> Result<OutputFormat, RequestError> {
    match format.need_string("type")?.as_str() {
        "text" => Ok(OutputFormat::Text),
        "json_object" => Ok(OutputFormat::Json),
        "json_schema" => {
            let schema = format.need_object("json_schema", limits)?;
            read_schema(&schema, limits).map_err(|error| error.within("json_schema"))
        }
        _ => Err(RequestError::untranslatable("type", "response formats other than text and JSON")),
    }
}

/// Reads a named schema; both of OpenAI's dialects have the same fields.
pub(crate) fn read_schema(
    fields: &JsonFields<'_>,
    limits: &RequestLimits,
) -> Result<OutputFormat, RequestError> {
    let schema = object_text(fields.need("schema")?, limits).map_err(|error| error.within("schema"))?;
    Ok(OutputFormat::Schema(OutputSchema {
        name: fields.string("name")?,
        description: fields.string("description")?,
        schema,
        is_enforced: fields.boolean("strict")?,
    }))
}

/// Reads the tool choice and the names of the tools to which it restricts the model. `function` is the field of a
/// choice that holds the name, if it is not in the choice itself.
pub(crate) fn read_tool_choice(
    fields: &JsonFields<'_>,
    nested: bool,
    limits: &RequestLimits,
) -> Result<(ToolChoice, Vec<String>), RequestError> {
    let Some(raw) = fields.get("tool_choice") else { return Ok((ToolChoice::Auto, Vec::new())) };
    if is_string(raw) {
        return read_mode(&string_of(raw)?).map(|choice| (choice, Vec::new()));
    }
    let choice = JsonFields::of_value(raw, limits)?;
    let kind = choice.need_string("type")?;
    match kind.as_str() {
        "function" | "custom" => {
            let name = read_tool_name(&choice, &kind, nested, limits)?;
            Ok((ToolChoice::Named(name), Vec::new()))
        }
        "allowed_tools" if nested => {
            let allowed = choice.need_object("allowed_tools", limits)?;
            read_allowed(&allowed, nested, limits).map_err(|error| error.within("allowed_tools"))
        }
        "allowed_tools" => read_allowed(&choice, nested, limits),
        _ => Err(RequestError::untranslatable("type", "tool choices other than functions")),
    }
}

fn read_mode(name: &str) -> Result<ToolChoice, RequestError> {
    match name {
        "auto" => Ok(ToolChoice::Auto),
        "none" => Ok(ToolChoice::None),
        "required" => Ok(ToolChoice::Any),
        _ => Err(RequestError::invalid("", "Input should be 'auto', 'none', 'required' or a function")),
    }
}

fn read_allowed(
    allowed: &JsonFields<'_>,
    nested: bool,
    limits: &RequestLimits,
) -> Result<(ToolChoice, Vec<String>), RequestError> {
    let mode = read_mode(&allowed.need_string("mode")?).map_err(|error| error.within("mode"))?;
    let names = allowed.each("tools", limits, |raw| {
        let tool = JsonFields::of_value(raw, limits)?;
        match tool.need_string("type")?.as_str() {
            kind @ ("function" | "custom") => read_tool_name(&tool, kind, nested, limits),
            _ => Err(RequestError::untranslatable("type", "tools other than functions")),
        }
    })?;
    Ok((mode, names))
}

fn read_tool_name(
    choice: &JsonFields<'_>,
    kind: &str,
    nested: bool,
    limits: &RequestLimits,
) -> Result<String, RequestError> {
    if !nested {
        return choice.need_string("name");
    }
    choice.need_object(kind, limits)?.need_string("name").map_err(|error| error.within(kind))
}
