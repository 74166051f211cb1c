//! A request of Converse, read as far as decisions need it.

use crate::fields::{Fields, each};
use crate::request::{READ_BEFORE, check_text, read_max_output, span_of, spliced};
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use std::ops::Range;

/// What decisions need of a request; the model and whether it is a stream stand in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConverseHead {
    /// The most tokens that the answer may have, the smallest of several limits; this dialect demands none.
    pub max_output: Option<u32>,
    /// How many turns the conversation has.
    pub turns: usize,
    /// Where a limit can be put, and the words before and behind it; nothing where there is one.
    limit_place: Option<LimitPlace>,
    /// Whether there is a limit among the fields that go to the model unseen. It is taken out there: which of two limits
    /// a model goes by is its own business.
    has_other_limits: bool,
}

/// What models call the limit of output in fields of their own.
const OTHER_LIMITS: [&str; 7] = [
    "max_tokens",
    "max_completion_tokens",
    "max_tokens_to_sample",
    "max_new_tokens",
    "max_gen_len",
    "maxTokens",
    "maxTokenCount",
];
/// Objects in which some models look for such a limit.
const OTHER_CONFIGS: [&str; 3] = ["inferenceConfig", "textGenerationConfig", "generationConfig"];
/// Fields that go to the model unseen.
const ADDITIONAL: &str = "additionalModelRequestFields";

type LimitPlace = (Range<usize>, &'static str, &'static str);

/// Reads a request. The whole body is checked to be JSON; fields that are not needed are not looked into.
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
    let fields = Fields::of_body(text, limits)?;
    let check_turn = |raw| match Fields::of_value(raw, limits)?.need_string("role")?.as_str() {
        "user" | "assistant" => Ok(()),
        _ => Err(RequestError::wrong("role", "must be user or assistant")),
    };
    let turns = each(fields.need("messages")?, limits, check_turn);
    let turns = turns.map_err(|error| error.within("messages"))?.len();
    if turns == 0 {
        return Err(RequestError::wrong("messages", "must not be empty"));
    }
    let (max_output, limit_place) = read_limit(&fields, text, limits)?;
    let other = read_other_limits(&fields, limits).map_err(|error| error.within(ADDITIONAL))?;
    let max_output = max_output.into_iter().chain(other).min();
    Ok(ConverseHead { max_output, turns, limit_place, has_other_limits: other.is_some() })
}

/// The smallest limit of output among the fields that go to the model unseen.
fn read_other_limits(fields: &Fields<'_>, limits: &RequestLimits) -> Result<Option<u32>, RequestError> {
    let Some(raw) = fields.get(ADDITIONAL) else { return Ok(None) };
    let additional = Fields::of_value(raw, limits)?;
    for config in OTHER_CONFIGS {
        let Ok(Some(nested)) = additional.object(config, limits) else { continue };
        if let Some(limit) = OTHER_LIMITS.into_iter().find(|name| nested.has(name)) {
            let problem = "must not limit the output: write inferenceConfig.maxTokens instead";
            return Err(RequestError::wrong(limit, problem).within(config));
        }
    }
    let mut smallest = None;
    for name in OTHER_LIMITS {
        smallest = smallest.into_iter().chain(additional.max_output(name)?).min();
    }
    Ok(smallest)
}

fn read_limit(
    fields: &Fields<'_>,
    text: &str,
    limits: &RequestLimits,
) -> Result<(Option<u32>, Option<LimitPlace>), RequestError> {
    let Some(raw) = fields.get_any("inferenceConfig") else {
        // Behind the brace that opens the body. It has fields, so a comma is right.
        let at = text.find('{').map_or(0, |brace| brace + 1);
        return Ok((None, Some((at..at, r#""inferenceConfig":{"maxTokens":"#, "},"))));
    };
    let span = span_of(raw.get(), text);
    if raw.get() == "null" {
        return Ok((None, Some((span, r#"{"maxTokens":"#, "}"))));
    }
    let config = Fields::of_value(raw, limits).map_err(|error| error.within("inferenceConfig"))?;
    if let Some(limit) = config.get("maxTokens") {
        return Ok((Some(read_max_output("inferenceConfig.maxTokens", limit)?), None));
    }
    let place = match config.get_any("maxTokens") {
        Some(null) => (span_of(null.get(), text), "", ""),
        None => {
            let at = span.start + 1;
            (at..at, r#""maxTokens":"#, if config.is_empty() { "" } else { "," })
        }
    };
    Ok((None, Some(place)))
}

/// The request with exactly one limit of output: the caller's, or this one where the caller named none. Nothing else in the
/// body changes. `head` must be the head of this body.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::bedrock::{converse_within, read_converse_request};
///
/// let body = Bytes::from(r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
/// let head = read_converse_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     converse_within(&body, &head, 9)?,
///     r#"{"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
pub fn converse_within(body: &Bytes, head: &ConverseHead, max_output: u32) -> Result<Bytes, RequestError> {
    if head.has_other_limits {
        return limited_once(body, head.max_output.unwrap_or(max_output));
    }
    let Some((place, before, behind)) = &head.limit_place else { return Ok(body.clone()) };
    Ok(spliced(body, &[(place.clone(), &format!("{before}{max_output}{behind}"))]))
}

/// The body with one limit in the place of several. Few callers write several, so that it is read a second time for them.
fn limited_once(body: &[u8], max_output: u32) -> Result<Bytes, RequestError> {
    let fields = Fields::read(body, &READ_BEFORE)?;
    let limit = ("maxTokens", max_output.to_string());
    let config = match fields.object("inferenceConfig", &READ_BEFORE)? {
        Some(config) => config.with(&[limit], &[]),
        None => format!(r#"{{"maxTokens":{max_output}}}"#),
    };
    let additional = fields.need_object(ADDITIONAL, &READ_BEFORE)?.with(&[], &OTHER_LIMITS);
    Ok(fields.with(&[("inferenceConfig", config), (ADDITIONAL, additional)], &[]).into())
}
