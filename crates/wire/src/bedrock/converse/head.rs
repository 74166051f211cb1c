//! A request of Converse, read as far as decisions need it.

use crate::fields::{Fields, each};
use crate::request::{check_text, read_max_output, span_of, spliced};
use crate::{RequestError, RequestLimits};
use bytes::Bytes;
use std::ops::Range;

/// What decisions need of a request; the model and whether it is a stream stand in the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConverseHead {
    /// The most tokens that the answer may have; this dialect demands no limit.
    pub max_output: Option<u32>,
    /// How many turns the conversation has.
    pub turns: usize,
    /// Where a limit can be put, and the words before and behind it; nothing where there is one.
    limit_place: Option<LimitPlace>,
}

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
    Ok(ConverseHead { max_output, turns, limit_place })
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

/// The request with a limit of output where the caller named none. Nothing else in the body changes. `head` must be the
/// head of this body.
///
/// ```
/// use bytes::Bytes;
/// use seawall_wire::RequestLimits;
/// use seawall_wire::bedrock::{converse_within, read_converse_request};
///
/// let body = Bytes::from(r#"{"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#);
/// let head = read_converse_request(&body, &RequestLimits::default())?;
/// assert_eq!(
///     converse_within(&body, &head, 9),
///     r#"{"inferenceConfig":{"maxTokens":9},"messages":[{"role":"user","content":[{"text":"hi"}]}]}"#
/// );
/// # Ok::<(), seawall_wire::RequestError>(())
/// ```
#[must_use]
pub fn converse_within(body: &Bytes, head: &ConverseHead, max_output: u32) -> Bytes {
    let Some((place, before, behind)) = &head.limit_place else { return body.clone() };
    spliced(body, &[(place.clone(), &format!("{before}{max_output}{behind}"))])
}
