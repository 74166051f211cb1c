//! What can go wrong, and what it does to a script.

use super::compose::{self, Turn};
use super::period;
use super::script::{Act, Ending, Script, Step};
use bytes::BytesMut;
use seawall_core::setting::SettingError;
use seawall_wire::anthropic::{ErrorReply, write_error_event};
use seawall_wire::chat::Usage;
use serde::Deserialize;
use std::time::Duration;

/// One way to fail.
///
/// `after` counts events of a stream, the first being the one that opens it; with 0 nothing is sent, not even a
/// head. An answer that is no stream has two parts, its halves.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// An HTTP error at once: 429, 529, 500, 503, 408 and so on.
    Status {
        /// The status.
        status: u16,
        /// When to try again, if it says so.
        #[serde(default, deserialize_with = "period::optional")]
        retry_after: Option<Duration>,
    },
    /// Everything comes later.
    Slow {
        /// By how much.
        #[serde(deserialize_with = "period::required")]
        by: Duration,
    },
    /// The connection is closed in the middle.
    Cut {
        /// How many events come before.
        after: usize,
    },
    /// The body ends in good order in the middle of the answer, as if it were complete.
    EndEarly {
        /// How many events come before.
        after: usize,
    },
    /// Nothing more comes, and the connection stays open.
    Hang {
        /// How many events come before.
        #[serde(default)]
        after: usize,
    },
    /// The stream reports an error and ends. What has not begun gets it as an HTTP error.
    Error {
        /// How many events come before.
        after: usize,
    },
    /// The connection is reset before anything is sent.
    Reset,
}

/// When a fault happens, and to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultRule {
    /// From when, since the model's start.
    pub from: Duration,
    /// Until when; not included.
    pub to: Duration,
    /// To which model; to all without one.
    pub model: Option<String>,
    /// To how many of the requests.
    pub frequency: Frequency,
    /// What happens.
    pub fault: Fault,
}

/// To how many requests a fault happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frequency {
    /// To those whose number, from 0, this number divides: 1 is all, 2 the first, third and so on.
    Every(u32),
    /// To this share in percent, by lot.
    Percent(f64),
}

/// Reads a list of rules from JSON.
///
/// ```
/// let rules = br#"[
///     {"fault": {"kind": "status", "status": 429, "retry_after": "2s"}, "every": 3},
///     {"fault": {"kind": "cut", "after": 5}, "from": "10s", "to": "40s", "model": "sonnet", "percent": 20}
/// ]"#;
/// assert_eq!(seawall_model::engine::read_faults(rules)?.len(), 2);
/// # Ok::<(), seawall_core::setting::SettingError>(())
/// ```
pub fn read_faults(json: &[u8]) -> Result<Vec<FaultRule>, SettingError> {
    let rules: Vec<RuleFields> =
        serde_json::from_slice(json).map_err(|error| SettingError::new("faults", error.to_string()))?;
    rules.into_iter().map(FaultRule::try_from).collect()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFields {
    #[serde(default, deserialize_with = "period::optional")]
    from: Option<Duration>,
    #[serde(default, deserialize_with = "period::optional")]
    to: Option<Duration>,
    model: Option<String>,
    every: Option<u32>,
    percent: Option<f64>,
    fault: Fault,
}

impl TryFrom<RuleFields> for FaultRule {
    type Error = SettingError;

    fn try_from(fields: RuleFields) -> Result<Self, SettingError> {
        let frequency = match (fields.every, fields.percent) {
            (every, None) => Frequency::Every(every.unwrap_or(1)),
            (None, Some(percent)) => Frequency::Percent(percent),
            (Some(_), Some(_)) => {
                return Err(SettingError::new("faults", "every and percent exclude each other"));
            }
        };
        Ok(Self {
            from: fields.from.unwrap_or(Duration::ZERO),
            to: fields.to.unwrap_or(Duration::MAX),
            model: fields.model,
            frequency,
            fault: fields.fault,
        })
    }
}

impl Fault {
    /// Does to a script of an answer what the fault says.
    pub(super) fn spoil(&self, script: &mut Script, turn: &Turn<'_>) {
        match self {
            Self::Status { status, retry_after } => {
                *script = refused(*status, turn);
                if let Some(Step { act: Act::Head(head), .. }) = script.steps.first_mut() {
                    head.retry_after = *retry_after;
                }
            }
            Self::Slow { by } => {
                script.steps.iter_mut().for_each(|step| step.at = step.at.saturating_add(*by));
            }
            Self::Cut { after } => stop(script, *after, Ending::Close),
            Self::EndEarly { after } => {
                stop(script, *after, Ending::Early);
                // A body of a stated length cannot be ended early in good order.
                if let Some(Step { act: Act::Head(head), .. }) = script.steps.first_mut() {
                    head.length = None;
                }
            }
            Self::Hang { after } => stop(script, *after, Ending::Hang),
            Self::Error { after } if *after == 0 || !turn.head.stream => *script = refused(529, turn),
            Self::Error { after } => report(script, *after, turn),
            Self::Reset => stop(script, 0, Ending::Reset),
        }
    }
}

fn refused(status: u16, turn: &Turn<'_>) -> Script {
    compose::error(status, &reply(status, turn), turn.request_id, Some(turn.profile))
}

fn reply<'a>(status: u16, turn: &Turn<'a>) -> ErrorReply<'a> {
    let (error_type, message) = match status {
        401 => ("authentication_error", "the simulated model refuses the key"),
        403 => ("permission_error", "the simulated model refuses the key"),
        404 => ("not_found_error", "the simulated model is not found"),
        408 | 504 => ("timeout_error", "the simulated model took too long"),
        413 => ("request_too_large", "the simulated model finds this too large"),
        429 => ("rate_limit_error", "the simulated model throttles"),
        529 => ("overloaded_error", "the simulated model is overloaded"),
        400..=499 => ("invalid_request_error", "the simulated model refuses the request"),
        _ => ("api_error", "the simulated model is at fault"),
    };
    ErrorReply { error_type, error_code: None, message, request_id: Some(turn.request_id) }
}

/// Leaves `after` parts of the body, and the head only if there is one.
fn stop(script: &mut Script, after: usize, ending: Ending) {
    halve_whole_body(script);
    let kept = if after == 0 { 0 } else { after.saturating_add(1) };
    // What was all delivered is not cut any more, but may still hang.
    if kept < script.steps.len() || ending == Ending::Hang {
        script.steps.truncate(kept);
        script.ending = ending;
    }
}

/// Makes the body of an answer that is no stream two parts. The first carries the charge: the model had said
/// everything before it sent anything.
fn halve_whole_body(script: &mut Script) {
    let [_, Step { at, act: Act::Body(body), .. }] = script.steps.as_mut_slice() else { return };
    let second = Step { at: *at, act: Act::Body(body.split_off(body.len() / 2)), charge: Usage::default() };
    script.steps.push(second);
}

fn report(script: &mut Script, after: usize, turn: &Turn<'_>) {
    let kept = after.saturating_add(1);
    let Some(at) = script.steps.get(kept).map(|step| step.at) else { return };
    script.steps.truncate(kept);
    let mut event = BytesMut::new();
    write_error_event(&mut event, &reply(529, turn));
    script.steps.push(Step { at, act: Act::Body(event.freeze()), charge: Usage::default() });
    script.ending = Ending::Early;
}
