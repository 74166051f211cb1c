//! Reads the fields of a request that decisions need.

use super::names::{CANDIDATE_COUNT, GENERATION_CONFIG, MAX_OUTPUT_TOKENS, THINKING_BUDGET, THINKING_CONFIG};
use crate::fields::{JsonFields, each};
use crate::request::{RequestLimits, check_text, span_of, splice};
use crate::request_error::RequestError;
use bytes::Bytes;
use serde_json::value::RawValue;
use std::ops::Range;

/// The vendor's maximum for `candidateCount`.
const MAX_CHOICES: u32 = 8;

/// The fields of a request that decisions need; the model and the stream flag are in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeminiHead {
    /// The maximum number of output tokens; this dialect does not require one.
    pub max_output: Option<u32>,
    /// The number of answers requested (`candidateCount`). The output limit applies to each of them.
    pub choices: u32,
    /// The number of turns.
    pub turns: usize,
    /// Whether the model may think, which is billed but not always shown. The vendor's models think unless they are
    /// told not to, so this is true unless the request sets a thinking budget of 0.
    pub enables_thinking: bool,
    /// Where a limit can be inserted, and the text before and after it; `None` if the body has a limit.
    limit_insertion: Option<LimitInsertion>,
}

type LimitInsertion = (Range<usize>, &'static str, &'static str);

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not parsed.
///
/// ```
/// use seawall_wire::RequestLimits;
/// use seawall_wire::gemini::read_request;
///
/// let body = br#"{"contents":[{"parts":[{"text":"hi"}]}],"generationConfig":{"maxOutputTokens":9}}"#;
/// let head = read_request(body, &RequestLimits::default())?;
/// assert_eq!((head.max_output, head.choices, head.turns), (Some(9), 1, 1));
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn read_request(body: &[u8], limits: &RequestLimits) -> Result<GeminiHead, RequestError> {
    let text = check_text(body, limits)?;
    let fields = JsonFields::of_body(text, limits)?;
    reject_model(&fields)?;
    let contents = each(fields.need("contents")?, limits, |raw| check_content(raw, limits));
    let turns = contents.map_err(|error| error.within("contents"))?.len();
    if turns == 0 {
        return Err(no_contents());
    }
    let name = GENERATION_CONFIG.spelled_in(&fields)?;
    let Some(raw) = fields.get_any(name) else {
        // The offset after the opening brace. The body has fields, so inserted text must end with a comma.
        let at = text.find('{').map_or(0, |brace| brace + 1);
        return Ok(unlimited(turns, (at..at, r#""generationConfig":{"maxOutputTokens":"#, "},")));
    };
    let span = span_of(raw.get(), text);
    if raw.get() == "null" {
        return Ok(unlimited(turns, (span, r#"{"maxOutputTokens":"#, "}")));
    }
    let read = || {
        let config = JsonFields::of_value(raw, limits)?;
        let limit = MAX_OUTPUT_TOKENS.spelled_in(&config)?;
        let max_output = config.max_output(limit)?;
        let limit_insertion = match (max_output, config.get_any(limit)) {
            (Some(_), _) => None,
            (None, Some(null)) => Some((span_of(null.get(), text), "", "")),
            (None, None) => {
                let at = span.start + 1;
                let after = if config.is_empty() { "" } else { "," };
                Some((at..at, r#""maxOutputTokens":"#, after))
            }
        };
        let (choices, enables_thinking) = (read_choices(&config)?, may_think(&config, limits)?);
        Ok(GeminiHead { max_output, choices, turns, enables_thinking, limit_insertion })
    };
    read().map_err(|error: RequestError| error.within(name))
}

fn unlimited(turns: usize, limit_insertion: LimitInsertion) -> GeminiHead {
    let limit_insertion = Some(limit_insertion);
    GeminiHead { max_output: None, choices: 1, turns, enables_thinking: true, limit_insertion }
}

/// The path names the model. A second name in the body could select another model than the one that is billed.
pub(super) fn reject_model(fields: &JsonFields<'_>) -> Result<(), RequestError> {
    match fields.get_any("model") {
        Some(_) => {
            Err(RequestError::invalid("model", "Extra inputs are not permitted: the path names the model"))
        }
        None => Ok(()),
    }
}

pub(super) fn no_contents() -> RequestError {
    RequestError::invalid("contents", "at least one content is required")
}

fn check_content(raw: &RawValue, limits: &RequestLimits) -> Result<(), RequestError> {
    // The role is optional, and the vendor decides which roles exist.
    JsonFields::of_value(raw, limits)?.string("role").map(drop)
}

fn read_choices(config: &JsonFields<'_>) -> Result<u32, RequestError> {
    let name = CANDIDATE_COUNT.spelled_in(config)?;
    let Some(raw) = config.get(name) else { return Ok(1) };
    let number = raw.get().parse().ok().filter(|number| (1..=MAX_CHOICES).contains(number));
    number.ok_or_else(|| RequestError::invalid(name, "Input should be an integer between 1 and 8"))
}

fn may_think(config: &JsonFields<'_>, limits: &RequestLimits) -> Result<bool, RequestError> {
    let name = THINKING_CONFIG.spelled_in(config)?;
    let Some(thinking) = config.object(name, limits)? else { return Ok(true) };
    let budget = THINKING_BUDGET.spelled_in(&thinking).map_err(|error| error.within(name))?;
    Ok(thinking.get(budget).is_none_or(|budget| budget.get() != "0"))
}

/// Sets the output limit if the request has none. Nothing else in the body changes. `head` must have been read from
/// this body.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::gemini::{read_request, with_limit};
///
/// let body = Bytes::from(r#"{"contents":[{"parts":[{"text":"hi"}]}]}"#);
/// let head = read_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     with_limit(&body, &head, Some(9)),
///     r#"{"generationConfig":{"maxOutputTokens":9},"contents":[{"parts":[{"text":"hi"}]}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn with_limit(body: &Bytes, head: &GeminiHead, max_output: Option<u32>) -> Bytes {
    match (max_output, &head.limit_insertion) {
        (Some(max_output), Some((range, before, after))) => {
            splice(body, &[(range.clone(), &format!("{before}{max_output}{after}"))])
        }
        _ => body.clone(),
    }
}
