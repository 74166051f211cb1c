//! Reads the fields of a Converse request that decisions need.

use crate::fields::{JsonFields, each};
use crate::request::{ALREADY_CHECKED, check_text, read_max_output, span_of, splice};
use crate::thinking::enables_thinking;
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The fields of a request that decisions need; the model and the stream flag are in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConverseHead {
    /// The maximum number of output tokens, the smallest if several limits are set; this dialect does not require one.
    pub max_output: Option<u32>,
    /// The number of turns.
    pub turns: usize,
    /// Whether the request enables thinking, which is billed but not always shown.
    pub enables_thinking: bool,
    /// Where a limit can be inserted, and the text before and after it; `None` if the body has a limit.
    limit_insertion: Option<LimitInsertion>,
    /// Whether the fields that are passed to the model unparsed contain a limit. It is removed there, because models
    /// differ in which of two limits they use.
    has_other_limits: bool,
}

/// The names of the output limit in model-specific fields.
const OTHER_LIMITS: [&str; 7] = [
    "max_tokens",
    "max_completion_tokens",
    "max_tokens_to_sample",
    "max_new_tokens",
    "max_gen_len",
    "maxTokens",
    "maxTokenCount",
];
/// Objects in which some models expect such a limit.
const OTHER_CONFIGS: [&str; 3] = ["inferenceConfig", "textGenerationConfig", "generationConfig"];
/// The field whose content the service passes to the model unparsed.
const ADDITIONAL: &str = "additionalModelRequestFields";

type LimitInsertion = (Range<usize>, &'static str, &'static str);

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::bedrock::read_converse_request;
///
/// let body = br#"{"messages":[{"role":"user","content":[{"text":"hi"}]}],"inferenceConfig":{"maxTokens":9}}"#;
/// let head = read_converse_request(body, &RequestLimits::default())?;
/// assert_eq!((head.max_output, head.turns), (Some(9), 1));
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_converse_request(body: &[u8], limits: &RequestLimits) -> Result<ConverseHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    // The vendor decides which roles exist.
    let check_turn = |raw| match JsonFields::of_value(raw, limits)?.need_string("role")?.as_str() {
        "" => Err(RequestError::invalid("role", "Input should be a non-empty string")),
        _ => Ok(()),
    };
    let turns = each(fields.need("messages")?, limits, check_turn);
    let turns = turns.map_err(|error| error.within("messages"))?.len();
    if turns == 0 {
        return Err(RequestError::invalid("messages", "at least one message is required"));
    }
    let (max_output, limit_insertion) = read_limit(&fields, text, limits)?;
    let additional = fields.get(ADDITIONAL).map(|raw| read_additional(raw, limits)).transpose();
    let (other, enables_thinking) = additional.map_err(|error| error.within(ADDITIONAL))?.unwrap_or_default();
    let max_output = max_output.into_iter().chain(other).min();
    Ok(ConverseHead {
        max_output,
        turns,
        enables_thinking,
        limit_insertion,
        has_other_limits: other.is_some(),
    })
}

/// The smallest output limit among the model-specific fields, and whether they enable thinking.
fn read_additional(raw: &RawValue, limits: &RequestLimits) -> Result<(Option<u32>, bool), RequestError> {
    let additional = JsonFields::of_value(raw, limits)?;
    for config in OTHER_CONFIGS {
        let Ok(Some(nested)) = additional.object(config, limits) else { continue };
        if let Some(limit) = OTHER_LIMITS.into_iter().find(|name| nested.has(name)) {
            let problem = "Output limits are not permitted here; use inferenceConfig.maxTokens";
            return Err(RequestError::invalid(limit, problem).within(config));
        }
    }
    let mut smallest = None;
    for name in OTHER_LIMITS {
        smallest = smallest.into_iter().chain(additional.max_output(name)?).min();
    }
    Ok((smallest, enables_thinking(&additional)))
}

fn read_limit(
    fields: &JsonFields<'_>,
    text: &str,
    limits: &RequestLimits,
) -> Result<(Option<u32>, Option<LimitInsertion>), RequestError> {
    let Some(raw) = fields.get_any("inferenceConfig") else {
        // The offset after the opening brace. The body has fields, so inserted text must end with a comma.
        let at = text.find('{').map_or(0, |brace| brace + 1);
        return Ok((None, Some((at..at, r#""inferenceConfig":{"maxTokens":"#, "},"))));
    };
    let span = span_of(raw.get(), text);
    if raw.get() == "null" {
        return Ok((None, Some((span, r#"{"maxTokens":"#, "}"))));
    }
    let config = JsonFields::of_value(raw, limits).map_err(|error| error.within("inferenceConfig"))?;
    if let Some(limit) = config.get("maxTokens") {
        return Ok((Some(read_max_output("inferenceConfig.maxTokens", limit)?), None));
    }
    let range = match config.get_any("maxTokens") {
        Some(null) => (span_of(null.get(), text), "", ""),
        None => {
            let at = span.start + 1;
            (at..at, r#""maxTokens":"#, if config.is_empty() { "" } else { "," })
        }
    };
    Ok((None, Some(range)))
}

/// Rewrites the request to at most one output limit: the caller's own, or `max_output` if the caller set none. Nothing
/// else in the body changes. `head` must have been read from this body.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::bedrock::{converse_with_limit, read_converse_request};
///
/// let body = Bytes::from(r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
/// let head = read_converse_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     converse_with_limit(&body, &head, Some(9))?,
///     r#"{"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn converse_with_limit(
    body: &Bytes,
    head: &ConverseHead,
    max_output: Option<u32>,
) -> Result<Bytes, RequestError> {
    let Some(max_output) = head.max_output.or(max_output) else { return Ok(body.clone()) };
    if head.has_other_limits {
        return with_single_limit(body, max_output);
    }
    let Some((range, before, behind)) = &head.limit_insertion else { return Ok(body.clone()) };
    Ok(splice(body, &[(range.clone(), &format!("{before}{max_output}{behind}"))]))
}

/// Rewrites a body with several limits to one limit. Few callers set several, so the second parse is acceptable.
fn with_single_limit(body: &[u8], max_output: u32) -> Result<Bytes, RequestError> {
    let fields = JsonFields::read(body, &ALREADY_CHECKED)?;
    let limit = ("maxTokens", max_output.to_string());
    let config = match fields.object("inferenceConfig", &ALREADY_CHECKED)? {
        Some(config) => config.with(&[limit], &[]),
        None => format!(r#"{{"maxTokens":{max_output}}}"#),
    };
    let additional = fields.need_object(ADDITIONAL, &ALREADY_CHECKED)?.with(&[], &OTHER_LIMITS);
    Ok(fields.with(&[("inferenceConfig", config), (ADDITIONAL, additional)], &[]).into())
}
